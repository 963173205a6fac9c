#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# diw perf suite, each of its measurements for a moment: the rows that it promises, with sane figures. diw perf report:
# Chromium opens the page of two runs, and its tables have the figures of the rows. No speed is judged.
FETCH=("tools/programs get page")
. "${0%/*}/../lib.sh"

ONE=$TMP/one TWO=$TMP/two
suite_run() {
	local secs=([1]=0.05 0.3 3)
	STATUS=0
	$VERBS $DIW perf suite --secs "${secs[TRY]}" --rounds 1 -o "$ONE" > "$TMP/suite" 2>&1 || STATUS=$?
	check "the suite ends" [ $STATUS -le 1 ]
}
# diw run finds this project's libibverbs, if it was built.
VERBS=
[ ! -e "$BUILD/lib/diwarp/libibverbs.so.1" ] || VERBS="$DIW run"
# A case may get no processor.
ends_well() {
	! grep '^diw perf: ' "$TMP/suite" | grep -v 'nothing arrived$\|give more --secs$\|commands failed'
}
# all NAME CONDITION: every row of the measurement is so.
all() { jq -e -s "length > 0 and all(.[]; $2)" "$ONE/$1.jsonl" > "$TMP/all" || { echo "$1: not all $2"; return 1; }; }
# most NAME CONDITION: nine of ten rows are so. On a busy machine a short round may pass without a message.
most() { jq -e -s "length > 0 and (map(select($2)) | length) >= 0.9 * length" "$ONE/$1.jsonl" > "$TMP/all" ||
	{ echo "$1: not most $2"; return 1; }; }
has_figures() {
	local name
	for name in lat bw rate bibw loss cpu sge qps outstanding reuse streams load; do
		all $name '.bytes_valid <= .bytes_sent' || return
	done
	most group '.GBps_min > 0' || return
	for name in lat bw rate bibw cpu sge qps outstanding reuse streams load; do
		most $name '.stats.median > 0 and .bytes_valid > 0' || return
	done
	# A long Send loses one of its segments.
	most loss '.stats.median > 0 or (.impair and .op == "send" and .size > 1024)' || return
	all lat '.lat_us_p50 == null or (.lat_us_p99 >= .lat_us_p50 and .lat_us_max >= .lat_us_min)' &&
		all setup '.count > 0 and .ns_p50 > 0' && all mr '.count > 0 and .ns_p50 > 0' &&
		most post '.count > 0 and (.ns_p50 // .user_ns // .ns_mean) > 0'
}

# combinations NAME EXPRESSION: the rows of the measurement are these combinations, baselines aside.
combinations() {
	jq -e -s "[.[] | select(.qp | startswith(\"raw\") | not) | [.qp, .op, .size]] | unique ==
		([$2] | unique)" "$ONE/$1.jsonl"
}
THREE='("ud", "rd", "rc") as $qp | ("send", "write", "read") as $op'
# shellcheck disable=SC2016
measured suite_run "perf suite ends well" ends_well "... most rows have their figures" has_figures \
	"... latency of UD, RD, RC by send, write and read" \
	'combinations lat "$THREE | (64, 1024, 16384, 262144) as \$size | [\$qp, \$op, \$size]"' \
	"... goodput" 'combinations bw "$THREE | (1024, 16384, 65536, 524288) as \$size | [\$qp, \$op, \$size]"' \
	"... rate" 'combinations rate "$THREE | [\$qp, \$op, 64]"'
check "... beside RC and bare sockets in the same rounds" all lat 'if .qp == "ud" then
	(.ratios | keys) == ["raw-tcp", "raw-udp", "rc"] else true end'
check "... four rates of loss" jq -e -s '[.[].impair] | unique ==
	[null, "loss=0.1%,seed=1", "loss=1%,seed=1", "loss=5%,seed=1"]' "$ONE/loss.jsonl"
check "... of which the highest loses" jq -e -s 'map(select(.impair and .size == 524288 and
	(.impair | startswith("loss=5%")))) | length == 2 and all(.lost > 0)' "$ONE/loss.jsonl"
verbs() {
	if [ -n "$VERBS" ]; then
		all verbs_lat '.provider == "diw" or .llp == "verbs"' && all verbs_bw '.qp == "rc"' &&
			most verbs_bw '.stats.median > 0'
	else
		jq -e '[.commands[] | select(.left_out).name] == ["verbs_lat", "verbs_bw"]' "$ONE/machine.json"
	fi
}
check "... and libibverbs beside diw.h, where there is one" verbs
names() {
	local said
	said=$(jq -r '.commands[] | select(.left_out | not) | "\(.name) \(.rows)"' "$ONE/machine.json" |
		awk '{ n[$1] += $2 } END { for (i in n) print i, n[i] }' | sort)
	[ "$said" = "$(cd "$ONE" && wc -l ./*.jsonl | sed -n 's|^ *\([0-9]*\) \./\(.*\)\.jsonl|\2 \1|p' | sort)" ]
}
check "... machine.json names the measurements and their rows" names
check "... and the machine, with its noise" jq -e '.suite == "quick" and (.machine | .cpu != "" and .noise.lost >= 0 and
	(.mitigations | type) == "object")' "$ONE/machine.json"

