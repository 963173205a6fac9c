#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# diw run --sockets=all: frames and FPDUs go only to programs that read them by interposed calls. That also holds beside
# a firewall rule, a program at the same port, io_uring, or a child without the interposer.
. "${0%/*}/../lib.sh"
case $MODE in asan | tsan) skip "programs of others cannot load a library built for a sanitizer"; end ;; esac

RUN="$DIW run --sockets=all"
READERS="python3 tests/system/sockets/readers.py"
RING=$BUILD/tests/system/readers_ring
export XDG_RUNTIME_DIR=$TMP/run DIWARP_STAT=on
unset LD_PRELOAD DIWARP_SOCKETS DIWARP_SOCKETS_CRC DIWARP_SOCKETS_PEERS DIWARP_SOCKETS_LOG DIWARP_SOCKETS_STREAMS
mkdir -m 700 "$TMP/run"
chmod 711 "$TMP"

told() { sed -n "s/.*counted.* $1=\\([0-9]*\\).*/\\1/p" "$TMP/out" | awk '{ s += $1 } END { print s + 0 }'; }
counted() { $DIW stat "$1" --json 2> /dev/null | jq -s "map(.counters.$2) | add // 0"; }
at_least() { [ "$(counted "$1" "$2")" -ge "$3" ]; }
# server LOG COMMAND...: starts a server until "ends"; PID is its process.
SERVERS=()
server() {
	background "$TMP/$1" "${@:2}"
	SERVERS+=("$PID")
}
ends() {
	kill "${SERVERS[@]}" 2> /dev/null
	for pid in "${SERVERS[@]}"; do wait "$pid" 2> /dev/null; done
	SERVERS=()
}
# talks WHAT [PORT]: connections get the right answers, without FPDUs.
talks() {
	run "$1" timeout 100 env DIWARP_SOCKETS_LOG=info $RUN $READERS talk "${2:-5000}" 3
	check "... without FPDUs" [ "$(told sock_stream_tx)" -eq 0 ]
}
framed() {
	run "$1" timeout 100 env DIWARP_SOCKETS_LOG=info $RUN $READERS talk 5000 3
	check "... by FPDUs" [ "$(told sock_stream_tx)" -gt 0 ]
}
# sends WHAT LOG PID: sends for half a second. The plain process PID receives no frame.
sends() {
	run "$1" timeout 100 env DIWARP_SOCKETS_LOG=info $RUN $READERS send 5000 0.5
	kill "$3"
	wait "$3"
	check "... the other got some" grep -q 'got [1-9]' "$TMP/$2"
	check "... and no frame" grep -q 'strange 0' "$TMP/$2"
}
two_bound() { [ "$(ss -Huln "sport = :5000" | wc -l)" -ge 2 ]; }
two_listen() { [ "$(ss -Htln "sport = :5000" | wc -l)" -ge 2 ]; }

# ---- A firewall rule that redirects ----

if nft add table ip diw 2> /dev/null && nft add chain ip diw out '{ type nat hook output priority -100; }' 2> /dev/null;
	then
	nft delete table ip diw
	server meant $RUN $READERS tcp 5000
	server other $READERS tcp 5001
	server meant_udp $RUN $READERS udp 5000
	MEANT=$PID
	check "servers" eventually 30 accepting 5000
	check "..." eventually 30 accepting 5001
	check "..." eventually 30 listening 5000
	framed "an interposed server"
	run "an interposed receiver" timeout 100 env DIWARP_SOCKETS_LOG=info $RUN $READERS send 5000 0.3
	check "... is sent frames" [ "$(told sock_tx_framed)" -gt 0 ]
	before=$(counted "$MEANT" sock_rx_framed)
	for to in 'redirect to :5001' 'dnat to 127.0.0.2:5001'; do
		nft add table ip diw
		nft add chain ip diw out '{ type nat hook output priority -100; }'
		nft "add rule ip diw out meta l4proto { tcp, udp } th dport 5000 $to"
		talks "... behind '$to'"
		server other_udp $READERS udp 5001
		check "a plain receiver" eventually 30 listening 5001
		sends "... behind '$to'" other_udp "$PID"
		nft delete table ip diw
	done
	check "nothing reached the receiver that was meant" [ "$(counted "$MEANT" sock_rx_framed)" -eq "$before" ]
	# Where connections are tracked and no address is changed, the receiver tells the sender that it hears.
	nft add table ip diw
	nft add chain ip diw out '{ type nat hook output priority -100; }'
	nft 'add rule ip diw out udp dport 5009 redirect to :5001'
	framed "an interposed server behind a rule for others"
	run "an interposed receiver behind it" timeout 100 env DIWARP_SOCKETS_LOG=info $RUN $READERS send 5000 1
	check "... is sent frames when it has heard" [ "$(told sock_tx_framed)" -gt 0 ]
	nft delete table ip diw
	ends
else
	skip "nft changes no addresses here"
fi

# ---- At the same port ----

