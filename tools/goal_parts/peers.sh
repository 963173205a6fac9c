# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Goals beside other stacks: UCX over TCP (tag matching and put) and over shared memory, libfabric's providers, iperf3.
# tools/goals includes this file. The peers are the packages of tools/clients. UCX over TCP has no CRC.

# ucx TLS TEST SIZE COUNT COLUMN: prints a column of the last line of ucx_perftest: 2 us, 6 MiB/s, 8 messages/s
ucx() {
	local line="env UCX_TLS=$1 UCX_NET_DEVICES=all tools/clients run ucx_perftest -f -p \$port"
	[ "$1" != tcp ] || line=${line/=all/=lo}
	ends "$line" "$line -t $2 -s $3 -n $4 -w 200 127.0.0.1" |
		awk -v c="$5" 'NF == 8 && $1 + 0 { v = $c } END { print v }'
}
ucx_us() { ucx "$1" "$2" "$3" 20000 3; }
ucx_rate() { ucx "$1" "$2" 64 500000 8; }
ucx_GBps() { ucx "$1" "$2" "$3" $((1500000000 / $3 > 200000 ? 200000 : 1500000000 / $3)) 6 |
	awk '$1 { print $1 * 1048576 / 1e9 }'; }

# pingpong PROVIDER TYPE SIZE: prints libfabric's microseconds of half a round trip
pingpong() {
	local line="tools/clients run fi_pingpong -p '$1' -e $2 -I $((secs_whole * 2000)) -S $3"
	ends "$line -B \$port" "$line -P \$port 127.0.0.1" |
		awk '$1 ~ /^[0-9]+[km]?$/ { v = $7 } END { print v }'
}

iperf_GBps() {
	ends "tools/clients run iperf3 -s -1 -p \$port" \
		"tools/clients run iperf3 -c 127.0.0.1 -p \$port -C cubic -l 512K -t $secs_whole -f k" |
		awk '/receiver/ { for (i = 1; i < NF; i++) if ($(i + 1) == "Kbits/sec") print $i / 8e6 }'
}

ours() { perf "${@:2}" | field "$1"; }

# against LABEL RELATION GOAL OURS THEIRS: prints the median of 3 interleaved ratios, and in brackets those of both
against() {
	local all
	all=$(for _ in 1 2 3; do echo "$($4) $($5)"; done | awk 'NF == 2 && $2 > 0 { print $1, $2, $1 / $2 }')
	row "  $1 ($(echo "$all" | awk '{ print $1 }' | median | cut -c -5) / $(
		echo "$all" | awk '{ print $2 }' | median | cut -c -5))" \
		"$(echo "$all" | awk '{ print $3 }' | median)" "$2" "$3"
}

goals_peers() {
	local size mode qp
	tools/clients get > /dev/null || { echo "  left out: no clients here"; return; }
	secs_whole=$(awk "BEGIN { print $secs < 1 ? 1 : int($secs) }")
	echo "diwarp / another stack over lo, medians of 3 interleaved ratios (figures of both: us, GB/s, messages/s)"
	for mode in tag ucp_put; do
		against "64 B half round trip, RC / UCX tcp ${mode#ucp_}" '<=' 1.00 \
			"ours lat_us_p50 lat --qp rc --size 64" "ucx_us tcp ${mode}_lat 64"
		against "64 B messages, RC / UCX tcp ${mode#ucp_}" '>=' 1.00 \
			"ours msgs_per_s rate --qp rc --size 64" "ucx_rate tcp ${mode}_bw"
		for size in 1024 65536 524288; do
			against "$size B, RC Write / UCX tcp ${mode#ucp_}" '>=' 1.00 \
				"ours GBps bw --qp rc --op write --size $size" "ucx_GBps tcp ${mode}_bw $size"
		done
	done
	for qp in ud rd; do
		against "64 B half round trip, ${qp^^} / UCX tcp tag" '<=' 1.00 \
			"ours lat_us_p50 lat --qp $qp --size 64" "ucx_us tcp tag_lat 64"
		against "64 B messages, ${qp^^} / UCX tcp tag" '>=' 1.00 \
			"ours msgs_per_s rate --qp $qp --size 64" "ucx_rate tcp tag_bw"
		against "524288 B, ${qp^^} Write-Record / UCX tcp tag" '>=' 1.00 \
			"ours GBps bw --qp $qp --op write --size 512k" "ucx_GBps tcp tag_bw 524288"
	done
	for size in 64 65536; do
		against "$size B half round trip, RC / libfabric tcp" '<=' 1.00 \
			"ours lat_us_p50 lat --qp rc --size $size" "pingpong tcp msg $size"
		against "$size B half round trip, RD / libfabric tcp;ofi_rxm" '<=' 1.00 \
			"ours lat_us_p50 lat --qp rd --size $size" "pingpong tcp;ofi_rxm rdm $size"
		against "$size B half round trip, RD / libfabric udp;ofi_rxd" '<=' 1.00 \
			"ours lat_us_p50 lat --qp rd --size $size" "pingpong udp;ofi_rxd rdm $size"
	done
	against "64 B half round trip, UD / libfabric udp" '<=' 1.00 \
		"ours lat_us_p50 lat --qp ud --size 64" "pingpong udp dgram 64"
	against "524288 B, RC Write / iperf3" '>=' 0.85 "ours GBps bw --qp rc --op write --size 512k" iperf_GBps
	against "524288 B, UD Write-Record / iperf3" '>=' 0.85 "ours GBps bw --qp ud --op write --size 512k" iperf_GBps
	against "64 B half round trip, RD / UCX shared memory" '<=' 0.00 \
		"ours lat_us_p50 lat --qp rd --size 64" "ucx_us posix,cma,self tag_lat 64"
	against "524288 B, RD Write-Record / UCX shared memory" '>=' 0.00 \
		"ours GBps bw --qp rd --op write --size 512k" "ucx_GBps posix,cma,self tag_bw 524288"
}
