# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# For clients.sh: runs one of Debian's programs, checks its traffic, and records the result for the table.

PORT=20000 LIMIT=300 CLIENTS=${CLIENTS:-build/clients}
RESULTS=$TMP/results
: > "$RESULTS"

# own_shm: mounts a /dev/shm of SHM bytes for this test alone. The pages of counters in it belong to the programs of
# this test.
own_shm() {
	[ -z "${DIW_TEST_SHM:-}" ] || return 0
	export DIW_TEST_SHM=1 SHM=${SHM:-64m}
	if unshare -m mount -t tmpfs -o "size=$SHM,mode=1777" tmpfs /dev/shm 2> /dev/null; then
		rm -rf "$TMP"
		exec unshare -m "$BASH" \
			-c 'mount -t tmpfs -o "size=$SHM,mode=1777" tmpfs /dev/shm && exec "$BASH" "$0" "$@"' \
			"$SELF" "$@"
	fi
	skip "no mount namespace here"
	end
}

have_clients() {
	[ -e "$BUILD/lib/diwarp/libibverbs.so.1" ] || { skip "built without libibverbs-dev"; return 1; }
	fetched "tools/clients get"
}

wanted() { [[ $* =~ $PATTERN ]]; }
note() { printf '%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$PERSONALITY" "$4" >> "$RESULTS"; }

# client [IN] LOG SECONDS PROGRAM OPTION...: starts the program in the background; PID is its process.
client() {
	local in=() log limit
	[ "$1" != in_b ] || { in=(in_b); shift; }
	log=$1 limit=$2
	shift 2
	# --foreground: without it timeout(1) makes a process group of its own, which a signal to this script's group
	# does not reach.
	background "$log" "${in[@]}" timeout --foreground -k 2 "$limit" \
		tools/clients run --personality "$PERSONALITY" "$@"
}

# From start_counting until stop_counting, TMP/counted gets the counters of all processes: one line for each queue pair.
start_counting() {
	background "$TMP/counted" "$BUILD/tests/system/pages"
	PAGES=$PID
	eventually 5 grep -q ready "$TMP/counted"
}
stop_counting() {
	kill "$PAGES"
	wait "$PAGES"
	JOINED[PAGES]=1
	sed -i '/^{/!d' "$TMP/counted"
}

# moved PROCESSES TYPES: prints the bytes that each process moved, then yes or no. Yes: exactly PROCESSES processes
# moved bytes, in both directions, through queue pairs of TYPES only.
moved() {
	jq -r -s --argjson n "$1" --arg types "$2" '
		(group_by(.pid) | map({tx: map(.tx_bytes) | add, rx: map(.rx_bytes) | add})) as $ends |
		(map(select(.tx_bytes + .rx_bytes > 0) | .type) | unique | join(",")) as $used |
		"\($ends | length) processes, \($used) queue pairs: " +
			($ends | map("\(.tx) sent, \(.rx) received") | join("; ")),
		(if ($ends | map(select(.tx + .rx > 0)) | length) == $n and ($ends | map(.tx) | add) > 0 and
			($ends | map(.rx) | add) > 0 and $used == $types then "yes" else "no" end)' "$TMP/counted"
}

# unseen STATUS...: all programs succeeded, and fewer than two of them were counted. A program may end before `pages`
# has opened its page. So the run is to be repeated.
unseen() {
	local status
	for status; do [ "$status" = 0 ] || return; done
	[ "$(jq -s 'map(.pid) | unique | length' "$TMP/counted")" -lt 2 ]
}

# serves PID PORT: waits up to 5 s until PORT has a listener. Fails if the process ends before.
serves() {
	eventually 5 listens_or_ended "$1" "$2"
	heard_on "$2"
}
listens_or_ended() { heard_on "$2" || ! kill -0 "$1"; }
# In personality ca, a service of RDMA_PS_TCP listens on the partner of its port (docs/rc-wire.md section 2.2).
heard_on() { listening "$1" || listening $((1024 + ($1 - 1024 + 15872) % 31744)); }

# pair PLACE TYPES PROGRAM OPTION...: runs the server here and the client in the other namespace, or both on lo.
pair() {
	local place=$1 types=$2 program=$3 in=() here=diw_va there=diw_vb address=$A4 what sv cl bytes try
	shift 3
	what="$program $* ($place, $PERSONALITY)"
	[ "$place" = lo ] && here=diw_lo there=diw_lo address=127.0.0.1 || in=(in_b)
	for try in 1 2 3; do
		PORT=$((PORT + 1))
		start_counting
		client "$TMP/server" $LIMIT "$program" -d $here -p $PORT "$@"
		sv=$PID
		: > "$TMP/client"
		cl=none
		if serves $sv $PORT; then
			client "${in[@]}" "$TMP/client" $LIMIT "$program" -d $there -p $PORT "$@" $address
			join "$PID" $((LIMIT + 5)); cl=$?
		fi
		# A server that waits for a client that failed would wait until LIMIT.
		[ "$cl" = 0 ] || { sleep 0.5; kill $sv; } 2> /dev/null
		join $sv $((LIMIT + 5)); sv=$?
		stop_counting
		late_flush || unclocked || unseen "$sv" "$cl" || break
	done
	bytes=$(moved 2 "$types")
	judge_pair "$what" "$sv" "$cl" "$bytes"
	note "$program" "$*" "$place" $VERDICT
}

# Pingpongs poll up to two completions at a time. The stream of an iWARP peer may end right behind its last message.
# Then the second completion may be a flushed receive, which the program takes as an error. This race is the program's
# own; on a busy machine it may be lost.
late_flush() { [ "$PERSONALITY" = rnic ] && grep -q 'Work Request Flushed' "$TMP/server" "$TMP/client"; }

# perftest compares the processor's clock with the system's before it ends, and fails if the two do not go together, as
# on a machine whose processors are busy.
unclocked() { grep -q 'Correlation coefficient' "$TMP/server" "$TMP/client"; }

# judge_pair WHAT SERVER'S-STATUS CLIENT'S-STATUS MOVED: sets VERDICT.
judge_pair() {
	VERDICT=ok
	if [ "$2/$3/${4##*$'\n'}" = 0/0/yes ]; then
		ok "$1: ${4%$'\n'*}"
		return
	fi
	VERDICT=FAILED
	not_ok "$1: server $2, client $3, ${4%$'\n'*}"
	# Errors come first in a program's output, because stderr is not buffered.
	grep -v -e '^ *-*$' -e GID "$TMP/server" | head -n 30 | sed 's/^/    server: /'
	grep -v -e '^ *-*$' -e GID "$TMP/client" | head -n 30 | sed 's/^/    client: /'
}

# one PROGRAM OPTION...: runs a program that has no peer.
one() { tools/clients run --personality "$PERSONALITY" "$@"; }

# lists WHAT PROGRAM OPTIONS REGEX...: the program's output matches each REGEX.
lists() {
	local program=$1 options=$2 good=ok regex
	shift 2
	run "$program $options ($PERSONALITY)" one "$program" $options || good=FAILED
	for regex; do
		check "... says $regex" grep -Eq -- "$regex" "$TMP/out" || good=FAILED
	done
	note "$program" "$options" host $good
}

# fabrics: fi_info finds the devices. libfabric offers no datagrams on an iWARP device.
fabrics() {
	local protocol=FI_PROTO_RDMA_CM_IB_RC
	[ "$PERSONALITY" = ca ] || protocol=FI_PROTO_IWARP
	lists fi_info "-p verbs -t FI_EP_MSG" 'domain: diw_va$' "protocol: $protocol"
	lists fi_info "-p verbs;ofi_rxm -t FI_EP_RDM" 'domain: diw_va$' 'protocol: FI_PROTO_RXM'
	if [ "$PERSONALITY" = ca ]; then
		lists fi_info "-p verbs -t FI_EP_DGRAM" 'domain: diw_va-dgram$' 'protocol: FI_PROTO_IB_UD'
	else
		refused "libfabric has no datagrams on iWARP" 'fi_getinfo: -61' fi_info -p verbs -t FI_EP_DGRAM
	fi
}

devices() { lists ibv_devices '' 'diw_lo[[:space:]]+[0-9a-f]{16}' 'diw_va[[:space:]]+[0-9a-f]{16}'; }
devinfo() {
	local transport='InfiniBand' gid='GID\[ *0\]:.*::ffff:192.0.2.1, RoCE v2'
	[ "$PERSONALITY" = ca ] || transport='iWARP' gid='GID\[ *0\]:.*ffff:c000:0201'
	lists ibv_devinfo "-v -d diw_va" 'hca_id:.*diw_va' "transport:.*$transport" "$gid"
	capabilities < "$TMP/out" > "$TMP/capabilities"
	check "... and the capabilities that tests/system/clients/devinfo.$PERSONALITY has" \
		diff -u tests/system/clients/devinfo.$PERSONALITY "$TMP/capabilities"
}

# ibv_asyncwatch waits for events until it is killed.
asyncwatch() {
	local what="ibv_asyncwatch ($PERSONALITY)" good=FAILED
	client "$TMP/server" 120 ibv_asyncwatch -d diw_va
	eventually 5 grep -q 'async event FD' "$TMP/server"
	sleep 0.2
	if kill -0 "$PID" 2> /dev/null && grep -q 'diw_va: async event FD' "$TMP/server"; then
		ok "$what waits"
		good="ok (waits)"
	else
		not_ok "$what: $(tail -n 3 "$TMP/server")"
	fi
	kill "$PID" 2> /dev/null
	wait "$PID"
	note ibv_asyncwatch "-d diw_va" host "$good"
}

# refused WHAT REGEX PROGRAM OPTION...: the program fails, and its message matches REGEX.
refused() {
	local what=$1 regex=$2 status
	shift 2
	timeout --foreground -k 2 60 tools/clients run --personality "$PERSONALITY" "$@" > "$TMP/out" 2>&1 < /dev/null
	status=$?
	if [[ $status = 255 || $status -gt 0 && $status -lt 124 ]] && grep -aEq -- "$regex" "$TMP/out"; then
		ok "$* ($PERSONALITY) is refused: $what"
		note "$1" "${*:2}" host "refused: $what"
	else
		not_ok "$* ($PERSONALITY): exit status $status, and says: $(tail -n 5 "$TMP/out")"
		note "$1" "${*:2}" host FAILED
	fi
}

refusals() {
	refused "no XRC" 'XRC Domain' ibv_xsrq_pingpong -d diw_lo -g 0
	refused "no device memory" "support dm" ibv_rc_pingpong -d diw_lo -g 0 -j
	refused "perftest has no UC with -R" 'UC is not supported in librdmacm' ib_send_lat -R -c UC -d diw_lo
	refused "no XRC" 'create_ep: Protocol not supported' rdma_xserver -c x
	refused "no IPoIB" 'Protocol not supported' udaddy -p 0x2
	refused "a GID is no address" 'Bad value for ai_flags' ucmatose -f gid -b ::1
	refused "its own datagrams come back to who joins" 'create QP: Operation not supported' \
		mckey -l -m 239.192.71.5 -b "$A4"
}

# table: prints the page. Each program and its options have a row, each place and personality has a column. The field of
# a combination that did not run is blank.
table() {
	local version
	version() { dpkg-deb -f "$CLIENTS/deb/$1"_*.deb Version; }
	cat << END
# Clients

END
	cat tests/system/clients/by_hand.md
	cat << END

\`tools/clients table\` wrote this section. It ran each of these programs, unmodified, over diwarp's libibverbs.so.1. A
run counts only if its bytes went through queue pairs of diwarp. The programs are from these packages of Debian:
$(for pkg in ibverbs-utils perftest qperf python3-pyverbs; do printf '%s %s, ' $pkg "$(version $pkg)"; done |
	sed 's/, $//').
Linux $(uname -r | sed 's/-.*//').

Both ends have the options of the table, \`-d\` with the device, and \`-p\` with a port. "veth" is between two network
namespaces of one machine, MTU 1500. "lo" is within one namespace. "host" is a program without a peer. "ca" and "rnic"
are the personalities ([diwarp(7)](../man/diwarp.7)). The field of a combination that did not run is blank.

\`rping -s -P\` of these packages fails over any device when several clients come at the same time
(\`rdma_create_qp: Invalid argument\`). rping's thread for events overwrites the identifier of a request before rping's
server has taken it. rdma-core 57 has the repair ("rping: wait for acknowledgement before processing subsequent
CONNECT_REQUESTs").

| program | options | lo, ca | lo, rnic | veth, ca | veth, rnic | host, ca | host, rnic |
|---|---|---|---|---|---|---|---|
END
	awk -F '\t' '
	{ row = $1 FS $2; if (!(row in seen)) { seen[row] = ++n; order[n] = row }; cell[row, $3, $4] = $5 }
	END {
		for (i = 1; i <= n; i++) {
			split(order[i], c, FS)
			printf "| %s | %s |", c[1], c[2] == "" ? "" : "`" c[2] "`"
			for (p = 1; p <= split("lo veth host", place, " "); p++)
				for (q = 1; q <= split("ca rnic", who, " "); q++)
					printf " %s |", cell[order[i], place[p], who[q]]
			print ""
		}
	}' "$RESULTS"
}
