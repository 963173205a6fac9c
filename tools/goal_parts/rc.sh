# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Goals of connections, beside bare TCP. tools/goals includes this file.

goals_rc() {
echo "RC with CRC-32C over lo against bare TCP (ratio)"
for op in send write; do
	row "  half round trip, polling, 64 B, $op" "$(perf lat --qp rc --crc --op $op --size 64 --against raw-tcp |
		field ratio)" '<=' 1.15
done
for op in write send; do
	for size in 64 512; do
		row "  $size KiB, $op" "$(perf bw --qp rc --crc --op $op --size ${size}k --against raw-tcp |
			field ratio)" '>=' 0.85
		row "  $size KiB, $op, without CRC" "$(perf bw --qp rc --no-crc --op $op --size ${size}k \
			--against raw-tcp | field ratio)" '>=' 0.95
	done
	out=$(perf bw --qp rc --crc --op $op --size 1k --depth 64 --against raw-tcp,raw-tcp-1)
	row "  1 KiB, depth 64, $op" "$(echo "$out" | field raw-tcp)" '>=' 0.7
	row "  1 KiB, depth 64, $op, against one send a message" "$(echo "$out" | field raw-tcp-1)" '>=' 5
	row "  64 B, depth 256, $op, million messages a second" \
		"$(perf rate --qp rc --crc --op $op --size 64 --depth 256 | field msgs_per_s |
			awk '{ print $1 / 1e6 }')" '>=' 2
done
echo "RC with CRC-32C over veth, MTU 1500, against bare TCP (ratio)"
veth rc raw-tcp write send
many=${DIW%/bin/diw}/tests/system/many
echo "ten thousand idle RC connections"
if [ -x "$many" ] && [ "$(ulimit -Hn)" -ge 10100 ]; then
	out=$("$many" 10000)
	row "  memory of one, bytes" "$(echo "$out" | field idle_bytes)" '<=' 8192
	row "  memory of one, bytes, at the responder" "$(echo "$out" | field idle_bytes_server)" '<=' 8192
else
	echo "  left out: needs make tests, and 10,100 descriptors"
fi
}
