# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# For perf.sh, memory.sh and tools/figures/mpi.sh: programs of MPI over the transports that docs/mpi.md compares, on one
# host over the loopback interface, shared memory off but for those that are named for it: diwarp:memory, ucx-shm.
set -u
cd -- "$(dirname -- "$(readlink -f -- "$0")")/../.." || exit 1
MPI=${MPI:-build/mpi}
[ -x "$MPI/check.openmpi" ] || tests/mpi/get.sh || exit
MPI=$(readlink -f -- "$MPI")
root=$MPI/root/usr
lib=$root/lib/$(${CC:-gcc} -print-multiarch)
DIW=${DIW:-build/bin/diw}
tmp=$(mktemp -d) || exit
trap 'rm -rf "$tmp"' EXIT
export OPAL_PREFIX=$root LD_LIBRARY_PATH=$lib:$root/lib/libpsm1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# compiled NAME [SOURCE]...: compiles the sources, or tests/mpi/perf/NAME.c, to $tmp/NAME. A source may be an option.
compiled() {
	local name=$1
	shift
	[ $# -gt 0 ] || set -- "tests/mpi/perf/$name.c"
	${CC:-gcc} -std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra -isystem "$lib/openmpi/include" "$@" -o "$tmp/$name" \
		"$lib/libmpi.so.40" -Wl,--allow-shlib-undefined -lm
}

# over TRANSPORT RANKS SECONDS PROGRAM OPTION...: one run. Errors go to $tmp/errors. It changes the environment: call it
# in a subshell.
over() {
	local transport=$1 ranks=$2 limit=$3 run=() mca=(--mca btl self)
	shift 3
	case $transport in
	diwarp*)
		run=("$DIW" run --mpi --)
		export FI_DIWARP_IFACE=lo FI_DIWARP_MODE=${transport#diwarp}
		FI_DIWARP_MODE=${FI_DIWARP_MODE#:}
		[ "$FI_DIWARP_MODE" != memory ] || export DIWARP_LOOPBACK=memory FI_DIWARP_MODE=
		[ -n "$FI_DIWARP_MODE" ] || unset FI_DIWARP_MODE ;;
	ob1-tcp) mca=(--mca pml ob1 --mca btl "self,tcp" --mca btl_tcp_if_include lo) ;;
	*ofi_*)
		export FI_TCP_IFACE=lo FI_UDP_IFACE=lo
		mca+=(--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include "$transport" --mca osc pt2pt) ;;
	ucx-*)
		export UCX_TLS=tcp UCX_NET_DEVICES=lo
		mca+=(--mca pml ucx --mca osc ucx --mca pml_ucx_tls any --mca pml_ucx_devices any) ;;&
	ucx-shm) export UCX_TLS=posix ;;&
	ucx-rc) export UCX_TLS="rc_verbs,ud_verbs:aux" ;;&
	ucx-ud) export UCX_TLS=ud_verbs ;;&
	ucx-rc | ucx-ud) run=("$DIW" run --dev --) UCX_NET_DEVICES=diw_lo:1 ;;
	esac
	timeout -k 5 "$limit" "${run[@]}" "$root/bin/mpirun.openmpi" -n "$ranks" --oversubscribe "${mca[@]}" "$@" \
		2> "$tmp/errors"
}
