# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# The library of the system tests. Each test sources it first:  . "${0%/*}/lib.sh"
# A test prints "ok - WHAT" or "not ok - WHAT" for each check, and "SKIP: WHY" for a check that is not possible here.
# Its last command is `end`.
#
# A test runs in its own network namespace, so the machine's ports, rules and interfaces neither matter nor change. It
# also runs in its own IPC namespace, so no System V segment is left. Without root both come with a user namespace.
#
# There is no Internet in that namespace. A test that wants downloads sets FETCH to their command lines before it
# sources this file. They run before the test starts itself again.

set -u
# The PATH of a Debian user lacks the folders of ldconfig, tc, nft and depmod.
PATH=$PATH:/usr/sbin:/sbin
SELF=$(readlink -f -- "$0")
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." || exit 1
MODE=${MODE:-release} CC=${CC:-gcc} MAKE=${MAKE:-make}
BUILD=$(readlink -f -- "${BUILD:-build}")
DIW=$BUILD/bin/diw
JOBS=() JOINED=()
[ -n "${FETCH:-}" ] || FETCH=()
FAILED=0

ok() { echo "ok - $*"; }
not_ok() { echo "not ok - $*"; FAILED=$((FAILED + 1)); }
skip() { echo "SKIP: ${0##*/}: $*"; }
end() { echo end; exit $((FAILED > 0)); }

# fetched COMMAND: COMMAND, one of FETCH, has succeeded. If not, prints why. Status 77: the files cannot be had here.
fetched() {
	local status said
	IFS=$'\t' read -r _ status said < <(grep -F "$1"$'\t' <<< "${DIW_TEST_FETCHED:-}")
	case $status in
	0) return 0 ;;
	77) skip "$1: $said" ;;
	*) not_ok "$1 (exit $status): $said" ;;
	esac
	return 1
}

# expect STATUS WHAT COMMAND...: ok when COMMAND exits with STATUS; otherwise its output is printed. OUT is the output.
expect() {
	judge "$TMP/out" "$@"
	local rc=$?
	OUT=$(< "$TMP/out")
	return $rc
}
run() { expect 0 "$@"; }

# check WHAT COMMAND...: ok when COMMAND succeeds. OUT is unchanged, so several checks can read it.
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

