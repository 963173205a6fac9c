# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2154
# The figures of the suite of micro-benchmarks (docs/figures.md, M), for tools/figures/run.

DEPTHS=16,64,256,1024,4096

# M-T1: single calls.
calls() {
	{
		"$DIW" perf setup --object qp,conn --secs "$SECS" --json
		"$DIW" perf post --batch 1 --secs "$SECS" --json
	} |
		rows lo '["us", (.qp | ascii_upcase), ({ "conn connect": "connect", "conn destroy": "destroy",
			"post-recv": "post receive", "post-send": "post send", poll: "poll",
			"poll-empty": "poll empty" }[if .test == "setup" then "\(.object) \(.act)" else .act end] //
			empty), (.ns_p50 // .ns_mean) / 1000]'
}
memory_regions() {
	"$DIW" perf mr --size 4k,64k,256k,1m,4m,16m,64m --secs "$SECS" --json |
		rows lo '["us", .act, .size, .ns_p50 / 1000]'
}
# objects cq|qp
objects() {
	"$DIW" perf setup --object "$1" --depth $DEPTHS --secs "$SECS" --json |
		rows lo '["us", if .qp then "\(qp) \(.act)" else .act end, .depth, .ns_p50 / 1000]'
}

# one_way OPTION...: latency, bandwidth one way and both ways.
BASE='["us", qp + " " + op, .size, (select(.test == "lat") | .lat_us_p50)],
	[{ bw: "GB/s", bibw: "GB/s both ways" }[.test] // empty, qp + " " + op, .size, .GBps]'
base() {
	local test
	for test in lat bw bibw; do
		perf lo $test --qp ud,rc --op send,write --size "$SIZES" | rows lo "$BASE"
	done
}
computing() {
	perf lo cpu --qp ud,rc --size 64k | rows lo '["GB/s both ways", qp, 100 * .computed, .GBps]'
}
reuse() {
	local test
	for test in lat bw; do
		perf lo $test --qp rc --size "$SIZES" --reuse 100,75,50,25,10 --scheme 1,2 |
			rows lo '[if .test == "lat" then "us" else "GB/s" end,
				"scheme \(.scheme) at \(.reuse) %", .size, .lat_us_p50 // .GBps]'
	done
}
# by TESTS OPTION LIST CURVE: latency or bandwidth against size, a curve for each value of an option.
by() {
	local test key=${2//-/_}
	for test in ${1//,/ }; do
		perf lo "$test" --qp rc,ud --size "$SIZES" "--$2" "$3" |
			rows lo '[if .test == "lat" then "us" else "GB/s" end, qp + " '"$4"' \(.'"$key"')", .size,
				.lat_us_p50 // .GBps]'
	done
}
# contending: goodput of one pair while others write to the sender's device, and what is left of it.
contending() {
	perf lo bw --qp ud,rc --op send --size 64k --load 0,1,2,3,4,6 | rows lo '["GB/s", qp, .load, .GBps]'
	awk -F, -v OFS=, '$2 == "GB/s" { if ($4 == 0) one[$3] = $5
		print $1, "% of one pair alone", $3, $4, 100 * $5 / one[$3] }' "$CSV" > "$TMP/contending"
	cat "$TMP/contending" >> "$CSV"
}
# polling or sleeping: runs of each size take turns.
events() {
	local size how test
	for test in lat bw; do
		for size in ${SIZES//,/ }; do
			for how in "" --events; do
				perf lo $test --qp rc --size "$size" $how |
					rows lo '[if .test == "lat" then "us" else "GB/s" end, "'"${how:-polling}"'",
						.size, .lat_us_p50 // .GBps]'
			done
		done
	done
}
