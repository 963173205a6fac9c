#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# DIWARP_LOG: every library reports the calls that it refuses. The lines go to the chosen destination.
. "${0%/*}/../lib.sh"
unset DIWARP_LOG DIWARP_LOG_FILE DIWARP_SOCKETS_LOG

if [ -x "$BUILD/tests/system/cma_log" ]; then
	run "without DIWARP_LOG" $DIW run "$BUILD/tests/system/cma_log"
	check "... nothing is said" [ -z "$OUT" ]
	run "with DIWARP_LOG=error" env DIWARP_LOG=error $DIW run "$BUILD/tests/system/cma_log"
	echo "$OUT" > "$TMP/said"
	for line in "ibv_create_qp: max_send_wr 1000000, max_recv_wr 1: more than the device's 16384 (EINVAL)" \
		"ibv_create_qp: pd .*, send_cq (nil), .*all are needed (EINVAL)" "ibv_create_cq: cqe 0" \
		"diw_mr_reg: access 0x2: a peer's write or atomic needs LOCAL_WRITE (EINVAL)" \
		"ibv_modify_qp: from state 0 to 1: attributes 0x.* are missing (EINVAL)" \
		"ibv_modify_qp: port_num 2: the device's port is 1 (EINVAL)" \
		"rdma_bind_addr (EADDRNOTAVAIL)" "rdma_connect (EINVAL)" "rsocket (E[A-Z]*)"; do
		check "... libibverbs and librdmacm say: $line" grep -q "^diwarp: cma_log\[[0-9]*\]: error: $line" \
			"$TMP/said"
	done
	run "with a file" env DIWARP_LOG=error DIWARP_LOG_FILE="$TMP/log.%p" $DIW run "$BUILD/tests/system/cma_log"
	check "... nothing goes to the standard error" [ -z "$OUT" ]
	check "... the file has it, with the time" grep -q '^[0-9]*\.[0-9]* diwarp: cma_log\[' "$TMP"/log.*
	check "... and is the user's alone" [ "$(stat -c %a "$TMP"/log.*)" = 600 ]
	ln -s "$TMP/victim" "$TMP/link"
	run "with a symbolic link for a file" env DIWARP_LOG=error DIWARP_LOG_FILE="$TMP/link" $DIW run \
		"$BUILD/tests/system/cma_log"
	check "... which is not followed" [ ! -e "$TMP/victim" ]
	if [ "$(id -u)" -eq 0 ] && command -v setpriv > /dev/null; then
		chmod 755 "$TMP"
		install -m 4755 "$DIW" "$TMP/suid"
		mkdir -m 777 "$TMP/any"
		expect 1 "a set-user-ID program" setpriv --reuid 65534 --clear-groups env DIWARP_LOG=error \
			DIWARP_LOG_FILE="$TMP/any/log" "$TMP/suid" perf --local --dev diw_none lat
		check "... writes no file" [ ! -e "$TMP/any/log" ]
	else
		skip "no other user here"
	fi
fi

run "a value that is none" env DIWARP_LOG=loud $DIW info
check "... the first line says so" matches "$(DIWARP_LOG=loud DIWARP_STAT=x $DIW ping --count 1 127.0.0.1 2>&1)" \
	"DIWARP_LOG=loud: not one of off, error, warn, info, debug"
told() { env "$1" "$DIW" perf lat --local --secs 0.05 --rounds 1 2>&1 | grep "${1%=*}="; }
for name in OFFLOAD PROGRESS STAT LOOPBACK LLP; do
	check "... of DIWARP_$name, too" matches "$(told DIWARP_$name=loud)" \
		"DIWARP_$name=loud: not one of [a-z]+, .*; [a-z]+ is used"
	check "... an empty one counts as unset" [ -z "$(told DIWARP_$name=)" ]
done
offload() { "$DIW" info --json | jq -c '[.gso, .gro]'; }
check "... with the same offload" [ "$(DIWARP_OFFLOAD='' offload)" = "$(unset DIWARP_OFFLOAD; offload)" ]
for qp in rc rd; do
	run "with an empty DIWARP_CRC" env DIWARP_CRC= "$DIW" perf lat --qp $qp --local --secs 0.05 --rounds 1
	expect 1 "one that is none is refused" env DIWARP_CRC=loud "$DIW" perf lat --qp $qp --local --secs 0.05 \
		--rounds 1
done
run "with DIWARP_LOG=debug, datagrams damaged and doubled" env DIWARP_LOG=debug "$DIW" perf bw --local --size 10k \
	--op write \
	--secs 0.2 --impair corrupt=5%,dup=20%
check "... what is dropped is told, and why" matches "$OUT" \
	"debug: port [0-9]+: a datagram of [0-9.:a-f]+ port [0-9]+, [0-9]+ bytes: rx_crc"
check "... and what segments" matches "$OUT" \
	"debug: port [0-9]+: a segment of [0-9.:a-f]+ port [0-9]+, header of 32 bytes, payload of 10240: record_[ld]"
export XDG_RUNTIME_DIR=$TMP/run
mkdir -m 700 "$TMP/run"
run "the socket interposer, at its own level" env DIWARP_SOCKETS_CRC=sometimes $DIW run --sockets true
check "... warns" matches "$OUT" "^diwarp sockets: true\[[0-9]*\]: warn: crc: 'sometimes'"
run "with DIWARP_LOG=error" env DIWARP_LOG=error DIWARP_SOCKETS_CRC=sometimes $DIW run --sockets true
check "... it does not" [ -z "$OUT" ]
run "DIWARP_SOCKETS_LOG comes before it" env DIWARP_LOG=error DIWARP_SOCKETS_LOG=warn DIWARP_SOCKETS_CRC=sometimes \
	$DIW run --sockets true
check "... it does" matches "$OUT" "warn: crc"
run "into a file" env DIWARP_LOG_FILE="$TMP/sockets.log" DIWARP_SOCKETS_CRC=sometimes $DIW run --sockets true
check "... it is there" grep -q "diwarp sockets: .*warn: crc" "$TMP/sockets.log"
end
