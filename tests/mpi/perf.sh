#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Compares MPI over the provider `diwarp` with the same OpenMPI over other transports: two ranks of one host, over the
# loopback interface, shared memory off. The transports take turns. Each figure is the median of the rounds.
# usage: [ROUNDS=5] [SECS=0.5] [TRANSPORTS="..."] tests/mpi/perf.sh [lat] [rate] [bw] [bibw]
#
# Prints a table, and then the goals of docs/mpi.md, each a ratio. diwarp:rc is the provider over RC. The exit status is
# 1 if a goal is missed, and 77 if OpenMPI can't be had here. Ranks of OpenMPI spin: the figures need a machine with two
# free cores.
. "${0%/*}/perf/lib.sh"
read -ra transports <<< "${TRANSPORTS:-diwarp ob1-tcp tcp;ofi_rxm udp;ofi_rxd ucx-tcp ucx-rc ucx-ud}"
SECS=${SECS:-0.5}
compiled mpi_perf || exit

for ((i = 0; i < ${ROUNDS:-5}; i++)); do
	"$DIW" perf lat --qp rd --op send --size 8 --local --secs "$SECS" --json |
		sed -n '1s/.*"lat_us_p50": *\([0-9.]*\).*/rd lat 8 \1/p' >> "$tmp/figures"
	for transport in "${transports[@]}"; do
		(over "$transport" 2 60 "$tmp/mpi_perf" "$SECS" "$@") | sed "s/^/$transport /" >> "$tmp/figures"
		[ "${PIPESTATUS[0]}" = 0 ] || { echo "$transport: round $i failed:"; tail -n 3 "$tmp/errors"; } >&2
	done
done

# Medians of a transport, a figure and a size.
sort -k1,1 -k2,2 -k3,3n -k4g "$tmp/figures" | awk '
	function done() { if (n) print key, v[int((n + 1) / 2)] }
	{ k = $1 " " $2 " " $3 }
	k != key { done(); key = k; n = 0 }
	{ v[++n] = $4 }
	END { done() }' > "$tmp/medians"

awk -v list="${transports[*]}" '
	{ m[$1, $2 " " $3] = $4; if (!seen[$2 " " $3]++) order[++rows] = $2 " " $3 }
	END {
		n = split(list, t, " ")
		printf "| figure |"; for (i = 1; i <= n; i++) printf " %s |", t[i]; print ""
		printf "|---|"; for (i = 1; i <= n; i++) printf "---|"; print ""
		for (r = 1; r <= rows; r++) {
			split(order[r], f, " ")
			unit = f[1] == "lat" ? "us" : f[1] == "rate" ? "thousand/s" : "MB/s"
			scale = f[1] == "lat" ? 1 : f[1] == "rate" ? 1e-3 : 1e-6
			printf "| %s, %s octets, %s |", f[1], f[2], unit
			for (i = 1; i <= n; i++)
				if ((t[i], order[r]) in m) printf " %.4g |", m[t[i], order[r]] * scale
				else printf " none |"
			print ""
		}
	}' "$tmp/medians"

# The goals: latency below each peer, bandwidths above each, 3 times the best rate, UCX over UD at least as fast as over
# TCP.
awk -v list="${transports[*]}" '
	function goal(text, value, relation, bound) {
		ok = relation == "<=" ? value <= bound : value >= bound
		printf "%-64s %8.3f   %s %-6s %s\n", text, value, relation, bound, ok ? "ok" : "MISSED"
		if (!ok) missed++
	}
	function best(figure, lowest,   i, b) {
		for (i = 1; i <= n; i++)
			if (t[i] !~ /^diwarp/ && (t[i], figure) in m &&
			    (!b || (lowest ? m[t[i], figure] < b : m[t[i], figure] > b)))
				b = m[t[i], figure]
		return b
	}
	{ m[$1, $2 " " $3] = $4; if (!seen[$2 " " $3]++) order[++rows] = $2 " " $3 }
	END {
		n = split(list, t, " ")
		if (("diwarp", "lat 8") in m && ("rd", "lat 8") in m)
			goal("  lat 8, diwarp / perf lat --qp rd", m["diwarp", "lat 8"] / m["rd", "lat 8"], "<=", 1.6)
		for (r = 1; r <= rows; r++) {
			f = order[r]
			lat = f ~ /^lat/
			relation = lat ? "<=" : ">="
			b = best(f, lat)
			bound = f ~ /^rate/ ? 3 : 1
			if (("diwarp", f) in m && b)
				goal("  " f ", diwarp / the best other", m["diwarp", f] / b, relation, bound)
			if (f ~ /^bibw/ && ("diwarp", f) in m && ("diwarp:rc", f) in m)
				goal("  " f ", diwarp / diwarp:rc", m["diwarp", f] / m["diwarp:rc", f], ">=", 1.2)
			split(f, part, " ")
			if (part[1] == "bw" && part[2] >= 65536 && ("ucx-ud", f) in m && ("ucx-tcp", f) in m)
				goal("  " f ", ucx-ud / ucx-tcp", m["ucx-ud", f] / m["ucx-tcp", f], ">=", 1)
		}
		print missed ? missed " missed" : "every goal is reached"
		exit missed > 0
	}' "$tmp/medians"
