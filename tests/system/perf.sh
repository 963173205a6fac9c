#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# diw perf, a moment of every mode: its rows have all their keys, and figures that make sense. Speed is not judged here.
. "${0%/*}/lib.sh"

KEYS='["test","qp","llp","op","size","GBps","msgs_per_s","bytes_sent","bytes_valid","lost","lat_us_p50","lat_us_p99","cpu_s","ratio","baseline"]'

# perf TEST OPTION...: runs it for a moment, and looks at every row.
perf() {
	local name="$*"
	run "perf $name" $DIW perf "$@" --secs 0.3 --json || return
	grep '^{' <<< "$OUT" > "$TMP/rows"
	check "... has rows" [ -s "$TMP/rows" ]
	check "... with all keys" every "$KEYS - keys == []"
	check "... of this test" every ".test == \"$1\""
	case $1 in
	lat) check "... and latencies" every '.lat_us_p50 > 0 and .lat_us_p99 >= .lat_us_p50' ;;
	*) check "... and received something" every '.GBps > 0 and .bytes_valid > 0 and .bytes_valid <= .bytes_sent' ;;
	esac
}
every() { jq -e -s "length > 0 and all(.[]; $1)" "$TMP/rows" > /dev/null || { echo "not so in every row: $1"; cat "$TMP/rows"; return 1; }; }

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
for baseline in raw-udp raw-udp-crc raw-udp-1; do
	perf bw --op write --size 1k --against $baseline --local
	check "... measured against $baseline, which has a row of its own" \
		jq -e -s "length == 2 and any(.[]; .baseline == \"$baseline\" and .ratio > 0) and any(.[]; .qp == \"$baseline\")" "$TMP/rows"
done
perf bw --op write --size 512k --mulpdu 1452 --impair loss=5%,seed=1 --local
check "... under loss: a part of it is valid, and lost is counted" every '.lost > 0 and .bytes_valid < .bytes_sent'

background "$TMP/server" $DIW perf bw --op write --size 64k --server --port 4801
check "a perf server" eventually 10 listening 4801
perf bw --op write --size 64k --connect 127.0.0.1 --port 4801
run "a person can read perf" $DIW perf bw --op send --size 64k --secs 0.3 --local
check "... as a table" matches "$OUT" 'GB/s'
end
