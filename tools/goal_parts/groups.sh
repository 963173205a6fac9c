# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Goals of groups: a file and Write-Records to many receivers. tools/goals includes this file.

# copies TMP N: prints GB/s of one file to N receivers of a group, added up; N 0: to one receiver, without a group
copies() {
	rm -rf "$1/in"
	for i in $(seq $(($2 > 0 ? $2 : 1))); do
		mkdir -p "$1/in/$i"
		if [ "$2" = 0 ]; then "$DIW" recv --json --count 1 --port $port "$1/in/$i"
		else "$DIW" recv --json --count 1 --group 239.1.1.1 --dev diw_lo "$1/in/$i"; fi > /dev/null 2>&1 &
	done
	sleep 1
	if [ "$2" = 0 ]; then "$DIW" cp --json --port $port "$1/file" 127.0.0.1: | field GBps
	else "$DIW" cp --json --group 239.1.1.1 --dev diw_lo --receivers "$2" "$1/file" | field GBps_aggregate; fi
	wait
}

# column N: prints the median of that column of standard input
column() { awk -v n="$1" '{ print $n }' | median; }

# A sum of 4 times needs a processor for each receiver and for the sender, as the ratio of the bare sockets shows.
goals_groups() {
echo "a file of 200 MB in memory to receivers on lo, sum of their goodput / that of one receiver, 5 interleaved rounds"
raw=${DIW%/bin/diw}/tests/system/raw_group
[ -x "$raw" ] || { echo "  left out: needs make tests"; return; }
directory /dev/shm || return
head -c 200000000 /dev/urandom > "$tmp/file"
ratios=$(for i in 1 2 3 4 5; do
	one=$(copies "$tmp" 0); four=$(copies "$tmp" 4); eight=$(copies "$tmp" 8)
	raw1=$("$raw" 1 200000000 | field GBps_aggregate); raw8=$("$raw" 8 200000000 | field GBps_aggregate)
	awk "BEGIN { print $four / $one, $eight / $one, $raw8 / $raw1, $eight / $raw8 }"
done)
goals_end
row "  diw cp, 4 receivers" "$(echo "$ratios" | column 1)" '>=' 0.00
row "  diw cp, 8 receivers" "$(echo "$ratios" | column 2)" '>=' 4
row "  bare multicast sockets with CRC-32 and placement, 8 receivers" "$(echo "$ratios" | column 3)" '>=' 0.00
row "  diw cp to 8 receivers / bare sockets to 8 receivers" "$(echo "$ratios" | column 4)" '>=' 0.75
echo "Write-Records of 256 KiB to receivers on lo, sum of their goodput / that of one unicast receiver"
one=$("$DIW" perf group 127.0.0.1 --secs "$secs" --json | field GBps_aggregate)
for i in 1 2 4 8 16; do
	row "  $i receivers" "$("$DIW" perf group 239.1.1.1 --dev diw_lo --receivers $i --secs "$secs" --json |
		field GBps_aggregate | awk -v one="$one" '{ print $1 / one }')" '>=' 0.00
done
}
