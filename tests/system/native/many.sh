#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Ten thousand RC connections between two processes, or fewer if the machine's limit on descriptors is lower.
. "${0%/*}/../lib.sh"

most=$(($(ulimit -Hn) - 100))
n=$((most < 10000 ? most : 10000))
[ "$MODE" = release ] || n=$((n < 500 ? n : 500))
run "$n connections are set up, exchange messages and end" "$BUILD/tests/system/many" "$n"
echo "    $OUT"
value() { jq -e "$1" <<< "$OUT"; }
check "... all of them" value ".connections == $n"
[ "$MODE" = release ] || end     # a sanitizer needs more memory
check "an idle one costs at most 8 KiB at either end" value '.idle_bytes <= 8192 and .idle_bytes_server <= 8192'
end
