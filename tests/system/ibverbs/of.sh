#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# libibverbs.so.1: its names and versions, its objects and events (of_abi.c, of_events.c), and fork() (of_fork.c). `diw
# run`, in the build tree and installed. tests/system/clients runs Debian's programs over the library.
. "${0%/*}/../lib.sh"
LIB=$BUILD/lib/diwarp/libibverbs.so.1
ABI=$BUILD/tests/system/of_abi
unset LD_LIBRARY_PATH DIWARP_PERSONALITY
[ -e "$LIB" ] || { skip "libibverbs-dev was not there when this was built"; end; }

# program NAME ARGUMENT...: runs a test program and adds its checks to ours.
program() {
	local name=$1 rc
	shift
	timeout 600 "$DIW" run "$BUILD/tests/system/$name" "$@" < /dev/null
	rc=$?
	[ $rc -eq 0 ] || { FAILED=$((FAILED + 1)); [ $rc -eq 1 ] || echo "not ok - $name ends (exit $rc)"; }
}

# ---- Names ----

# names FILE: prints the names and versions of FILE in the form of of.names, which has those of rdma-core 65. rdma-core
# versions a private name with the number of its release. Our library has each private name under every number; the
# number of the installed release is the default. The names of DIWARP_1 are for our librdmacm, those of DIWDV for
# infiniband/diwdv.h.
names() {
	nm -D --with-symbol-versions "$1" | awk 'NF == 3 && $2 != "A" { print $3 }' |
		grep -v '[^@]@IBVERBS_1\.0$\|@DIWARP_1$\|@DIWDV_\|[^@]@IBVERBS_PRIVATE_' |
		sed 's/_PRIVATE_[0-9]*$/_PRIVATE/; s/^verbs_register_driver_[0-9]*/verbs_register_driver_N/' |
			LC_ALL=C sort -u
}
same_names() { diff <(names "$1") tests/system/ibverbs/of.names; }
check "187 names are checked in" [ "$(wc -l < tests/system/ibverbs/of.names)" = 187 ]
check "the library has these, in these versions, and no other" same_names "$LIB"
extension() { nm -D --defined-only "$LIB" | sed -n 's/.* [TW] \(diwdv_[a-z_]*\)@@DIWDV_1\.0$/\1/p' | sort; }
declared() { sed -n 's/.*\<\(diwdv_[a-z_]*\)(.*/\1/p' verbs/of/diwdv.h | sort -u; }
described() { sed -n 's/^\.F[no] \(diwdv_[a-z_]*\).*/\1/p' man/diwdv.7 | sort -u; }
check "it has what infiniband/diwdv.h declares" diff <(declared) <(extension)
check "... and diwdv(7) describes" diff <(declared) <(described)
check "its soname" matches "$(readelf -d "$LIB")" 'SONAME.*\[libibverbs\.so\.1\]'
system=$($CC -print-file-name=libibverbs.so.1)
if [ -e "$system" ]; then
	private() { grep -ao 'IBVERBS_PRIVATE_[0-9]*' "$1" | sort -u; }
	default() { nm -D --with-symbol-versions "$1" | sed -n 's/.* verbs_set_ops@@//p'; }
	check "the installed libibverbs's private version is its default" [ "$(default "$LIB")" = \
		"$(private "$system")" ]
	missing() { LC_ALL=C comm -23 <(names "$1") tests/system/ibverbs/of.names; }
	check "it has all names of the installed one" [ -z "$(missing "$system")" ]
	program of_abi rates "$(readlink -f "$system")"
else
	skip "no libibverbs of the system to compare with"
fi
# private_names N: the names that are private under number N. The name of the driver function contains N.
private_names() { nm -D --with-symbol-versions "$LIB" | sed -n "s/.* \([^ @]*\)@@*IBVERBS_PRIVATE_$1\$/\1/p" |
	sed "s/_driver_$1\$/_driver_N/" | LC_ALL=C sort; }
for number in 34 57 59 64 65; do
	check "all private names are under number $number, too" diff <(private_names $number) \
		<(sed -n 's/@@IBVERBS_PRIVATE$//p' tests/system/ibverbs/of.names | LC_ALL=C sort)
done
program of_later
mapfile -t private < <(sed -n '/register_driver\|disassociate/d; s/@@IBVERBS_PRIVATE$//p' tests/system/ibverbs/of.names)
program of_abi private "${private[@]}"

# ---- Objects and events ----

program of_abi
program of_events
# Without a progress thread only the program's calls drive the device. Verbs promise progress without calls, so a
# program must be written for this setting.
DIWARP_PROGRESS=inline program of_events
[ "$MODE" = tsan ] || program of_fork           # ThreadSanitizer does not follow a threaded program's fork

# ---- Start ----

# quickest COMMAND...: prints the microseconds of the quickest of many runs. Other load of the machine only adds time.
quickest() {
	local best=99999999 begin took
	for _ in {1..40}; do
		begin=${EPOCHREALTIME/,/.}
		"$@" || return
		took=$(awk -v a="$begin" -v b="${EPOCHREALTIME/,/.}" 'BEGIN { printf "%d", (b - a) * 1e6 }')
		[ "$took" -ge $best ] || best=$took
	done
	echo $best
}
if [ "$MODE" = release ]; then
	with=$(quickest env LD_LIBRARY_PATH="${LIB%/*}" "$ABI" nothing)
	without=$(quickest env LD_LIBRARY_PATH="${LIB%/*}" true)
	echo "a program starts and ends in $with us with the library, one without in $without us"
	check "the library adds less than 10 ms to a program's start" [ $((with - without)) -lt 10000 ]
