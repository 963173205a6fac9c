# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Goals of Debian's own programs over libibverbs.so.1. tools/goals includes this file.

# ib PROGRAM OPTION...: prints perftest's line of figures
ib() {
	line='tools/clients run '"$*"' -F -d diw_lo -p $port'
	ends "$line" "$line 127.0.0.1" | awk '$1 ~ /^[0-9]+$/ && $2 ~ /^[0-9]+$/ { print; exit }'
}
# ib_bw write|send SIZE: prints GB/s in one direction, with the depth of diw perf
ib_bw() { ib "ib_$1_bw" -s "$2" -t 64 -D "$bw_secs" -f 1 --report_gbits | awk '{ print $4 / 8 }'; }

goals_verbs() {
tools/clients get > /dev/null || { echo "  left out: no clients here"; return; }
bw_secs=$(awk "BEGIN { print $secs < 3 ? 3 : int($secs) }")
echo "Debian's perftest over libibverbs.so.1 against diw perf with RC, over lo (ratio), medians of 5 interleaved rounds"
r=
for i in 1 2 3 4 5; do
	d=$(perf lat --qp rc --op send --size 64 | field lat_us_p50)
	v=$(ib ib_send_lat -s 64 -n 20000 | awk '{ print $5 }')
	r="$r$(over "$v" "$d")
"
done
row "  ib_send_lat, 64 B, half round trip" "$(printf %s "$r" | median)" '<=' 1.05
printf '  %-62s %10.4g us\n' "ib_write_lat, 64 B, spins on memory" "$(ib ib_write_lat -s 64 -n 20000 |
	awk '{ print $5 }')"
if [ -x "${DIW%/bin/diw}/tests/system/cma_many" ]; then
	row "  connections that librdmacm sets up, both ends here, a second" \
		"$("$DIW" run "${DIW%/bin/diw}/tests/system/cma_many" --rate)" '>=' 2000
else
	echo "  left out, librdmacm's connections: make tests builds what measures them"
fi
for size in 65536 1048576; do
	for op in send write; do
		r=
		for i in 1 2 3 4 5; do
			d=$(perf bw --qp rc --op $op --size $size --depth 64 | field GBps)
			v=$(ib_bw $op $size)
			r="$r$(over "$v" "$d")
"
		done
		row "  ib_${op}_bw, $size B" "$(printf %s "$r" | median)" '>=' 0.97
	done
done
}
