#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The programs of docs/tutorial.md compile, run as two processes, and print the page's output.
. "${0%/*}/../lib.sh"

# The page's C blocks become the files that their first lines name. Its text blocks become want.1, want.2 ...
awk -v dir="$TMP" '/^```$/ { file = ""; next } /^```c$/ { code = 1; next } /^```text$/ { file = dir "/want." ++n; next }
	code { file = dir "/" $2; sub(":$", "", file); code = 0 } file != "" { print > file }' docs/tutorial.md
mkdir "$TMP/include"
ln -s "$PWD/verbs" "$TMP/include/diwarp"
case $MODE in asan) san=-fsanitize=address,undefined ;; tsan) san=-fsanitize=thread ;; *) san= ;; esac
for program in write read keeper caller board; do
	check "$program.c compiles without a warning" $CC $san -Wall -Wextra -Werror -pedantic -std=c11 \
		-I"$TMP/include" "$TMP/$program.c" -L"$BUILD/lib" -ldiwarp -Wl,-rpath,"$BUILD/lib" -o "$TMP/$program"
done
check "write.c has about 80 lines" [ "$(wc -l < "$TMP/write.c")" -le 90 ]
check "board.c has about 90" [ "$(wc -l < "$TMP/board.c")" -le 100 ]

# A teller finds out after 10 s that there is no board. It runs meanwhile, in a network of its own.
tellers=()
case $MODE in asan | tsan) ! setarch -R true 2> /dev/null || tellers=(setarch -R) ;; esac
# shellcheck disable=SC2016  # the inner shell's
background "$TMP/nobody" unshare -n sh -c 'ip link set lo up; exec "$@"' sh "${tellers[@]}" \
	"$TMP/board" 127.0.0.1 0 nobody
NOBODY=$PID

# Runs the setup that the page asks of its reader, in a home directory of its own.
make() { MAKEFLAGS='' command "$MAKE" -s BUILD="$BUILD" MODE="$MODE" "$@"; }
set_up() { HOME=$TMP/home; eval "$(sed -n '/^    make install/,/^    export/p' docs/tutorial.md)"; }
installed() (set_up && [ "$(command -v diw)" = "$HOME/diw/bin/diw" ] && diw info && pkg-config --exists diwarp)
check "the page's settings find the tool and the library" installed
if command -v man > /dev/null && [ "$(man -M "$TMP/home/diw/share/man" -w diw_qp 2> /dev/null)" ]; then
	found() (set_up && unset MANPATH && man -w diw_qp diw_cq_wait diwarp)
	check "... and the manual" found
else
	skip "there is no man"
fi

background "$TMP/target" "${tellers[@]}" "$TMP/write"
target=$PID
check "the target tells where it may be written" eventually 10 grep -q ^HOST "$TMP/target"
read -r _ stag to < "$TMP/target"

# says N: OUT is equal to the Nth text of the page.
says() { diff -u "$TMP/want.$1" - <<< "$OUT"; }
# told N: since line FROM the target has printed the page's Nth text and nothing else.
told() { tail -n +"$from" "$TMP/target" | cmp -s "$TMP/want.$1" -; }
write_() { "${tellers[@]}" "$TMP/write" 127.0.0.1 "$stag" "$to"; }
read_() { "${tellers[@]}" "$TMP/read" 127.0.0.1 "$stag" "${1:-$to}" 200000; }

# writes N WHAT COMMAND...: runs the command; then the target has told N. On a busy machine a record may be lost; then
# the command runs again.
writes() {
	local n=$1 what=$2
	shift 2
	for _ in {1..5}; do
		from=$(($(wc -l < "$TMP/target") + 1))
		run "$what" "$@"
		eventually 3 told "$n" && return
	done
}

