#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# make install, a program that pkg-config links with the shared and the static library, the library's exports, make
# uninstall.
. "${0%/*}/../lib.sh"
[ "$MODE" = release ] || [ "$MODE" = debug ] ||
	{ skip "a program of its own cannot load a library built for a sanitizer"; end; }

root=$TMP/root
make_() { MAKEFLAGS='' "$MAKE" -s BUILD="$BUILD" MODE="$MODE" DESTDIR="$1" PREFIX=/opt/diw "$2"; }
run "make install" make_ "$root" install
for file in bin/diw include/diwarp/diw.h include/diwarp/diw_cm.h include/diwarp/diw_provider.h lib/libdiwarp.so \
	lib/libdiwarp.so.0 lib/libdiwarp.a lib/pkgconfig/diwarp.pc \
	share/man/man1/diw.1 share/man/man7/diwarp.7 share/man/man7/diw_verbs.7; do
	check "installed: $file" [ -s "$root/opt/diw/$file" ]
done
for lib in libibverbs librdmacm; do
	[ ! -e "$BUILD/lib/diwarp/$lib.so.1" ] ||
		check "installed: lib/diwarp/$lib.so, for programs that open it by that name" [ \
			"$(readlink "$root/opt/diw/lib/diwarp/$lib.so")" = $lib.so.1 ]
	check "... and nowhere else" [ -z "$(find "$root" -name "$lib*" ! -path '*/lib/diwarp/*')" ]
done
check "the soname is libdiwarp.so.0" matches "$(readelf -d "$root/opt/diw/lib/libdiwarp.so")" \
	'SONAME.*\[libdiwarp\.so\.0\]'
check "headers, version map, shared and static library name the same functions" \
	tools/check-exports "$root/opt/diw/lib/libdiwarp.so" "$root/opt/diw/lib/libdiwarp.a"

strange() {
	nm -D --defined-only "$root/opt/diw/lib/diwarp/libdiwarp_sockets.so" | awk '{ print $3 }' | sort > "$TMP/ours"
	nm -D --defined-only "$(ldconfig -p | sed -n 's/.*libc\.so\.6 .*=> //p' | head -n 1)" | awk '{ print $3 }' |
		sed 's/@.*//' | sort -u > "$TMP/libc"
	comm -23 "$TMP/ours" "$TMP/libc" | grep -vxE 'io_uring_setup|io_uring_queue_init(_params|_mem)?'
}
check "the interposer exports names of the C library, and of liburing those that make a ring, and no others" [ \
	-s "$root/opt/diw/lib/diwarp/libdiwarp_sockets.so" -a -z "$(strange)" ]

pc() { PKG_CONFIG_LIBDIR=$root/opt/diw/lib/pkgconfig pkg-config --define-variable=prefix="$root/opt/diw" \
	--define-variable=libdir="$root/opt/diw/lib" "$@" diwarp; }
cat > "$TMP/prog.c" << 'END'
#include <diwarp/diw.h>
#include <stdio.h>
int main(void)
{
	struct diw_dev *dev;
	int rc = diw_dev_open("diw_lo", NULL, &dev);

	printf("%d devices, open %d\n", diw_dev_list(NULL, 0), rc);
	return rc || diw_dev_close(dev);
}
END
# shellcheck disable=SC2046  # flags are words
cc_with() { $CC -Wall -Wextra -Werror -pedantic -std=c11 $(pc --cflags) "$TMP/prog.c" -o "$TMP/prog" "$@"; }
# shellcheck disable=SC2046
check "a program compiles and links by pkg-config" cc_with $(pc --libs)
run "it runs with the installed library" env LD_LIBRARY_PATH="$root/opt/diw/lib" "$TMP/prog"
check "it found a device" matches "$OUT" '^[1-9][0-9]* devices, open 0'
# shellcheck disable=SC2046
check "it links with the static library" cc_with "$root/opt/diw/lib/libdiwarp.a" $(pc --static --libs-only-other) \
	$(grep ^Libs.private "$root/opt/diw/lib/pkgconfig/diwarp.pc" | cut -d: -f2)
run "it runs without the shared one" "$TMP/prog"
CXX=${CXX:-g++}
command -v "$CXX" > /dev/null || skip "no $CXX to read the headers as C++"
for header in "$root"/opt/diw/include/diwarp/*.h; do
	echo "#include <diwarp/${header##*/}>" > "$TMP/alone.c"
	check "${header##*/} compiles alone" $CC -Wall -Wextra -Werror -pedantic -std=c11 -fsyntax-only \
		-I"$root/opt/diw/include" "$TMP/alone.c"
	! command -v "$CXX" > /dev/null || check "... and is C++ too" "$CXX" -x c++ \
		-Wall -Wextra -Werror -pedantic -fsyntax-only \
		-I"$root/opt/diw/include" "$TMP/alone.c"
done

run "make uninstall" make_ "$root" uninstall
check "nothing is left" [ -z "$(find "$root" -type f -o -type l)" ]
end
