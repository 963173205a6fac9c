# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2154
# The figures of the studies of throughput (docs/figures.md, F, E and C), for tools/figures/run: RC.

LARGE=${LARGE:-32k,128k,512k,1m,2m,8m}

# wait_wakeup OPTION...: Writes with immediate data between ends that sleep; each message is acknowledged.
wait_wakeup() { perf lo bw --qp rc --op write-imm --events "$@"; }
# What a row tells: the throughput, or the processor time or all time that 64 GiB would take. [unit, ..., value]
declare -A OF_ROW=([rate]='"Gb/s", gbits' [cpu]='"CPU s for 64 GiB", (.cpu_s * 68719476736 / .bytes_valid)?'
	[elapsed]='"s for 64 GiB", (68.719476736 / .GBps)?')
outstanding() {
	wait_wakeup --size 256k,1m --outstanding 1,2,3,4,5,6,8,16,32 |
		rows lo '["Gb/s", "\(.size) B", .outstanding, gbits]'
}
# by_size rate|cpu|elapsed
by_size() {
	wait_wakeup --size "$LARGE" --outstanding 1,2,4,8,16,32 |
		rows lo '['"${OF_ROW[$1]}"'] | [.[0], "\($row.outstanding) outstanding", $row.size, .[1]]'
}
# offsets rate|cpu
offsets() {
	local size
	for size in 512k 8m; do
		wait_wakeup --size $size --outstanding 1,2,4,8 --offset 0,64,2048,8,100 |
			rows "$size" '['"${OF_ROW[$1]}"'] | [.[0], "offset \($row.offset)", $row.outstanding, .[1]]'
	done
}
buffers() {
	wait_wakeup --size 1m --outstanding 1,2,3,4,5,6,8,16,32 --buffers same,each |
		rows lo '["Gb/s", "buffers: \(.buffers)", .outstanding, gbits]'
}
# The best number of outstanding messages, observed and predicted, and the throughput of both.
best() {
	local size
	for size in ${LARGE//,/ }; do
		wait_wakeup --size "$size" --outstanding 1,2,4,8,16,32,64,128 | jq -s -c 'max_by(.GBps)' |
			rows lo '["Gb/s", "observed", .size, gbits], ["outstanding", "observed", .size, .outstanding]'
		wait_wakeup --size "$size" --outstanding best |
			rows lo '["Gb/s", "predicted", .size, gbits], ["outstanding", "predicted", .size, .outstanding]'
	done
}
# sleeping rate|cpu
sleeping() {
	local size how what='["Gb/s", $how, .size, gbits]'
	[ "$1" = rate ] || what='["% CPU of 200", $how, .size, cpu('"$SECS"')]'
	for size in ${LARGE//,/ }; do
		for how in "" --events; do
			perf lo bw --qp rc --op write-imm --size "$size" --outstanding best $how |
				rows lo '"'"${how:-polling}"'" as $how | '"$what"
		done
	done
}
# options OPTION LIST: throughput with each value of an option at the predicted number of outstanding messages.
options() {
	wait_wakeup --size "$LARGE" --outstanding best "--$1" "$2" |
		rows lo '["Gb/s", "'"$1"' \(.'"${1//-/_}"')", .size, gbits]'
}

# The blast: Sends of a sender that sleeps.
# blast rate|cpu
blast() {
	local what='["Gb/s", $curve, .size, gbits]'
	[ "$1" = rate ] || what='["% CPU of 200", $curve, .size, cpu('"$SECS"')]'
	perf lo bw --qp rc --events --size "$LARGE" --depth 1,2,4,8 |
		rows lo '"\(.depth) outstanding" as $curve | '"$what"
}
# ping time|cpu: the whole round trip.
ping() {
	local size how what='["us there and back", $curve, .size, 2 * .lat_us_p50]'
	[ "$1" = time ] || what='["% CPU of 200", $curve, .size, cpu('"$SECS"')]'
	for size in 4 64 1k 4k 16k; do
		for how in "" --events; do
			perf lo lat --qp rc --size $size --pin none,both $how |
				rows lo '"'"${how:-polling}"' \(.pin)" as $curve | '"$what"
		done
	done
}
user_level() {
	case $1 in
	latency) perf lo lat --qp rc --op send,write --size 4,64,256,1k | rows lo '["us", op, .size, .lat_us_p50]' ;;
	throughput) perf lo bw --qp rc --op send,write --size 4k,16k,64k,256k,1m |
		rows lo '["Gb/s", op, .size, gbits]' ;;
	cpu) perf lo bw --qp rc --op send,write --size 4k,16k,64k,256k,1m --events |
		rows lo '["% CPU of 200", op, .size, cpu('"$SECS"')], ["Gb/s", op, .size, gbits]' ;;
	rate) perf lo rate --qp rc --op send,write --size 4,16,64,256,1k |
		rows lo '["operations/s", op, .size, .msgs_per_s]' ;;
	tcp) perf lo bw --qp rc --op send --size 64,1k,4k,16k,64k,256k,1m --against raw-tcp |
		rows lo '["Gb/s", if .qp == "rc" then "RC" else "TCP" end, .size, gbits]'
		perf lo lat --qp rc --op send --size 64,1k,4k,16k,64k --against raw-tcp |
			rows lo '["us", if .qp == "rc" then "RC" else "TCP" end, .size, .lat_us_p50]' ;;
	outstanding) perf lo bw --qp rc --size 1k,16k,64k,256k --depth 1,2,4,8,16,32,64 |
		rows lo '["Gb/s", "\(.size) B", .depth, gbits]' ;;
	esac
}