writes 2 "a process writes into the other" write_
check "... and says what the page says" says 1
check "the target has all of it" told 2
DIWARP_IMPAIR=loss=3%,seed=1 writes 3 "it writes over a network that loses 3 %" write_
check "... and does not know" says 1
check "the target's map is the page's" diff -u "$TMP/want.3" <(tail -n +"$from" "$TMP/target")
check "... and it has gaps" [ "$(wc -l < "$TMP/want.3")" -gt 2 ]
if [ -e /proc/net/if_inet6 ] && ip -6 addr show dev lo | grep -q inet6; then
	writes 2 "it writes over IPv6" "${tellers[@]}" "$TMP/write" ::1 "$stag" "$to"
	check "... and that arrives" told 2
	run "... as what is read does" "${tellers[@]}" "$TMP/read" ::1 "$stag" "$to" 200000
else
	skip "no IPv6 here"
fi

for _ in {1..5}; do             # on a busy machine a delayed answer makes it ask again, and print that
	run "a process reads what was written" read_
	says 4 > "$TMP/says" && break
done
check "... and says what the page says" says 4
DIWARP_IMPAIR=rx.loss=2%,seed=1 run "it reads though answers are lost" read_
check "... asking again" matches "$OUT" 'timeout: [1-9][0-9]* of 20000 bytes came'
check "... until all is there" matches "$OUT" '200000 of 200000 bytes read'
expect 1 "it is refused outside of the memory" read_ 0
check "... and says what the page says" says 5
kill -STOP "$target"
expect 1 "a target that is silent ends in timeouts" read_
check "... and says what the page says" says 6
kill -CONT "$target"
run "it reads again when the target goes on" read_

background "$TMP/kept" "${tellers[@]}" "$TMP/keeper"
keeper=$PID
check "the keeper listens" eventually 10 grep -q ^listening "$TMP/kept"
call() { "${tellers[@]}" "$TMP/caller" 127.0.0.1 "$1"; }
run "a caller connects, reads, writes and says so" call "a first text"
run "another finds what it wrote" call another
check "... and says what the page says" says 7
kept() { diff -u "$TMP/want.8" "$TMP/kept"; }
check "the keeper says what the page says" eventually 10 kept
too_long=$(printf 'far too long, %.0s' 1 2 3 4 5 6 7 8 9)
expect 1 "a text that is too long ends the connection" call "$too_long"
check "... and says what the page says" says 9
run "... and nothing else" call "the last"
check "... what was kept is there" matches "$OUT" 'it was: another'
kill "$keeper"
check "the keeper ends" eventually 10 test ! -d "/proc/$keeper"
expect 1 "without a keeper" call nobody
check "... it says what the page says" says 10

kill "$target"          # it holds the port
check "the target ends" eventually 10 test ! -d "/proc/$target"
background "$TMP/board.out" "${tellers[@]}" "$TMP/board"
board=$PID
check "the board is there" eventually 10 grep -q ^ready "$TMP/board.out"
run "a writer writes a line" "${tellers[@]}" "$TMP/board" 127.0.0.1 3 "a first line"
check "... and says what the page says" says 11
DIWARP_IMPAIR=loss=30%,seed=1 run "another one does over a bad network" \
	"${tellers[@]}" "$TMP/board" 127.0.0.1 4 "over a bad network"
check "... and says the same" says 11
expect 1 "one writes below the board" "${tellers[@]}" "$TMP/board" 127.0.0.1 10 "below the board"
check "... and says what the page says" says 12
posted() { diff -u "$TMP/want.13" "$TMP/board.out"; }
check "the board says what the page says" eventually 3 posted
many() {
	local i pids=()
	for i in {0..9}; do
		"${tellers[@]}" "$TMP/board" 127.0.0.1 $i "line of $i" &
		pids+=($!)
	done
	for i in "${pids[@]}"; do wait "$i" || return; done
}
run "ten write at once" many
ten_came() { [ "$(grep -c '^line \([0-9]\): line of \1$' "$TMP/board.out")" = 10 ]; }
check "the board has ten lines" eventually 3 ten_came
kill "$board"
expect 1 "without a board" join "$NOBODY" 30
OUT=$(< "$TMP/nobody")
check "... a writer says what the page says" says 14
end
