#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Programs open and close the libraries with dlopen(3) (unload.c).
. "${0%/*}/../lib.sh"

program() {
	local rc
	timeout 600 "$BUILD/tests/system/unload" "$@" < /dev/null
	rc=$?
	[ $rc -eq 0 ] || { FAILED=$((FAILED + 1)); [ $rc -eq 1 ] || echo "not ok - unload $* ends (exit $rc)"; }
}
case $MODE in asan | tsan) skip "a sanitizer's program has its symbols, not the library" && end ;; esac
export LD_LIBRARY_PATH=$BUILD/lib/diwarp:$BUILD/lib
program libdiwarp.so.0 native
[ ! -e "$BUILD/lib/diwarp/libibverbs.so.1" ] || program "$BUILD/lib/diwarp/libibverbs.so.1" verbs
[ ! -e "$BUILD/lib/diwarp/librdmacm.so.1" ] || program "$BUILD/lib/diwarp/librdmacm.so.1" cm
for lib in "$BUILD"/lib/libdiwarp.so.0 "$BUILD"/lib/diwarp/*.so*; do
	check "${lib##*/} is never unmapped" matches "$(readelf -d "$lib")" 'NODELETE'
done
end
