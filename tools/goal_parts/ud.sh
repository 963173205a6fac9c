# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Goals of unreliable datagrams, beside bare sockets. tools/goals includes this file.

goals_ud() {
echo "half round trip and wake-up, 64 B, over lo, against bare sockets (ratio)"
for op in send write; do
	row "  polling, $op" "$(perf lat --qp ud --op $op --size 64 --against raw-udp | field ratio)" '<=' 1.15
	row "  asleep in diw_cq_wait, $op" "$(perf lat --qp ud --op $op --size 64 --wait --against raw-udp |
		field ratio)" '<=' 1.2
	row "  asleep on a channel, $op" "$(perf lat --qp ud --op $op --size 64 --events --against raw-udp |
		field ratio)" '<=' 1.3
done

echo "goodput over lo against bare sockets with CRC and placement (ratio), loss-free loss (fraction)"
for op in write send; do
	out=$(perf bw --qp ud --op $op --size 512k --against raw-udp-crc)
	[ $op = write ] && goal=1.00 || goal=0.75
	row "  512 KiB, $op" "$(echo "$out" | field ratio)" '>=' $goal
	row "  512 KiB, $op, lost messages / all" "$(echo "$out" | head -n 1 |
		awk '{ match($0, /"lost": *[0-9.]+/); l = substr($0, RSTART + 7, RLENGTH - 7);
		       match($0, /"bytes_sent": *[0-9.]+/); b = substr($0, RSTART + 13, RLENGTH - 13)
		       print l / (b / 524288) }')" '<=' 0.001
	[ $op = write ] && goal=0.80 || goal=0.60
	row "  1 KiB, depth 64, $op" "$(perf bw --qp ud --op $op --size 1k --depth 64 --against raw-udp-crc |
		field ratio)" '>=' $goal
	row "  1 KiB, depth 64, $op, against one sendto a message" \
		"$(perf bw --qp ud --op $op --size 1k --depth 64 --against raw-udp-1 | field ratio)" '>=' 10
	out=$(perf rate --qp ud --op $op --size 64 --depth 256 --against raw-udp-crc)
	row "  64 B, depth 256, $op" "$(echo "$out" | field ratio)" '>=' 0.6
	row "  64 B, depth 256, $op, million messages a second" \
		"$(echo "$out" | field msgs_per_s | awk '{ print $1 / 1e6 }')" '>=' 0.00
done
for size in 4:0.85 16:0.90 64:1.00; do
	row "  ${size%:*} KiB, write" "$(perf bw --qp ud --op write --size "${size%:*}k" --against raw-udp-crc |
		field ratio)" '>=' "${size#*:}"
done
for n in 1 32; do
	row "  a request of 64 B posted, $n a call, and its completion polled, ns of user time" \
		"$("$DIW" perf post --qp ud --batch $n --json |
			sed -n 's/.*"user_ns":\([0-9.]*\),"goal_ns":100.*/\1/p')" '<=' 100
done
row "  the baseline itself: raw-udp / raw-udp-1, 1452 B" "$(perf bw --qp raw-udp --size 1452 --against raw-udp-1 |
	field ratio)" '>=' 10

row "  64 B, 64 of 4,096 queue pairs send / 64 of 64" "$(perf rate --qp ud --op send --qps 64,4096 --active 64 |
	sed -n 's/.*"msgs_per_s":\([0-9.]*\).*/\1/p' | awk '{ v[NR] = $1 } END { if (v[1] > 0) print v[2] / v[1] }')" \
	'>=' 0.90

echo "valid goodput under loss / loss-free, 512 KiB Write-Record in 1452 B segments, medians of 5 interleaved rounds"
one=; five=; close=
for i in 1 2 3 4 5; do
	lossy() { perf bw --qp ud --op write --size 512k --mulpdu 1452 "$@" | field GBps; }
	f=$(lossy); b=$(lossy --impair "loss=5%,seed=$i")
	out=$(perf bw --qp ud --op write --size 512k --mulpdu 1452 --impair "loss=1%,seed=$i")
	a=$(echo "$out" | field GBps)
	close="$close$(echo "$out" | field close_us_p99)
"
	one="$one$(awk "BEGIN { print $a / $f }")
"; five="$five$(awk "BEGIN { print $b / $f }")
"
done
row "  1 % loss" "$(printf %s "$one" | median)" '>=' 0.9405
row "  a record's close after its 1 ms reorder window began, p99, us" "$(printf %s "$close" | median)" '<=' 2000
row "  5 % loss" "$(printf %s "$five" | median)" '>=' 0.855

echo "goodput over veth, MTU 1500, against bare sockets with CRC and placement (ratio)"
veth ud raw-udp-crc write send
}
