#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# tools/check-layers succeeds on this tree, and fails on a copy with a planted violation of every kind.
DIW_TEST_NO_NS=1
. "${0%/*}/../lib.sh"

check "the tree has no violation" tools/check-layers
# plant FILE LINE: makes a copy, adds LINE to FILE, and runs check-layers there.
plant() {
	rm -rf "$TMP/copy"
	mkdir "$TMP/copy"
	cp -r base wire llp mpa ddp rdmap verbs sockets_preload mpi_glue tools tests "$TMP/copy"
	mkdir -p "$TMP/copy/${1%/*}"
	printf '%s\n' "$2" >> "$TMP/copy/$1"
	tools/check-layers "$TMP/copy"
}
# finds WHAT PATTERN COMMAND...: the command fails, and its output names the fault.
finds() {
	expect 1 "found: $1" "${@:3}"
	check "... and named" matches "$OUT" "$2"
}
while read -r file line; do
	finds "$line in $file" "$file:[0-9]+:" plant "$file" "$line"
done << 'END'
base/crc.c #include "llp/link.h"
llp/udp.c #include "ddp/ddp.h"
wire/hdr.c #include "llp/link.h"
wire/hdr.c #include "ddp/ddp.h"
wire/rdmap.h #include "rdmap/rdmap.h"
base/crc.c #include "wire/hdr.h"
llp/udp.c #include "verbs/diw.h"
llp/seal.c #  include  "rdmap/rdmap.h"
ddp/rx.c #include "rdmap/rdmap.h"
rdmap/rx.c #include "verbs/diw.h"
ddp/rx.c #include "mpa/mpa.h/../../verbs/diw.h"
ddp/rx.c #include "../rdmap/rdmap.h"
tools/cp/cp.c #include "llp/dgram.h"
verbs/rs/conn.c #include "verbs/qp.h"
verbs/rs/conn.c #include "verbs/cma/cma.h"
verbs/cma/cma_id.c #include "verbs/rs/int.h"
verbs/cma/cma_id.c #include "verbs/of/of.h"
verbs/of/device.c #include "verbs/cma/cma.h"
verbs/of/device.c #include "verbs/rs/rs.h"
tools/cp/cp.c #include "verbs/rs/rs.h"
tools/cp/cp.c #include "verbs/dev.h"
mpi_glue/port.c #include "verbs/qp.h"
mpi_glue/port.c #include "wire/hdr.h"
verbs/qp.c #include "mpi_glue/glue.h"
tools/cp/cp.c #include "verbs/diw_provider.h"
sockets_preload/dgram/frame.c #include "ddp/ddp.h"
tools/cp/cp.c #include "wire/hdr.h"
tools/cp/cp.c #include "sockets_preload/shm/sockreg.h"
tools/sockets.c #include "sockets_preload/preload.h"
base/crc.c #include "sockets_preload/shm/regfile.h"
verbs/stat.c #include "sockets_preload/shm/sockcount.h"
sockets_preload/shm/sockreg.c #include "sockets_preload/preload.h"
verbs/of/device.c #include "verbs/dev.h"
verbs/host/route.c #include "verbs/dev.h"
verbs/host/route.c #include "verbs/rs/int.h"
verbs/qp.c #include "verbs/host/route.h"
tools/cp/cp.c #include "verbs/host/route.h"
verbs/dev.h #include "verbs/of/device.h"
base/crc.c #include "tests/net/net.h"
ddp/rx.c static uint64_t planted(void) { return diw_clock_ns(); }
verbs/run.c static bool planted(const struct diw_qp *qp) { return qp->rdmap.ddp.order.waiting; }
verbs/sq.c static bool planted(const struct diw_rdmap *r) { return r->tx.active; }
rdmap/rc.c static bool planted(const struct diw_rdmap *r) { return r->ddp.order.dead; }
verbs/sq.c static bool planted(const struct diw_qp *qp) { return qp->ops->type == DIW_QP_RD; }
verbs/cm/conn.c static bool planted(const struct diw_qp *qp) { return qp->ops != &diw_qp_ops_rc; }
rdmap/rx.c static bool planted(const struct diw_rdmap *r) { return r->type == &diw_rdmap_type_uc; }
rdmap/rc.c const struct diw_ddp *planted(const struct diw_rdmap *r) { const struct diw_ddp *d = &r->ddp; return d; }
END
comment=$(printf '/* %0114d */' 0)                            # 120 columns
finds "a header's line of 121 columns" 'base/log\.h:[0-9]+: 121 columns' plant base/log.h "/$comment"
finds "a test's line of 121 columns, of which a tab is some" 'tests/unit/test_stag\.c:[0-9]+: 121 columns' plant \
	tests/unit/test_stag.c $'\t'"$(printf '/* %0107d */' 0)"
finds "a test of 601 lines" 'tests/unit/test_stag\.c:601: more than 600 lines' plant tests/unit/test_stag.c \
	"$(seq -f '/* %g */' 601)"
