#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The socket engine (verbs/rs) below the ABI: the effects of calls, with and without a progress thread (rs.c), peers
# that end (rs_peers.c), hostile peers (rs_hostile.c). tests/system/clients runs Debian's programs over rsockets.
. "${0%/*}/../lib.sh"

# program NAME [VARIABLE=VALUE]: runs a test program.
program() {
	local start=(timeout 200 env "${@:2}" "$BUILD/tests/system/$1") rc
	case $MODE in asan | tsan) ! setarch -R true 2> /dev/null || start=(setarch -R "${start[@]}") ;; esac
	"${start[@]}" < /dev/null
	rc=$?
	[ $rc -eq 0 ] || { FAILED=$((FAILED + 1)); [ $rc -eq 1 ] || echo "not ok - $* ends (exit $rc)"; }
}

program rs
program rs DIWARP_PROGRESS=inline
if [ "$MODE" = tsan ]; then
	skip "ThreadSanitizer does not follow a threaded program's fork"
else
	program rs_peers
fi
program rs_hostile
end
