#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# diw run --dev: the program sees the device files, and other processes do not. The test runs as root, as an ordinary
# user, and where neither may make a namespace.
. "${0%/*}/../lib.sh"
case $MODE in asan | tsan) skip "a sanitizer's thread is one too many for a user namespace"; end ;; esac
[ -e "$BUILD/lib/diwarp/libibverbs.so.1" ] || { skip "no libibverbs.so.1: built where libibverbs-dev is"; end; }
unshare -Urm true 2> /dev/null || unshare -m true 2> /dev/null || { skip "no mount namespace here"; end; }

# Another user may be unable to read the tree. So the test copies the files below TMP.
mkdir -p "$TMP/usr/bin" "$TMP/usr/lib"
cp "$BUILD/bin/diw" "$TMP/usr/bin"
cp -r "$BUILD/lib/diwarp" "$BUILD"/lib/libdiwarp.so* "$TMP/usr/lib"
chmod -R go+rX "$TMP"
DIW=$TMP/usr/bin/diw

# The script that the program runs. /dev/full fails a write only while it is a device.
cat > "$TMP/look" << 'END'
set -e
node=/dev/infiniband/diw_lo net=/sys/class/infiniband/diw_lo/device/net
test -c $node && test -r $node && test -w $node && ls $net
cat $net/lo/ifindex /sys/class/net/lo/ifindex
echo nothing > /dev/null
(echo nothing > /dev/full) 2> /dev/null && exit 1
head -c 10 /dev/zero | wc -c
: > /dev/shm/diw.$$ && rm /dev/shm/diw.$$
test -e /dev/fd/0
echo "user $(id -u) group $(id -g)"
END
seen() { printf '%s\n' lo 1 1 10 "user $1 group $2"; }
# The files that the kernel has for rxe below /sys/class/infiniband/DEVICE (drivers/infiniband/core/sysfs.c,
# rxe_hw_counters.c). N stands for a number. Of "counters" and "uevent" the list has only some.
cat > "$TMP/rxe" << 'END'
fw_ver
node_desc
node_guid
node_type
parent
ports/1/cap_mask
ports/1/counters/port_rcv_data
ports/1/counters/port_xmit_data
ports/1/counters/symbol_error
ports/1/gid_attrs/ndevs/N
ports/1/gid_attrs/types/N
ports/1/gids/N
ports/1/hw_counters/ack_deferred
ports/1/hw_counters/completer_retry_err
ports/1/hw_counters/duplicate_request
ports/1/hw_counters/lifespan
ports/1/hw_counters/link_downed
ports/1/hw_counters/out_of_seq_request
ports/1/hw_counters/rcvd_pkts
ports/1/hw_counters/rcvd_rnr_err
ports/1/hw_counters/rcvd_seq_err
ports/1/hw_counters/rdma_recvs
ports/1/hw_counters/rdma_sends
ports/1/hw_counters/retry_exceeded_err
ports/1/hw_counters/retry_rnr_exceeded_err
ports/1/hw_counters/send_err
ports/1/hw_counters/send_rnr_err
ports/1/hw_counters/sent_pkts
ports/1/lid
ports/1/lid_mask_count
ports/1/link_layer
ports/1/phys_state
ports/1/pkeys/N
ports/1/rate
ports/1/sm_lid
ports/1/sm_sl
ports/1/state
sys_image_guid
uevent
END
grep -v -e hw_counters -e parent "$TMP/rxe" > "$TMP/siw"
# lacks LIST: prints the entries of LIST that standard input does not have.
lacks() { sed 's|^\./||; s|/[0-9]*$|/N|' | LC_ALL=C sort -u | LC_ALL=C comm -13 - "$1"; }
files='cd /sys/class/infiniband/diw_lo && find . -type f'
outside() { ls -A /dev /sys/class; ls -A /dev/infiniband /sys/class/infiniband 2>&1; }

outside > "$TMP/before"
run "a program with files" $DIW run --dev sh "$TMP/look"
check "... which are as they should" diff <(seen "$(id -u)" "$(id -g)") <(echo "$OUT")
all='printf "%s\n" /dev/* /sys/class/*'
check "... and the other files of /dev and /sys/class are all there" diff <(sh -c "$all" | grep -v /infiniband) \
	<($DIW run --dev sh -c "$all" | grep -v /infiniband)
outside > "$TMP/after"
check "... and are seen by nobody else" diff "$TMP/before" "$TMP/after"
check "a channel adapter has all files of the kernel's rxe" diff /dev/null <($DIW run --dev sh -c "$files" |
	lacks "$TMP/rxe")
check "an RNIC has all of siw" diff /dev/null <($DIW run --dev --personality rnic sh -c "$files" | lacks "$TMP/siw")
check "... and none of rxe alone" [ -z "$($DIW run --dev --personality rnic sh -c "$files" |
	grep -e hw_counters -e parent)" ]
run "its uverbs device" $DIW run --dev sh \
	-c 'cd /sys/class/infiniband_verbs && cat abi_version diw_lo/ibdev && ls diw_lo/device/net'
check "... is that of the device" [ "$OUT" = $'6\ndiw_lo\nlo' ]
for who in ca rnic; do
	$DIW run --dev --personality $who "$BUILD/tests/system/of_sysfs" diw_lo lo > "$TMP/agree" 2>&1
	rc=$?
	sed "s/^\(not \)\{0,1\}ok - /&$who: /" "$TMP/agree"
	check "what the files of $who say is what libibverbs says" [ $rc = 0 -a "$(grep -c '^ok' "$TMP/agree")" -ge 19 ]
done
run "another personality where they are already" $DIW run --dev $DIW run --dev --personality rnic cat \
	/sys/class/infiniband/diw_lo/node_type
check "... has files of its own" [ "$OUT" = "4: RNIC" ]
run "where they are already" $DIW run --dev $DIW run --dev sh "$TMP/look"
expect 7 "the exit status is the program's" $DIW run --dev sh -c 'exit 7'

if [ "$(awk '$1 == 0 && $2 == 0' /proc/self/uid_map)" ]; then
	as_user() { setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all "$@"; }
	if as_user unshare -Urm true 2> /dev/null; then
		run "an ordinary user's program" as_user $DIW run --dev sh "$TMP/look"
		check "... is his, and sees them" diff <(seen 65534 65534) <(echo "$OUT")
		run "... and has no capability" as_user $DIW run --dev grep -E '^Cap(Prm|Eff):[[:space:]]*0+$' \
			/proc/self/status
	else
		skip "an ordinary user may make no namespace here"
	fi
fi

# forbidden COMMAND...: runs it in a user namespace where no mount namespace can be made.
forbidden() { unshare -Ur sh -c 'echo 0 > /proc/sys/user/max_mnt_namespaces && exec "$@"' forbidden "$@"; }
if forbidden true 2> /dev/null; then
	expect 126 "no namespace may be made: the program does not run" forbidden $DIW run --dev echo runs
	check "... and is told what is missing" matches "$OUT" 'namespace.*/dev/infiniband/diw_INTERFACE'
	check "... which is enough if it is there" $DIW run --dev unshare -Ur sh -c \
		'echo 0 > /proc/sys/user/max_mnt_namespaces && exec "$@"' forbidden $DIW run --dev true
else
	skip "mount namespaces cannot be forbidden here"
fi
end
