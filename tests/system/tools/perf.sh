#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# diw perf, every mode for a short time: its rows have all their keys, and plausible figures. No speed is judged.
. "${0%/*}/../lib.sh"
. "${0%/*}/perf_kit.sh"

for op in send write read; do
	perf lat --op $op --size 64 --local
	perf lat --op $op --size 64 --events --local
	perf bw --op $op --size 64,1k,512k --local
	check "... a row a size" [ "$(wc -l < "$TMP/rows")" -eq 3 ]
done
perf bibw --op write --size 64k --local
perf rate --op send --size 64 --depth 256 --local
perf bw --qp uc --op write --size 64k --local
perf lat --qp uc --op send --size 64 --local
perf lat --qp raw-udp --size 64 --local
perf bw --qp raw-udp --size 1k --local
for bind in 127.0.0.1 ::1; do
	for qp in raw-tcp raw-tcp-1; do
		perf lat --qp $qp --size 64,512k --bind $bind --local
		perf bw --qp $qp --size 1,1k,512k --bind $bind --local
		check "... nothing is lost, and its congestion control is named" every \
			'.bytes_sent == .bytes_valid and .congestion != null'
	done
done
perf lat --qp raw-tcp --size 64 --wait --local
perf bibw --qp raw-tcp --size 64k --local
perf lat --qp rc --op send,write,read,fetch-add,cmp-swap --size 64 --local
perf lat --qp rc --op send --size 64 --events --local
perf lat --qp rc --op send --size 64 --wait --bind ::1 --local
perf bw --qp rc --op send,write --size 64,1k,512k --against raw-tcp,raw-tcp-1 --local
check "... RC and bare TCP with the same congestion control, and nothing is lost" \
	every '.congestion != null and .bytes_sent == .bytes_valid'
perf bw --qp rc --op write --size 64k --no-crc --mulpdu 1452 --local
perf bw --qp rc --op write --size 64k --crc --local
perf bw --qp rc --op write --size 64k --markers --local
perf bibw --qp rc --op write,send --size 64k --local
perf bw --qp rc --op read --size 1k --local
perf bw --qp ud,rc --op write --size 64k --against raw-tcp --local
check "... UD with its ratio to RC, and both to the baseline" jq -e -s 'length == 3 and .[0].qp == "ud" and
	.[0].ratios.rc > 0 and .[0].ratios["raw-tcp"] > 0 and .[1].qp == "rc" and (.[1].ratios |
		keys == ["raw-tcp"])' "$TMP/rows"
expect 2 "perf --op fetch-add on ud" $DIW perf lat --op fetch-add --local
expect 2 "perf --no-crc without RC" $DIW perf lat --no-crc --local
for baseline in raw-udp raw-udp-crc raw-udp-1 raw-tcp raw-tcp-1; do
	perf bw --op write --size 1k --against $baseline --local
	check "... measured against $baseline, which has a row of its own" \
		jq -e -s "length == 2 and any(.[]; .baseline == \"$baseline\" and .ratio > 0) and
			any(.[]; .qp == \"$baseline\")" "$TMP/rows"
done
slower() { jq -e -s '.[0].ratios | .["raw-tcp-1"] > .["raw-tcp"]' "$TMP/rows"; }
against_three() {
	local TRY TRIES=3
	perf rate --op send --size 64 --against raw-tcp-1,raw-udp,raw-tcp --local
}
TRIES=5 measured against_three "TCP is slower when each message is a call" slower
check "... against three at once: a row each, ratios to each, the first of them by name" \
	jq -e -s 'length == 4 and (.[0] | .baseline == "raw-tcp-1" and .ratio == .ratios["raw-tcp-1"] and
		(.ratios | keys == ["raw-tcp", "raw-tcp-1", "raw-udp"] and all(.[]; . > 0))) and
		all(.[1:][]; .ratio == null and .ratios == {})' "$TMP/rows"
expect 2 "perf against an unknown" $DIW perf bw --against raw-tcp-2 --local
expect 2 "perf twice against the same" $DIW perf bw --against raw-tcp,raw-tcp --local
perf bw --op write --size 512k --mulpdu 1452 --impair loss=5%,seed=1 --local
check "... under loss: a part of it is valid, and lost is counted" every '.lost > 0 and .bytes_valid < .bytes_sent'

