#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Ten thousand RC connections between two processes, or fewer if the machine's limit on descriptors is lower.
. "${0%/*}/../lib.sh"

most=$(($(ulimit -Hn) - 100))
n=$((most < 10000 ? most : 10000))
[ "$MODE" = release ] || n=$((n < 500 ? n : 500))
value() { jq -e "$1" <<< "$OUT"; }
# Ends that get no processor for long give their handshakes up.
connect() {
	OUT=$("$BUILD/tests/system/many" "$n" 2>&1)
	echo "    $OUT"
}
idle=()
# A sanitizer needs more memory.
[ "$MODE" != release ] || idle=("an idle one costs at most 8 KiB at either end"
	"value '.idle_bytes <= 8192 and .idle_bytes_server <= 8192'")
measured connect "$n connections are set up, exchange messages and end" "value '.connections == $n'" "${idle[@]}"
end
