#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The manual pages of the calls: every function has one, the prototypes are the header's, examples compile, references
# exist. After make install man(1) finds each page by the function's name.
DIW_TEST_NO_NS=1
. "${0%/*}/../lib.sh"

check "every public function has its page" tools/check-exports

# without PAGE: makes a copy without the page and runs check-exports there.
without() {
	rm -rf "$TMP/copy"
	mkdir "$TMP/copy"
	cp -r verbs tools man "$TMP/copy"
	rm "$TMP/copy/man/$1"
	"$TMP/copy/tools/check-exports"
}
expect 1 "a page that is missing is found" without diw_srq.3
check "... and its functions are named" matches "$OUT" '< diw_srq_set_limit'

mkdir -p "$TMP/include"
ln -s "$PWD/verbs" "$TMP/include/diwarp"
for page in man/*; do
	check "${page#man/}: no quotation within another" \
		[ -z "$(mandoc -T utf8 "$page" | tr -d '\n' | grep -o '“[^”]*“')" ]
done
cc_() { $CC -Wall -Wextra -Werror -pedantic -std=c11 -I"$TMP/include" -c -o "$TMP/x.o" "$1"; }

# prototypes PAGE: prints the SYNOPSIS as C. The compiler reports a declaration that differs from the header's.
prototypes() {
	awk '
	/^\.Sh / { on = $2 == "SYNOPSIS" }
	!on { next }
	function arg(a) { args = args (args == "" ? "" : ", ") a }
	/^\.Ft / { type = substr($0, 5) }
	/^\.Fn / || /^\.Fo / { name = $2; args = "" }
	/^\.Fn / && !/"/ { arg($3) }
	/^\.Fn / { n = split($0, part, "\""); for (i = 2; i <= n; i += 2) arg(part[i]) }
	/^\.Fa / { split($0, part, "\""); arg(part[2]) }
	/^\.Fn / || /^\.Fc/ { print type " " name "(" args ");" }' "$1"
}
example() {
	awk '/^\.Sh / { on = $2 == "EXAMPLES" } on && /^\.Bd/ { code = 1; next } /^\.Ed/ { code = 0 }
		on && code { gsub(/\\e/, "\\"); print }' "$1"
}
headers() { sed -n 's/^\.In \(.*\)/#include <\1>/p' "$1"; }
for page in man/*.3; do
	name=${page#man/}
	{ headers "$page"; awk '/^\.Nd/ { exit } /^\.Nm / { print "void *" $2 "_(void) { return (void *)" $2 "; }" }' \
		"$page"; } |
		sed '1i #pragma GCC diagnostic ignored "-Wpedantic"' > "$TMP/named.c"
	check "$name: its header declares its names" cc_ "$TMP/named.c"
	{ headers "$page"; prototypes "$page"; } > "$TMP/synopsis.c"
	check "$name: the prototypes are the header's" cc_ "$TMP/synopsis.c"
	check "$name: a prototype for each of its names" [ "$(grep -c ');$' "$TMP/synopsis.c")" -eq \
		"$(sed -n '/^\.Nd/q; /^\.Nm /p' "$page" | wc -l)" ]
	{ headers "$page"; printf '#include <%s>\n' errno.h poll.h stdio.h string.h; example "$page";
		} > "$TMP/example.c"
	check "$name: it has an example" grep -q '^}' "$TMP/example.c"
	check "$name: the example compiles" cc_ "$TMP/example.c"
	check "$name: its sections" [ "$(grep '^\.Sh ' "$page" | tr '\n' ' ')" = \
		".Sh NAME .Sh SYNOPSIS .Sh DESCRIPTION \
.Sh RETURN VALUES .Sh EXAMPLES .Sh ERRORS .Sh SEE ALSO " ]
done
sed 's/diw_cm\.h/diw.h/' man/diw_cm.3 > "$TMP/wrong.3"
{ headers "$TMP/wrong.3"; echo 'void *f(void) { return (void *)diw_listen; }'; } > "$TMP/named.c"
expect 1 "a wrong header is found" cc_ "$TMP/named.c"
sed 's/uint32_t depth/uint64_t depth/' man/diw_cq.3 > "$TMP/wrong.3"
{ echo '#include <diwarp/diw.h>'; prototypes "$TMP/wrong.3"; } > "$TMP/synopsis.c"
expect 1 "a wrong prototype is found" cc_ "$TMP/synopsis.c"

counters() { sed -n 's/^\tX(\([a-z0-9_]*\), .*/\1/p' base/counters.h; }
described() { awk \
	'/^\.Sh / { on = $2 == "COUNTERS" } on && /^Gauges are states/ { exit } on && /^\.It Li/ { print $3 }' "$1"; }
check "diwarp.7 describes every counter" diff <(counters) <(described man/diwarp.7)
sed '/^\.It Li rx_crc/d' man/diwarp.7 > "$TMP/less.7"
expect 1 "one that is missing is found" diff <(counters) <(described "$TMP/less.7")

run "make install" env MAKEFLAGS='' "$MAKE" -s BUILD="$BUILD" MODE="$MODE" DESTDIR="$TMP/root" PREFIX=/usr install
cd "$TMP/root/usr/share/man" || exit 1
missing=
for function in $(sed -n 's/^\t*\(diw_[a-z0-9_]*\);$/\1/p' "$OLDPWD/verbs/libdiwarp.map"); do
	mandoc -T html "man3/$function.3" | grep -q "class=\"Nm\">$function<" || missing+=" $function"
done
check "every function is found by its name" [ -z "$missing" ]
dead=
while read -r name section; do
	[ -s "man$section/$name.$section" ] || dead+=" $name($section)"
done < <(sed -n 's/^\.Xr \(diw[a-z_]*\) \([0-9]\).*/\1 \2/p' man?/*.[137] | sort -u)
check "every reference exists" [ -z "$dead" ]
if command -v man > /dev/null && [ "$(man -M "$PWD" -w diw_cq 2> /dev/null)" ]; then
	check "man finds a call's page" matches "$(man -M "$PWD" -P cat diw_cq_wait 2>&1)" 'diw_cq_poll'
else
	skip "there is no man"
fi
end
