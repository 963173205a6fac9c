#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# tools/figures/run: every experiment of diw perf runs for a moment, and has plausible numbers and a picture. No speed
# is judged.
FETCH=("tools/programs get plot")
. "${0%/*}/../lib.sh"
command -v python3 > /dev/null || { skip "no python3 here"; end; }
FIGURES=tools/figures

run "the list" $FIGURES/run --list
check "it names an experiment" matches "$OUT" 'T6\.5 .*diw perf bw --qp ud,rc'
expect 2 "an unknown experiment" $FIGURES/run T99
studied() {
	awk -F, 'NR == FNR { if (!/^#/) { split($0, f, "|"); ids[f[1]] = 1 } next }
		FNR > 1 && (NF != 6 || !($1 in ids)) { print; bad = 1 }
		END { exit bad }' $FIGURES/experiments $FIGURES/studies.csv
}
check "every stated value belongs to an experiment" studied

fetched "tools/programs get plot" || end
# An end that gets no processor measures nothing.
moment() {
	local secs=([1]=0.05 0.5 3)
	STATUS=0
	# shellcheck disable=SC2086  # several ids
	SECS=${secs[TRY]} WEIGHTS=1,4 FACTORS=1,4 SIZES=64,4k SIZES_OF_LOSS=4k LARGE=64k PLACES="lo veth" \
		$FIGURES/run $ids > "$TMP/moment" 2>&1 || STATUS=$?
}
ends() { [ $STATUS -eq 0 ] || { echo "exit $STATUS:"; tail -n 5 "$TMP/moment"; return 1; }; }
drawn() {
	local id at=$BUILD/figures
	for id in $ids; do
		awk -F, 'NR == 1 { next } NF != 5 || $5 !~ /^-?[0-9.]+(e[-+]?[0-9]+)?$/ { print; bad = 1 }
			END { if (NR < 3) print NR " lines"; exit bad || NR < 3 }' "$at/$id.csv" ||
			{ echo "of $id"; return 1; }
		python3 -c 'import sys, xml.etree.ElementTree as tree; tree.parse(sys.argv[1])' "$at/$id.svg" &&
			[ "$(wc -c < "$at/$id.svg")" -lt 200000 ] || return
	done
}
# The first of each function.
ids=$(awk -F'|' '!/^#/ && $4 ~ /diw perf/ { split($2, call, " "); if (!n[call[1]]++) print $1 }' $FIGURES/experiments)
# UD and RC in both places, and by libibverbs where it was built.
curves=4
[ ! -e "$BUILD/lib/diwarp/libibverbs.so.1" ] || curves=8
all_curves() { awk -F, '$2 == "us" { n[$1 " " $3]++ } END { for (k in n) { print k, n[k]; curves++ }
	exit curves != '$curves' }' "$BUILD/figures/T5.5.csv"; }
measured moment "an experiment of each function ends" ends "... every number is one, and there are pictures" drawn \
	"... $curves curves of latency" all_curves
end
