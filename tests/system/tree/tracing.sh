#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# docs/tracing.md lists exactly the trace points of the library, with their numbers of arguments. A build with SDT= has
# no trace points.
DIW_TEST_NO_NS=1
. "${0%/*}/../lib.sh"

# probes FILE: prints "NAME ARGUMENTS" for each trace point of an ELF file.
probes() {
	readelf -n "$1" | awk '/Provider: / { ours = $2 == "diw" } /Name: / { name = $2 }
		/Arguments:/ && ours { print name, NF - 1 }' | sort -u
}
listed() {
	awk -F' *[|] *' '/^[|] `[a-z_]+` [|]/ {
		n = 0; for (i = 4; i <= NF; i++) n += $i != ""; gsub("`", "", $2); print $2, n }' docs/tracing.md | sort
}

if grep -q -e -DHAVE_SDT "$BUILD/flags"; then
	for file in lib/libdiwarp.so bin/diw; do
		check "docs/tracing.md lists the trace points of $file" diff <(listed) <(probes "$BUILD/$file")
	done
else
	skip "the build found no sys/sdt.h (systemtap-sdt-dev)"
fi
# shellcheck disable=SC2046  # file names
for define in -DHAVE_SDT -UHAVE_SDT; do
	[ $define = -UHAVE_SDT ] || grep -q -e -DHAVE_SDT "$BUILD/flags" || continue
	check "what has trace points compiles with $define" $CC -std=gnu11 -Wall -Wextra -Werror -fsyntax-only -I. \
		-D_GNU_SOURCE $define $(grep -l '"base/trace.h"' -r base llp ddp rdmap verbs --include='*.c')
done
$CC -I. -D_GNU_SOURCE -UHAVE_SDT -c -o "$TMP/tx.o" ddp/tx.c
check "without HAVE_SDT there are none" [ -z "$(probes "$TMP/tx.o")" ]
end
