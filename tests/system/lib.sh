# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# For the system tests, sourced first:  . "${0%/*}/lib.sh"
# A test prints "ok - WHAT" or "not ok - WHAT" for each thing it proves, "SKIP: WHY" for what it cannot, and ends in end.
#
# It runs in a network namespace of its own, so that no port, rule or interface of the machine matters or is changed, and
# in one of System V's segments, so that none is left; an ordinary user gets them by a user namespace.

set -u
# What an ordinary user of Debian does not find by his own PATH: ldconfig, tc, nft, depmod.
PATH=$PATH:/usr/sbin:/sbin
SELF=$(readlink -f -- "$0")
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." || exit 1
MODE=${MODE:-release} CC=${CC:-gcc} MAKE=${MAKE:-make}
BUILD=$(readlink -f -- "${BUILD:-build}")
DIW=$BUILD/bin/diw
JOBS=() JOINED=()
FAILED=0

ok() { echo "ok - $*"; }
not_ok() { echo "not ok - $*"; FAILED=$((FAILED + 1)); }
skip() { echo "SKIP: ${0##*/}: $*"; }
end() { echo end; exit $((FAILED > 0)); }

# expect STATUS WHAT COMMAND...: ok when it exits so; its output is shown when it does not, and is OUT afterwards.
expect() {
	judge "$TMP/out" "$@"
	local rc=$?
	OUT=$(< "$TMP/out")
	return $rc
}
run() { expect 0 "$@"; }

# check WHAT COMMAND...: ok when it succeeds. OUT stays, so that many things can be checked of one command.
check() { judge "$TMP/out.check" 0 "$@"; }

judge() {
	local out=$1 want=$2 what=$3 got
	shift 3
	"$@" > "$out" 2>&1 < /dev/null
	got=$?
	if [ $got -eq "$want" ]; then
		ok "$what"
	else
		not_ok "$what (exit $got, not $want: $*)"
		sed 's/^/    /' "$out" | tail -n 30
	fi
	return $((got != want))
}

# matches TEXT REGEX: for check.
matches() { [[ $1 =~ $2 ]] || { echo "no $2 in: $1"; return 1; }; }

# background LOG COMMAND...: starts it; PID is its process id. What still runs at the end is killed.
background() {
	local log=$1
	shift
	[ "$1" != in_b ] || set -- nsenter -t "$HOLDER" -n "${@:2}"
	# A process group of its own: of a function PID is a subshell, which would die without what it has started.
	set -m
	"$@" > "$log" 2>&1 < /dev/null &
	PID=$!
	set +m
	JOBS+=("$PID")
}

# So many times the seconds that a thing should take it may: a busy machine and a sanitizer are no fault, and who
# succeeds does not wait for it.
PATIENCE=10

# join PID SECONDS: waits for a background command; its exit status, or 124.
join() {
	local until=$((SECONDS + $2 * PATIENCE))
	while kill -0 "$1" 2> /dev/null; do
		[ $SECONDS -le $until ] || { echo "process $1 still runs after $(($2 * PATIENCE)) s"; return 124; }
		sleep 0.05
	done
	JOINED[$1]=1
	wait "$1"
}

# eventually SECONDS COMMAND...: repeats it until it succeeds, PATIENCE times as long at most.
eventually() {
	local until=$((SECONDS + $1 * PATIENCE))
	shift
	until "$@" > /dev/null 2>&1; do
		[ $SECONDS -le $until ] || return 1
		sleep 0.05
	done
}

# listening PORT [IN]: a socket is bound to PORT, UDP or TCP; IN is "in_b" for the other namespace.
listening() { ${2:-} ss -Htuln "sport = :$1" | grep -q .; }
# accepting PORT [IN]: the same, of TCP alone.
accepting() { ${2:-} ss -Htln "sport = :$1" | grep -q .; }

cleanup() {
	for job in "${JOBS[@]}"; do
		[ -n "${JOINED[$job]:-}" ] && continue  # the number may be another process's by now
		kill -- -"$job" 2> /dev/null || kill "$job" 2> /dev/null     # not all were begun by background
	done
	wait 2> /dev/null
	for job in "${JOBS[@]}"; do             # the counters of one that was killed
		rm -f /dev/shm/diwarp."$job".*
	done
	rm -rf "$TMP"
}

# In a namespace of its own already?
if [ -z "${DIW_TEST_NS:-}" ] && [ -z "${DIW_TEST_NO_NS:-}" ]; then
	export DIW_TEST_NS=1
	if [ "$(id -u)" -eq 0 ] && unshare -in true 2> /dev/null; then
		exec unshare -in "$BASH" "$SELF" "$@"
	elif unshare -Urin true 2> /dev/null; then
		exec unshare -Urin "$BASH" "$SELF" "$@"
	fi
	skip "neither root nor unshare -Urin gives a network namespace here"
	end
fi
TMP=$(mktemp -d)
trap cleanup EXIT
trap 'exit 1' INT TERM
[ -z "${DIW_TEST_NS:-}" ] || ip link set lo up

# gcc's sanitizers lose their shadow memory on kernels with many random address bits.
case $MODE in
asan | tsan)
	if setarch -R true 2> /dev/null; then
		printf '#!/bin/sh\nexec setarch -R "%s" "$@"\n' "$DIW" > "$TMP/diw"
		chmod +x "$TMP/diw"
		DIW=$TMP/diw
	fi
	;;
esac

