# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2154,SC2030,SC2031
# The figures of MPI, for tools/figures/run: OpenMPI over the provider's RD queue pair (UD) and over its RC queue pairs,
# all ranks on this host, without shared memory between them. Long messages go by Sends ("send": they are cut beyond
# 8 KiB), or by Write-Records and Writes ("write": beyond 64 KiB). The two modes take turns, round by round.

# mpi KIND FUNCTION ARGUMENT...: calls the function in a shell of its own, with what tests/mpi/perf/lib.sh has, in each
# round for UD and RC. MODE is UD or RC, and TRANSPORT what over() takes.
mpi() (
	kind=$1
	shift
	. tests/mpi/perf/lib.sh
	export OMPI_MCA_oob_tcp_if_include=lo    # the only interface here, which mpirun leaves out otherwise
	"$1_made" || exit
	for ((round = 0; round < ${ROUNDS:-5}; round++)); do
		for MODE in UD RC; do
			case $MODE.$kind in
			UD.write) TRANSPORT=diwarp FI_DIWARP_EAGER=65536 ;;
			UD.send) TRANSPORT=diwarp:sendrecv FI_DIWARP_EAGER=8192 ;;
			RC.write) TRANSPORT=diwarp:rc FI_DIWARP_EAGER=65536 ;;
			RC.send) TRANSPORT=diwarp:rc,sendrecv FI_DIWARP_EAGER=8192 ;;
			esac
			export FI_DIWARP_EAGER
			"$@" || { echo "MPI, $MODE, round $round: $*"; tail -n 2 "$tmp/errors"; } >&2
		done
	done
)

# mpi_rows: adds the medians of lines PLACE,UNIT,CURVE,X,Y on standard input to ID.csv.
mpi_rows() {
	sort -t, -k1,4V -k5g | awk -F, -v OFS=, '
		function done() { if (n) print key, v[int((n + 1) / 2)] }
		{ k = $1 OFS $2 OFS $3 OFS $4 }
		k != key { done(); key = k; n = 0 }
		{ v[++n] = $5 }
		END { done() }' >> "$CSV"
}

mpi_test_made() { compiled mpi_perf; }
# mpi_test NAME UNIT SCALE
mpi_test() {
	local sizes
	read -ra sizes <<< "$(numfmt --from=iec ${SIZES//,/ } | tr '\n' ' ')"
	(over "$TRANSPORT" 2 300 "$tmp/mpi_perf" "$SECS" "$1" "${sizes[@]}") |
		awk -v n="$1" -v u="$2" -v m="$MODE" -v s="$3" -v OFS=, '
			$1 == n { print "lo", u, m, $2, $3 * s; found = 1 } END { exit !found }'
}
mpi_lat() {
	local SIZES=${SIZES^^}
	mpi "$1" mpi_test lat us 1 | mpi_rows
	compare us "% less" UD RC "UD below RC"
}
mpi_bibw() {
	local SIZES=${SIZES^^}
	mpi "$1" mpi_test bibw GB/s 1e-9 | mpi_rows
	compare GB/s "% more" UD RC "UD above RC"
}

# A run counts if the kernel's result is right.
mpi_kernel_made() {
	compiled kernels tests/mpi/kernels/*.c && compiled libpmpi.so -shared -fPIC tests/mpi/pmpi/pmpi.c
}
mpi_kernel() {
	local name ranks failed=0
	for ranks in ${RANKS:-4 8 16}; do
		for name in cg mg lu is smg; do
			(over "$TRANSPORT" "$ranks" 600 env LD_PRELOAD="$tmp/libpmpi.so" "$tmp/kernels" "$name") |
				grep -q '^done: 1 kernels, 0 wrong' || { failed=1; continue; }
			grep -o '{"ranks".*}' "$tmp/errors" |
				jq -r --arg place "$ranks ranks" --arg mode "$MODE" --arg x "${name^^}" '
				[$place, "s of the run", $mode, $x, .seconds],
				[$place, "s in MPI", $mode, $x, .mpi_seconds] | join(",")'
		done
	done
	return $failed
}
mpi_apps() {
	mpi "$1" mpi_kernel | mpi_rows
	compare "s of the run" "% less" UD RC "run time"
	compare "s in MPI" "% less" UD RC "communication"
}

# Of a rank: its own memory, and that with the kernel's structures of its sockets, whose sizes the slabs tell.
mpi_pages_made() { compiled mpi_memory; }
mpi_pages() {
	local ranks slabs failed=0
	slabs=$(awk '$1 == "TCP" { t = $4 } $1 == "UDP" { u = $4 }
		$1 ~ /^(sock_inode_cache|filp|dentry)$/ { s += $4 } END { print t + s, u + s }' /proc/slabinfo)
	for ranks in ${RANKS:-2 4 8 16 32 64}; do
		(over "$TRANSPORT" "$ranks" 600 "$tmp/mpi_memory") | awk -v m="$MODE" -v slabs="$slabs" -v OFS=, '
			$1 == "memory" {
				split(slabs, s, " ")
				print "lo", "KiB of its own", m, $2, $3
				print "lo", "KiB with its sockets", m, $2, $3 + ($5 * s[1] + $6 * s[2]) / 1024
				found = 1
			}
			END { exit !found }' || failed=1
	done
	return $failed
}
mpi_memory() {
	mpi write mpi_pages | mpi_rows
	compare "KiB of its own" "% less" UD RC "own"
	compare "KiB with its sockets" "% less" UD RC "with sockets"
}
