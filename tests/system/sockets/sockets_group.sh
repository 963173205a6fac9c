#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# diw run --sockets and datagrams to multicast groups and broadcast addresses. The datagrams go in frames if all
# possible receivers are known to be capable. tests/system/sockets/sockets_group.c is the program.
. "${0%/*}/../lib.sh"
[ "$MODE" = release ] || [ "$MODE" = debug ] ||
	{ skip "a program of its own cannot load a library built for a sanitizer"; end; }

RUN="$DIW run --sockets"
TALK=$BUILD/tests/system/sockets_group
G4=239.1.1.1 G6=ff05::1234 L6=ff02::1234 PORT=5004
export XDG_RUNTIME_DIR=$TMP/run DIWARP_STAT=on ADDRESS_OF_VA=$A4
unset LD_PRELOAD DIWARP_SOCKETS DIWARP_SOCKETS_CRC DIWARP_SOCKETS_PEERS DIWARP_SOCKETS_KEY DIWARP_SOCKETS_LOG
mkdir -m 700 "$TMP/run"
mkfifo "$TMP/stdin"
exec 3<> "$TMP/stdin"
# counted PID NAME: the counter of that process, 0 if it has none.
counted() { $DIW stat "$1" --json 2> /dev/null | jq -s "map(.counters.$2) | add // 0"; }
at_least() { [ "$(counted "$1" "$2")" -ge "$3" ]; }
# sender ARGUMENT...: sends until "stop"; SENDER is its process.
sender() {
	$RUN "$TALK" send "$@" < "$TMP/stdin" > "$TMP/sender" 2>&1 3>&- &
	SENDER=$!
	JOBS+=("$SENDER")
}
stop() {
	printf '\n' > "$TMP/stdin"
	check "the sender noticed nothing" join "$SENDER" 30
}
# member [IN] [VARIABLE=VALUE...] ARGUMENT...: starts an interposed member that does not end by itself; MEMBER is its
# process.
member() {
	local in=()
	[ "$1" != in_b ] || { in=(in_b); shift; }
	background "$TMP/member.$((++MEMBERS))" "${in[@]}" env "${VARIABLES[@]}" $RUN "$TALK" receive "$1" $PORT "$2" \
		1000000 "${@:3}"
	MEMBER=$PID
	ALL+=("$PID")
}
MEMBERS=0 ALL=() VARIABLES=()
ended() {
	kill -9 "$@"
	wait "$@"
} 2> /dev/null
everybody_ends() { ended "${ALL[@]}"; ALL=(); }
# framed WHAT: 100 more messages of the sender go in frames, and every member receives frames.
framed() {
	local before pid
	before=$(counted $SENDER sock_tx_framed)
	check "$1: frames" eventually 20 at_least $SENDER sock_tx_framed $((before + 100))
	for pid in "${ALL[@]}"; do
		before=$(counted "$pid" sock_rx_framed)
		check "... a member gets them" eventually 20 at_least "$pid" sock_rx_framed $((before + 50))
		check "... as they were sent" kill -0 "$pid"
	done
}
# plain WHAT [COUNTER]: 100 more messages go plain for that reason, and none in frames, after the sender has asked the
# kernel again. Every member still runs.
plain() {
	local before plain pid counter=${2:-sock_plain_group}
	sleep 0.1
	before=$(counted $SENDER sock_tx_framed)
	plain=$(counted $SENDER $counter)
	check "$1: plain" eventually 20 at_least $SENDER $counter $((plain + 100))
	check "... all" [ "$(counted $SENDER sock_tx_framed)" -eq "$before" ]
	for pid in "${ALL[@]}"; do
		check "... a member gets them" kill -0 "$pid"
	done
}

# ---- On one host ----

ip route add 239.0.0.0/8 dev lo
ip -6 route add local ff00::/8 dev lo table local
for how in "lo" "lo index" "-" "lo connected" "lo many"; do
	sender $G4 $PORT $how
	plain "nobody listens"
	member $G4 lo
	framed "one member, $how"
	stop
	everybody_ends
done

sender $G4 $PORT lo
member $G4 lo
member $G4 lo bound
member $G4 lo six
VARIABLES=(DIWARP_SOCKETS_CRC=on DIWARP_SOCKETS_MODE=write-record)
member $G4 lo
VARIABLES=()
framed "four members"
run "they are listed" $DIW sockets
check "... each" [ "$(grep -c ":$PORT\$" <<< "$OUT")" -eq 4 ]
if [ "$(id -u)" -eq 0 ]; then
	run "a capture shows frames" timeout 60 $DIW dump -i lo -c 20 --json
	check "... with a good CRC, which one of them wants" [ "$(grep '^{' "$TMP/out" |
		jq -s 'map(select(.op == "send" and
		.crc_good and .last and .dst_qp == '$PORT')) | length')" = 20 ]
