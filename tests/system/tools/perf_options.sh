#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# diw perf, the options that shape requests, buffers and acknowledgements, and the test cpu: a row for each number, with
# plausible figures. No speed is judged.
. "${0%/*}/../lib.sh"
. "${0%/*}/perf_kit.sh"

# column KEY VALUE...: the rows have these values of KEY, in this order.
column() {
	local key=$1
	shift
	jq -c -e -s --argjson want "$(printf '%s\n' "$@" | jq -c -R 'tonumber? // .' | jq -c -s .)" \
		"map(.$key) == \$want" "$TMP/rows" > /dev/null || { jq -c ".$key" "$TMP/rows"; return 1; }
}

perf bw --qp rc --op write-imm --size 64k --outstanding 1,4,best --local
check "... equation 1: 48 messages of 64 KiB" column outstanding 1 4 48
perf lat --qp rc,rc-confirm --op write-imm --local
perf bw --qp ud,rc --op send,write --size 64k --window 2,8 --local
check "... each window" column window 2 2 8 8 2 2 8 8
perf bw --qp ud,rc --op send --size 100 --sge 1,16 --max-sge 16 --local
check "... entries whose lengths differ by the rest" every '.max_sge == 16 and .lost == 0'
perf lat --op send,write,read --sge 3 --size 1000 --local
perf bw --qp rc --op write-imm --size 64k --signal 1,7,half,eq2,eq2-max --outstanding 16 --local
check "... by number or by rule" column signal 1 7 half eq2 eq2-max
perf bw --qp rc,ud --op write,send --size 5000 --offset 0,1,4095 --local
check "... each offset" column offset 0 0 1 1 4095 4095 0 0 1 1 4095 4095
perf bw --op write --size 64k --buffers same,each --local
check "... each kind" column buffers same each
perf bw --op send --size 3000 --reuse 100,33,1 --scheme 1,2 --local
check "... each share and scheme" column reuse 100 33 1 100 33 1
perf lat --qp ud,rc --op write --reuse 25 --scheme 2 --local
perf rate --qp rc --op send --pin none,rx,tx,both --local
check "... each end" column pin none rx tx both
perf cpu --qp ud,rc --op send --size 64k --local
check "... five shares of computation" column compute 0 0 50 50 80 80 90 90 95 95
computes='all(.[]; .compute == 0 or .computed > .3) and all(.[] | select(.compute == 0); .computed == 0)'
measured 'perf cpu --op write --size 64k --compute 0,60 --local' "... of which most was given" \
	"jq -e -s '$computes' $TMP/rows"

perf lat --qp ud,rd,rc --qps 1,3 --op send --local
check "... one and three queue pairs" column qps 1 1 3 3 1 1 3 3
perf lat --qp rc --qps 2 --op write-imm,read,fetch-add --local
perf bw --qp ud,rd --op send,write,read --size 4k --qps 5 --active 2 --local
perf bibw --qp rc --op send --size 64k --qps 5 --events --local
perf bw --qp ud,rc --op send --size 64k --streams 1,3 --wait --local
check "... one and three streams" column streams 1 1 3 3
perf lat --qp ud,rc --streams 2 --events --local
perf bw --qp ud,rc --op send --size 64k --load 0,2 --local
check "... others write meanwhile" column load 0 0 2 2
limited() { (ulimit -Sn 256; "$@"); }
run "300 queue pairs, and a low limit of descriptors" limited $DIW perf rate --qps 300 --active 2 --secs .1 --local

# At a loss of 50 %, half of the bytes come, and a quarter of the records has its first segment only.
perf bw --op write --size 2800 --mulpdu 1452 --impair loss=50%,seed=3 --local
check "... all bytes that come count" every '.bytes_valid / .bytes_sent | . > .44 and . < .56'
perf bw --op write --size 2800 --mulpdu 1452 --impair loss=50%,seed=3 --close-last --local
check "... with --close-last, none of a record without its last segment" every \
	'.close_last and (.bytes_valid / .bytes_sent | . > .31 and . < .44)'

# Their receives touch new memory, for which a busy machine needs seconds.
perf bw --qp rc --op send --size 512m --rounds 1 --local
# Two million datagrams take longer than a round waits.
expect 1 "a row without a figure" \
	$DIW perf bw --qp rd --op write --size 256m --mulpdu 128 --secs 0.05 --rounds 1 --local
check "... says what to give" matches "$OUT" 'no message of 268435456 bytes ended in a round; give more --secs'
expect 2 "a server with an option of the client" $DIW perf lat --qp rc --server
check "... says what it takes" matches "$OUT" '--server takes only --port, --bind, --dev, --impair, not --qp'
expect 2 "no test" $DIW perf foo
check "... is named, with the tests" matches "$OUT" "'foo' is not a test: lat, bw"

while read -r line; do
	# shellcheck disable=SC2086  # several arguments
	expect 2 "perf $line" $DIW perf $line --local
done << 'END'
lat --outstanding 4
lat --window 4
lat --close-last
bw --outstanding 4 --window 4
bw --outstanding worst
bw --window 1
bw --scheme 2
bw --reuse 50 --buffers same
bw --reuse 101
bw --buffers many
bw --offset 4096
bw --sge 17
bw --sge 2 --op fetch-add --qp rc
bw --compute 50
bw --qps 4097
rate --load 1
bw --load 2 --streams 2
bw --streams 33
bw --qp uc --streams 2
bw --qp uc --qps 2
bw --active 2
bw --qp rc --op write --qps 2
cpu --compute 100
cpu --against raw-udp
bw --op write-imm
bw --qp rc --close-last
bw --pin left
bw --qp raw-udp --sge 2
lat --depth 7
cpu --qp raw-tcp
bw --qp rc --crc --no-crc
lat --sge 4 --max-sge 2
bw --qps 2 --active 3
bw --op send --close-last
bw --op write,send --close-last
bw --qp rc,raw-udp --llp udp
bw --size 64,64
bw --size 1:4,2
bw --outstanding best,best
bw --op read --size 32m
bw --qp rd,rc --op send --size 32m
END
end
