#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Programs of OpenMPI over the libfabric provider, and over OpenMPI's own TCP for comparison. Each checks its results.
# The script prints a table. Its last line is "N passed, N failed". docs/mpi.md says what the programs are.
# usage: [TRANSPORTS="tcp diwarp"] [RANKS="2 4"] [HANG=600] [LOSS=PERCENT] tests/mpi/programs.sh [PATTERN]
#
# PATTERN (extended regular expression) chooses rows "PROGRAM RANKS". A run is "wrong" if the program found a wrong
# result, "hung" if it did not end within HANG seconds, "elsewhere" if a rank moved next to nothing through queue
# pairs of type RD, else "failed". The output of failed runs is in build/mpi/log.
here=${0%/*}
[ -n "${DIW_TEST_NS:-}" ] || "$here/get_programs.sh" || exit
. "$here/../system/lib.sh"
. tests/system/clients/lib.sh
SHM=4g own_shm "$@"
. tests/mpi/lib.sh
PATTERN=${1:-.} RANKS=${RANKS:-2 4} TRANSPORTS=${TRANSPORTS:-tcp diwarp}
programs=$MPI/programs
debian=$programs/usr/lib/$($CC -print-multiarch)
good=0 bad=0
mkdir -p "$log"

# ---- The programs: each sets PROGRAM, the command of a rank, which runs in the directory TMP/work, and RIGHT, a
# function that checks the output. ----

kernels() { PROGRAM=("$programs/kernels") RIGHT=right_kernels; }
right_kernels() { grep -q '^done: 5 kernels, 0 wrong' "$TMP/run"; }

# Lennard-Jones atoms, melting. The sums of the last step depend on the number of ranks only.
lammps() {
	cat > "$TMP/work/in.melt" <<- 'END'
		units lj
		lattice fcc 0.8442
		region box block 0 12 0 12 0 12
		create_box 1 box
		create_atoms 1 box
		mass 1 1.0
		velocity all create 1.44 87287
		pair_style lj/cut 2.5
		pair_coeff 1 1 1.0 1.0 2.5
		neighbor 0.3 bin
		neigh_modify delay 0 every 20 check no
		fix 1 all nve
		thermo 50
		thermo_modify format float %.10g
		run 200
	END
	PROGRAM=("$programs/usr/bin/lmp" -in in.melt -log none) RIGHT=right_lammps
}
# The same energies and pressure as over TCP.
right_lammps() {
	grep -E '^ +200 ' "$TMP/run" > "$TMP/thermo" || return
	[ "$1" != tcp ] || cp "$TMP/thermo" "$TMP/thermo.$2"
	[ ! -e "$TMP/thermo.$2" ] || cmp "$TMP/thermo" "$TMP/thermo.$2"
}

hpcc() {
	sed -e '6s/^[0-9]*/400/' -e '11s/.*/1 Ps/' -e "12s/.*/$1 Qs/" \
		"$programs/usr/share/doc/hpcc/examples/_hpccinf.txt" > "$TMP/work/hpccinf.txt"
	rm -f "$TMP/work/hpccoutf.txt"
	PROGRAM=("$programs/usr/bin/hpcc") RIGHT=right_hpcc
}
right_hpcc() {
	cat "$TMP/work/hpccoutf.txt" >> "$TMP/run"
	grep -q '^Success=1' "$TMP/run" && grep -q '^MPIRandomAccess_ErrorsFraction=0$' "$TMP/run" &&
		! grep -qE '\.\.\. *FAILED|^[^ ]*FAILED$|^PTRANS_residual=[^0]' "$TMP/run"
}

