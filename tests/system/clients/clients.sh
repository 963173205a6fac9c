#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Debian's own RDMA programs over our libibverbs.so.1, in both personalities. tests/system/clients/list names the
# programs.
# usage: clients.sh [PATTERN]    only the lines that PATTERN (extended regular expression) matches
#
# A run counts when both ends succeed and the counters show that its bytes went through our queue pairs.
# DIW_TEST_FULL=1: also the lines of the list that are marked "full".
# CLIENTS_TABLE=FILE: writes the results to FILE, as a page of docs.
FETCH=("tools/clients get")
. "${0%/*}/../lib.sh"
. tests/system/clients/lib.sh
. tests/system/clients/pyverbs.sh
. tests/system/clients/cm.sh
. tests/system/clients/rs.sh
. tests/system/clients/storage.sh
PATTERN=${1:-.}
links_are_up() { configured "" va && configured in_b vb; }

[ "$MODE" = release ] || [ "$MODE" = debug ] || { skip "programs of others cannot load a library built for a sanitizer";
	end; }
own_shm "$@"
have_clients || end
two_namespaces 1500 && eventually 30 links_are_up || { not_ok "two network namespaces"; end; }

# libfabric resolves the name of this host.
is_named() { getent ahosts "$(uname -n)" > /dev/null; }
is_named || skip "fi_info and fi_pingpong: nothing here, as /etc/hosts, knows this host's name, $(uname -n)"

for PERSONALITY in ca rnic; do
	wanted ibv_devices && devices
	wanted ibv_devinfo && devinfo
	wanted ibv_asyncwatch && asyncwatch
	wanted fi_info && [ -e "$BUILD/lib/diwarp/librdmacm.so.1" ] && is_named && fabrics
	while read -r when where who types program options; do
		[[ $when = quick || $when = full && -n ${DIW_TEST_FULL:-} ]] || continue
		[[ $who = both || $who = "$PERSONALITY" ]] && wanted "$when $where $types $program $options" || continue
		for place in veth ${where#veth}; do
			pair $place "$types" "$program" $options
		done
	done < tests/system/clients/list
	while read -r when where who types line; do
		[[ $when = quick || $when = full && -n ${DIW_TEST_FULL:-} ]] || continue
		[[ $who = both || $who = "$PERSONALITY" ]] && [ -e "$BUILD/lib/diwarp/librdmacm.so.1" ] &&
			wanted "$when $where $types $line" && { [[ $line != *fi_* ]] || is_named; } || continue
		for place in veth ${where#veth}; do
			cm_pair $place "$types" $line
		done
	done < tests/system/clients/cm.list
	while read -r when where types line; do
		[[ $when = quick || $when = full && -n ${DIW_TEST_FULL:-} ]] || continue
		[ -e "$BUILD/lib/diwarp/librdmacm.so.1" ] && wanted "$when $where $types $line" || continue
		for place in veth ${where#veth}; do
			rs_pair $place "$types" $line
		done
	done < tests/system/clients/rs.list
	[ ! -e "$BUILD/lib/diwarp/librdmacm.so.1" ] || storage
	wanted refused && refusals
	wanted pyverbs && pyverbs
	wanted test_rdmacm && [ -e "$BUILD/lib/diwarp/librdmacm.so.1" ] && rdmacm_tests
done
[ -z "${CLIENTS_TABLE:-}" ] || table > "$CLIENTS_TABLE"
end
