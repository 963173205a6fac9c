#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# diw perf --provider verbs, over this project's libibverbs.so.1: rows beside those of diw.h. No speed is judged.
. "${0%/*}/../lib.sh"
. "${0%/*}/perf_kit.sh"
[ -e "$BUILD/lib/diwarp/libibverbs.so.1" ] || { skip "libibverbs.so.1 was not built"; end; }

plain=$DIW
DIW="$plain run $plain"
perf lat --qp ud,rc --provider diw,verbs --local
check "... both providers, UD and RC" [ "$(jq -c -s 'map([.qp, .provider])' "$TMP/rows")" = \
	'[["ud","diw"],["rc","diw"],["ud","verbs"],["rc","verbs"]]' ]
perf lat --qp rc --op write,write-imm,read --provider verbs --bind ::1 --local
perf lat --qp ud,rc --events --provider verbs --local
perf bw --qp ud --op send --size 1k --provider verbs --local
perf bw --qp rc --op send,write,write-imm,read --size 100k --sge 2 --signal 3 --provider verbs --local
check "... nothing is lost" every '.lost == 0'
perf bibw --qp rc --op send --size 64k --outstanding 4 --provider verbs --local
DIW=$plain
while read -r line; do
	# shellcheck disable=SC2086  # several arguments
	expect 2 "perf $line" $DIW perf $line --provider verbs --local
done << 'END'
lat --qp rd
lat --op write
lat --qp rc --op fetch-add
bw --qp rc --no-crc
bw --mulpdu 1000
bw --wait
bw --impair loss=1%
bw --qps 2
END
end