# neighbour WHAT OPTION...: a plain program with these options shares the port of the interposed program.
neighbour() {
	local what=$1
	shift
	server meant $RUN $READERS tcp 5000 reuse
	server meant_udp $RUN $READERS udp 5000 reuse
	check "an interposed server" eventually 30 accepting 5000
	check "... and receiver" eventually 30 listening 5000
	server other $READERS tcp 5000 "$@"
	server other_udp $READERS udp 5000 "$@"
	OTHER=$PID
	check "$what" eventually 30 two_listen
	check "..." eventually 30 two_bound
	run "... is answered" timeout 100 $RUN $READERS talk 5000 20
	sends "... and sent to" other_udp "$OTHER"
	ends
	check "... no FPDUs" grep -q 'strange 0' "$TMP/other"
}
neighbour "a program that is bound to the interface" reuse device=lo
neighbour "a program that is bound to the address" reuse at=127.0.0.1
# A plain program joins by SO_REUSEPORT. The sender keeps the kernel's answer about readers for 10 ms (docs/sockets.md).
# The kernel's clock says when each frame arrived.
NEWCOMER="python3 tests/system/sockets/newcomer.py"
server meant_udp $RUN $NEWCOMER receive 5010
check "a receiver" eventually 30 listening 5010
server sender $RUN $NEWCOMER send 5010
check "... gets frames" eventually 30 at_least $PID sock_tx_framed 100
newcomers() { run "newcomers at its port" timeout 300 $NEWCOMER join 5010 20; }
measured newcomers "... get messages" "matches \"\$OUT\" 'came [1-9][0-9][0-9]'" \
	"... and no frame later than 50 ms after they came" '[ "$(sed "s/.*latest //" <<< "$OUT")" -le 50 ]'
check "... the receiver gets frames again" eventually 30 at_least $PID sock_tx_framed 200
ends

# ---- Rings ----

"$RING" udp 5009 0 > "$TMP/ring" 2>&1 < /dev/null &
RING_PID=$!
check "a program of its own" eventually 30 listening 5009
run "... is sent one" $READERS send 5009 0.1
wait $RING_PID
if [ $? -eq 77 ]; then
	skip "$(cat "$TMP/ring")"
else
	for how in '' unseen; do
		server ring $RUN "$RING" tcp 5000 3 $how
		check "a server by io_uring $how" eventually 30 accepting 5000
		talks "... is answered"
		check "... and saw what it should" join "$PID" 30
		SERVERS=()
	done
	run "a program with a ring that connects to itself" timeout 60 $RUN "$RING" self 5000 3
	check "... saw what it should" matches "$OUT" 'strange 0'
	server ring $RUN "$RING" udp 5000 50
	check "a receiver by io_uring" eventually 30 listening 5000
	run "... is sent datagrams" $RUN $READERS send 5000 0.5
	check "... and saw what it should" join "$PID" 30
	SERVERS=()
fi

# ---- Children ----

CAT=$(command -v cat)
cp "$CAT" "$TMP/cat"
chown 65534 "$TMP/cat" 2> /dev/null && chmod u+s "$TMP/cat" || cp "$CAT" "$TMP/cat"
# given WHAT COMMAND...: the server hands each connection to COMMAND.
given() {
	local what=$1
	shift
	server give $RUN $READERS give 5000 "$@"
	check "a server with $what" eventually 30 accepting 5000
	talks "... is answered"
	ends
}
given "children of an empty environment" env -i "$CAT"
given "children that are not interposed" env DIWARP_SOCKETS=off "$CAT"
if [ -u "$TMP/cat" ] && [ "$(id -u)" -eq 0 ]; then
	given "setuid children" "$TMP/cat"
else
	skip "no setuid program here"
fi
server listen $RUN $READERS listen 5000 env -i "$(command -v python3)" "$PWD/tests/system/sockets/readers.py" tcp 5000 \
	fd=0
check "a listener of a child of an empty environment" eventually 30 accepting 5000
talks "... is answered"
ends
server first $RUN $READERS first 5000 env -i "$(command -v python3)" "$PWD/tests/system/sockets/readers.py" udp 5000 \
	fd=0
check "a receiver" eventually 30 listening 5000
$RUN $READERS send 5000 1 &
SENDER=$!
JOBS+=("$SENDER")
check "... is sent datagrams, and its child with an empty environment" join "$SENDER" 30
kill -- -"$PID" 2> /dev/null
wait "$PID" 2> /dev/null
SERVERS=()
check "... got them" grep -q 'got [1-9]' "$TMP/first"
check "... and no frame" [ "$(grep -c 'strange 0' "$TMP/first")" -ge 1 ]
server given $RUN $READERS give 5000 "$CAT"
check "a server with interposed children" eventually 30 accepting 5000
run "... is answered" timeout 100 $RUN $READERS talk 5000 3
ends

# ---- One address in two network namespaces ----

if two_namespaces 1500; then
	in_b ip addr add 192.0.2.7/32 dev lo
	ip addr add 192.0.2.7/32 dev lo
	server there in_b $RUN $READERS tcp 5000
	server there_udp in_b $RUN $READERS udp 5000
	check "servers in another namespace" eventually 30 accepting 5000 in_b
	check "..." eventually 30 listening 5000 in_b
	server other $READERS tcp 5000
	server other_udp $READERS udp 5000
	OTHER=$PID
	check "plain ones with their address" eventually 30 accepting 5000
	check "..." eventually 30 listening 5000
	export READERS_HOST=192.0.2.7 DIWARP_SOCKETS_PEERS=192.0.2.0/24
	talks "... are answered"
	sends "... and sent to" other_udp "$OTHER"
	unset READERS_HOST DIWARP_SOCKETS_PEERS
	ends
else
	skip "no second network namespace here"
fi
end
