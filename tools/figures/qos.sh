# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2154
# The figures of weights (docs/figures.md, T3.1 to T3.6), for tools/figures/run. RD stands for the study's MPI, RC for
# SDP, UD for IPoIB.

WEIGHTS=${WEIGHTS:-1,2,4,16,64,255}
FACTORS=${FACTORS:-1,2,4,16,64}
BUCKET=${BUCKET:-1gbit}

# qos PLACE OPTION...: the rows of diw perf qos over lo, or over "link": lo behind a token bucket of the rate BUCKET.
qos() {
	local place=$1
	shift
	if [ "$place" = link ]; then
		tc qdisc add dev lo root tbf rate "$BUCKET" burst 256k limit 8m || return
	fi
	perf lo qos "$@"
	[ "$place" != link ] || tc qdisc del dev lo root
}
# The preferred streams' goodput and the sum against those of weight 1.
GAINS='group_by(.mode)[] | (map(select(.weight == 1))[0]) as $one | .[] |
	select($one.prefer_GBps > 0) | . + { gain: (100 * (.prefer_GBps / $one.prefer_GBps - 1)),
		loss: (100 * (1 - .GBps / $one.GBps)) }'

# shares: two RD streams.
shares() {
	local place
	for place in lo link; do
		qos $place --prefer rd --beside rd --mode weighted,blocking --weight "$WEIGHTS" |
			rows $place '["ratio", .mode, .weight, .ratio], ["Gb/s", .mode, .weight, gbits]'
	done
}
# preferred QP:N BESIDE:N: against the factors, messages of 512 KiB.
preferred() {
	local place
	for place in lo link; do
		qos $place --prefer "$1" --beside "$2" --mode weighted,blocking --size 512k --weight "$FACTORS" |
			jq -s -c "$GAINS" |
			rows $place '["% more", .mode, .weight, .gain], ["% less", .mode, .weight, .loss]'
	done
}
# one_of_each PREFERRED BESIDE: one stream of each, and two of each.
one_of_each() {
	local place n
	for place in lo link; do
		for n in 1 2; do
			qos $place --prefer "$1:$n" --beside "$2:$n" --size 512k --weight "$FACTORS" |
				jq -s -c "$GAINS" |
				rows $place '"\(.nprefer + .nbeside) streams" as $name |
					["% more", $name, .weight, .gain], ["% less", $name, .weight, .loss]'
		done
	done
}
# share_of_link: of one stream beside an RD stream.
share_of_link() {
	local qp
	for qp in ud rc; do
		qos link --prefer $qp --beside rd --size 512k --weight "$FACTORS" |
			rows link '["% of the sum", (.prefer | ascii_upcase), .weight, 100 * .prefer_GBps / .GBps]'
	done
}
