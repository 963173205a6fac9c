# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Goals of MPI over the provider. tools/goals includes this file.

goals_mpi() {
echo "OpenMPI over the provider and over other transports, 2 ranks on lo, medians of 5 interleaved rounds"
SECS=$secs DIW=$DIW tests/mpi/perf.sh || missed=$((missed + 1))
}