scalapack() {
	local name=${ROW#scalapack-}
	cp "$programs"/usr/share/scalapack/*.dat "$TMP/work"
	PROGRAM=("$debian/scalapack/openmpi-tests/$name") RIGHT=right_scalapack
}
right_scalapack() {
	grep -qE '^ *[1-9][0-9]* tests completed and passed' "$TMP/run" &&
		grep -qE '^ *0 tests completed and failed' "$TMP/run"
}

# Without six modules: four of them do not pass over the provider, two have not run (docs/mpi.md).
mpi4py() {
	PROGRAM=(env PYTHONPATH="$programs/usr/lib/python3/dist-packages" /usr/bin/python3
		"$programs/suite/test/runtests.py" -v --thread-level=serialized -e cco_vec -e p2p_obj -e pkl5 -e rma
		-e spawn -e dynproc)
	RIGHT=right_mpi4py
}
right_mpi4py() { grep -qE '^OK' "$TMP/run" && ! grep -qE '^FAILED' "$TMP/run"; }

# The other ranks of a job in which a rank is killed get errors within 15 s.
killed() { PROGRAM=("$programs/killed" "${ROW#killed-}") RIGHT=right_killed; }
right_killed() {
	awk -v n="$(($2 - 1))" '/^rank [0-9]+: failed/ { seen++; late += $4 > 15 } END { exit seen != n || late > 0 }' \
		"$TMP/run"
}

# ---- Runs ----

# start TRANSPORT RANKS: sets COMMAND and RUN.
start() {
	openmpi "$2" --wdir "$TMP/work"
	export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$debian:$debian/blas:$debian/lapack
	[ "$RIGHT" != right_killed ] || COMMAND+=(--enable-recovery)
	case $1 in
	tcp) RUN=() COMMAND+=(--mca pml ob1 --mca btl "self,tcp" --mca btl_tcp_if_include va --mca osc pt2pt) ;;
	diwarp) export FI_DIWARP_IFACE=va; RUN=("$DIW" run --mpi --) COMMAND+=(--mca btl self) ;;
	esac
	[ -z "${LOSS:-}" ] || export DIWARP_IMPAIR="loss=$LOSS%"
}

# one TRANSPORT RANKS: runs PROGRAM once and sets VERDICT.
one() {
	local status
	start_counting
	limited "${HANG:-600}" "${RUN[@]}" "${COMMAND[@]}" "${PROGRAM[@]}"
	status=$?
	end_ranks "$(readlink -f -- "${PROGRAM[0]}")"
	stop_counting
	VERDICT=passed
	if [ $status = 124 ] || [ $status = 137 ]; then
		VERDICT=hung
	elif [ $status != 0 ] && [ $RIGHT != right_killed ]; then
		VERDICT=failed
	elif ! $RIGHT "$@" >> "$TMP/run" 2>&1; then
		VERDICT=wrong
	elif [ "$1" = diwarp ] && [ $RIGHT != right_killed ] && ! LEAST=1000 carried "$2" RD; then
		VERDICT=elsewhere
	fi
}

# row PROGRAM RANKS: prints a line, with a verdict for each transport.
row() {
	ROW=$1 line="| $1 | $2 |" failures=0
	for transport in $TRANSPORTS; do
		mkdir -p "$TMP/work"
		"${1%%-*}" "$2"
		start "$transport" "$2"
		begin=$SECONDS
		one "$transport" "$2"
		line+=" $VERDICT, $((SECONDS - begin)) s |"
		[ "$VERDICT" = passed ] || cp "$TMP/run" "$log/$1.$2.$transport.$VERDICT"
		[ "$VERDICT" = passed ] || [ "$transport" = tcp ] || failures=$((failures + 1))
	done
	echo "$line"
	[ $failures = 0 ]
}

[ -e "$BUILD/lib/diwarp/fi/libdiwarp-fi.so" ] || { skip "built without libfabric-dev"; end; }
two_namespaces 1500 || { not_ok "a network namespace"; end; }
echo "| program | ranks | ${TRANSPORTS// / | } |"
echo "|---|---|$(sed 's/[^ ]* */---|/g' <<< "$TRANSPORTS")"
for ranks in $RANKS; do
	for program in kernels lammps hpcc scalapack-x{dlu,dqr,dinv,dllt,dls,dtrd,dhrd,dbrd} mpi4py \
		killed-{send,recv,rendezvous,collective}; do
		[[ "$program $ranks" =~ $PATTERN ]] || continue
		if apart row "$program" "$ranks"; then good=$((good + 1)); else bad=$((bad + 1)); fi
	done
done
echo "$good passed, $bad failed"
[ $bad = 0 ]
