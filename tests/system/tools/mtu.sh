#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The path MTU shrinks during a transfer: at the sender's own interface, and in its route.
. "${0%/*}/../lib.sh"
head -c 60000000 /dev/urandom > "$TMP/file"

# shrinks WHAT HOST COMMAND...: COMMAND reduces the MTU while a file is on its way.
shrinks() {
	local what=$1 host=$2 cp
	shift 2
	receiver in_b
	# Small messages and 20 % loss keep the transfer going for long enough.
	background "$TMP/cp" $DIW cp --json --impair loss=20%,seed=4 "$TMP/file" "$host:"
	cp=$PID
	check "$what: the transfer has begun" eventually 10 some_bytes
	check "$what: the MTU changes" "$@"
	kill -0 $cp 2> /dev/null || skip "$what: the transfer was over before the MTU changed"
	check "$what: cp goes on to its end" join $cp 60
	OUT=$(< "$TMP/cp")
	check "$what: SHA-256 agrees" holds .sha256_ok
	check "$what: the file is the same" cmp "$TMP/file" "$TMP/in/file"
}
some_bytes() { [ "$(ip -s link show va | awk '/TX:/ { getline; print $1 }')" -gt 1000000 ]; }

two_namespaces 9000 || { skip "no veth pair here"; end; }
shrinks "interface" $B4 ip link set va mtu 1400
two_namespaces 9000
shrinks "IPv4 route" $B4 ip route replace $B4/32 dev va mtu 1300
two_namespaces 9000
shrinks "IPv6 route" "[$B6]" ip route replace $B6/128 dev va mtu 1400
end
