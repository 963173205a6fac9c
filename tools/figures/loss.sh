# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2154
# The figures of loss, for tools/figures/run: nftables drops packets of MTU 1500 where the receiver's interface takes
# them, before IP puts fragments together.

# lose PERMILLE: from now on this share of the packets to the other end is lost. A super-buffer would be one packet, so
# the sender's interface splits it.
lose() {
	segments packets && there nft "add table netdev diw; delete table netdev diw; add table netdev diw
		add chain netdev diw loss { type filter hook ingress device vb priority 0; }
		add rule netdev diw loss meta l4proto != tcp numgen random mod 1000 < $1 drop
		add rule netdev diw loss tcp dport != $PORT tcp sport != $PORT numgen random mod 1000 < $1 drop"
}
lose_nothing() { there nft delete table netdev diw; }

# loss OP: goodput against size at losses of packets. "fragments" is the way of the study: a datagram of up to 64 KiB is
# lost with each of its fragments, and a record closes by its last datagram. Where all of a point is lost, its goodput
# is 0. TCP may wait for 200 ms and more, and each round ends when it has sent what is queued. So RC has fewer points,
# of fewer rounds and five times the time.
loss() {
	local how permille place qp sizes rounds secs=$SECS SECS more
	two_ends || return
	# Fragments whose datagram has lost others would fill the receiver's memory for 30 s.
	there sysctl -q net.ipv4.ipfrag_high_thresh=1000000000 net.ipv4.ipfrag_time=1
	for permille in 0 1 5 10 50; do
		lose $permille || return
		for how in "fragments fragments ud" "segments veth ud" "RD veth rd" "RC veth rc"; do
			read -r how place qp <<< "$how"
			sizes=$SIZES_OF_LOSS SECS=$secs rounds=7
			more=()
			[ "$how.$1" != fragments.write ] || more=(--close-last)
			[ "$how" != RC ] || sizes=4k,65400,512k SECS=$(awk "BEGIN { print 5 * $secs }") rounds=3
			for size in ${sizes//,/ }; do
				perf "$place" bw --qp "$qp" --op "$1" --size "$size" --rounds $rounds "${more[@]}" \
					2>> "$TMP/lost" |
					rows "$how" '["GB/s", "\('$permille' / 10) %", .size, .GBps]'
			done
		done
	done
	lose_nothing
	for permille in 0.1 0.5 1 5; do
		compare GB/s "% of the goodput without loss" "$permille %" "0 %" "$permille %"
	done
}
