# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Debian's programs on both sides. On one side they use siw, on the other our librdmacm and libibverbs in personality
# rnic. siw.sh sources this file, and its both() runs the rows. None of the programs has an option for a PAUSE. As
# initiators they run with pause.so, or in late().
OURS_RUNS="tools/clients run --personality rnic"
PAUSED="LD_PRELOAD=$BUILD/tests/interop/pause.so"

have_programs() {
	[ -e "$BUILD/lib/diwarp/librdmacm.so.1" ] || { skip "built without librdmacm-dev"; return 1; }
	fetched "tools/clients get"
}

rping_program_rows() {
	local size crc options
	for crc in N Y; do
		for size in 64 65535; do
			options="-C 10 -S $size -v"
			both "Debian's rping over ours to siw's, $size bytes, CRC $crc" mpa_crc_required=$crc \
				guest:$RPING \
				"rping -s -a 0.0.0.0 $options" host \
					"$PAUSED $OURS_RUNS rping -c -a @ -p $RPING $options -V"
			check "... ten times" [ "$(grep -c '^ping data: rdma-ping' <<< "$OUT")" = 10 ]
			both "siw's rping to Debian's over ours, $size bytes, CRC $crc" mpa_crc_required=$crc \
				host:$HOST_PORT \
				"$OURS_RUNS rping -s -p $HOST_PORT $options" guest \
					"rping -c -a @ -p $HOST_PORT $options -V"
			check "... ten times" [ "$(grep -c '^server ping data: rdma-ping' "$TMP/server")" = 10 ]
		done
	done
}

# four CLIENT: runs four clients at a time. Each starts when the one before it pings: rping -s -P loses some clients
# that come at the same moment, by a fault of its own (docs/clients.md). The four compare every byte until they are
# killed. A fifth client ends by itself.
four() {
	cat <<- END
		dir=\$(mktemp -d)
		trap 'kill \${pids[*]} 2> /dev/null; rm -r \$dir' EXIT
		for i in 1 2 3 4; do
			$1 -v -V > \$dir/\$i & pids+=(\$!)
			for n in {1..150}; do
				grep -q rdma-ping \$dir/\$i && break
				kill -0 \$! || exit 1
				sleep 0.1
			done
		done
		kill \${pids[*]}
		for pid in \${pids[*]}; do wait \$pid; how+=\$?,; done
		[ \$how = 143,143,143,143, ] || { echo "not killed but \$how"; exit 1; }
		pids=()
		$1 -V -C 10
	END
}
rping_server_rows() {
	local SERVES_ON=1
	late both "five of Debian's rping over ours to siw's server" "" guest:$RPING "rping -s -P -a 0.0.0.0 -S 4000" \
		host "$(four "$OURS_RUNS rping -c -a @ -p $RPING -S 4000")"
	both "five of siw's rping to Debian's server over ours" "" host:$HOST_PORT \
		"$OURS_RUNS rping -s -P -p $HOST_PORT -S 4000" \
		guest "$(four "rping -c -a @ -p $HOST_PORT -S 4000")"
}

# The server of ucmatose sends first. Our end as the responder sends nothing before the initiator's first FPDU (RFC 5044
# section 7.1.2). The only FPDU that siw's initiator can send is a ready-to-receive. So these rows set peer_to_peer.
ucmatose_rows() {
	late both "ucmatose over ours to siw's" "" guest:$UCMATOSE ucmatose host "$OURS_RUNS ucmatose -s @"
	both "siw's ucmatose to ours" peer_to_peer=Y host:$HOST_PORT "$OURS_RUNS ucmatose -p $HOST_PORT" \
		guest "ucmatose -s @ -p $HOST_PORT"
}

# tells_time COMMAND...: runs perftest, again if perftest could not measure the processor's frequency. On busy virtual
# machines that happens, and then perftest prints no figures.
tells_time() {
	local try
	for try in 1 2 3; do
		"$@"
		[[ $OUT == *"Correlation coefficient"* ]] || return 0
	done
}

# perftest_connects, perftest_accepts PROGRAM SIZE COUNT [SWITCHES]: our end connects to siw, or accepts siw's
# connection.
perftest_connects() {
	local options="-R -F -s $2 -n $3"
	tells_time late both "$1 over ours to siw's" "" guest:$PERFTEST "$1 $options -d siw0" \
		host "$OURS_RUNS $1 $options -d $HOST_DEV @"
	perftest_tells "$2" "$3"
}
perftest_accepts() {
	local options="-R -F -s $2 -n $3"
	tells_time both "siw's $1 to ours" "${4:-}" host:$HOST_PORT \
		"$OURS_RUNS $1 $options -d $HOST_DEV -p $HOST_PORT" \
		guest "$1 $options -d siw0 -p $HOST_PORT @"
	perftest_tells "$2" "$3"
}
perftest_tells() { check "... tells its figures" matches "$OUT" $'\n'" *$1 +$2 +[0-9.]*[1-9]"; }
# The server of ib_write_lat writes first, as the server of ucmatose sends first. When the server of ib_read_bw ends the
# stream at once behind its last message, siw's client sometimes fails in that message, after all its Reads. So that row
# has more tries, which do not count in AGAIN.
perftest_rows() {
	local what
	for what in send write read; do
		perftest_connects ib_${what}_bw 65536 200
		case $what in
		read) ROW_TRIES=16 perftest_accepts ib_read_bw 65536 200 ;;
		*) perftest_accepts ib_${what}_bw 65536 200 ;;
		esac
		perftest_connects ib_${what}_lat 64 20
	done
	perftest_accepts ib_write_lat 64 20 peer_to_peer=Y
}
