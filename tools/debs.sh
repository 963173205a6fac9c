# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Debian's packages without installing them, for scripts that source it. They set DEBS, a directory for what it keeps, and
# APT_LOG, a file, and define say().

own_lists=()

# The packages of group $1 in tools/packages.
packages() { awk -v group="$1" '$1 == group { print $2 }' tools/packages; }

# The system's package lists may be absent or name versions that are gone, and only root may fetch them: then lists of
# our own.
apt_get() { apt-get -q "${own_lists[@]}" "$@" < /dev/null; }
apt_cache() { apt-cache "${own_lists[@]}" "$@"; }
fetch_lists() {
	say "fetching the package lists"
	mkdir -p "$DEBS/lists/partial" "$DEBS/cache/archives/partial"
	own_lists=(-o "Dir::State::lists=$DEBS/lists" -o "Dir::Cache=$DEBS/cache")
	apt_get update > "$APT_LOG" 2>&1
}

depends() { apt_cache depends --important "$@" | awk '$1 ~ /Depends:$/ { print $2 }'; }

# The packages $* and the libraries that they need.
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