background "$TMP/stopped" $DIW perf suite --secs 30 -o "$TMP/three"
check "a suite of long cases" eventually 20 [ -e "$TMP/three/lat.jsonl" ]
kill -INT "$PID"
STATUS=0
wait "$PID" || STATUS=$?
check "... ends with status 130 on Ctrl-C" [ $STATUS -eq 130 ]
check "... with one command in machine.json" jq -e '.commands | length == 1' "$TMP/three/machine.json"

echo old > "$TMP/no.html"
expect 1 "no gnuplot" env PATH=/nonexistent $DIW perf report "$ONE" -o "$TMP/no.html"
check "... is named" matches "$OUT" "gnuplot-nox"
check "... and the old page is there, alone" [ "$(cat "$TMP"/no.html*)" = old ]
machine() { mkdir -p "$TMP/no" && printf '%s' "$1" > "$TMP/no/machine.json"; }
machine ""
expect 1 "an empty machine.json" $DIW perf report "$TMP/no"
check "... is named so" matches "$OUT" "machine.json: empty"
machine "{}"
expect 1 "a machine.json without commands" $DIW perf report "$TMP/no" -o "$TMP/no.html"
expect 1 "a suite without its other end" $DIW perf suite -o "$TMP/alone" --connect 127.0.0.1 --port 4999
check "... tries once" [ "$(grep -c refused <<< "$OUT")" -eq 1 ]
check "... and advises no report" [ "${OUT/perf report/}" = "$OUT" ]
expect 2 "perf suite quick full" $DIW perf suite quick full -o "$TMP/no"
check "... takes one" matches "$OUT" 'one of quick and full'
expect 2 "perf suite -o ''" $DIW perf suite -o ""
expect 2 "perf report -o ''" $DIW perf report "$ONE" -o ""
expect 1 "no directory of a suite" $DIW perf report "$TMP"
check "... is named" matches "$OUT" "machine.json"
expect 2 "perf report without a directory" $DIW perf report
expect 2 "perf suite without -o" $DIW perf suite
expect 2 "perf suite slow" $DIW perf suite slow -o "$TMP/no"

fetched "tools/programs get page" || end
root=$(tools/programs get page)
# The programs that were unpacked run with the libraries that came with them.
LIBRARIES=$(printf '%s:' "$root"/usr/lib/*-linux-gnu "$root"/lib/*-linux-gnu "$root"/usr/lib/*-linux-gnu/pulseaudio)
unpacked() { env PATH="$root/usr/bin:$PATH" LD_LIBRARY_PATH="$LIBRARIES" "$@"; }

# The second run has other figures, and markup where a page could take it for its own.
cp -r "$ONE" "$TWO"
jq -c 'if .stats then .stats.median *= 3 else . end' "$ONE/lat.jsonl" | sed 1d > "$TWO/lat.jsonl"
# A row without a figure has dashes, not zeros.
jq -c -s '.[3] |= (.stats |= {of, rounds: 0, min: null, median: null, max: null, ci95: null} | .lat_us_p99 = null |
	.ratios |= map_values(null) | .ratios_ci95 |= map_values(null)) | .[]' "$ONE/rate.jsonl" > "$TWO/rate.jsonl"
jq '.machine.cpu = "<b>&amp;\"x\"</b><script>document.title = 1</script>"' "$ONE/machine.json" > "$TWO/machine.json"
run "the page of one run" unpacked $DIW perf report "$ONE" -o "$TMP/one.html"
run "the page of two runs" unpacked $DIW perf report "$ONE" "$TWO" -o "$TMP/two.html"
open_page() {
	unpacked timeout 120 "$root/usr/lib/chromium/chromium-headless-shell" --no-sandbox --disable-gpu \
		--disable-dev-shm-usage --user-data-dir="$TMP/chromium" \
		--dump-dom "file://$1" > "$1.dom" 2> "$1.err" && [ -s "$1.dom" ] ||
		{ tail -n 20 "$1.err"; return 1; }
}
check "Chromium opens it" open_page "$TMP/one.html"
check "... and reads the figures of the run" tests/system/tools/perf_page.py "$TMP/one.html.dom" "$ONE"
check "Chromium opens that of two" open_page "$TMP/two.html"
check "... and reads those of both" tests/system/tools/perf_page.py "$TMP/two.html.dom" "$ONE" "$TWO"

# tools/figures/suite makes a page of docs/ of the same rows.
run "docs/suite.md of a run" env TO="$TMP/docs" FIGURES_ROOT="$root" tools/figures/suite page "$ONE"
same_rows() { diff <(cd "$ONE" && wc -l ./*.jsonl) <(cd "$TMP/docs/suite" && wc -l ./*.jsonl); }
check "... has every row" same_rows
check "... and pictures that are XML" python3 -c 'import sys, xml.etree.ElementTree as tree
for name in sys.argv[1:]:
	tree.parse(name)' "$TMP"/docs/suite/*.svg
check "... which the page names" grep -q '^!\[lat\](suite/lat.svg)' "$TMP/docs/suite.md"
run "... and diw perf report reads the rows" unpacked $DIW perf report "$TMP/docs/suite" -o "$TMP/docs.html"
end