fi
run "a plain member beside them gets no frame" timeout 60 "$TALK" receive $G4 $PORT lo 100 settle
framed "... and when it has left"
run "one that has joined nothing gets no frame" timeout 60 "$TALK" receive $G4 $PORT lo 100 settle loose
background "$TMP/plain" "$TALK" receive $G4 $PORT lo 1000000 settle
plain "with a plain member"
ended $PID
framed "... and when it was killed"
background "$TMP/plain" "$TALK" receive 127.0.0.1 $PORT lo 1000000 bound loose
framed "a plain socket at the port that is bound to another address"
ended $PID
# Interposed members that the sender cannot know: one of another user, and one in a container with its own /dev/shm.
mkdir -m 700 "$TMP/run2" "$TMP/nobody"
chmod 755 "$TMP"
nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups env "XDG_RUNTIME_DIR=$TMP/nobody")
if chown 65534 "$TMP/nobody" 2> /dev/null && "${nobody[@]}" test -x "$DIW" 2> /dev/null; then
	background "$TMP/other" "${nobody[@]}" $RUN "$TALK" receive $G4 $PORT lo 1000000 settle
	plain "with a member of another user"
	check "... which gets them" kill -0 $PID
	ended $PID
	framed "... and when it was killed"
else
	skip "another user cannot run $DIW"
fi
if unshare --mount --ipc true 2> /dev/null; then
	background "$TMP/other" unshare --mount --ipc sh \
		-c "mount -t tmpfs none /dev/shm && exec env XDG_RUNTIME_DIR=$TMP/run2 \
		$RUN $TALK receive $G4 $PORT lo 1000000 settle"
	plain "with a member in a container that has an own /dev/shm"
	check "... which gets them" kill -0 $PID
	ended $PID
	framed "... and when it was killed"
else
	skip "no mount namespace here"
fi
for round in 1 2 3; do
	victim=$MEMBER
	unset 'ALL[-1]'
	ended "$victim"
	framed "when a member was killed"
	run "a plain one in its place gets none" timeout 60 "$TALK" receive $G4 $PORT lo 50 settle
	member $G4 lo bound
	framed "an interposed one does"
done
run "one that executes a plain program gets none any more" timeout 60 $RUN "$TALK" receive $G4 $PORT lo 100 hand
framed "when that has ended"
stop
everybody_ends

# Options that the interposer cannot follow, and addresses on another interface.
sender $G4 $PORT lo by=lo
member $G4 lo
plain "control data that names an interface" sock_plain_away
stop
everybody_ends

# ---- IPv6 ----

sender $G6 $PORT lo
member $G6 lo
member $G6 lo bound
framed "IPv6"
run "a plain member beside them gets no frame" timeout 60 "$TALK" receive $G6 $PORT lo 100 settle
stop
everybody_ends
sender $L6 $PORT lo
member $L6 lo
framed "IPv6, of one link"
stop
everybody_ends

# ---- Broadcast ----

sender 127.255.255.255 $PORT -
member 127.255.255.255 -
member 127.255.255.255 - bound
framed "a broadcast on lo"
run "a plain listener beside them gets no frame" timeout 60 "$TALK" receive 127.255.255.255 $PORT - 100 settle
framed "... and when it has left"
stop
everybody_ends

# ---- Several hosts ----

two_namespaces 1500 || { skip "no second network namespace here"; end; }
key=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')
check "IPv6 is configured" eventually 10 configured in_b vb
check "... on both sides" eventually 10 configured "" va
ip route add 239.2.0.0/16 dev va
for how in "239.1.1.1 va" "239.1.1.1 va index" "239.2.1.1 -" "239.1.1.1 va ttl0" \
	"192.0.2.255 -" "$L6 va"; do
	read -r group interface rest <<< "$how"
	sender $group $PORT $interface $rest
	run "another host gets no frame unless it is named, $how" in_b timeout 60 "$TALK" receive $group $PORT vb 100
	member $group va
	plain "... all is plain" sock_plain_away
	stop
	everybody_ends
	[ -z "$rest" ] || continue
	VARIABLES=("DIWARP_SOCKETS_KEY=$key" \
		"DIWARP_SOCKETS_PEERS=239.0.0.0/8:$PORT,[ff00::/8]:$PORT,192.0.2.255:$PORT")
	export "${VARIABLES[@]}"
	sender $group $PORT $interface
	member $group va
	member in_b $group vb
	framed "... and if it is, $how"
	run "... unless one here is plain" timeout 60 "$TALK" receive $group $PORT va 100 settle
	run "... or has another key" timeout 60 env DIWARP_SOCKETS_KEY="${key//[0-9]/a}" $RUN "$TALK" receive $group \
		$PORT va 100 settle
	run "... or none" timeout 60 env -u DIWARP_SOCKETS_KEY $RUN "$TALK" receive $group $PORT va 100 settle
	framed "... and when they have left"
	stop
	everybody_ends
	unset DIWARP_SOCKETS_KEY DIWARP_SOCKETS_PEERS
	VARIABLES=()
done
end
