#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The README's two commands on a bare Debian 12: as root, and as an ordinary user. That user is told which packages to
# install. The test needs root, debootstrap and the machine's own Debian mirror (from apt's configuration), and takes
# some minutes. `make check-full` runs it. BARE_KEEP=1 keeps the systems, in TMPDIR.
#
# The test enters the system by pivot_root. In a plain chroot the kernel refuses unshare -U, which the system tests of
# an ordinary user need.
DIW_TEST_NO_NS=1
. "${0%/*}/../lib.sh"
suite=bookworm

[ "$(id -u)" -eq 0 ] || { skip "needs root"; end; }
command -v debootstrap > /dev/null || { skip "debootstrap is not installed"; end; }
sources=$(apt-get indextargets --format '$(CREATED_BY) $(REPO_URI) $(RELEASE) $(COMPONENT)' 2> /dev/null |
	awk -v suite=$suite '$1 == "Packages" && $3 ~ "^" suite && $4 == "main" { print "deb", $2, $3, $4 }' | sort -u)
mirror=$(awk -v suite=$suite '$3 == suite { print $2; exit }' <<< "$sources")
[ -n "$mirror" ] || { skip "apt's configuration names no $suite mirror"; end; }
unshare -m true 2> /dev/null || { skip "no mount namespaces here"; end; }

# apt_config ROOT: the system uses the machine's mirror, and the keys of its own release.
apt_config() {
	echo "$sources" > "$1/etc/apt/sources.list"
	apt-config dump | grep -E '^Acquire::(https?::|ftp::)?(Proxy|Check-Valid-Until|Verify-)' > \
		"$1/etc/apt/apt.conf.d/90machine"
	cp /etc/resolv.conf "$1/etc/resolv.conf"
}

# copy_tree DIRECTORY: copies the working tree, without files that git does not know.
copy_tree() {
	mkdir -p "$1"
	if git rev-parse --is-inside-work-tree > /dev/null 2>&1; then
		git ls-files -z --cached --others --exclude-standard | xargs -0 tar c --ignore-failed-read |
			tar x --no-same-owner -C "$1"
	else
		tar c --exclude=./build . | tar x --no-same-owner -C "$1"
	fi
}

# inside ROOT COMMAND...: runs the command as process 1 of a process namespace. When it ends, the kernel kills all its
# processes.
inside() {
	unshare -mpf --propagation private sh -ec '
		root=$1; shift
		mount --bind "$root" "$root"
		cd "$root"
		mkdir -p old
		mount -t proc proc proc
		mount --rbind /dev dev
		mount --rbind /sys sys
		pivot_root . old
		cd /
		umount -l /old
		exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb LANG=C.UTF-8 "$@"' - "$@"
}
as_user() { local root=$1; shift; inside "$root" setpriv --reuid=1000 --regid=1000 --clear-groups env HOME=/home/user \
	"$@"; }

versions() { inside "$1" dpkg-query -W -f '${Package} ${Version} ${db:Status-Status}\n' | sort; }
# untouched BEFORE AFTER: every package is still installed, in the same version.
untouched() { [ -z "$(comm -23 "$1" "$2")" ] || { echo "changed or gone:"; comm -23 "$1" "$2"; return 1; }; }
passed() {
	[[ $(tail -n 1 <<< "$OUT") =~ ^[1-9][0-9]*\ passed,\ 0\ failed$ ]] && return
	grep -A20 -E '^ *not ok|[^,] [1-9][0-9]* failed' <<< "$OUT"
	return 1
}

run "debootstrap of a minimal $suite" debootstrap --variant=minbase $suite "$TMP/root" "$mirror" || end
apt_config "$TMP/root"
inside "$TMP/root" useradd -m -u 1000 user
copy_tree "$TMP/root/home/user/diwarp"
chown -R 1000:1000 "$TMP/root/home/user"
# A package may need the version of a library that its own release has, so the system has the newest versions.
run "its packages are up to date" inside "$TMP/root" sh \
	-c '{ apt-get update && DEBIAN_FRONTEND=noninteractive apt-get upgrade -y; } < /dev/null'
expect 127 "it has no make" inside "$TMP/root" sh -c make
expect 127 "it has no gcc" inside "$TMP/root" sh -c gcc
cp -a "$TMP/root" "$TMP/user"
versions "$TMP/root" > "$TMP/before"

tree=/home/user/diwarp
run "root: tools/quickstart demo" inside "$TMP/root" $tree/tools/quickstart demo
check "... shows the table" matches "$OUT" 'Write-Record with repair +100.0 %'
run "root: tools/quickstart check" inside "$TMP/root" sh -c "cd /tmp && $tree/tools/quickstart check"
check "... all tests pass" passed
grep -E '^ *SKIP|skipped, for' <<< "$OUT"
versions "$TMP/root" > "$TMP/after"
check "... nothing that was there was upgraded or removed" untouched "$TMP/before" "$TMP/after"

# line: the line "apt-get install ..." that quickstart printed.
line() { grep '^apt-get install ' <<< "$OUT"; }
for goal in demo check; do
	expect 1 "user: tools/quickstart $goal stops" as_user "$TMP/user" $tree/tools/quickstart $goal
	check "... and prints the line to run" [ "$(line | wc -l)" -eq 1 ]
	run "root runs that line" inside "$TMP/user" sh \
		-c "{ apt-get update && DEBIAN_FRONTEND=noninteractive $(line) -y; } < /dev/null"
	run "user: tools/quickstart $goal" as_user "$TMP/user" $tree/tools/quickstart $goal
done
check "... all tests pass" passed
grep -E '^ *SKIP|skipped, for' <<< "$OUT"
versions "$TMP/user" > "$TMP/after"
check "... nothing that was there was upgraded or removed" untouched "$TMP/before" "$TMP/after"

if [ -n "${BARE_KEEP:-}" ]; then
	trap - EXIT
	echo "kept: $TMP"
fi
end
