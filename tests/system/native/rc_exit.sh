#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# RC: what is complete arrives, even if the process ends at once (rc_exit.c), by TCP and by shared memory.
. "${0%/*}/../lib.sh"

for way in wire memory; do
	for crc in on off; do
		for op in send write; do
			for size in "100 60000" "8000 2000" "200000 200"; do
				# shellcheck disable=SC2086
				run "$way, CRC $crc, $op of $size" timeout 100 env DIWARP_LOOPBACK=$way \
					DIWARP_CRC=$crc "$BUILD/tests/system/rc_exit" $op $size
			done
		done
	done
done
end