A4=192.0.2.1 B4=192.0.2.2 A6=2001:db8::1 B6=2001:db8::2

# two_namespaces MTU: this one is A with interface va, "in_b COMMAND" runs in the other, with vb.
two_namespaces() {
	[ -z "${HOLDER:-}" ] || { kill "$HOLDER" && wait "$HOLDER"; ip link del va; } 2> /dev/null
	unshare -n sleep 3600 &
	HOLDER=$!
	JOBS+=("$HOLDER")
	eventually 5 other_namespace || return
	ip link add va type veth peer name vb netns "$HOLDER" || return
	in_b ip link set lo up
	side '' va "$1" $A4 $A6 && side in_b vb "$1" $B4 $B6
}
other_namespace() { [ "$(readlink "/proc/$HOLDER/ns/net")" != "$(readlink /proc/self/ns/net)" ]; }
in_b() { nsenter -t "$HOLDER" -n "$@"; }
# configured IN INTERFACE: until it is, the kernel drops what comes to IPv6's groups.
configured() { $1 ip -6 addr show dev "$2" scope link -tentative | grep -q fe80; }
side() {
	$1 ip addr add "$4/24" dev "$2" && $1 ip addr add "$5/64" dev "$2" nodad &&
		$1 ip link set "$2" mtu "$3" up
}

# lose PERCENT: what A sends to B from now on is lost with this probability, datagram by datagram. LOSS says how it is
# done, LOSS_ENV is for the sender's environment.
#
# A super-buffer passes the sender's queueing discipline and its nftables hooks as one packet, so a drop there would take 45
# datagrams at once. Hence netem only with segmentation offload off, and the others at B, with a gso_max_segs that makes
# A's interface cut super-buffers before they cross.
lose() {
	local of_2_32=$(($1 * 42949673))
	LOSS_ENV=(env)
	if tc qdisc add dev va root netem loss "$1%" 2> /dev/null; then
		LOSS="tc netem" LOSS_ENV=(env DIWARP_OFFLOAD=gro)
	elif ip link set va gso_max_segs 1 2> /dev/null && in_b nft "add table netdev diw;
			add chain netdev diw loss { type filter hook ingress device vb priority 0; };
			add rule netdev diw loss meta l4proto udp numgen random mod 100 < $1 counter drop" 2> /dev/null; then
		LOSS="nftables"
	elif ip link set va gso_max_segs 1 2> /dev/null && in_b tc qdisc add dev vb clsact 2> /dev/null &&
		in_b tc filter add dev vb ingress protocol all bpf da \
			bytecode "4,32 0 0 4294963256,53 0 1 $of_2_32,6 0 0 0,6 0 0 2," 2> /dev/null; then
		LOSS="cls_bpf"
	else
		LOSS="diw's own impairment" LOSS_ENV=(env "DIWARP_IMPAIR=loss=$1%,seed=7")
	fi
	echo "loss of $1 % by $LOSS"
}

# sanitized PROGRAM...: these of tests/system, over an interposer that was built for a sanitizer as they were, in both
# choices of the CRC: they see what they should, or see without it, and the sanitizer finds nothing. Then the test ends.
sanitized() {
	local program crc runtime lib=$BUILD/lib/diwarp/libdiwarp_sockets.so
	local launch=()
	! setarch -R true 2> /dev/null || launch=(setarch -R)
	runtime=$(readlink -f -- "$($CC -print-file-name="lib$MODE.so")")
	export XDG_RUNTIME_DIR=$TMP/run DIWARP_SOCKETS_LOG=info DIWARP_SOCKETS_STREAMS=on ASAN_OPTIONS=detect_leaks=0
	unset LD_PRELOAD
	mkdir -m 700 "$TMP/run"
	for program in "$@"; do
		run "$program" "${launch[@]}" "$BUILD/tests/system/$program"
		cp "$TMP/out" "$TMP/without"
		for crc in off on; do
			run "$program over the interposer, CRC $crc" env LD_PRELOAD="$runtime $lib $BUILD/tests/preload/short.so" \
				DIWARP_SOCKETS_CRC=$crc "${launch[@]}" "$BUILD/tests/system/$program"
			check "... sees what it did" diff "$TMP/without" <(grep -vE '^(diwarp sockets: |    )' <<< "$OUT")
			check "... over it" matches "$OUT" 'counted .*framed='
			check "... and $MODE finds nothing" [ -z "$(grep -E 'runtime error: |ERROR: |WARNING: ' <<< "$OUT")" ]
		done
	done
	end
}

# receiver [IN] OPTION...: starts diw recv into TMP/in (made empty), for one transfer; RECV is its process id.
receiver() {
	local in=
	[ "${1:-}" != in_b ] || { in=in_b; shift; }
	rm -rf "$TMP/in"
	mkdir "$TMP/in"
	background "$TMP/recv" $in $DIW recv --count 1 "$@" "$TMP/in"
	RECV=$PID
	eventually 10 listening 4791 $in || { cat "$TMP/recv"; return 1; }
}

# JSON field of the last command's output: its last line that is an object.
field() { grep '^{' <<< "$OUT" | tail -n 1 | jq -r "$1"; }
# holds EXPRESSION: of the same object.
holds() {
	grep '^{' <<< "$OUT" | tail -n 1 > "$TMP/json"
	[ -s "$TMP/json" ] && jq -e "$1" "$TMP/json" > /dev/null || { echo "not so: $1, of:"; cat "$TMP/json"; return 1; }
}
