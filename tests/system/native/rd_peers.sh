#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Thousands of reliable-datagram peers of one queue pair. Some peers are killed and come back.
. "${0%/*}/../lib.sh"

# peers N: runs N peers, prints the program's output, and keeps the memory that the peers took.
peers() {
	run "$1 peers send to one queue pair, are answered, killed, and come back" "$BUILD/tests/system/rd_peers" "$1"
	echo "    $OUT"
	check "... all of them" jq -e ".peers == $1" <<< "$OUT"
	check "... a peer that is gone is told within 60 s" jq -e '.gone_seconds <= 60' <<< "$OUT"
	MEMORY=$(jq .memory <<< "$OUT")
}

[ "$MODE" = release ] || { peers 200; end; }     # a sanitizer needs more memory
# On a busy machine other memory of the process may grow in between.
idle() {
	peers 1000
	few=$MEMORY
	peers 4000
	idle=$(((MEMORY - few) / 3000))
	echo "    an idle peer: $idle octets"
}
measured idle "an idle peer costs at most 512 octets" '[ "$idle" -le 512 ]'
run "1000 connections of RC, to compare" "$BUILD/tests/system/many" 1000
echo "    1000 idle peers take $((idle * 1000)) octets of RD's receiver, 1000 idle connections" \
	"$(jq '.idle_bytes_server * 1000 | round' <<< "$OUT") of RC's"
end
