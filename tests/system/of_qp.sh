#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Queue pairs of libibverbs: their states (of_qp.c), their requests (of_wr.c), RC by ibv_modify_qp(3) (of_rc.c).
. "${0%/*}/lib.sh"
[ -e "$BUILD/lib/diwarp/libibverbs.so.1" ] || { skip "libibverbs-dev was not there when this was built"; end; }

for program in of_qp of_wr of_rc; do
	timeout 120 "$DIW" run "$BUILD/tests/system/$program" < /dev/null
	rc=$?
	[ $rc -eq 0 ] || { FAILED=$((FAILED + 1)); [ $rc -eq 1 ] || echo "not ok - $program ends (exit $rc)"; }
done
end
