#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# libibverbs, and programs that pass invalid arguments or end in the middle of a transfer (of_bad.c), or close the
# library's descriptors (of_closed.c).
. "${0%/*}/../lib.sh"
[ -e "$BUILD/lib/diwarp/libibverbs.so.1" ] || { skip "libibverbs-dev was not there when this was built"; end; }

program() {
	local name=$1 rc
	shift
	timeout 200 "$DIW" run "$@" < /dev/null
	rc=$?
	[ $rc -eq 0 ] || { FAILED=$((FAILED + 1)); [ $rc -eq 1 ] || echo "not ok - $name ends (exit $rc)"; }
}
other=()
if two_namespaces 1500; then
	other=(diw_va)
else
	skip "no veth pair here for a second device"
fi
program of_bad "$BUILD/tests/system/of_bad" "${other[@]}"
program of_closed "$BUILD/tests/system/of_closed"
many=64
[ "$MODE" = release ] || [ "$MODE" = debug ] || many=8
program "of_bad processes" "$BUILD/tests/system/of_bad" processes $many
end
