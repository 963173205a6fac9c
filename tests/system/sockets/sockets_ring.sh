#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# diw run --sockets=all and io_uring (sockets_ring.c): the operations for sockets that liburing's own tests have. These
# are multishots, bundles, provided buffers, and sends without a copy. They move the same bytes as without the
# interposer.
. "${0%/*}/../lib.sh"
case $MODE in asan | tsan) skip "a program of its own cannot load a library built for a sanitizer"; end ;; esac

RING=$BUILD/tests/system/sockets_ring
export XDG_RUNTIME_DIR=$TMP/run DIWARP_SOCKETS_LOG=info
unset LD_PRELOAD DIWARP_SOCKETS DIWARP_SOCKETS_CRC DIWARP_SOCKETS_PEERS DIWARP_SOCKETS_STREAMS DIWARP_STAT
mkdir -m 700 "$TMP/run"

"$RING" > "$TMP/plain" 2>&1 < /dev/null
status=$?
if [ $status -eq 77 ]; then
	skip "$(tail -n 1 "$TMP/plain")"
	end
fi
check "the operations without the interposer" [ $status -eq 0 ]
check "... all of them" [ "$(grep -c '^ok - ' "$TMP/plain") $(tail -n 1 "$TMP/plain")" = "100 end" ]
for crc in off on; do
	run "the operations with it, CRC $crc" env DIWARP_SOCKETS_CRC=$crc $DIW run --sockets=all "$RING"
	check "... see the same" diff "$TMP/plain" <(grep -v '^diwarp sockets: ' <<< "$OUT")
	check "... behind datagrams in frames" matches "$OUT" 'counted .*sock_rx_framed=(1[6-9]|2[0-4]) '
	check "... and without FPDUs" [ -z "$(grep 'sock_stream_tx=' <<< "$OUT")" ]
done
end
