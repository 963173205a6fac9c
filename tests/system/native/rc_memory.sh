#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# DIWARP_LOOPBACK=memory for RC: the suites of RC, two processes of one user, a process that is killed, and all that
# must take the wire.
. "${0%/*}/../lib.sh"
export DIWARP_LOOPBACK=memory
SUITES="shm_stream rc rc_direct rc_reads rc_terminate rc_half_closed cm"
[ "$MODE" = tsan ] || SUITES+=" state stress rc_threads unsent"

for suite in $SUITES; do
	run "suite $suite" timeout 600 env CK_RUN_SUITE="$suite" "$BUILD/tests/unit"
done

# moves WHAT [COMMAND]...: a new server, started by COMMAND, gets Writes. OUT is the result.
moves() {
	PORT=$((${PORT:-7000} + 1))
	background "$TMP/server" "${@:2}" "${IN[@]}" "$BUILD/bin/diw" perf --server --port $PORT "${BIND[@]}"
	SERVER=$PID
	check "a server, $1" eventually 20 accepting $PORT "${IN[@]}"
	run "$1" timeout 100 env "${CLIENT[@]}" "$BUILD/bin/diw" perf bw --qp rc --op write,send --size 100,100k \
		--secs 0.3 --rounds 3 --connect "${TO:-127.0.0.1}" --port $PORT --json
	kill -9 "$SERVER"
	wait "$SERVER" 2> /dev/null
}
by() { jq -se --arg way "$1" 'length > 0 and all(.[] | select(.llp); .llp == $way and .GBps > 0)' <<< "$OUT"; }
IN=() BIND=() CLIENT=() TO=

moves "two processes"
check "... by memory" by memory
moves "processes that sleep" env DIWARP_PROGRESS=thread
check "... by memory" by memory
CLIENT=(DIWARP_CRC=on)
moves "with the CRC"
check "... by memory" by memory
CLIENT=(DIWARP_LOOPBACK=wire)
moves "this end has no shared memory"
check "... by the wire" by tcp
CLIENT=()
moves "the other end has none" env DIWARP_LOOPBACK=wire
check "... by the wire" by tcp
CLIENT=(bash -c 'ulimit -f 100; exec "$@"' -)
moves "this end may not have files of that size"
check "... by the wire" by tcp
CLIENT=(DIWARP_PCAP="$TMP/pcap")
moves "captured"
check "... by the wire" by tcp
CLIENT=()

# ---- A partner is killed ----

# gone PID: the process has ended.
gone() { ! grep -qs '^State:.[^ZX]' "/proc/$1/status"; }

for signal in KILL TERM; do
	PORT=$((PORT + 1))
	background "$TMP/server" "$BUILD/bin/diw" perf --server --port $PORT
	SERVER=$PID
	check "a server" eventually 20 accepting $PORT
	background "$TMP/client" timeout 60 "$BUILD/bin/diw" perf bw --qp rc --op write --size 100k --secs 50 \
		--rounds 1 --connect 127.0.0.1 --port $PORT
	WRITER=$PID
	sleep 1
	kill -$signal "$SERVER"
	check "a client whose server gets SIG$signal ends" eventually 20 gone "$WRITER"
	check "... with an error" [ -s "$TMP/client" ]
	wait "$SERVER" 2> /dev/null
done
end
