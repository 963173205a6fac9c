# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# For the scripts of tests/mpi: Debian's OpenMPI, unpacked, and what its ranks did.

MPI=$(readlink -f -- "${MPI:-build/mpi}")
root=$MPI/root/usr
lib=$root/lib/$($CC -print-multiarch)
log=$MPI/log

# openmpi RANKS [OPTION]...: sets COMMAND to the command that starts so many ranks. OpenMPI's processes take the
# settings also from the environment.
openmpi() {
	export OPAL_PREFIX=$root LD_LIBRARY_PATH=$lib:$root/lib/libpsm1
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
	COMMAND=("$root/bin/mpirun.openmpi" -n "$1" --oversubscribe "${@:2}")
}

# carried RANKS TYPE...: RANKS processes moved more than LEAST (a million) octets each through queue pairs of these
# types.
carried() {
	jq -e -s --argjson n "$1" --argjson least "${LEAST:-1000000}" --arg types "${*:2}" '
		map(select(.type as $t | $types | split(" ") | index($t))) | group_by(.pid) |
		map(map(.tx_bytes + .rx_bytes) | add) | map(select(. > $least)) |
			length == $n' "$TMP/counted" > /dev/null
}

# end_ranks PROGRAM: kills the ranks of a killed run, which are in process groups of their own.
end_ranks() {
	local p
	for p in /proc/[0-9]*; do
		[ "$(readlink "$p/exe")" != "$1" ] || [ ! "$p/ns/ipc" -ef /proc/self/ns/ipc ] ||
			kill -9 "${p#/proc/}"
	done 2> /dev/null
}
