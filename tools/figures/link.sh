# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2034,SC2154
# For tools/figures/run: the ends of unmodified programs in two network namespaces, with a delay and a loss between
# them. Until `link` runs, both ends are here.

# MS/PERCENT: a packet's delay in each direction, and the share of packets that is lost in each. 0/0 is a veth pair of
# MTU 1500. Any other is delaybox of the system tests, 1 Gbit/s: the kernel of a small machine may have no netem.
LINKS=${LINKS:-0/0 1/0 10/1 50/5}
NEAR=127.0.0.1 FAR=127.0.0.1 FAR_IN='' PLACE=lo
# The other namespaces have only interposed programs, or only others, at these addresses.
export DIWARP_SOCKETS_PEERS=198.51.100.0/24,203.0.113.0/24,198.18.0.0/15

# two_namespaces: this namespace has interface va, the other vb. Once a run.
two_namespaces() {
	[ -z "${HOLDER:-}" ] || return 0
	unshare -n sleep 36000 > /dev/null &
	HOLDER=$!
	within 5 other_namespace && ip link add va mtu 1500 type veth peer name vb mtu 1500 netns "$HOLDER" &&
		ip addr add 198.51.100.1/24 dev va && ip link set va up && there ip addr add 198.51.100.2/24 dev vb &&
		there ip link set vb up && there ip link set lo up
}
there() { nsenter -t "$HOLDER" -n "$@"; }
other_namespace() { [ "$(readlink "/proc/$HOLDER/ns/net")" != "$(readlink /proc/self/ns/net)" ]; }

# link MS/PERCENT: from now on the ends are at NEAR and FAR. PLACE is the name of the link in the picture.
link() {
	local ms=${1%/*} percent=${1#*/} box=$BUILD/tests/system/delaybox now=()
	[ -z "${BOX:-}" ] || { stop "$BOX"; BOX=; }
	two_namespaces || return
	FAR_IN="nsenter -t $HOLDER -n" NEAR=198.51.100.1 FAR=198.51.100.2 PLACE=veth
	[ "$1" != 0/0 ] || return 0
	PLACE="$ms ms"
	[ "$percent" = 0 ] || PLACE+=" and $percent % lost"
	[ -x "$box" ] || { echo "no $box: make tests" >&2; return 1; }
	NEAR=203.0.113.1 FAR=203.0.113.2
	# It must not wait for a processor.
	! chrt -r 1 true 2> /dev/null || now=(chrt -r 1)
	"${now[@]}" "$box" "$HOLDER" ta tb 1000 50 "$ms" "$percent" 7 > "$TMP/box" 2>&1 &
	BOX=$!
	within 5 ip link show ta && within 5 there ip link show tb || { cat "$TMP/box" >&2; return 1; }
	ip addr add $NEAR/24 dev ta && ip link set ta mtu 1500 txqueuelen 10000 up &&
		there ip addr add $FAR/24 dev tb && there ip link set tb mtu 1500 txqueuelen 10000 up
}
