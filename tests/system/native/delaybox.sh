#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Reliable datagrams, TCP cubic and TCP BBR through a link of 100 Mbit/s, 20 ms of round trip and 50 ms of queue. Each
# runs alone with a loss of 1 %. RD also runs beside each TCP, without loss. DELAYBOX_SECONDS is the duration of each
# run.
# Runs alone.
. "${0%/*}/../lib.sh"

seconds=${DELAYBOX_SECONDS:-10}
box=$BUILD/tests/system/delaybox bulk=$BUILD/tests/system/bulk
# Real-time priority: if the link or an end waited for a processor, the test would measure the load of the machine.
now=()
! chrt -r 1 true 2> /dev/null || now=(chrt -r 1)
[ -c /dev/net/tun ] || { skip "no /dev/net/tun here"; end; }
two_namespaces 1500 > /dev/null || { skip "no veth here"; end; }

# box_start LOSS_PERCENT: starts the link between ta (here) and tb (in B).
box_start() {
	background "$TMP/box" "${now[@]}" "$box" "$HOLDER" ta tb 100 50 10 "$1" 7
	BOX=$PID
	eventually 5 ip link show ta && eventually 5 in_b ip link show tb || return
	ip addr add 198.51.100.1/24 dev ta && ip link set ta mtu 1500 txqueuelen 10000 up &&
		in_b ip addr add 198.51.100.2/24 dev tb && in_b ip link set tb mtu 1500 txqueuelen 10000 up
}
box_stop() { kill "$BOX"; join "$BOX" 5; }

# receiver NAME TYPE PORT; sender NAME CONTROL PORT: start one end.
receiver() {
	background "$TMP/$1.recv" in_b "${now[@]}" "$bulk" recv "$2" "$3"
	RECEIVER[$1]=$PID
	eventually 5 listening "$3" in_b
}
sender() {
	background "$TMP/$1.send" "${now[@]}" "$bulk" send "$2" 198.51.100.2 "$3" "$seconds"
	SENDER[$1]=$PID
}
declare -A RECEIVER SENDER
finish() {
	for name in "$@"; do join "${SENDER[$name]}" $((seconds + 2)); done
	for name in "$@"; do kill "${RECEIVER[$name]}" 2> /dev/null; join "${RECEIVER[$name]}" 5; done
}
type_of() { [ "$1" = rd ] && echo rd || echo tcp; }
mbit() { jq -e .mbit "$TMP/$1.recv"; }

# alone CONTROL LOSS: RD or one TCP alone.
alone() {
	box_start "$2" && receiver "$1" "$(type_of "$1")" 5001 && sender "$1" "$1" 5001 && finish "$1" && box_stop &&
		echo "    $1 alone, loss $2 %: $(mbit "$1") Mbit/s of 100"
}

# beside CONTROL: RD and TCP start at the same time.
beside() {
	box_start 0 && receiver rd rd 5001 && receiver "$1" tcp 5002 && sender "$1" "$1" 5002 && sender rd rd 5001 &&
		finish rd "$1" && box_stop && echo "    rd beside $1: $(mbit rd) and $(mbit "$1") Mbit/s of 100"
}

at_least() { jq -en "$1 >= $2" > /dev/null || { echo "$1 is less than $2"; cat "$TMP"/*.send "$TMP"/*.recv; return 1; };
	}

for control in cubic bbr; do alone $control 1 || not_ok "$control runs alone"; done
[ "$MODE" = release ] || { alone rd 1 || not_ok "rd runs alone"; end; }     # a sanitizer changes the times
[ ${#now[@]} -gt 0 ] || { skip "no real-time priority here: figures would be the machine's"; end; }
measured 'alone rd 1 || not_ok "rd runs alone"' \
	"RD has 90 % of the link at a loss of 1 %" 'at_least "$(mbit rd)" 90'
for control in cubic bbr; do
	measured 'beside $control || not_ok "RD runs beside $control"' \
		"beside TCP $control RD does not starve" 'at_least "$(mbit rd)" 5' \
		"... and does not starve it" 'at_least "$(mbit $control)" 5'
done
end
