#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# fork(), in both progress modes; tests/system/fork.c says what.
. "${0%/*}/lib.sh"
[ "$MODE" != tsan ] || { skip "ThreadSanitizer does not follow a threaded program's fork"; end; }

for progress in thread inline; do
	run "the program ends well, DIWARP_PROGRESS=$progress" \
		timeout 60 env DIWARP_PROGRESS=$progress "$BUILD/tests/system/fork"
	echo "$OUT"
	! grep -q '^not ok' <<< "$OUT" || FAILED=1
done
end
