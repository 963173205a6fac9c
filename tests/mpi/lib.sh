# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2030,SC2031
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

# apart FUNCTION ARGUMENT...: calls the function in a shell of its own. A signal that ends the script ends the commands
# of this shell, too.
apart() {
	local status
	(
		JOBS=()
		trap end_jobs EXIT
		trap 'exit 1' INT TERM
		"$@"
	) &
	JOBS+=("$!")
	wait $!
	status=$?
	JOINED[$!]=1
	return $status
}

# limited SECONDS COMMAND...: runs the command, with its output in TMP/run, and returns its exit status; 124 or 137: it
# was killed after so many seconds. bash handles a signal during `wait`, but not before a foreground command has ended.
limited() {
	local status
	background "$TMP/run" timeout -k 5 "$@"
	wait "$PID"
	status=$?
	JOINED[PID]=1
	return $status
}

# end_ranks PROGRAM: kills the ranks of a killed run, which are in process groups of their own. It starts no process for
# each that it looks at: on a busy machine that takes minutes.
end_ranks() {
	local p
	for p in /proc/[0-9]*; do
		[ ! "$p/exe" -ef "$1" ] || [ ! "$p/ns/ipc" -ef /proc/self/ns/ipc ] || kill -9 "${p#/proc/}"
	done 2> /dev/null
}
