#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# tools/quickstart runs the right commands for each user. Scripts replace dpkg-query, apt-get, sudo and id.
DIW_TEST_NO_NS=1
. "${0%/*}/../lib.sh"

fake=$TMP/bin
mkdir -p "$fake"
# fake NAME: makes a command of the script on standard input. The command logs its arguments in TMP/calls.
fake() { { printf '#!/bin/sh\necho "%s $*" >> "%s"\n' "$1" "$TMP/calls"; cat; } > "$fake/$1"; chmod +x "$fake/$1"; }
fake dpkg-query << END
while [ \$# -gt 1 ]; do shift; done
grep -qx "\$1" "$TMP/absent" || printf installed
END
# The replaced apt-get marks a package as installed. PLAN is the output of its simulation; FAIL says how often it fails.
fake apt-get << END
case "\$*" in
*-s*) cat "$TMP/plan" ;;
install*) : > "$TMP/absent" ;;
esac
n=\$(cat "$TMP/fail") && [ "\$n" -eq 0 ] || { echo \$((n - 1)) > "$TMP/fail"; exit 100; }
END
fake make < /dev/null
fake id << END
cat "$TMP/uid"
END
fake sudo << END
[ -e "$TMP/sudo" ] || exit 1
shift
exec "\$@"
END
# quick UID ABSENT GOAL: runs tools/quickstart as that user, without those packages.
quick() {
	echo "$1" > "$TMP/uid"
	printf '%s\n' $2 > "$TMP/absent"
	[ -n "$2" ] || : > "$TMP/absent"
	: > "$TMP/calls"
	shift 2
	(cd / && PATH=$fake:$PATH "${QUICK:-$OLDPWD/tools/quickstart}" "$@")
}
called() { grep -q -- "$1" "$TMP/calls" || { echo "no call $1 among:"; cat "$TMP/calls"; return 1; }; }
untouched() { ! grep -Eq '^(apt-get|sudo)' "$TMP/calls" || { cat "$TMP/calls"; return 1; }; }
: > "$TMP/plan"
echo 0 > "$TMP/fail"

for uid in 0 1000; do
	run "all there, uid $uid: builds" quick $uid '' demo
	check "... and calls make demo" called '^make .*demo$'
	check "... and neither apt-get nor sudo" untouched
done
run "check calls make check" quick 1000 '' check
check "... it does" called '^make .*check$'
ln -s "$PWD/tools/quickstart" "$TMP/link"
QUICK=$TMP/link run "by a symbolic link from another directory" quick 1000 '' demo

expect 1 "an ordinary user, gcc and make missing: stops" quick 1000 'gcc make' demo
check "... with the exact line" matches "$OUT" $'\napt-get install --no-install-recommends --no-upgrade make gcc($|\n)'
check "... and installs nothing" [ -z "$(grep ^apt-get "$TMP/calls")" ]
check "... and builds nothing" [ -z "$(grep ^make "$TMP/calls")" ]
run "what only the tests need is not asked for by demo" quick 1000 check demo
run "what only the guest needs is not asked for by check" quick 1000 qemu-system-x86 check
expect 1 "... but by check-interop" quick 1000 qemu-system-x86 check-interop
run "what the guest is made of is never installed" quick 1000 linux-image-amd64 check-interop
expect 1 "but by check" quick 1000 check check

run "root, gcc missing: installs it and builds" quick 0 gcc demo
check "... without upgrading or removing" called '^apt-get install -y .*--no-upgrade --no-remove .*gcc$'
check "... without fetching lists that are there" [ -z "$(grep '^apt-get update' "$TMP/calls")" ]
check "... and calls make" called '^make'
touch "$TMP/sudo"
run "a user with sudo: the same" quick 1000 gcc demo
check "... by sudo -n" called '^sudo -n env DEBIAN_FRONTEND=noninteractive .*apt-get install -y'

echo 1 > "$TMP/fail"
run "lists are missing: fetches them, then installs" quick 0 gcc demo
check "... it does" called '^apt-get update'
echo 9 > "$TMP/fail"
expect 1 "apt-get fails: stops" quick 0 gcc demo
check "... and builds nothing" [ -z "$(grep ^make "$TMP/calls")" ]
echo 0 > "$TMP/fail"

for plan in 'Inst libc6 [1.0] (2.0 Debian)' 'Remv thing [1.0]'; do
	echo "$plan" > "$TMP/plan"
	expect 1 "it would have to upgrade or remove ($plan): stops" quick 0 gcc demo
	check "... says which" matches "$OUT" "${plan:5:5}"
	check "... and installs nothing" [ -z "$(grep '^apt-get install -y' "$TMP/calls")" ]
done

expect 2 "no argument is a usage error" quick 0 ''
expect 2 "so is an unknown one" quick 0 '' all
run "--help" quick 0 '' --help
# The default PATH of an ordinary user in Debian lacks /usr/sbin, which has ldconfig, tc, nft and depmod. apt-get and
# dpkg need its programs, too.
# shellcheck disable=SC2046  # names without blanks
without_sbin() { grep -L '^PATH=$PATH:/usr/sbin:/sbin$' tests/run tests/system/lib.sh tests/interop/build.sh .ci/run \
	$(grep -l -d skip '^#!/bin/\(ba\)\?sh' tools/* tools/figures/* | grep -v /check-); }
check "whatever a user's PATH, no script lacks /usr/sbin" [ -z "$(without_sbin)" ]
listed() {
	local groups='^(build|check|lint|interop|guest|client|lintian|media|socket|plot|page|mpi|mpiapp|mvapich)$'
	awk -v g="$groups" '/^[^#]/ && (NF < 3 || $1 !~ g) { print; bad = 1 } END { exit bad }' tools/packages
}
check "every package is listed with its reason" listed
end
