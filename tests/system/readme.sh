#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The program in README.md compiles, runs, and prints what the README says; its commands and files exist.
. "${0%/*}/lib.sh"

block() { awk -v from="^\`\`\`$1\$" '$0 ~ /^```$/ { on = 0 } on { print } $0 ~ from { on = 1 }' README.md; }
block c > "$TMP/prog.c"
block text > "$TMP/want"
mkdir -p "$TMP/include"
ln -s "$PWD/verbs" "$TMP/include/diwarp"
case $MODE in asan) san=-fsanitize=address,undefined ;; tsan) san=-fsanitize=thread ;; *) san= ;; esac
check "the program compiles without a warning" $CC $san -Wall -Wextra -Werror -pedantic -std=c11 -I"$TMP/include" \
	"$TMP/prog.c" -L"$BUILD/lib" -ldiwarp -Wl,-rpath,"$BUILD/lib" -o "$TMP/prog"
run "it runs" "$TMP/prog"
check "it prints what the README says" diff -u <(echo "$OUT") "$TMP/want"

links() { grep -o '](\([^)]*\))' README.md CONTRIBUTING.md | sed 's/.*](//; s/)//; s/#.*//' | grep -v '^http' | sort -u; }
for file in $(links) $(grep -o 'man/[a-z_]*\.[0-9]' README.md | sort -u); do
	check "the README's $file exists" [ -s "$file" ]
done
check "the README's two commands exist" [ -x tools/quickstart ]
end
