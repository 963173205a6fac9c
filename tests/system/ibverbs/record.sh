#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Records by infiniband/diwdv.h: their use and misuse by a program (of_dv.c), and their page. The program of
# docs/write-record.md compiles as the page says, runs as two processes, and prints the page's output.
. "${0%/*}/../lib.sh"
[ -e "$BUILD/lib/diwarp/libibverbs.so.1" ] || { skip "libibverbs-dev was not there when this was built"; end; }

timeout 120 "$DIW" run "$BUILD/tests/system/of_dv" < /dev/null
rc=$?
[ $rc -eq 0 ] || { FAILED=$((FAILED + 1)); [ $rc -eq 1 ] || echo "not ok - of_dv ends (exit $rc)"; }

awk -v dir="$TMP" '/^```$/ { file = ""; next } /^```c$/ { file = dir "/record.c"; next }
	/^```text$/ { file = dir "/want." ++n; next } file != "" { print > file }' docs/write-record.md
make() { MAKEFLAGS='' command "$MAKE" -s BUILD="$BUILD" MODE="$MODE" "$@"; }
check "make install" make install PREFIX="$TMP/prefix"
case $MODE in asan) san=-fsanitize=address,undefined ;; tsan) san=-fsanitize=thread ;; *) san= ;; esac
export PKG_CONFIG_PATH=$TMP/prefix/lib/pkgconfig
cc() { $CC $san -Wall -Wextra -Werror -pedantic -std=c11 "$@"; }
cd "$TMP" || exit 1
check "record.c compiles without a warning, by the page's command" \
	eval "$(sed -n 's/^    \(cc record.c .*\)/\1/p' "$OLDPWD/docs/write-record.md")"
cd "$OLDPWD" || exit 1
CXX=${CXX:-g++}
if command -v "$CXX" > /dev/null; then
	echo '#include <infiniband/diwdv.h>' > "$TMP/header.cc"
	check "the header is C++ too" "$CXX" -Wall -Wextra -Werror -fsyntax-only -I"$TMP/prefix/include" \
		"$TMP/header.cc"
else
	skip "no $CXX to read the header as C++"
fi
example() {
	printf '#include <%s>\n' infiniband/diwdv.h stdio.h
	awk '/^\.Sh / { on = $2 == "EXAMPLES" } on && /^\.Bd/ { code = 1; next } /^\.Ed/ { code = 0 }
		on && code { gsub(/\\e/, "\\"); print }' man/diwdv.7
	echo 'void (*told_)(struct ibv_cq_ex *) = told;'
}
example > "$TMP/example.c"
check "diwdv(7)'s example compiles" cc -I"$TMP/prefix/include" -c -o "$TMP/example.o" "$TMP/example.c"

# prints WHAT N [NAME=VALUE]: a process writes a record and prints the page's first text. The target then prints the
# page's Nth text and nothing else. On a busy machine segments may come too late and so be missing; then the record is
# written again.
prints() {
	local from try
	for try in 1 2 3 4 5; do
		from=$(($(wc -l < "$TMP/target") + 1))
		run "$1 (try $try)" env "${@:3}" "$DIW" run "$TMP/record" $device "${where[@]}" || return
		check "... and says what the page says" diff "$TMP/want.1" <(echo "$OUT")
		eventually 10 diff "$TMP/want.$2" <(tail -n +$from "$TMP/target") && break
		sleep 1
	done
	check "$1: the target says what the page says" diff "$TMP/want.$2" <(tail -n +$from "$TMP/target")
}
for device in diw_lo diw_va; do
	[ $device = diw_lo ] || two_namespaces 1500 || { skip "no veth pair here"; break; }
	background "$TMP/target" "$DIW" run "$TMP/record" $device
	check "$device: the target tells where it may be written" eventually 30 grep -q '^::ffff:' "$TMP/target"
	read -ra where < "$TMP/target"
	target=$PID
	prints "$device: a process writes into the other" 2
	prints "$device: it writes over a network that loses 3 %" 3 DIWARP_IMPAIR=loss=3%,seed=1
	kill "$target"
done
check "the page's map has gaps" [ "$(wc -l < "$TMP/want.3")" -gt 2 ]
expect 2 "a device that is none" "$DIW" run "$TMP/record" eth99
end
