#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The programs in README.md compile, run, and print the README's output. The commands and files that it names exist.
. "${0%/*}/../lib.sh"

# The README's C blocks become prog.1.c, prog.2.c. Its text blocks, the expected output, become want.1, want.2.
awk -v dir="$TMP" '/^```$/ { file = ""; next } /^```c$/ { file = dir "/prog." ++c ".c"; next }
	/^```text$/ { file = dir "/want." ++t; next } file != "" { print > file }' README.md
mkdir -p "$TMP/include"
ln -s "$PWD/verbs" "$TMP/include/diwarp"
case $MODE in asan) san=-fsanitize=address,undefined ;; tsan) san=-fsanitize=thread ;; *) san= ;; esac
check "there are two programs" [ "$(cd "$TMP" && echo prog.* want.*)" = "prog.1.c prog.2.c want.1 want.2" ]
for n in 1 2; do
	check "program $n compiles without a warning" $CC $san -Wall -Wextra -Werror -pedantic -std=c11 \
		-I"$TMP/include" \
		"$TMP/prog.$n.c" -L"$BUILD/lib" -ldiwarp -Wl,-rpath,"$BUILD/lib" -o "$TMP/prog.$n"
	run "it runs" "$TMP/prog.$n"
	check "it prints what the README says" diff -u <(echo "$OUT") "$TMP/want.$n"
done

links() { grep -o '](\([^)]*\))' README.md CONTRIBUTING.md | sed 's/.*](//; s/)//; s/#.*//' | grep -v '^http' |
	sort -u; }
for file in $(links) $(grep -o 'man/[a-z_]*\.[0-9]' README.md | sort -u); do
	check "the README's $file exists" [ -s "$file" ]
done
check "the README's two commands exist" [ -x tools/quickstart ]
end
