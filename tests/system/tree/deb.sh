#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# make deb: the contents of the packages, the report of lintian, and a run of the unpacked packages.
FETCH=("tools/clients get" "tools/deb lintian")
. "${0%/*}/../lib.sh"
. tests/system/clients/lib.sh
[ "$MODE" = release ] || { skip "packages are of the release build"; end; }
[ -e "$BUILD/lib/diwarp/librdmacm.so.1" ] || { skip "built without libibverbs-dev and librdmacm-dev"; end; }
command -v dh > /dev/null || { skip "no debhelper here"; end; }

run "the packages are built" env BUILD="$BUILD" tools/deb build || end
deb() { ls "$BUILD/deb/$1"_*.deb; }
for pkg in diwarp libdiwarp-dev; do
	dpkg-deb -c "$(deb $pkg)" | awk '{ print $6 }' | sed 's|^\./|/|' > "$TMP/$pkg"
done
has() { grep -Eq "^$2\$" "$TMP/$1" || { echo "no $2 in:"; cat "$TMP/$1"; return 1; }; }
none() { ! grep -E "$2" "$TMP/$1"; }
for file in /usr/bin/diw '/usr/lib/[^/]*/libdiwarp.so.0' '/usr/lib/[^/]*/diwarp/libibverbs.so.1' \
	'/usr/lib/[^/]*/diwarp/librdmacm.so.1' '/usr/lib/[^/]*/diwarp/libibverbs.so' \
		'/usr/lib/[^/]*/diwarp/librdmacm.so' /usr/share/man/man1/diw.1.gz /usr/share/man/man7/diwarp.7.gz \
	/usr/share/doc/diwarp/copyright; do
	check "diwarp has $file" has diwarp "$file"
done
for file in /usr/include/diwarp/diw.h /usr/include/diwarp/diw_cm.h /usr/include/diwarp/diw_provider.h \
	'/usr/lib/[^/]*/libdiwarp.so' '/usr/lib/[^/]*/libdiwarp.a' \
	'/usr/lib/[^/]*/pkgconfig/diwarp.pc' /usr/share/man/man3/diw_qp.3.gz; do
	check "libdiwarp-dev has $file" has libdiwarp-dev "$file"
done
# There it would replace the system's library.
check "none has a library of that name where the system's are" none diwarp \
	'/usr/lib(/[^/]*-linux-gnu)?/lib(ibverbs|rdmacm)'
check "... nor do they conflict with it" [ -z "$(dpkg-deb -f "$(deb diwarp)" Conflicts Replaces Provides Breaks)" ]
check "it wants the libraries that it is linked with" matches "$(dpkg-deb -f "$(deb diwarp)" Depends)" 'libc6.*zlib1g'

if fetched "tools/deb lintian"; then
	run "lintian finds no error" tools/deb lintian --no-cfg --allow-root "$(deb diwarp)" "$(deb libdiwarp-dev)"
fi

tree=$TMP/tree
run "it is unpacked" dpkg -x "$(deb diwarp)" "$tree"
[ -z "${DIW_TEST_NS:-}" ] || ip link set lo up
background "$TMP/listen" "$tree/usr/bin/diw" listen
check "diw listen of there" eventually 10 listening 4791
run "diw ping of there" "$tree/usr/bin/diw" ping --count 3 127.0.0.1
check "... says that it is this version" matches "$("$tree/usr/bin/diw" --version)" \
	"$(dpkg-deb -f "$(deb diwarp)" Version)"
if have_clients; then
	run "diw run ibv_devinfo of there" "$tree/usr/bin/diw" run "$CLIENTS/root/usr/bin/ibv_devinfo" -d diw_lo
	check "... over its own libibverbs" matches "$OUT" 'hca_id:.*diw_lo'
	run "which" env LD_DEBUG=libs "$tree/usr/bin/diw" run "$CLIENTS/root/usr/bin/ibv_devinfo" -d diw_lo
	check "... is that of the package" matches "$OUT" "calling init: $tree/usr/lib/[^/]*/diwarp/libibverbs.so.1"
fi
end
