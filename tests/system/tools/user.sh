#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# An ordinary user without any privilege uses diw, and runs system tests in namespaces of his own.
. "${0%/*}/../lib.sh"
[ -n "${DIW_TEST_UID0:=$(awk '$1 == 0 && $2 == 0 { print 1 }' /proc/self/uid_map)}" ] ||
	{ skip "this is an ordinary user already: all tests are"; end; }

# Another user may be unable to read the tree. So the test copies the files below TMP.
mkdir -p "$TMP/home/build/bin" "$TMP/home/tests"
cp "$BUILD/bin/diw" "$TMP/home/build/bin"
cp -r tests/system "$TMP/home/tests"
chmod 755 "$TMP"
mkdir -m 777 "$TMP/tmp"
user=(setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all
	env PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games HOME=/ "TMPDIR=$TMP/tmp" \
		"BUILD=$TMP/home/build")
as_user() { "${user[@]}" "$@"; }
diw=$TMP/home/build/bin/diw

run "info" as_user "$diw" info --json
check "... finds lo" holds '.device == "diw_lo" and .up'
background "$TMP/listen" "${user[@]}" "$diw" listen
check "listen" eventually 10 listening 4791
run "ping" as_user "$diw" ping -c 10 -W 60 -i 0 127.0.0.1
run "perf" as_user "$diw" perf bw --op write --size 64k --secs 0.3 --local
kill "$PID"

# The default PATH of an ordinary user in Debian lacks /usr/sbin.
if [ -x /usr/sbin/ldconfig ] || [ -x /sbin/ldconfig ]; then
	check "a system test finds ldconfig with his PATH" as_user DIW_TEST_NO_NS=1 bash -c \
		'. "$1/tests/system/lib.sh"; command -v ldconfig' sh "$TMP/home"
fi
own_namespaces() { as_user DIW_TEST_NS= bash "$TMP/home/tests/system/tools/ping.sh" > "$TMP/log";
	grep -q '^ok' "$TMP/log" &&
	! grep '^not ok' "$TMP/log" && [ "$(tail -n 1 "$TMP/log")" = end ]; }
if as_user unshare -Urn true 2> /dev/null; then
	check "ping.sh by unshare -Urn" own_namespaces
else
	skip "unshare -Urn is refused to an ordinary user here"
fi
end
