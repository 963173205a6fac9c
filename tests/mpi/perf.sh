#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Compares MPI over the provider `diwarp` with the same OpenMPI over other transports: two ranks of one host, over the
# loopback interface, shared memory off. The transports take turns. Each figure is the median of the rounds.
# usage: [ROUNDS=5] [SECS=0.5] [TRANSPORTS="..."] tests/mpi/perf.sh [lat] [rate] [bw] [bibw]
#
# Prints a table, and then the goals of docs/mpi.md, each a ratio. diwarp:rc is the provider over RC. The exit status is
# 1 if a goal is missed, and 77 if OpenMPI can't be had here. Ranks of OpenMPI spin: the figures need a machine with two
# free cores.
set -u
cd -- "$(dirname -- "$(readlink -f -- "$0")")/../.." || exit 1
MPI=${MPI:-build/mpi}
[ -x "$MPI/check.openmpi" ] || tests/mpi/get.sh || exit
MPI=$(readlink -f -- "$MPI")
root=$MPI/root/usr
lib=$root/lib/$(${CC:-gcc} -print-multiarch)
read -ra transports <<< "${TRANSPORTS:-diwarp ob1-tcp tcp;ofi_rxm udp;ofi_rxd ucx-tcp ucx-rc ucx-ud}"
DIW=${DIW:-build/bin/diw}
SECS=${SECS:-0.5}
tmp=$(mktemp -d) || exit
trap 'rm -rf "$tmp"' EXIT
export OPAL_PREFIX=$root LD_LIBRARY_PATH=$lib:$root/lib/libpsm1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
${CC:-gcc} -std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra -isystem "$lib/openmpi/include" tests/mpi/perf/mpi_perf.c \
	-o "$tmp/mpi_perf" "$lib/libmpi.so.40" -Wl,--allow-shlib-undefined || exit

# once TRANSPORT OPTION...: prints the lines of one run of mpi_perf over that transport
once() {
	local transport=$1 run=() mca=(--mca btl self)
	shift
	case $transport in
	diwarp*)
		run=("$DIW" run --mpi --)
		export FI_DIWARP_IFACE=lo FI_DIWARP_MODE=${transport#diwarp}
		FI_DIWARP_MODE=${FI_DIWARP_MODE#:}
		[ -n "$FI_DIWARP_MODE" ] || unset FI_DIWARP_MODE ;;
	ob1-tcp) mca=(--mca pml ob1 --mca btl "self,tcp" --mca btl_tcp_if_include lo) ;;
	*ofi_*)
		export FI_TCP_IFACE=lo FI_UDP_IFACE=lo
		mca+=(--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include "$transport" --mca osc pt2pt) ;;
	ucx-*)
		export UCX_TLS=tcp UCX_NET_DEVICES=lo
		mca+=(--mca pml ucx --mca osc ucx --mca pml_ucx_tls any --mca pml_ucx_devices any) ;;&
	ucx-rc) export UCX_TLS="rc_verbs,ud_verbs:aux" ;;&
	ucx-ud) export UCX_TLS=ud_verbs ;;&
	ucx-rc | ucx-ud) run=("$DIW" run --dev --) UCX_NET_DEVICES=diw_lo:1 ;;
	esac
	timeout -k 5 60 "${run[@]}" "$root/bin/mpirun.openmpi" -n 2 --oversubscribe "${mca[@]}" \
		"$tmp/mpi_perf" "$SECS" "$@" 2> "$tmp/errors"
}

for ((i = 0; i < ${ROUNDS:-5}; i++)); do
	"$DIW" perf lat --qp rd --op send --size 8 --local --secs "$SECS" --json |
		sed -n '1s/.*"lat_us_p50": *\([0-9.]*\).*/rd lat 8 \1/p' >> "$tmp/figures"
	for transport in "${transports[@]}"; do
		(once "$transport" "$@") | sed "s/^/$transport /" >> "$tmp/figures"
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
