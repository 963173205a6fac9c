# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# For clients.sh: runs one of Debian's programs, looks at what it did, and notes it for the table.

PORT=20000 LIMIT=300 CLIENTS=${CLIENTS:-build/clients}
RESULTS=$TMP/results
: > "$RESULTS"

# A /dev/shm of its own, of SHM bytes: the pages of counters that appear there are those of the programs that run here.
own_shm() {
	[ -z "${DIW_TEST_SHM:-}" ] || return 0
	export DIW_TEST_SHM=1 SHM=${SHM:-64m}
	if unshare -m mount -t tmpfs -o "size=$SHM,mode=1777" tmpfs /dev/shm 2> /dev/null; then
		rm -rf "$TMP"
		exec unshare -m "$BASH" -c 'mount -t tmpfs -o "size=$SHM,mode=1777" tmpfs /dev/shm && exec "$BASH" "$0" "$@"' \
			"$SELF" "$@"
	fi
	skip "no mount namespace here"
	end
}

have_clients() {
	[ -e "$BUILD/lib/diwarp/libibverbs.so.1" ] || { skip "built without libibverbs-dev"; return 1; }
	tools/clients get > "$TMP/get" 2>&1 && return
	skip "$(tail -n 1 "$TMP/get")"
	return 1
}

wanted() { [[ $* =~ $PATTERN ]]; }
note() { printf '%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$PERSONALITY" "$4" >> "$RESULTS"; }

# client [IN] LOG SECONDS PROGRAM OPTION...: in the background; PID is its process.
client() {
	local in=() log limit
	[ "$1" != in_b ] || { in=(in_b); shift; }
	log=$1 limit=$2
	shift 2
	# --foreground: no process group of its own, which a signal to us would not reach.
	background "$log" "${in[@]}" timeout --foreground -k 2 "$limit" \
		tools/clients run --personality "$PERSONALITY" "$@"
}

# The counters of all processes, from start_counting until stop_counting: TMP/counted, a line for each queue pair.
start_counting() {
	background "$TMP/counted" "$BUILD/tests/system/pages"
	PAGES=$PID
	eventually 5 grep -q ready "$TMP/counted"
}
stop_counting() {
	kill "$PAGES"
	wait "$PAGES"
	sed -i '/^{/!d' "$TMP/counted"
}

# moved PROCESSES TYPES: so many processes sent and received, through queue pairs of these types only. Prints what.
moved() {
	jq -r -s --argjson n "$1" --arg types "$2" '
		(group_by(.pid) | map({tx: map(.tx_bytes) | add, rx: map(.rx_bytes) | add})) as $ends |
		(map(select(.tx_bytes + .rx_bytes > 0) | .type) | unique | join(",")) as $used |
		"\($ends | length) processes, \($used) queue pairs: \($ends | map("\(.tx) sent, \(.rx) received") | join("; "))",
		(if ($ends | map(select(.tx + .rx > 0)) | length) == $n and ($ends | map(.tx) | add) > 0 and
			($ends | map(.rx) | add) > 0 and $used == $types then "yes" else "no" end)' "$TMP/counted"
}

# serves PID PORT: soon, unless the process ends before.
serves() {
	eventually 5 listens_or_ended "$1" "$2"
	heard_on "$2"
}
listens_or_ended() { heard_on "$2" || ! kill -0 "$1"; }
# Of RDMA_PS_TCP in personality ca it is the port's partner (docs/rc-wire.md section 2.2).
heard_on() { listening "$1" || listening $((1024 + ($1 - 1024 + 15872) % 31744)); }

# pair PLACE TYPES PROGRAM OPTION...: its server here, its client in the other namespace, or both on lo.
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
		# Whoever waits for a client that failed waits for ever.
		[ "$cl" = 0 ] || { sleep 0.5; kill $sv; } 2> /dev/null
		join $sv $((LIMIT + 5)); sv=$?
		stop_counting
		late_flush || break
	done
	bytes=$(moved 2 "$types")
	judge_pair "$what" "$sv" "$cl" "$bytes"
	note "$program" "$*" "$place" $VERDICT
}

# Pingpongs take up to two completions at a time. With the last message of an iWARP peer, whose stream may have ended behind it, the
# second may be a receive that was flushed: the program's own race, which a busy machine can lose.
late_flush() { [ "$PERSONALITY" = rnic ] && grep -q 'Work Request Flushed' "$TMP/server" "$TMP/client"; }

# judge_pair WHAT SERVER'S-STATUS CLIENT'S-STATUS MOVED: sets VERDICT
judge_pair() {
	VERDICT=ok
	if [ "$2/$3/${4##*$'\n'}" = 0/0/yes ]; then
		ok "$1: ${4%$'\n'*}"
		return
	fi
	VERDICT=FAILED
	not_ok "$1: server $2, client $3, ${4%$'\n'*}"
	# What a program says of errors comes first: it is not buffered.
	grep -v -e '^ *-*$' -e GID "$TMP/server" | head -n 30 | sed 's/^/    server: /'
	grep -v -e '^ *-*$' -e GID "$TMP/client" | head -n 30 | sed 's/^/    client: /'
}

# one PROGRAM OPTION...: a program without a peer.
one() { tools/clients run --personality "$PERSONALITY" "$@"; }

# lists WHAT PROGRAM OPTIONS REGEX...: of what it prints.
lists() {
	local program=$1 options=$2 good=ok regex
	shift 2
	run "$program $options ($PERSONALITY)" one "$program" $options || good=FAILED
	for regex; do
		check "... says $regex" grep -Eq -- "$regex" "$TMP/out" || good=FAILED
	done
	note "$program" "$options" host $good
}

# What libfabric makes of the devices; it takes no datagrams of an iWARP one.
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

# It waits for events until it is killed.
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

# refused WHAT REGEX PROGRAM OPTION...: it cannot do that: it says so, and ends.
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

# The page: a row for each program and its options, a column for each place and personality. Combinations that were
# not run are blank.
table() {
	local version
	version() { dpkg-deb -f "$CLIENTS/deb/$1"_*.deb Version; }
	cat << END
# Clients

END
	cat tests/system/clients/by_hand.md
	cat << END

Written by \`tools/clients table\`, which ran each of these programs, unmodified, over diwarp's libibverbs.so.1 and
refused a run whose bytes did not go through queue pairs of diwarp. Debian's packages: $(for pkg in ibverbs-utils perftest \
	qperf python3-pyverbs; do printf '%s %s, ' $pkg "$(version $pkg)"; done | sed 's/, $//').
Linux $(uname -r | sed 's/-.*//').

Both ends have the options that are named, and \`-d\` with the device and \`-p\` with a port. "veth" is between two network
namespaces of one machine, MTU 1500; "lo" is within one namespace; "host" is a program without a peer. "ca" and "rnic" are the
personalities ([diwarp(7)](../man/diwarp.7)). Combinations that were not run are blank.

rping of these packages, \`-s -P\`, fails with clients that come at once (\`rdma_create_qp: Invalid argument\`), over any
device: rping's thread for events overwrites the identifier of a request before its server has taken it. rdma-core 57 repairs it
("rping: wait for acknowledgement before processing subsequent CONNECT_REQUESTs").

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
