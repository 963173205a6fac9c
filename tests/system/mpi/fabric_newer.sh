#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The provider under libfabrics of other versions than that of the headers for which it was built.
. "${0%/*}/../lib.sh"
[ -e "$BUILD/lib/diwarp/fi/libdiwarp-fi.so" ] || { skip "built without libfabric-dev"; end; }
[ "$MODE" = release ] || [ "$MODE" = debug ] || { skip "libfabric cannot load a provider built for a sanitizer"; end; }
two_namespaces 1500 || { not_ok "two network namespaces"; end; }
from=tests/system/mpi/newer

run "a newer libfabric" $CC -std=gnu11 -O1 -fPIC -shared -Wl,-soname,libfabric.so.1 \
	-Wl,--version-script,$from/libfabric.map $from/libfabric.c -o "$TMP/libfabric.so.1"
# claims LIBFABRIC PROVIDER
claims() {
	run "libfabric $1: the provider lists its interfaces, in libfabric's newest structures" \
		env FABRIC_VERSION="$1" LD_LIBRARY_PATH="$TMP" \
		"$BUILD/tests/system/fabric_newer" "$BUILD/lib/diwarp/fi/libdiwarp-fi.so"
	check "... a domain" matches "$OUT" 'domain diw_va'
	check "... and has version $2" matches "$OUT" "version $2($|[^0-9])"
}
headers=$(printf '#include <rdma/fabric.h>\n' | $CC -E -dM - |
	awk '$2 == "FI_MAJOR_VERSION" { a = $3 } $2 == "FI_MINOR_VERSION" { b = $3 } END { print a "." b }')
claims 1.14 1.14
claims 2.5 2.5
claims 2.99 2.99
claims 3.0 "$headers"
end
