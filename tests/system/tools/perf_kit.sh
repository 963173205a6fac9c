# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# What tests of diw perf have in common, behind lib.sh.

KEYS='["test","qp","llp","congestion","op","size","depth","mulpdu","crc","no_crc","markers","GBps",
	"msgs_per_s","bytes_sent","bytes_valid","lost",
	"lat_us_p50","lat_us_p99","lat_us_min","lat_us_p999","lat_us_max","mode","impair","secs",
	"cpu_s","noise","stats","ratio","baseline","ratios","ratios_ci95","machine"]'

# perf TEST OPTION...: runs a test for a short time, and longer if it got no processor, and checks every row.
perf() {
	local what="and received something" asked=("$@")
	local good='.GBps > 0 and .bytes_valid > 0 and .bytes_valid <= .bytes_sent'
	[ "$1" != lat ] || { what="and latencies" good='.lat_us_p50 > 0 and .lat_us_p99 >= .lat_us_p50'; }
	measured perf_run "... $what" 'every "$good"'
}
perf_run() {
	run "perf ${asked[*]}" perf_try $DIW perf "${asked[@]}"
	grep '^{' <<< "$OUT" > "$TMP/rows"
	check "... has rows" [ -s "$TMP/rows" ]
	check "... with all keys" every "$KEYS - keys == []"
	check "... of this test" every ".test == \"${asked[0]}\""
}
every() { jq -e -s "length > 0 and all(.[]; $1)" "$TMP/rows" > /dev/null || { echo "not so in every row: $1";
	cat "$TMP/rows"; return 1; }; }
