#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# diw perf group: rows of 1 to 16 receivers, with Sends and Write-Records, to a group and by broadcast. No speed is
# judged.
. "${0%/*}/../lib.sh"
GROUP=239.1.1.1
AT=(--dev diw_lo --secs 0.3 --json)
KEYS='["test","to","mode","llp","op","size","receivers","msgs_sent","GBps_sent","GBps_min","GBps_aggregate",
	"stalls","cpu_s","per_receiver"]'

rows() { grep '^{' <<< "$OUT" | jq -e -s "$1" > /dev/null || { echo "not so: $1"; echo "$OUT"; return 1; }; }

# A receiver that gets no processor gets nothing, or loses most.
many() {
	run "Write-Records to 1, 2 and 16 receivers" perf_try $DIW perf group $GROUP --receivers 1,2,16 --dev diw_lo
	check "a row each" rows 'map(.receivers) == [1, 2, 16] and all(.[]; (.per_receiver | length) == .receivers)'
}
measured many "... and each receiver got something" "rows 'all(.[]; .GBps_min > 0)'"
check "... with all keys" rows "all(.[]; $KEYS - keys == [] and .mode == \"group\" and .op == \"write\")"
check "... and the aggregate is the sum" \
	rows 'all(.[]; ([.per_receiver[].GBps] | add) as $sum |
		.GBps_aggregate > .99 * $sum and .GBps_aggregate < 1.01 * $sum)'
check "... and nobody got more than was sent" rows 'all(.[]; .msgs_sent as $n | all(.per_receiver[]; .msgs <= $n))'
run "Sends to 4 receivers" $DIW perf group $GROUP --receivers 4 --op send --size 3000 "${AT[@]}"
check "each got whole messages" rows 'all(.[0].per_receiver[]; .msgs > 0 and .bytes_valid == 3000 * .msgs)'
scales() {
	run "a sweep of sizes" perf_try $DIW perf group $GROUP --op send --receivers 1,2 --size 1k,4k \
		--dev diw_lo
	check "a row for each size and number" rows 'map([.size, .receivers]) == [[1024, 1], [1024, 2], [4096, 1],
		[4096, 2]]'
	check "... the first of a size is its own measure" rows 'all(.[]; .receivers == 2 or .scaling == 1)'
}
measured scales "... and the others are compared with it" "rows 'all(.[]; .scaling > 0)'"
loses() {
	run "Write-Records with loss" perf_try $DIW perf group $GROUP --receivers 3 --mulpdu 1452 \
		--impair rx.loss=1%,seed=1 --dev diw_lo
}
most='. as $r | all(.per_receiver[]; .lost > 0 and .bytes_valid > .8 * $r.msgs_sent * $r.size)'
measured loses "each has lost some, and got most" 'rows "all(.[0]; $most)"'
run "broadcasts, by the device that the route names" $DIW perf group 127.255.255.255 --secs 0.3 --json
check "they came" rows '.[0].mode == "broadcast" and .[0].GBps_min > 0'
run "one address" $DIW perf group 127.0.0.1 "${AT[@]}"
check "it came" rows '.[0].mode == "unicast" and .[0].GBps_min > 0'
run "a table" $DIW perf group $GROUP --dev diw_lo --secs 0.3
check "it has a row" matches "$OUT" 'receivers .*write .*256 KiB'
for wrong in "" "$GROUP --receivers 17" "$GROUP --receivers 0" "$GROUP --op read" "$GROUP $GROUP" \
	"--join 127.0.0.1 $GROUP" "127.0.0.1 --receivers 1,2"; do
	# shellcheck disable=SC2086  # several arguments
	expect 2 "perf group $wrong" $DIW perf group $wrong
done
expect 1 "joining nobody" $DIW perf group --join 127.0.0.1
check "it says what is missing" matches "$OUT" "is 'diw perf group --bind 127.0.0.1' running there"

# ---- Two receivers that join, one of them on another host; A receives its own broadcasts ----

two_namespaces 1500 || { skip "no veth pair here"; end; }
B4CAST=192.0.2.255
ip addr del $A4/24 dev va && ip addr add $A4/24 brd $B4CAST dev va
for to in $B4CAST $GROUP; do
	dev=()
	[ $to = $B4CAST ] || dev=(--dev)     # no route leads to the group
	background "$TMP/source" $DIW perf group $to "${dev[@]/%/=diw_va}" --bind $A4 --receivers 2 --secs 0.3 --json
	SOURCE=$PID
	check "$to: the sender waits" eventually 10 accepting 4791
	background "$TMP/a" $DIW perf group --join $A4 "${dev[@]/%/=diw_va}"
	A=$PID
	background "$TMP/b" in_b $DIW perf group --join $A4 "${dev[@]/%/=diw_vb}"
	B=$PID
	check "$to: it ends" join "$SOURCE" 10
	OUT=$(< "$TMP/source")
	check "$to: both got it" rows '.[0].GBps_min > 0 and (.[0].per_receiver | length) == 2'
	check "$to: the receiver here ends" join "$A" 10 || cat "$TMP/a"
	check "$to: the receiver there ends" join "$B" 10 || cat "$TMP/b"
done
end
