#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# librdmacm.so.1: names and versions, connections (cma_conn.c), ports (cma_ports.c), threads that end (cma_threads.c),
# the service of UD queue pairs (cma_udp.c), groups (cma_mcast.c), many connections (cma_many.c), interfaces that
# disappear and addresses that change (cma_gone.c), the last message before a disconnect (cma_last.c), fork()
# (cma_fork.c), exit() in a handler (cma_exit.c), listeners that change their channel (cma_migrate.c),
# signals (cma_signal.c), descriptors that the program closes (cma_closed.c).
# tests/system/clients runs Debian's own programs over the library.
# DIW_TEST_FULL=1: also a connection whose address disappears, and a connection with an end that nobody can reach. Each
# takes half a minute.
. "${0%/*}/../lib.sh"
LIB=$BUILD/lib/diwarp/librdmacm.so.1
[ -e "$LIB" ] || { skip "librdmacm-dev was not there when this was built"; end; }

# names FILE: prints the functions that FILE exports. Their versions are those of rdma-core 65.
names() { nm -D --with-symbol-versions "$1" | awk 'NF == 3 && $2 == "T" { print $3 }' | LC_ALL=C sort; }
check "the library has 74 names" [ "$(names "$LIB" | wc -l)" = 74 ]
check "its soname" matches "$(readelf -d "$LIB")" 'SONAME.*\[librdmacm\.so\.1\]'
system=$($CC -print-file-name=librdmacm.so.1)
if [ -e "$system" ]; then
	check "all that the system's has, in the same versions" \
		[ -z "$(LC_ALL=C comm -13 <(names "$LIB") <(names "$system"))" ]
else
	skip "no librdmacm of the system to compare with"
fi

for who in ca rnic; do
	for name in cma_conn cma_ports cma_threads cma_udp cma_mcast cma_many cma_gone cma_last cma_later cma_fork \
		cma_exit cma_migrate cma_signal cma_closed; do
		[ $name$MODE != cma_forktsan ] || continue      # ThreadSanitizer cannot follow this fork
		timeout 600 "$DIW" run --personality $who "$BUILD/tests/system/$name" < /dev/null
		rc=$?
		[ $rc -eq 0 ] || { FAILED=$((FAILED + 1)); [ $rc -eq 1 ] || echo "not ok - $name ends (exit $rc)"; }
	done
done
end