else
	skip "a sanitizer takes longer to start than the library may"
fi

# ---- diw run ----

run "devices are channel adapters with RoCE v2" "$DIW" run "$ABI" personality
check "..." [ "$OUT" = "1 0 2" ]
run "--personality ca says so too" "$DIW" run --personality ca -- "$ABI" personality
check "..." [ "$OUT" = "1 0 2" ]
run "--personality rnic: RNICs with iWARP" "$DIW" run --personality=rnic "$ABI" personality
check "..." [ "$OUT" = "4 1 0" ]
run "a personality that is none is named" env DIWARP_PERSONALITY=switch "$DIW" run "$ABI" personality
check "... and is a channel adapter" matches "$OUT" 'DIWARP_PERSONALITY=switch.*1 0 2$'
run "what LD_LIBRARY_PATH says comes behind ours" env LD_LIBRARY_PATH=/nowhere "$DIW" run printenv LD_LIBRARY_PATH
check "..." [ "$OUT" = "${LIB%/*}:/nowhere" ]
run "an option behind the program is the program's" "$DIW" run echo --help --check
check "..." [ "$OUT" = "--help --check" ]
expect 3 "the program's exit status is ours" "$DIW" run sh -c 'exit 3'
expect 127 "no such program: 127" "$DIW" run /nowhere/program
expect 126 "no program: 126" "$DIW" run "$TMP"

# ---- diw run --check ----

mkdir "$TMP/shared"
echo 'int ibv_import_mr(void), ibv_fork_init(void); int init(void) { return ibv_import_mr() + ibv_fork_init(); }' > \
	"$TMP/shared/module.c"
check "a module that loads libibverbs" $CC -shared -fPIC -o "$TMP/shared/module.so" "$TMP/shared/module.c" "$LIB"
chmod -x "$TMP/shared/module.so"
run "--check of a program for libibverbs" "$DIW" run --check "$ABI"
check "... finds all of it" matches "$OUT" ': [1-9][0-9]* imports of libibverbs\.so\.1, 0 missing'
check "... and says what fails" matches "$OUT" 'unsupported  ibv_import_mr, which .*of_abi imports'
run "--check of a shared object" "$DIW" run --check "$TMP/shared/module.so"
check "... finds all of it" matches "$OUT" 'module\.so: 2 imports of libibverbs\.so\.1, 0 missing'
check "... and says what fails" matches "$OUT" 'unsupported  ibv_import_mr, which .*module\.so imports'
run "--check of another" "$DIW" run --check sh
check "... says that it imports nothing" matches "$OUT" 'not linked with libibverbs.*: 0 imports'
# A library of a later release, and a program that is linked with it.
cat > "$TMP/later.map" << 'END'
IBVERBS_1.1 { global: ibv_from_the_future; };
IBVERBS_9.9 { global: ibv_fork_init; } IBVERBS_1.1;
END
echo 'int ibv_from_the_future(void) { return 0; } int ibv_fork_init(void) { return 0; }' > "$TMP/later.c"
echo 'int ibv_from_the_future(void), ibv_fork_init(void);
int main(void) { return ibv_from_the_future() + ibv_fork_init(); }' \
	> "$TMP/wants.c"
check "a later libibverbs" $CC -shared -fPIC -o "$TMP/libibverbs.so.1" -Wl,-soname,libibverbs.so.1 \
	-Wl,--version-script,"$TMP/later.map" "$TMP/later.c"
check "and a program that wants it" $CC -o "$TMP/wants" "$TMP/wants.c" "$TMP/libibverbs.so.1"
expect 1 "--check of it fails" "$DIW" run --check "$TMP/wants"
check "... for a name" matches "$OUT" 'missing      ibv_from_the_future@IBVERBS_1\.1, which .*wants imports'
check "... and for a version" matches "$OUT" 'missing      ibv_fork_init@IBVERBS_9\.9, which .*wants imports'
expect 1 "--check of what is no program fails" "$DIW" run --check tests/run
check "... and says why" matches "$OUT" 'not a dynamically linked program'
expect 1 "--check of nothing fails" "$DIW" run --check no-such-program

# ---- Installed ----

if [ "$MODE" = release ] || [ "$MODE" = debug ]; then
	make_() { MAKEFLAGS='' "$MAKE" -s BUILD="$BUILD" MODE="$MODE" DESTDIR="$TMP/root" PREFIX=/opt/diw "$@"; }
	for libdir in lib lib/x86_64-linux-gnu; do
		check "installed in $libdir" make_ LIBDIR=/opt/diw/$libdir install
		run "diw run finds the library there" "$TMP/root/opt/diw/bin/diw" run printenv LD_LIBRARY_PATH
		check "..." [ "$OUT" = "$TMP/root/opt/diw/$libdir/diwarp" ]
		run "which finds its libdiwarp" "$TMP/root/opt/diw/bin/diw" run ldd "$ABI"
		check "..." matches "$OUT" "libdiwarp.so.0 => $TMP/root/opt/diw/$libdir/diwarp/\.\./libdiwarp.so.0"
		check "and works" "$TMP/root/opt/diw/bin/diw" run "$ABI" personality
		check "uninstalled" make_ LIBDIR=/opt/diw/$libdir uninstall
		check "nothing is left" [ -z "$(find "$TMP/root" -type f -o -type l -o -name diwarp)" ]
	done
fi
end
