#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Group datagrams between processes of this host and of another. The program is tests/system/native/group.c.
. "${0%/*}/../lib.sh"
GROUP=("$BUILD/tests/system/group")
[ "$DIW" = "$BUILD/bin/diw" ] || GROUP=(setarch -R "${GROUP[@]}")

says() { grep -q "$1" "$2"; }
# listener LOG [in_b] ARGUMENT...: starts a listener; PID is its process.
listener() {
	local log=$1 in=()
	shift
	[ "$1" != in_b ] || { in=(in_b); shift; }
	[ -z "${CAPTURE:-}" ] || in+=(env "DIWARP_PCAP=$CAPTURE")
	rm -f "$log"                    # left by an earlier listener
	background "$log" "${in[@]}" "${GROUP[@]}" listen "$@"
	eventually 10 says ready "$log" || { cat "$log"; return 1; }
}

# talk WHAT GROUP BYTES [any]: one sender in A sends 20 messages. Two processes in B with two queue pairs each, and one
# process in A, receive and answer each message.
talk() {
	local what=$1 group=$2 bytes=$3 any=("${@:4}") pids=() n
	check "$what: first listener in B" listener "$TMP/1" in_b diw_vb "$group" 20 "$bytes" 2 "${any[@]}";
		pids+=("$PID")
	check "$what: second listener in B" listener "$TMP/2" in_b diw_vb "$group" 20 "$bytes" 2 "${any[@]}";
		pids+=("$PID")
	check "$what: listener in A" listener "$TMP/3" diw_va "$group" 20 "$bytes" 1 "${any[@]}"; pids+=("$PID")
	run "$what: the sender" "${GROUP[@]}" send diw_va "$group" 20 "$bytes" 100 "${any[@]}"
	check "$what: five queue pairs answered each message, once" holds '.answers == 100 and .from == 5'
	for n in 1 2 3; do
		check "$what: listener $n ends" join "${pids[n - 1]}" 10
		OUT=$(< "$TMP/$n")
		check "$what: listener $n got each message once" holds ".good == $((n == 3 ? 20 : 40)) and .bad == 0" ||
			cat "$TMP/$n"
	done
}

two_namespaces 1500 || { skip "no veth pair here"; end; }
maddr() { in_b ip maddr show dev vb | grep -c "$1"; }
gone() { [ "$(maddr "$1")" = 0 ]; }
check "IPv6 is configured" eventually 10 configured in_b vb
check "... on both sides" eventually 10 configured "" va
talk "IPv4" 239.192.71.3 3000
check "IPv4: nobody is a member any more" gone 239.192.71.3
talk "IPv6" ff15::4703 3000
check "IPv6: nobody is a member any more" gone ff15::4703
talk "IPv6, link-local" ff02::4703 100
talk "IPv4, wildcard" 239.192.71.3 100 any
talk "IPv6, wildcard" ff15::4703 100 any
talk "IPv4, many segments" 239.192.71.3 60000
talk "IPv6, many segments" ff15::4703 60000

# ---- One dies ----

check "a listener" listener "$TMP/dies" in_b diw_vb 239.192.71.3 20 100 2
dies=$PID
check "another" listener "$TMP/lives" in_b diw_vb 239.192.71.3 20 100 2
lives=$PID
kill -9 "$dies"
wait "$dies" 2> /dev/null
check "the host is still a member" [ "$(maddr 239.192.71.3)" = 1 ]
run "the sender" "${GROUP[@]}" send diw_va 239.192.71.3 20 100 40
check "the other one answered" holds '.answers == 40 and .from == 2'
check "... and ends" join "$lives" 10
check "nobody is a member any more" gone 239.192.71.3

# ---- Which interface ----

# Another interface of the host has the better route to the group. The device's interface sends all the same.
ip link add vc type veth peer name vd && ip link set vc up && ip link set vd up && ip addr add 198.51.100.1/24 dev vc &&
	ip route add 239.0.0.0/8 dev vc
check "a listener on another interface" listener "$TMP/vc" diw_vc 239.192.71.3 20 100 1
other=$PID
check "a listener in B" listener "$TMP/vb" in_b diw_vb 239.192.71.3 20 100 1
pid=$PID
run "the sender" "${GROUP[@]}" send diw_va 239.192.71.3 20 100 20
check "B answered" holds '.answers == 20 and .from == 1'
check "... and ends" join "$pid" 10
check "the other interface heard nothing" [ "$(cat "$TMP/vc")" = ready ]
kill "$other"

# ---- On lo, where the kernel has no route to IPv6 groups ----

check "a listener on lo" listener "$TMP/lo" diw_lo 239.192.71.3 20 3000 2
pid=$PID
run "the sender on lo" "${GROUP[@]}" send diw_lo 239.192.71.3 20 3000 40
check "both answered" holds '.answers == 40 and .from == 2'
check "... and end" join "$pid" 10
# ---- Captured ----

CAPTURE=$TMP/cap
check "a listener that captures" listener "$TMP/pcap" diw_va 239.192.71.3 2 100 1
pid=$PID
run "the sender" "${GROUP[@]}" send diw_va 239.192.71.3 2 100 2
check "it ends" join "$pid" 10
run "diw dump reads it" "$DIW" dump --json -r "$TMP/cap"
check "the messages went to the group" [ "$(grep '^{' <<< "$OUT" | jq -r 'select(.dir == "in") | .dst' |
	sort | uniq -c | xargs)" = "2 239.192.71.3" ]
end