run "allowed: a line of 120 columns" plant tests/unit/test_stag.c "$comment"
finds "a script's line of 121 columns" 'tools/demo:[0-9]+: 121 columns' plant tools/demo "$(printf '# %0119d' 0)"
finds "a Python program's line of 121 columns" 'tests/system/sockets/gso\.py:[0-9]+: 121 columns' \
	plant tests/system/sockets/gso.py "$(printf '# %0119d' 0)"
finds "a page's line of 121 columns" 'docs/x\.md:1: 121 columns' plant docs/x.md "$(printf '%0121d' 0)"
run "allowed: a table's row of any length" plant docs/x.md "$(printf '| %0121d |' 0)"
finds "a script without an opening comment" 'tools/x:3: no opening comment' plant tools/x \
	$'#!/bin/sh\n# SPDX-License-Identifier: BSD-2-Clause\nexit 0'
finds "a file without an SPDX line" 'tests/unit/x\.c:1: no SPDX line' plant tests/unit/x.c '#include "wire/hdr.h"'
finds "a file without an opening comment" 'verbs/x\.h:2: no opening comment' plant verbs/x.h \
	$'/* SPDX-License-Identifier: BSD-2-Clause */\n#include "verbs/dev.h"'
run "allowed: a file with one" plant verbs/x.h $'/* SPDX-License-Identifier: BSD-2-Clause */\n/* For this test. */'
while read -r file line; do
	run "allowed: $line in $file" plant "$file" "$line"
done << 'END'
ddp/rx.c #include "llp/link.h"
ddp/rx.c #include "ddp.h"
verbs/of/device.c #include "verbs/diw.h"
mpi_glue/port.c #include "verbs/diw_provider.h"
verbs/rs/conn.c #include "verbs/diw_provider.h"
tools/cp/cp.c #include "verbs/diw_cm.h"
verbs/of/device.c #include "verbs/of/device.h"
verbs/cma/cma_id.c #include "verbs/of/bridge.h"
verbs/cma/cma_rs.c #include "verbs/rs/rs.h"
verbs/of/device.c #include "verbs/host/route.h"
verbs/rs/conn.c #include "verbs/host/route.h"
verbs/host/route.c #include "verbs/diw.h"
tools/cp/cp.c #include "base/wire.h"
sockets_preload/dgram/frame.c #include "wire/hdr.h"
tests/unit/test_stag.c #include "wire/hdr.h"
tools/cp/cp.c #include <poll.h>
END

check "no two functions have one name" tools/check-names
# plant_function FILE NAME: makes a copy, adds a function of that name to FILE, and runs check-names there.
plant_function() {
	plant "$1" "static void $2(int a,
	int b)"
	printf '{\n\t(void)(a + b);\n}\n' >> "$TMP/copy/$1"
	tools/check-names "$TMP/copy"
}
finds "a function of verbs/ with the name of one of ddp/" 'record_fill:.* ddp/record\.c:[0-9]+ verbs/qp\.c:[0-9]+' \
	plant_function verbs/qp.c record_fill
run "allowed: a name that no other function has" plant_function verbs/qp.c planted
run "allowed: a prototype" sh -c 'echo "void record_fill(int a);" >> "$1/verbs/qp.c" && tools/check-names "$1"' sh \
	"$TMP/copy"

check "the commits' subjects are short enough and have an area" tools/check-commits
# plant_commit SUBJECT: makes a repository with a second commit of that subject, and runs check-commits there.
plant_commit() {
	rm -rf "$TMP/repo"
	git init -q "$TMP/repo" &&
		git -C "$TMP/repo" -c user.name=T -c user.email=t@example.org commit -q --allow-empty -m "First" &&
		git -C "$TMP/repo" -c user.name=T -c user.email=t@example.org commit -q --allow-empty -m "$1" || return
	tools/check-commits "HEAD~1" "$TMP/repo"
}
if command -v git > /dev/null; then
	run "allowed: a subject of 72 columns" plant_commit "tests: $(printf '%065d' 0)"
	expect 1 "found: a subject of 73 columns" plant_commit "tests: $(printf '%066d' 0)"
	expect 1 "found: a subject without an area" plant_commit "Say what was measured"
else
	skip "no git here"
fi

# declare_in NAME HEADER: makes a copy whose HEADER declares NAME, and runs check-exports there.
declare_in() {
	rm -rf "$TMP/copy"
	mkdir "$TMP/copy"
	cp -r verbs tools man "$TMP/copy"
	echo "int $1(void);" >> "$TMP/copy/verbs/$2"
	"$TMP/copy/tools/check-exports"
}
for header in diw.h diw_cm.h diw_provider.h; do
	expect 1 "a function of $header that the version map forgot" declare_in diw_planted "$header"
	check "... is named" matches "$OUT" diw_planted
done
expect 1 "a function that two headers declare" declare_in diw_leave diw.h
check "... is named" matches "$OUT" diw_leave
end
