#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# diw run --dev: the program sees files of the devices, and nobody else does; as root, as an ordinary user, and where
# neither may make a namespace.
. "${0%/*}/lib.sh"
case $MODE in asan | tsan) skip "a sanitizer's thread is one too many for a user namespace"; end ;; esac
[ -e "$BUILD/lib/diwarp/libibverbs.so.1" ] || { skip "no libibverbs.so.1: built where libibverbs-dev is"; end; }
unshare -Urm true 2> /dev/null || unshare -m true 2> /dev/null || { skip "no mount namespace here"; end; }

# The tree may lie where nobody may look.
mkdir -p "$TMP/usr/bin" "$TMP/usr/lib"
cp "$BUILD/bin/diw" "$TMP/usr/bin"
cp -r "$BUILD/lib/diwarp" "$BUILD"/lib/libdiwarp.so* "$TMP/usr/lib"
chmod -R go+rX "$TMP"
DIW=$TMP/usr/bin/diw

# What a program sees. /dev/full refuses what it is given only if it still is a device.
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
outside() { ls -A /dev /sys/class; ls -A /dev/infiniband /sys/class/infiniband 2>&1; }

outside > "$TMP/before"
run "a program with files" $DIW run --dev sh "$TMP/look"
check "... which are as they should" diff <(seen "$(id -u)" "$(id -g)") <(echo "$OUT")
all='printf "%s\n" /dev/* /sys/class/*'
check "... and the other files of /dev and /sys/class are all there" diff <(sh -c "$all" | grep -v /infiniband) \
	<($DIW run --dev sh -c "$all" | grep -v /infiniband)
outside > "$TMP/after"
check "... and are seen by nobody else" diff "$TMP/before" "$TMP/after"
run "where they are already" $DIW run --dev $DIW run --dev sh "$TMP/look"
expect 7 "the exit status is the program's" $DIW run --dev sh -c 'exit 7'

if [ "$(awk '$1 == 0 && $2 == 0' /proc/self/uid_map)" ]; then
	as_user() { setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all "$@"; }
	if as_user unshare -Urm true 2> /dev/null; then
		run "an ordinary user's program" as_user $DIW run --dev sh "$TMP/look"
		check "... is his, and sees them" diff <(seen 65534 65534) <(echo "$OUT")
		run "... and has no capability" as_user $DIW run --dev grep -E '^Cap(Prm|Eff):[[:space:]]*0+$' /proc/self/status
	else
		skip "an ordinary user may make no namespace here"
	fi
fi

# A user namespace in which no mount namespace can be made. Those of a network namespace have only its interfaces.
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
