#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Prints the memory of a rank of OpenMPI after MPI_Alltoall() of 64 KiB between all ranks, by transport: KiB of its own
# memory (Pss_Anon and Pss_Shmem), and the number of its sockets.
# usage: [RANKS="2 4 8 16"] [TRANSPORTS="..."] tests/mpi/memory.sh
. "${0%/*}/perf/lib.sh"
read -ra transports <<< "${TRANSPORTS:-diwarp ob1-tcp tcp;ofi_rxm ucx-tcp ucx-rc ucx-ud}"
compiled mpi_memory || exit
failed=0

echo "| transport | ranks | KiB a rank | sockets a rank |"
echo "|---|---|---|---|"
for ranks in ${RANKS:-2 4 8 16}; do
	for transport in "${transports[@]}"; do
		(over "$transport" "$ranks" 300 "$tmp/mpi_memory") | awk -v t="$transport" '
			$1 == "memory" { print "| " t " | " $2 " | " $3 " | " $4 " |"; found = 1 }
			END { exit !found }' && continue
		echo "| $transport | $ranks | failed | |"
		tail -n 2 "$tmp/errors" >&2
		failed=1
	done
done
exit $failed
