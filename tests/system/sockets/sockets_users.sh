#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# diw run --sockets by several users of a host, and with several registries. The programs find each other, and a false
# entry of another user does no harm.
. "${0%/*}/../lib.sh"
[ "$MODE" = release ] || [ "$MODE" = debug ] ||
	{ skip "a program of its own cannot load a library built for a sanitizer"; end; }
[ "$(id -u)" -eq 0 ] && setpriv --reuid=65534 --regid=65534 --clear-groups true 2> /dev/null ||
	{ skip "there is only one user here"; end; }

RUN="$DIW run --sockets=all"
WINDOW=$BUILD/tests/system/sockets_window
STREAM="python3 tests/system/sockets/stream.py"
TCP="python3 tests/system/sockets/tcp.py"
# told NAME: the counter that the processes of the last command printed when they ended, added up.
told() { sed -n "s/.*counted.* $1=\\([0-9]*\\).*/\\1/p" "$TMP/out" | awk '{ s += $1 } END { print s + 0 }'; }
export XDG_RUNTIME_DIR=$TMP/run DIWARP_STAT=on
unset LD_PRELOAD DIWARP_SOCKETS DIWARP_SOCKETS_CRC DIWARP_SOCKETS_PEERS DIWARP_SOCKETS_LOG DIWARP_SOCKETS_USERS
mkdir -m 700 "$TMP/run" "$TMP/run2" "$TMP/nobody"
chmod 755 "$TMP"
chown 65534 "$TMP/nobody"
mkfifo "$TMP/stdin"
exec 3<> "$TMP/stdin"
nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups env "XDG_RUNTIME_DIR=$TMP/nobody")
if ! "${nobody[@]}" test -x "$DIW"; then
	skip "another user cannot run $DIW"
	end
fi
# counted PID NAME: the counter of that process, 0 if it has none.
counted() { $DIW stat "$1" --json 2> /dev/null | jq -s "map(.counters.$2) | add // 0"; }
at_least() { [ "$(counted "$1" "$2")" -ge "$3" ]; }
# sender [VARIABLE=VALUE...]: sends to port 5000 until "stop"; SENDER is its process.
sender() {
	env "$@" $RUN $STREAM send "${TO:-127.0.0.1}" 5000 700 < "$TMP/stdin" > "$TMP/sender" 2>&1 3>&- &
	SENDER=$!
	JOBS+=("$SENDER")
}
stop() {
	printf '\n' > "$TMP/stdin"
	check "the sender noticed nothing" join "$SENDER" 30
}
fails() { ! "$@"; }
ended() {
	kill -9 "$1"
	wait "$1"
} 2> /dev/null

sender
for mode in sendrecv write-record; do
	background "$TMP/other" "${nobody[@]}" DIWARP_SOCKETS_MODE=$mode $RUN $STREAM receive 127.0.0.1 5000 1000000
	before=$(counted $SENDER sock_tx_framed)
	check "another user's receiver gets frames, $mode" eventually 30 at_least $SENDER sock_tx_framed \
		$((before + 100))
	before=$(counted $SENDER sock_tx_framed)
	check "... also when the kernel was asked again" eventually 30 at_least $SENDER sock_tx_framed $((before + 700))
	check "... undamaged" kill -0 $PID
	ended $PID
	run "a plain one of ours in its place gets none" timeout 60 $STREAM receive 127.0.0.1 5000 100
done
background "$TMP/other" env "XDG_RUNTIME_DIR=$TMP/run2" $RUN $STREAM receive 127.0.0.1 5000 1000000
before=$(counted $SENDER sock_tx_framed)
check "our own with another registry gets frames" eventually 30 at_least $SENDER sock_tx_framed $((before + 100))
ended $PID
background "$TMP/other" "${nobody[@]}" DIWARP_SOCKETS_USERS=own $RUN $STREAM receive 127.0.0.1 5000 300
before=$(counted $SENDER sock_tx_framed)
check "one that shows itself to its own user only gets all" join $PID 60
check "... plain" [ "$(counted $SENDER sock_tx_framed)" -eq "$before" ]
run "of whom another says that it is capable" timeout 60 "$WINDOW" liar 5000
run "who shows something else all the time" timeout 60 "$WINDOW" garbage 5000
stop
background "$TMP/other" "${nobody[@]}" $RUN $STREAM receive 127.0.0.1 5000 1000000
sender DIWARP_SOCKETS_USERS=own
check "a sender that looks at nobody else's" eventually 30 at_least $SENDER sock_plain_unknown 200
check "... sends plain" [ "$(counted $SENDER sock_tx_framed)" -eq 0 ]
stop
run "one that the kernel would kill for it asks nothing" $RUN "$WINDOW" confined 127.0.0.1 5000
ended $PID

# ---- Streams ----