perf lat --size 1:1k:x32,7 --op send,write,read --qp ud,rc --offset 4,8 --local
check "... a row for each of all combinations, in their order" jq -e -s 'map([.qp, .op, .offset, .size]) ==
	[("send", "write", "read") as $op | (4, 8) as $offset | (1, 32, 1024, 7) as $size | ("ud", "rc") as $qp |
		[$qp, $op, $offset, $size]]' "$TMP/rows"
perf bw --size 1k --op write --qp rd,rc --no-crc --mulpdu 1k,1452 --local
check "... and options of RC are those of its rows alone" jq -e -s 'map([.qp, .mulpdu, .no_crc]) ==
	[["rd", 1024, false], ["rc", 1024, true], ["rd", 1452, false], ["rc", 1452, true]]' "$TMP/rows"
background "$TMP/table" $DIW perf bw --size 64k --secs 100 --depth 8 --local
check "the head of the table comes before the first row" eventually 10 grep -q 'size  *depth  *GB/s' "$TMP/table"
kill -INT "$PID"

background "$TMP/server" $DIW perf --server --port 4801
check "a perf server" eventually 10 listening 4801
perf bw --op write --size 64k --connect 127.0.0.1 --port 4801
# A target stops for 0.2 s. RC loses nothing, and the longest round trip is among those that count.
background "$TMP/server" $DIW perf --server --port 4802
check "a perf server for RC" eventually 10 listening 4802
(sleep 0.15; kill -STOP "$PID"; sleep 0.2; kill -CONT "$PID") &
perf lat --qp rc --op send --size 64 --connect 127.0.0.1 --port 4802
check "... nothing is lost while it does not run" every '.lost == 0 and .bytes_sent == .bytes_valid'
# The 95 % confidence interval of the median leaves out as many rounds at each end as the binomial distribution allows.
LEFT_OUT='[null,null,null,null,null,null,0,0,0,1,1,1,2,2,2,3,3,4,4,4,5] as $left | '
for rounds in 1 5 6 9 20; do
	perf lat --rounds $rounds --local
	check "... of $rounds rounds, with the confidence interval of their median" every \
		"(.stats.values | length) == $rounds and $LEFT_OUT"'
		(.stats.values | map(values) | sort) as $v | $left[$v | length] as $k | .stats |
		.rounds == ($v | length) and .min == $v[0] and .max == $v[-1] and
		.ci95 == if $k then [$v[$k], $v[-1 - $k]] else null end'
	check "... which is the figure of the row" every '.stats.median == .[.stats.of]'
done
perf lat --hist --op send --qp ud,raw-udp --local
check "the bins of the histogram have as many latencies as came, between least and most" every '(.hist | length) > 0 and
	(.hist | map(.[2]) | add) >= 1 and .hist[0][0] <= .lat_us_min and .hist[-1][1] >= .lat_us_max and
	.lat_us_p999 >= .lat_us_min and .lat_us_p999 <= .lat_us_max'
check "every row names the machine and its noise" every '.machine | .cpu != "" and .crc_engine != "" and
	.kernel != "" and (.mitigations | type) == "object" and (.noise | .lost >= 0 and .lost <= 1 and .load >= 0)'
expect 2 "perf bw --hist" $DIW perf bw --hist --local

# Ctrl-C: the row has what was measured until then, and the rows after it are missing.
interrupted() {
	background "$TMP/table" $DIW perf "${asked[@]}" --secs 200 --rounds 2 --local
	eventually 10 grep -q '95 % interval' "$TMP/table"
	sleep "$TRY"
	kill -INT "$PID"
	STATUS=0
	wait "$PID" || STATUS=$?
	tail -n +5 "$TMP/table"
}
for asked in "lat --size 64,1k" "bw --size 1k,64k" "bw --op read --size 1k,64k" "bw --qp rc --size 1k,64k" \
		"bibw --op write --size 1k,64k" "bibw --qp rc --op read --size 1k,64k" "lat --qp raw-tcp --size 64,1k" \
		"bw --qp raw-udp --size 1k,64k"; do
	read -ra asked <<< "$asked"
	measured interrupted "perf ${asked[*]} ends with status 130 on Ctrl-C" '[ "$STATUS" -eq 130 ]' \
		"... after a row of what it had" '[ "$(tail -n +6 "$TMP/table" | grep -c "^${asked[0]} ")" -eq 1 ]'
done
run "a person can read perf" $DIW perf bw --op send --size 64k --secs 0.3 --local
check "... as a table" matches "$OUT" 'GB/s'
end
