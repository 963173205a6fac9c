#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The receiver of reliable datagrams is killed and started again at its port while messages are on their way to it.
. "${0%/*}/../lib.sh"

restarts() {
	run "each message ends, none comes twice, and the new process gets its messages" \
		"$BUILD/tests/system/rd_restart"
	echo "    $OUT"
	check "... the requests to the process that was killed fail" holds '.gone > 0'
}
measured restarts "... within 5 s of its restart" "holds '.slowest <= 5'"
end
