# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# For clients.sh: an iSER target and its initiator, and qemu, which moves a guest to another qemu over RDMA.

iser_admin() { tools/clients run "$CLIENTS/root/usr/sbin/tgtadm" --lld iser --op "$1" --mode "$2" "${@:3}"; }
# This version of tgtd accepts an initiator only when the initiator's address and name are both bound to the target.
iser_target() {
	truncate -s 16M "$TMP/disk"
	eventually 10 iser_admin show target && iser_admin new target --tid 1 -T iqn.2026-01.example:disk &&
		iser_admin new logicalunit --tid 1 --lun 1 -b "$TMP/disk" && iser_admin bind target --tid 1 -I ALL &&
		iser_admin bind target --tid 1 -Q iqn.2026-01.example:host
}

# iser SUITE: runs a suite of libiscsi's tests, without the tests "Async": libiscsi 1.19 crashes in them when it has
# more commands than descriptors. tgtd ignores SIGTERM while it has a target, and crashes when it deletes a target.
iser() {
	local suite=$1 sv cl=none
	PORT=$((PORT + 1))
	export TGT_IPC_SOCKET=$TMP/tgt
	start_counting
	client "$TMP/server" "$LIMIT" "$CLIENTS/root/usr/sbin/tgtd" -f --iscsi portal=127.0.0.1:$((PORT + 1000)) \
		--iser "port=$PORT,pool_sz_mb=64"
	sv=$PID
	if (iser_target) > "$TMP/client" 2>&1; then
		client in_b "$TMP/client" "$LIMIT" iscsi-test-cu -i iqn.2026-01.example:host -d -n -t "$suite" \
			"iser://$A4:$PORT/iqn.2026-01.example:disk/1"
		join "$PID" $((LIMIT + 5)); cl=$?
	fi
	grep -Eq 'asserts +[1-9][0-9]* +[0-9]+ +[0-9]+ +0 ' "$TMP/client" || cl="$cl, no test passed"
	kill -KILL -- -$sv
	join $sv $((LIMIT + 5)); sv=$?
	[ $sv != 137 ] || sv=0
	stop_counting
	judge_pair "tgtd, iscsi-test-cu $suite (veth, $PERSONALITY)" "$sv" "$cl" "$(moved 2 RC)"
	note tgtd "iscsi-test-cu -d -n -t $suite iser://ADDR:PORT/NAME/1" veth $VERDICT
}

# migration CAPABILITY...: moves a guest without an operating system, with 16 MiB of random memory.
migration() {
	local guest=(-M pc -accel tcg -m 64 -nodefaults -display none -S) sv cl py
	PORT=$((PORT + 1))
	head -c 16777216 /dev/urandom > "$TMP/guest"
	rm -f "$TMP"/*.memory
	start_counting
	client "$TMP/server" "$LIMIT" "$QEMU" "${guest[@]}" -incoming "rdma:$A4:$PORT" \
		-qmp "unix:$TMP/to,server=on,wait=off"
	sv=$PID
	client in_b "$TMP/client" "$LIMIT" "$QEMU" "${guest[@]}" -qmp "unix:$TMP/from,server=on,wait=off" \
		-device "loader,file=$TMP/guest,addr=0x1000000,force-raw=on"
	cl=$PID
	timeout --foreground 100 python3 tests/system/clients/migrate.py "$TMP/from" "$TMP/to" "rdma:$A4:$PORT" \
		0x1000000 \
		0x1000000 "$@" > "$TMP/migrate" 2>&1; py=$?
	[ $py = 0 ] || kill $sv $cl 2> /dev/null
	join $sv $((LIMIT + 5)); sv=$?
	join $cl $((LIMIT + 5)); cl=$?
	stop_counting
	cat "$TMP/migrate" >> "$TMP/client"
	cmp "$TMP/guest" "$TMP/to.memory" >> "$TMP/client" 2>&1 || cl="$cl, another memory"
	judge_pair "qemu-system-x86_64, migrate rdma:ADDR:PORT $* (veth, $PERSONALITY)" "$sv" "$cl" "$(moved 2 RC)"
	note qemu-system-x86_64 "migrate rdma:ADDR:PORT${*:+, $*}" veth $VERDICT
}

storage() {
	if wanted tgtd; then
		iser SCSI.Verify10
		[ -z "${DIW_TEST_FULL:-}" ] || iser SCSI.Write16
	fi
	wanted qemu || return 0
	QEMU=$(command -v qemu-system-x86_64) || { skip "no qemu-system-x86_64"; return; }
	migration
	[ -z "${DIW_TEST_FULL:-}" ] || migration rdma-pin-all
}
