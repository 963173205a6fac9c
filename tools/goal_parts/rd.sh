# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Goals of reliable datagrams, beside unreliable ones. tools/goals includes this file.

goals_rd() {
echo "reliable datagrams over lo against UD (ratio), medians of 5 interleaved rounds"
row "  half round trip, polling, 64 B, send" "$(paired lat_us_p50 rd ud lat --op send --size 64)" '<=' 1.15
row "  512 KiB, send" "$(paired GBps rd ud bw --op send --size 512k)" '>=' 0.9
row "  64 B, depth 256, send" "$(paired msgs_per_s rd ud rate --op send --size 64 --depth 256)" '>=' 0.00
}