export DIWARP_SOCKETS_LOG=info
# other COMMAND PORT: another user serves the port.
other() {
	background "$TMP/other" "${nobody[@]}" $RUN $TCP "$@"
	OTHER=$PID
	check "another user's server" eventually 30 accepting "$2"
}
other echo 5000
run "a stream to another user's server" timeout 300 $RUN $TCP ask 5000 3000000 3
check "... by FPDUs" [ "$(told sock_stream_tx)" -eq 9000000 ]
check "... in both directions" [ "$(told sock_stream_rx)" -eq 9000000 ]
run "with the CRC" timeout 300 env DIWARP_SOCKETS_CRC=on $RUN $TCP ask 5000 300000
check "... by FPDUs" [ "$(told sock_stream_rx)" -eq 300000 ]
run "from who shows himself to nobody" timeout 300 env DIWARP_SOCKETS_USERS=own $RUN $TCP ask 5000 300000
check "... without" [ "$(told 'sock_stream_[tr]x')" -eq 0 ]
run "from a plain client" timeout 300 $TCP ask 5000 300000
ended $OTHER
other turns 5000
run "many to another user's server that speaks first" timeout 300 $RUN $TCP many 5000 100
# The server waits up to 5 ms until its client reads. After a wait in vain the server frames nothing for 20 times as
# long. So a client that got no processor in time gets plain greetings, but not in each of 40 runs.
most_framed() {
	local run
	for run in {1..40}; do
		[ "$(told sock_stream_rx)" -lt 900 ] || return 0
		sleep 0.2
		timeout 300 $RUN $TCP many 5000 100 > "$TMP/out" 2>&1 || return 1
	done
	echo "never, in $run runs"
	return 1
}
check "... most by FPDUs" most_framed
run "from a plain client" timeout 300 $TCP many 5000 3
ended $OTHER
background "$TMP/other" $TCP echo 5000
OTHER=$PID
check "a plain one of ours in its place" eventually 30 accepting 5000
run "... gets no FPDUs" timeout 300 $RUN $TCP ask 5000 300000
check "... at all" [ "$(told sock_stream_tx)" -eq 0 ]
ended $OTHER
background "$TMP/liar" "$WINDOW" tcpliar 5000
LIAR=$PID
check "a listener of which another says that it is capable" eventually 30 accepting 5000
run "... gets" timeout 60 $RUN $TCP hold 5000
check "... plain bytes" join $LIAR 30
unset DIWARP_SOCKETS_LOG

# Another user has the place where root publishes its sockets. So root publishes them elsewhere.
ipcrm -a
run "a user sits on another's place" "${nobody[@]}" "$WINDOW" squat 0
background "$TMP/other" $RUN $STREAM receive 127.0.0.1 5000 1000000
"${nobody[@]}" $RUN $STREAM send 127.0.0.1 5000 700 < "$TMP/stdin" > "$TMP/sender" 2>&1 3>&- &
SENDER=$!
JOBS+=("$SENDER")
check "... and is found all the same" eventually 30 at_least $SENDER sock_tx_framed 100
check "... by who gets it whole" kill -0 $PID
ended $PID
stop
# ---- Hosts that share a key and nothing else ----

if two_namespaces 1500; then
	key=00112233445566778899aabbccddeeff
	# there KEY [COUNT]: a receiver of COUNT datagrams in the other namespace, with a registry of its own.
	there() { background "$TMP/there" in_b env XDG_RUNTIME_DIR="$TMP/run2" DIWARP_SOCKETS_KEY="$1" $RUN $STREAM \
		receive 0.0.0.0 5000 "${2:-1000000}"; }
	export DIWARP_SOCKETS_PEERS=192.0.2.0/24:5000
	there $key
	TO=$B4 sender DIWARP_SOCKETS_KEY=$key
	check "a host with the key gets frames" eventually 30 at_least $SENDER sock_tx_framed 100
	check "... and undoes them" eventually 30 at_least $PID sock_rx_framed 100
	check "... with the CRC" [ "$(counted $PID sock_rx_crc)" -eq 0 ]
	ended $PID
	there ffeeddccbbaa99887766554433221100
	check "one with another key takes frames for payload" fails join $PID 60
	check "..." grep -qE "not what was sent|invalid literal" "$TMP/there"
	stop
	there $key 100
	TO=$B4 sender
	check "without a key it is sent plain" join $PID 60
	stop
	there $key 100
	TO=$B4 sender DIWARP_SOCKETS_KEY=0123
	check "with one that is none, too" join $PID 60
	check "... and a warning says so" grep -q "key: must be 32 hexadecimal digits" "$TMP/sender"
	stop
	there $key 100
	TO=$B4 sender DIWARP_SOCKETS_KEY=$key DIWARP_SOCKETS_PEERS=192.0.2.0/24:5001
	check "to who is no peer, too" join $PID 60
	stop
	# far COMMAND PORT: serves the port in the other namespace.
	far() {
		background "$TMP/there" in_b env XDG_RUNTIME_DIR="$TMP/run2" DIWARP_SOCKETS_KEY=$key $RUN $TCP "$@"
		FAR=$PID
		check "a server there" eventually 30 accepting "$2" in_b
	}
	export DIWARP_SOCKETS_LOG=info
	far echo 5000
	run "a stream to a host with the key" timeout 300 env TCP_HOST=$B4 DIWARP_SOCKETS_KEY=$key $RUN $TCP ask 5000 \
		3000000
	check "... goes by FPDUs" [ "$(told sock_stream_tx)" -eq 3000000 ]
	check "... in both directions" [ "$(told sock_stream_rx)" -eq 3000000 ]
	run "without a key" timeout 300 env TCP_HOST=$B4 $RUN $TCP ask 5000 300000
	check "... without" [ "$(told 'sock_stream_[tr]x')" -eq 0 ]
	ended $FAR
	far turns 5000
	run "to a server there that speaks first" timeout 300 env TCP_HOST=$B4 DIWARP_SOCKETS_KEY=$key $RUN $TCP many \
		5000 20
	check "... what is sent goes by FPDUs" [ "$(told sock_stream_tx)" -eq 160 ]
	check "... what is received does not" [ "$(told sock_stream_rx)" -eq 0 ]
	ended $FAR
	unset DIWARP_SOCKETS_LOG
	background "$TMP/here" $STREAM receive 0.0.0.0 5000 100
	TO=$A4 sender DIWARP_SOCKETS_KEY=$key
	check "and to our own host's programs, which are known" join $PID 60
	stop
else
	skip "no second network namespace here"
fi
end
