#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# MPI over the software RNIC. OpenMPI, MPICH and MVAPICH run tests/mpi, which checks every byte, with the settings of
# docs/mpi.md. The script prints a table. Its last line is "N passed, N failed", which counts runs of all ranks.
# usage: [ROUNDS=20] [FIRST=0] [RANKS="2 4 8 16"] [HOSTS=1] [HANG=SECONDS] [NETWORKS="good loss=1% ..."]
#        tests/mpi/run.sh [PATTERN]
#
# PATTERN (extended regular expression) chooses lines "MPI TRANSPORT RANKS". HOSTS=2 runs half of the ranks in another
# network namespace. FIRST is the seed of the first round, so a later call can continue an earlier one. NETWORKS are
# values of DIWARP_IMPAIR (diwarp(7)), or "good"; the rows of transports over connections run with "good" alone.
# mpich-ofi is Debian's MPICH, built for Debian's libfabric; mpich5 is PyPI's, with the libfabric that it brings.
# mvapich2 and mvapich are those that tests/mpi/mvapich.sh builds, over libibverbs and over Debian's libfabric.
# A run is
#   wrong      if a byte was wrong,
#   hung       if it did not end within HANG,
#   crashed    if it failed in another way,
#   elsewhere  if a rank moved less than a megabyte through queue pairs of the transport's type, or no datagram was
#              impaired in one of the ways that the network names.
# The output of failed runs is in build/mpi/log.
here=${0%/*}
[ -n "${DIW_TEST_NS:-}" ] || "$here/get.sh" || exit
. "$here/../system/lib.sh"
. tests/system/clients/lib.sh
SHM=4g own_shm "$@"
. tests/mpi/lib.sh
[ -x "$BUILD/tests/system/pages" ] || { echo "mpi: no $BUILD/tests/system/pages: run make tests" >&2; exit 1; }
PATTERN=${1:-.} ROUNDS=${ROUNDS:-20} RANKS=${RANKS:-2 4 8 16} HOSTS=${HOSTS:-1} FIRST=${FIRST:-0}
NETWORKS=${NETWORKS:-good}
MVAPICH2=${MVAPICH2:-${XDG_CACHE_HOME:-$HOME/.cache}/diwarp/mvapich2}
MVAPICH=${MVAPICH:-${XDG_CACHE_HOME:-$HOME/.cache}/diwarp/mvapich}
MPICH=${MPICH:-${XDG_CACHE_HOME:-$HOME/.cache}/diwarp/mpich}
good=0 bad=0
mkdir -p "$log"

# Both hosts have an interface va, because the settings name one device for all ranks.
hosts() {
	two_namespaces 1500 || return
	in_b ip link set vb down && in_b ip link set vb name va && in_b ip link set va up || return
	# An MPI starts the processes of the other host by this command: AGENT [OPTION]... HOST COMMAND... That host has
	# another mv2.conf.
	echo "$A4" > "$TMP/mv2.conf"
	echo "$B4" > "$TMP/mv2.other"
	printf '%s\n' '#!/bin/sh' 'while [ "${1#-}" != "$1" ]; do shift; done' 'shift' \
		"exec nsenter -t $HOLDER -n -- unshare -m \\" \
		"sh -c \"mount --bind $TMP/mv2.other $TMP/mv2.conf && \$*\"" > "$TMP/agent"
	chmod +x "$TMP/agent"
}

# Set COMMAND to the command that starts so many ranks.
many() {
	local mine=$((($1 + HOSTS - 1) / HOSTS))
	openmpi "$1" --mca btl self
	[ "$HOSTS" = 1 ] || COMMAND+=(--mca plm_rsh_agent "$TMP/agent" --host "$A4:$mine,$B4:$mine")
}
hydra() {
	local mine=$((($2 + HOSTS - 1) / HOSTS))
	COMMAND=("$1" -n "$2")
	[ "$HOSTS" = 1 ] || COMMAND+=(-launcher ssh -launcher-exec "$TMP/agent" -hosts "$A4:$mine,$B4:$mine")
}
# mpich EXECUTABLE LIBRARIES RANKS
mpich() {
	export LD_LIBRARY_PATH=$2 MPIR_CVAR_NOLOCAL=${MPIR_CVAR_NOLOCAL:-1}
	hydra "$1" "$3"
}
mvapich2() {
	export LD_LIBRARY_PATH=$MVAPICH2/lib MV2_USE_SHARED_MEM=0 MV2_ENABLE_AFFINITY=0 MV2_IBA_HCA=diw_va \
		MV2_RDMA_CM_CONF_FILE_PATH=$TMP
	hydra "$MVAPICH2/bin/mpiexec.hydra" "$1"
}

# settings MPI TRANSPORT RANKS: sets COMMAND, the environment, PROGRAM, an OPTION of the program, the TYPE of the queue
# pairs that carry the bytes, and the MTU of the interfaces.
settings() {
	RUN=--dev TYPE=RC PROGRAM=$MPI/check.$1 OPTION="" MTU=1500
	case $1 in
	openmpi) many "$3" ;;
	mpich) mpich "$root/bin/mpiexec.hydra" "$lib:$root/lib/libpsm1" "$3" ;;
	mpich-ofi) mpich "$MPICH/bin/mpiexec.hydra" "$MPICH/lib" "$3" ;;
	mpich5) mpich "$MPI/wheel/bin/mpiexec.hydra" "$MPI/wheel/lib" "$3" ;;
	mvapich) mpich "$MVAPICH/bin/mpiexec.hydra" "$MVAPICH/lib" "$3" ;;
	mvapich2) mvapich2 "$3"; OPTION=--renew ;;
	esac
	case $1/$2 in
	openmpi/ucx-ud) COMMAND+=(--mca pml ucx --mca osc ucx -x UCX_TLS -x UCX_NET_DEVICES); OPTION=--add ;;
	openmpi/ucx-rc) COMMAND+=(--mca pml ucx --mca osc ucx -x UCX_TLS -x UCX_NET_DEVICES \
		-x UCX_RC_VERBS_TX_POLL_ALWAYS) ;;
	openmpi/ofi) COMMAND+=(--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include "verbs;ofi_rxm" --mca osc pt2pt
		-x FI_OFI_RXM_SAR_LIMIT) ;;
	esac
	case $2 in
	ucx-ud) export UCX_TLS=ud_verbs UCX_NET_DEVICES=diw_va:1; TYPE=UD ;;
	ucx-rc) export UCX_TLS=rc_verbs,ud_verbs:aux UCX_NET_DEVICES=diw_va:1 UCX_RC_VERBS_TX_POLL_ALWAYS=y ;;
	ofi) export FI_OFI_RXM_SAR_LIMIT=0 ;;
	diwarp) export FI_DIWARP_IFACE=va; TYPE=RD RUN=--mpi ;;
	diwarp-rc) export FI_DIWARP_IFACE=va FI_DIWARP_MODE=rc; RUN=--mpi ;;
	esac
	case $1/$2 in
	mpich5/ofi) export MPIR_CVAR_CH4_NETMOD=ofi FI_PROVIDER="verbs;ofi_rxm" ;;
	mvapich2/rc) export MV2_USE_RDMA_CM=0 ;;
	mvapich2/ud) export MV2_USE_ONLY_UD=1 MV2_USE_RDMA_CM=0; TYPE=UD ;;
	mvapich2/hybrid) export MV2_USE_UD_HYBRID=1 MV2_HYBRID_ENABLE_THRESHOLD=1 MV2_USE_RDMA_CM=0;
		TYPE="UD RC" MTU=9000 ;;
	mvapich2/rdma-cm) export MV2_USE_RDMA_CM=1 ;;
	mvapich2/iwarp) export MV2_USE_IWARP_MODE=1 MV2_USE_RDMA_CM=1 DIWARP_PERSONALITY=rnic ;;
	esac
}

# impaired: the queue pairs counted each impairment that DIWARP_IMPAIR names.
impaired() {
	local key counter
	for key in $(grep -oE '(loss|burst|dup|reorder|corrupt)=' <<< "${DIWARP_IMPAIR:-}"); do
		case $key in
		loss= | burst=) counter=impair_lost ;;
		dup=) counter=impair_duplicated ;;
		reorder=) counter=impair_reordered ;;
		corrupt=) counter=impair_corrupted ;;
		esac
		jq -e -s "map(.$counter) | add > 0" "$TMP/counted" > /dev/null || return
	done
}

# one RANKS SEED: runs the program once and sets VERDICT.
one() {
	local status
	start_counting
	limited "${HANG:-$((60 + 30 * $1))}" "$DIW" run $RUN -- "${COMMAND[@]}" "$PROGRAM" --seed "$2" $OPTION \
		${PARTS:-}
	status=$?
	end_ranks "$PROGRAM"
	stop_counting
	VERDICT=passed
	if grep -q '^wrong:' "$TMP/run"; then
		VERDICT=wrong
	elif [ $status = 124 ] || [ $status = 137 ]; then
		VERDICT=hung
	elif [ $status != 0 ] || ! grep -q '^done: 1 rounds, 0 wrong' "$TMP/run"; then
		VERDICT=crashed
	elif ! carried "$1" $TYPE || ! impaired; then
		VERDICT=elsewhere
		cat "$TMP/counted" >> "$TMP/run"
	fi
}

# row MPI TRANSPORT RANKS NETWORK: runs all rounds of a row.
row() {
	declare -A n=([passed]=0 [wrong]=0 [hung]=0 [crashed]=0 [elsewhere]=0)
	settings "$@"
	[ "$4" = good ] || export DIWARP_IMPAIR=$4
	ip link set va mtu "$MTU" && in_b ip link set va mtu "$MTU"
	begin=$SECONDS
	for ((i = FIRST; i < FIRST + ROUNDS; i++)); do
		one "$3" "$i"
		n[$VERDICT]=$((n[$VERDICT] + 1))
		[ $VERDICT = passed ] || cp "$TMP/run" "$log/$1.$2.$3.$4.$i.$VERDICT"
	done
	printf '| %s | %s | %d | %s | %d | %d | %d | %d | %d | %d |\n' "$@" "$ROUNDS" "${n[wrong]}" "${n[crashed]}" \
		"${n[hung]}" "${n[elsewhere]}" $((SECONDS - begin)) | tee -a "$log/table"
	echo $((n[passed])) > "$TMP/passed"
}

[ -e "$BUILD/lib/diwarp/libibverbs.so.1" ] || { skip "built without libibverbs-dev"; end; }
hosts || { not_ok "two network namespaces"; end; }
echo "| MPI | transport | ranks | network | runs | wrong | crashed | hung | elsewhere | seconds |"
echo "|---|---|---|---|---|---|---|---|---|---|"
for ranks in $RANKS; do
	for line in openmpi/{ucx-ud,ucx-rc,ofi,diwarp,diwarp-rc} mpich/{ucx-ud,ucx-rc} mpich-ofi/diwarp \
		mpich5/{ofi,diwarp} mvapich/diwarp mvapich2/{rc,ud,hybrid,rdma-cm,iwarp}; do
		[[ "${line/\// } $ranks" =~ $PATTERN ]] || continue
		case $line in
		*/diwarp*) [ -e "$BUILD/lib/diwarp/fi/libdiwarp-fi.so" ] || continue ;;
		esac
		[ -e "$MPI/check.${line%/*}" ] || continue
		for network in $NETWORKS; do
			case $network$line in good* | */diwarp | */ucx-ud | */ud) ;; *) continue ;; esac
			apart row "${line%/*}" "${line#*/}" "$ranks" "$network"
			good=$((good + $(< "$TMP/passed"))) bad=$((bad + ROUNDS - $(< "$TMP/passed")))
		done
	done
done
echo "$good passed, $bad failed"
[ $bad = 0 ]
