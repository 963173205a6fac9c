# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Gets Debian's packages without installing them. A script that sources this file sets DEBS, the directory for its
# files, and APT_LOG, a file, and defines say().

own_lists=()

# packages GROUP: the packages of the group in tools/packages.
packages() { awk -v group="$1" '$1 == group { print $2 }' tools/packages; }

# The system's package lists may be absent or name versions that are gone, and only root may fetch them. Then apt_get
# and apt_cache use lists of their own. A script may set own_lists to further options, before fetch_lists.
apt_get() { apt-get -q "${own_lists[@]}" "$@" < /dev/null; }
apt_cache() { apt-cache "${own_lists[@]}" "$@"; }
fetch_lists() {
	say "fetching the package lists"
	mkdir -p "$DEBS/lists/partial" "$DEBS/cache/archives/partial"
	own_lists+=(-o "Dir::State::lists=$DEBS/lists" -o "Dir::Cache=$DEBS/cache")
	apt_get update > "$APT_LOG.lists" 2>&1
}
# apt_reason: prints why packages or lists could not be fetched.
apt_reason() {
	grep -sh '^[EW]: Failed to fetch' "$APT_LOG" "$APT_LOG.lists" | head -n 1 | grep . || tail -n 1 "$APT_LOG"
}

depends() { apt_cache depends --important "$@" | awk '$1 ~ /Depends:$/ { print $2 }'; }

# with_libraries PACKAGE...: the packages and the libraries that they need.
with_libraries() {
	local all=" " next=("$@") found pkg
	while [ ${#next[@]} -gt 0 ]; do
		found=()
		for pkg in "${next[@]}"; do
			[[ $all = *" $pkg "* ]] || { all+="$pkg "; found+=("$pkg"); }
		done
		[ ${#found[@]} -gt 0 ] || break
		mapfile -t next < <(depends "${found[@]}" | grep -E '^(lib|zlib1g$)' | sort -u)
	done
	echo "$all"
}
