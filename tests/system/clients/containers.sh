#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The job of docs/containers.md with an installed diwarp. A user without any privilege runs it.
FETCH=("tools/clients get")
. "${0%/*}/../lib.sh"
case $MODE in asan | tsan) skip "programs of others cannot load a library built for a sanitizer"; end ;; esac
[ -e "$BUILD/lib/diwarp/libibverbs.so.1" ] || { skip "no libibverbs.so.1: built where libibverbs-dev is"; end; }
fetched "tools/clients get" || end

# Another user may be unable to read the tree. So the test installs diwarp below TMP.
MAKEFLAGS='' run "make install" "$MAKE" -s BUILD="$BUILD" MODE="$MODE" PREFIX="$TMP/usr" install || end
mkdir "$TMP/bin"
cp "$(tools/clients get)"/ibv_* "$TMP/bin"
awk '/^```$/ { on = 0 } on { print } /^```sh$/ { on = 1 }' docs/containers.md > "$TMP/job"
check "the page has a job" grep -q 'diw run .*ibv_rc_pingpong' "$TMP/job"
chmod -R go+rX "$TMP"

unprivileged=(env)
[ "$(awk '$1 == 0 && $2 == 0' /proc/self/uid_map)" = "" ] || unprivileged=(setpriv --reuid=65534 --regid=65534
	--clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs)
run "the job" "${unprivileged[@]}" env -i PATH="$TMP/usr/bin:$TMP/bin:$PATH" HOME=/ sh "$TMP/job"
check "... saw a device" matches "$OUT" 'diw_lo'
check "... and both ends had all iterations" [ "$(grep -c '^1000 iters in' <<< "$OUT")" = 2 ]
cat "$TMP/out"
end
