#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# 24 senders of reliable datagrams in four namespaces start at the same time. Their messages cross a bridge and a link
# of 100 Mbit/s with a queue of 5 ms. Every message arrives once and in order, no sender gives up, and no sender
# starves.
# How well they share the link is measured in up to three tries.
. "${0%/*}/../lib.sh"

incast=$BUILD/tests/system/rd_incast box=$BUILD/tests/system/delaybox
now=()
! chrt -r 1 true 2> /dev/null || now=(chrt -r 1)
[ -c /dev/net/tun ] || { skip "no /dev/net/tun here"; end; }
two_namespaces 1500 > /dev/null || { skip "no veth here"; end; }
ip link add br0 type bridge 2> /dev/null || { skip "no bridge here"; end; }

# The receiver is in B, behind the link. The namespaces of the senders are ports of the bridge.
background "$TMP/box" "${now[@]}" "$box" "$HOLDER" ta tb 100 5 1 0 7
BOX=$PID
routed() {
	eventually 5 ip link show ta && eventually 5 in_b ip link show tb &&
		ip addr add 198.51.100.1/24 dev ta && ip link set ta mtu 1500 txqueuelen 10000 up &&
		in_b ip addr add 198.51.100.2/24 dev tb && in_b ip link set tb mtu 1500 txqueuelen 10000 up &&
		in_b ip route add 10.9.0.0/24 via 198.51.100.1 &&
		ip addr add 10.9.0.254/24 dev br0 && ip link set br0 up && echo 1 > /proc/sys/net/ipv4/ip_forward
}
check "the link and the bridge are there" routed

# senders_ns I: makes a namespace with the address 10.9.0.I.
declare -A NS
senders_ns() {
	unshare -n sleep 3600 &
	NS[$1]=$!
	JOBS+=("${NS[$1]}")
	eventually 5 apart "${NS[$1]}" && ip link add "s$1" type veth peer name s netns "${NS[$1]}" &&
		ip link set "s$1" master br0 up && in_ns "$1" ip addr add "10.9.0.$1/24" dev s &&
		in_ns "$1" ip link set s up && in_ns "$1" ip link set lo up &&
		in_ns "$1" ip route add default via 10.9.0.254
}
apart() { [ "$(readlink "/proc/$1/ns/net")" != "$(readlink /proc/self/ns/net)" ]; }
in_ns() { nsenter -t "${NS[$1]}" -n "${@:2}"; }
for i in 1 2 3 4; do check "senders' namespace $i" senders_ns $i; done

mkfifo "$TMP/go"
all_ready() { for i in 1 2 3 4; do grep -q ready "$TMP/send.$i" || return 1; done; }
# incast: one run. OUT is the receiver's result.
incast() {
	local port=$((5000 + TRY)) receiver i
	local -A sender
	background "$TMP/recv" in_b "$incast" recv $port 24
	receiver=$PID
	check "the receiver is there" eventually 10 listening $port in_b
	for i in 1 2 3 4; do
		background "$TMP/send.$i" nsenter -t "${NS[$i]}" -n "$incast" send 198.51.100.2 $port $((6 * i - 6)) 6 \
			"$TMP/go"
		sender[$i]=$PID
	done
	check "the senders are ready" eventually 10 all_ready
	check "... and begin" timeout 60 bash -c ': > "$0"' "$TMP/go"
	for i in 1 2 3 4; do check "six senders end well" join "${sender[$i]}" 30 || cat "$TMP/send.$i"; done
	check "every message came once, in order" join $receiver 30 || cat "$TMP/recv"
	OUT=$(< "$TMP/recv")
	echo "    $OUT"
	check "no sender starved" holds '.least > 0'
}
if [ "$MODE" = release ]; then
	measured incast "they used the link" "holds '.mbit >= 50'" \
		"they shared it" "holds '.jain >= 0.7 and .least >= 0.1'"
else
	TRY=1
	incast          # a sanitizer changes the times
fi
kill $BOX
join $BOX 5
echo "    $(< "$TMP/box")"
end
