#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# fork() in both progress modes; tests/system/native/fork.c makes the checks.
. "${0%/*}/../lib.sh"
[ "$MODE" != tsan ] || { skip "ThreadSanitizer does not follow a threaded program's fork"; end; }

for progress in thread inline; do
	run "the program ends well, DIWARP_PROGRESS=$progress" \
		timeout 300 env DIWARP_PROGRESS=$progress "$BUILD/tests/system/fork"
	echo "$OUT"
	! grep -q '^not ok' <<< "$OUT" || FAILED=1
done

# ---- Captured ----

run "captured, each process into its file" timeout 300 env DIWARP_PCAP="$TMP/of-%p" "$BUILD/tests/system/fork"
check "... says nothing else" [ "$(grep -vc '^ok' <<< "$OUT")" = 0 ]
check "... these are two" [ "$(find "$TMP" -name 'of-*' | wc -l)" = 2 ]
for file in "$TMP"/of-*; do
	check "... of whole segments" "$DIW" dump -r "$file"
	sent=$("$DIW" dump --json -r "$file" 2> /dev/null | jq -r 'select(.dir == "out") | .src, .msn, .mo' |
		paste - - - | sort)
	check "... each of which left once" [ -z "$(uniq -d <<< "$sent")" ]
done
run "captured into one file" timeout 300 env DIWARP_PCAP="$TMP/one" "$BUILD/tests/system/fork"
check "... which is the parent's" matches "$OUT" 'another process writes it.*; nothing is captured'
check "... and whole" "$DIW" dump -r "$TMP/one"
run "a process whose child outlives it" env DIWARP_PCAP="$TMP/orphan" "$BUILD/tests/system/fork" orphan
child=$OUT
check "... which still lives," kill -0 "$child"
run "the next process" env DIWARP_PCAP="$TMP/orphan" "$BUILD/tests/system/fork" orphan
check "... may write the same file" [ -z "$(tr -d '0-9' <<< "$OUT")" ]
kill "$child" "$OUT"
end
