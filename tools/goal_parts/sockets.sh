# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Goals of the socket interposer, beside the kernel. tools/goals includes this file.

# Each figure takes five times SECONDS, in many short turns, so that other load disturbs both sides equally.
goals_sockets() {
build=${DIW%/bin/diw}
cost=$build/tests/system/sockets_cost
[ -x "$cost" ] || { echo "  left out: needs make tests"; return; }
turns=$(awk "BEGIN { print int($secs * 5 + 0.99) }")
directory /tmp || return
export XDG_RUNTIME_DIR=$tmp                  # a registry of its own
echo "CPU time of a program on one processor with the socket interposer against without (ratio)"
for work in blocking:64 blocking:172 blocking:1316 blocking:1400 epoll:64 epoll:172 epoll:1316 epoll:1400 \
	records:8192 records:32768 records:60000 segments:12000 by-hand:12000 segments:48000 by-hand:48000 \
		segments:64800 clients:172 sharers:172 round-trip:64 connection:64; do
	while IFS=$'\t' read -r label value goal; do
		row "  $label" "$value" '<=' "$goal"
	done < <("$cost" "$build/lib/diwarp/libdiwarp_sockets.so" "$turns" "${work%:*}" "${work#*:}")
done
goals_end
}
