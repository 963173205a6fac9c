#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The socket engine (verbs/rs) alone: what calls mean (rs.c), peers that die (rs_peers.c), peers that lie
# (rs_hostile.c). Debian's programs over rsockets are in tests/system/clients.
. "${0%/*}/lib.sh"
for name in rs rs_peers rs_hostile; do
	if [ "$name/$MODE" = rs_peers/tsan ]; then
		skip "ThreadSanitizer does not follow a threaded program's fork"
		continue
	fi
	start=(timeout 200 "$BUILD/tests/system/$name")
	case $MODE in asan | tsan) ! setarch -R true 2> /dev/null || start=(setarch -R "${start[@]}") ;; esac
	"${start[@]}" < /dev/null
	rc=$?
	[ $rc -eq 0 ] || { FAILED=$((FAILED + 1)); [ $rc -eq 1 ] || echo "not ok - $name ends (exit $rc)"; }
done
end
