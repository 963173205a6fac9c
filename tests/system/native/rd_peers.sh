#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Thousands of reliable-datagram peers of one queue pair, of which some are killed and come back.
. "${0%/*}/../lib.sh"

# peers N: so many; prints what the program does, and keeps the memory that they took
peers() {
	run "$1 peers send to one queue pair, are answered, killed, and come back" "$BUILD/tests/system/rd_peers" "$1"
	echo "    $OUT"
	check "... all of them" jq -e ".peers == $1" <<< "$OUT"
	check "... a peer that is gone is told within 15 s" jq -e '.gone_seconds <= 15' <<< "$OUT"
	MEMORY=$(jq .memory <<< "$OUT")
}

[ "$MODE" = release ] || { peers 200; end; }     # a sanitizer's memory is not ours
# On a busy machine other memory of the process grows meanwhile: three tries.
for try in 1 2 3; do
	peers 1000
	few=$MEMORY
	peers 4000
	idle=$(((MEMORY - few) / 3000))
	echo "    an idle peer: $idle octets (try $try)"
	[ "$idle" -gt 512 ] || break
done
check "an idle peer costs at most 512 octets" [ "$idle" -le 512 ]
end