# measured MEASURE WHAT CONDITION [WHAT CONDITION]...: ok for each WHAT whose CONDITION holds after one of up to three
# runs of MEASURE (TRIES: of so many). A busy machine may spoil a measurement, and does not break a promise: what must
# hold in every run MEASURE checks itself. MEASURE and CONDITION are command lines; TRY is the number of the run. A
# CONDITION that held in no run is printed with its output after each.
measured() {
	# MEASURE sees these variables, so each has a prefix.
	local m_measure=$1 m_i m_what m_missing m_held=() m_said=()
	shift
	for ((TRY = 1; TRY <= ${TRIES:-3}; TRY++)); do
		eval "$m_measure"
		m_missing=0
		for ((m_i = 2; m_i <= $#; m_i += 2)); do
			[ -z "${m_held[m_i]:-}" ] || continue
			eval "${!m_i}" > "$TMP/out.check" 2>&1 < /dev/null && m_held[m_i]=1 && continue
			m_said[m_i]+=$(sed "s/^/    try $TRY: /" "$TMP/out.check")$'\n' m_missing=1
			echo "    try $TRY: not so: ${!m_i}"
		done
		[ $m_missing -eq 1 ] || break
	done
	for ((m_i = 2; m_i <= $#; m_i += 2)); do
		m_what=$((m_i - 1))
		[ -n "${m_held[m_i]:-}" ] && ok "${!m_what}" && continue
		not_ok "${!m_what} (in $((TRY - 1)) tries: ${!m_i})"
		printf '%s' "${m_said[m_i]}"
	done
}

# perf_try COMMAND...: for a MEASURE; runs COMMAND, a diw perf, for a short time, and longer in the next tries. In the
# first two nothing may arrive: its threads got no processor.
perf_try() {
	local rc secs=([1]=0.3 3 20)
	"$@" --secs "${secs[TRY]}" --json 2>&1 | tee "$TMP/perf"
	rc=${PIPESTATUS[0]}
	[ $rc -eq 0 ] ||
		{ [ $rc -eq 1 ] && [ $TRY -lt 3 ] && grep -q 'nothing arrived$\|give more --secs$' "$TMP/perf"; }
}

# matches TEXT REGEX: a condition for `check`.
matches() { [[ $1 =~ $2 ]] || { echo "no $2 in: $1"; return 1; }; }

# background LOG COMMAND...: starts COMMAND; PID is its process id. `cleanup` kills the commands that still run.
background() {
	local log=$1
	shift
	# Before the command begins, nobody finds what an earlier one wrote.
	[ ! -f "$log" ] || : > "$log"
	[ "$1" != in_b ] || set -- nsenter -t "$HOLDER" -n "${@:2}"
	# The command has its own process group: if it is a function, PID is a subshell, and killing the subshell alone
	# would leave its children.
	set -m
	"$@" > "$log" 2>&1 < /dev/null &
	PID=$!
	set +m
	JOBS+=("$PID")
}

# The factor of all time limits: a busy machine and a sanitizer are slow, which is no fault. A command that succeeds
# ends at once, whatever its limit.
PATIENCE=10

# join PID SECONDS: waits for a background command and returns its exit status; 124: it still runs.
join() {
	local until=$((SECONDS + $2 * PATIENCE))
	while kill -0 "$1" 2> /dev/null; do
		[ $SECONDS -le $until ] || { echo "process $1 still runs after $(($2 * PATIENCE)) s"; return 124; }
		sleep 0.05
	done
	JOINED[$1]=1
	wait "$1"
}

# eventually SECONDS COMMAND...: repeats COMMAND until it succeeds, for SECONDS * PATIENCE at most.
eventually() {
	local until=$((SECONDS + $1 * PATIENCE))
	shift
	until "$@" > /dev/null 2>&1; do
		[ $SECONDS -le $until ] || return 1
		sleep 0.05
	done
}

# listening PORT [IN]: a UDP or TCP socket is bound to PORT. IN is "in_b" for the other namespace.
listening() { ${2:-} ss -Htuln "sport = :$1" | grep -q .; }
# accepting PORT [IN]: a TCP socket listens at PORT.
accepting() { ${2:-} ss -Htln "sport = :$1" | grep -q .; }

# end_jobs: kills the commands that `background` started and that still run.
end_jobs() {
	for job in "${JOBS[@]}"; do
		[ -n "${JOINED[$job]:-}" ] && continue  # the number may be another process's by now
		kill -- -"$job" 2> /dev/null || kill "$job" 2> /dev/null     # not all were begun by background
	done
	wait 2> /dev/null
	for job in "${JOBS[@]}"; do             # the counters of one that was killed
		rm -f /dev/shm/diwarp."$job".*
	done
}
cleanup() {
	end_jobs
	rm -rf "$TMP"
}

# Each line of DIW_TEST_FETCHED has a command of FETCH, its status, and the last line of its output.
if [ -z "${DIW_TEST_FETCHED+set}" ]; then
	export DIW_TEST_FETCHED=
	for command in "${FETCH[@]}"; do
		said=$($command 2>&1 < /dev/null)
		DIW_TEST_FETCHED+=$command$'\t'$?$'\t'${said##*$'\n'}$'\n'
		echo "$said"
	done
fi

# The test starts itself again in its own namespaces.
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

# two_namespaces MTU: this namespace is A, with interface va. "in_b COMMAND" runs COMMAND in B, with interface vb.
two_namespaces() {
	[ -z "${HOLDER:-}" ] || { kill "$HOLDER" && wait "$HOLDER"; ip link del va; } 2> /dev/null
	unshare -n sleep 3600 > /dev/null 2>&1 &
	HOLDER=$!
	JOBS+=("$HOLDER")
	eventually 5 other_namespace || return
	ip link add va type veth peer name vb netns "$HOLDER" || return
	in_b ip link set lo up
	side '' va "$1" $A4 $A6 && side in_b vb "$1" $B4 $B6
}
other_namespace() { [ "$(readlink "/proc/$HOLDER/ns/net")" != "$(readlink /proc/self/ns/net)" ]; }
in_b() { nsenter -t "$HOLDER" -n "$@"; }
# configured IN INTERFACE: its IPv6 address is valid. Before that the kernel drops datagrams to IPv6 groups.
configured() { $1 ip -6 addr show dev "$2" scope link -tentative | grep -q fe80; }
side() {
	$1 ip addr add "$4/24" dev "$2" && $1 ip addr add "$5/64" dev "$2" nodad &&
		$1 ip link set "$2" mtu "$3" up
}

# lose PERCENT: from now on each datagram from A to B is lost with this probability. LOSS names the method, and LOSS_ENV
# is for the sender's environment.
#
# A super-buffer passes the sender's queueing discipline and its nftables hooks as one packet, so one drop there would
# lose 45 datagrams. So netem is used with segmentation offload switched off. The other methods drop at B, and
# gso_max_segs makes A's interface split super-buffers before they cross.
lose() {
	local of_2_32=$(($1 * 42949673))
	LOSS_ENV=(env)
	if tc qdisc add dev va root netem loss "$1%" 2> /dev/null; then
		LOSS="tc netem" LOSS_ENV=(env DIWARP_OFFLOAD=gro)
	elif ip link set va gso_max_segs 1 2> /dev/null && in_b nft "add table netdev diw;
			add chain netdev diw loss { type filter hook ingress device vb priority 0; };
			add rule netdev diw loss meta l4proto udp numgen random mod 100 < $1 counter \
				drop" 2> /dev/null; then
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

# sanitized PROGRAM...: runs programs of tests/system, without the interposer and over it, with and without CRC. The
# programs and the interposer are built for the same sanitizer. All runs print the same, and the sanitizer finds
# nothing. Then the test ends.
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
			run "$program over the interposer, CRC $crc" env \
				LD_PRELOAD="$runtime $lib $BUILD/tests/preload/short.so" \
				DIWARP_SOCKETS_CRC=$crc "${launch[@]}" "$BUILD/tests/system/$program"
			check "... sees what it did" diff "$TMP/without" <(grep -vE '^(diwarp sockets: |    )' <<< \
				"$OUT")
			check "... over it" matches "$OUT" 'counted .*framed='
			check "... and $MODE finds nothing" [ -z "$(grep -E 'runtime error: |ERROR: |WARNING: ' <<< \
				"$OUT")" ]
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
	[ -s "$TMP/json" ] && jq -e "$1" "$TMP/json" > /dev/null || { echo "not so: $1, of:"; cat "$TMP/json"; return 1;
		}
}
