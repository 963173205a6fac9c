#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Queue pairs of libibverbs: states (of_qp.c), requests (of_wr.c), RC by ibv_modify_qp(3) (of_rc.c), address handles and
# groups of UD (of_ud.c), LIDs (of_lid.c), queue pairs that are their own peer (of_self.c), no events from a queue pair
# that is destroyed or reset (of_quiet.c), when a request is complete (of_placed.c), requests that the peer refuses
# (of_refused.c), sends that the kernel refuses (of_unsent.c), reliable datagrams (of_rd.c), thousands of objects
# (of_many.c).
. "${0%/*}/../lib.sh"
[ -e "$BUILD/lib/diwarp/libibverbs.so.1" ] || { skip "libibverbs-dev was not there when this was built"; end; }

program() {
	local name=$1 rc
	shift
	timeout 600 "$DIW" run --personality "${PERSONALITY:-ca}" "$BUILD/tests/system/$name" "$@" < /dev/null
	rc=$?
	[ $rc -eq 0 ] || { FAILED=$((FAILED + 1)); [ $rc -eq 1 ] || echo "not ok - $name ends (exit $rc)"; }
}
for name in of_qp of_wr of_rc of_self of_quiet of_placed of_refused of_rd of_many; do
	program $name
done
PERSONALITY=rnic program of_quiet
PERSONALITY=rnic program of_refused
DIWARP_CONFIRM=off program of_placed now
PERSONALITY=rnic program of_placed now
program of_ud diw_lo 239.192.71.9
program of_lid diw_lo
# refused KIND HOST ERRNO: adds a route of that kind (see ip-route(8)); sends to HOST then fail with ERRNO.
refused() {
	check "a route that is $1" ip route add "$1" "$2/32"
	program of_unsent diw_va "$2" 77 "$3"
}
configured() { ! ip -6 addr show dev va | grep -q tentative; }
if two_namespaces 1500; then
	check "a second IPv4 address" ip addr add 192.0.2.77/24 dev va
	check "no address is tentative" eventually 30 configured
	program of_ud diw_va 239.192.71.9
	program of_ud diw_va ff15::4709
	program of_lid diw_va
	refused unreachable 198.51.100.1 113
	refused prohibit 198.51.100.2 13
	if nft add table inet t && nft add chain inet t out '{ type filter hook output priority 0; }' &&
		nft add rule inet t out udp dport 77 drop; then
		program of_unsent diw_va 192.0.2.2 77 1
	else
		skip "no nftables here"
	fi
else
	skip "no veth pair here"
fi
end
