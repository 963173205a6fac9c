#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# DIWARP_LOOPBACK=memory: two processes of one user, partners that are killed, and all that must take the wire.
. "${0%/*}/../lib.sh"
[ "$MODE" != tsan ] || { skip "ThreadSanitizer does not follow a threaded program's fork"; end; }
export DIWARP_LOOPBACK=memory
shm=$BUILD/tests/system/shm
launch=()
case $MODE in asan) ! setarch -R true 2> /dev/null || launch=(setarch -R) ;; esac

# partner TYPE PORT [COMMAND]...: starts an echo, by COMMAND.
partner() {
	background "$TMP/echo" "${@:3}" "${launch[@]}" "$shm" echo "$1" diw_lo "$2"
	ECHO=$PID
	eventually 10 listening "$2"
}
# talks WHAT TYPE MESSAGES [COMMAND]...: a new partner answers. OUT is the result.
talks() {
	PORT=$((${PORT:-5000} + 1))
	check "a partner, $2" partner "$2" $PORT "${SERVER[@]}"
	run "$1" timeout 600 "${@:4}" "${launch[@]}" "$shm" talk "$2" diw_lo 127.0.0.1 $PORT "$3" $WAIT
	echo "    $OUT"
	kill -9 "$ECHO"
}
by_wire() { holds '.by_memory == 0 and .back_by_memory == 0'; }
SERVER=() WAIT=

# ---- By memory ----

for type in ud rd; do
	talks "$type: every message comes back as it was" $type 20000
	check "... nearly all by memory" holds '.by_memory > 10000 and .back_by_memory > 10000 and .refused == 0'
	WAIT=--wait
	talks "$type: ends that sleep" $type 500
	check "... by memory" holds '.by_memory > 400 and .back_by_memory > 400'
	WAIT=
	run "$type: each of 100 partners is killed" timeout 600 "${launch[@]}" "$shm" kill $type 100
	echo "    $OUT"
	# Its socket may have got a second one, for one peer.
	check "... each after it had a pair, and nothing is left" holds '.by_memory > 20000 and .more <= 1'
done
run "a receiver that is killed and started again" timeout 600 "${launch[@]}" "$BUILD/tests/system/rd_restart"

# ---- By the wire ----

talks "this end has no shared memory" ud 300 env DIWARP_LOOPBACK=wire
check "... nothing by memory" by_wire
check "... and no datagram was bad" holds '.rx_crc == 0'
talks "impaired" ud 300 env DIWARP_IMPAIR=reorder=1%
check "... by the wire" by_wire
talks "captured" ud 300 env DIWARP_PCAP="$TMP/pcap"
check "... by the wire" by_wire
sent=$("$DIW" dump --json -r "$TMP/pcap" 2> /dev/null | jq -s 'map(select(.dir == "out")) | length')
check "... and the file has them" [ "$sent" -ge 300 ]
if [ "$(id -u)" -eq 0 ] && setpriv --reuid=65534 --clear-groups true 2> /dev/null; then
	cp "$shm" "$TMP/shm"
	chmod 755 "$TMP" "$TMP/shm"
	SERVER=(setpriv --reuid=65534 --clear-groups)
	shm=$TMP/shm talks "a partner of another user" ud 300
	check "... by the wire" by_wire
	SERVER=()
else
	skip "no second user here"
fi
if two_namespaces 1500; then
	# A partner here has the same address and port as the one in the other namespace.
	check "a partner" partner ud 6000
	background "$TMP/echo_b" in_b "${launch[@]}" "$shm" echo ud diw_vb 6000
	check "... and one in another namespace" eventually 10 listening 6000 in_b
	run "to another namespace" timeout 600 "${launch[@]}" "$shm" talk ud diw_va $B4 6000 300
	check "... by the wire" by_wire
else
	skip "no second namespace here"
fi
end
