#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# tools/figures/run: experiments of unmodified programs run for a moment, over the interposer and without it, and have
# plausible numbers. No speed is judged. DIW_TEST_FULL=1: all experiments of SIPp, VLC and the web shop.
GET="tools/programs get${DIW_TEST_FULL:+ media}"
FETCH=("$GET" "tools/programs get plot")
. "${0%/*}/../lib.sh"
command -v python3 > /dev/null || { skip "no python3 here"; end; }
[ "$MODE" = release ] || { skip "programs of others cannot load a library built for a sanitizer"; end; }
[ -z "${DIW_TEST_NO_NS:-}" ] && [ "$(id -u)" -eq 0 ] && ip link add va type veth peer name vb 2> /dev/null ||
	{ skip "no veth here"; end; }
ip link del va
fetched "$GET" && fetched "tools/programs get plot" || end

export ROUNDS=1 UNDER_WAY=1 CALLS=20 COUNTS=20 SECONDS_OF_SHOP=1 MIXES=shopping LOADS=4 CONNECTIONS="2 4" BITS=1M
export LINKS=0/0
[ ! -c /dev/net/tun ] || LINKS="${DIW_TEST_FULL:+0/0 }2/0"
# moment ID WHAT CURVE...: ok if ID has these curves, and a number in each line.
moment() {
	local id=$1
	run "$2" timeout 300 tools/figures/run "$id"
	shift 2
	check "... its numbers" awk -F, 'NR > 1 && (NF != 5 || $5 !~ /^-?[0-9.]+(e[-+]?[0-9]+)?$/) { print; bad = 1 }
		END { exit bad || NR < 3 }' "$BUILD/figures/$id.csv"
	for curve; do
		check "... $curve" grep -q "^[^,]*,[^,]*,$curve,[^,]*,[0-9.]*[1-9]" "$BUILD/figures/$id.csv"
	done
}
not_plain() { ! grep "went in FPDUs" <<< "$OUT"; }
ways=(UD "UD Write-Record" RC "UDP without" "TCP without")
moment T6.12 "SIPp's response time" "${ways[@]}"
[ -z "${DIW_TEST_FULL:-}" ] || moment T6.13 "SIPp's memory" "${ways[@]}"

nobody="setpriv --reuid=65534 --regid=65534 --clear-groups"
if ! command -v node > /dev/null; then
	skip "no node here: no web shop"
elif ! $nobody test -r "$DIW" 2> /dev/null; then
	skip "PostgreSQL and VLC want an ordinary user, and user 65534 cannot read $DIW"
else
	moment T3.14 "the web shop" TCP RC
	check "... all of it in FPDUs" not_plain
	[ -z "${DIW_TEST_FULL:-}" ] || {
		moment T3.12 "the web shop's mixes" TCP RC "RC inside" "TCP without offloads"
		moment T3.13 "the web shop's response times" home "shopping cart"
		moment web-cpu "the web shop's processor time" TCP RC
		moment T6.11 "VLC's buffer" "${ways[@]}"
	}
fi
end
