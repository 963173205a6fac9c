# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Debian's programs on both sides: siw under one, our librdmacm and libibverbs under the other, in personality rnic.
# Sourced by siw.sh, whose both() plays the rows. None of them has an option for a PAUSE: as initiators they run with
# pause.so, or late().
OURS_RUNS="tools/clients run --personality rnic"
PAUSED="LD_PRELOAD=$BUILD/tests/interop/pause.so"

have_programs() {
	[ -e "$BUILD/lib/diwarp/librdmacm.so.1" ] && tools/clients get > "$TMP/get" 2>&1 && return
	skip "no programs over our librdmacm: $(tail -n 1 "$TMP/get")"
	return 1
}

rping_program_rows() {
	local size crc options
	for crc in N Y; do
		for size in 64 65535; do
			options="-C 10 -S $size -v"
			both "Debian's rping over ours to siw's, $size bytes, CRC $crc" mpa_crc_required=$crc guest:$RPING \
				"rping -s -a 0.0.0.0 $options" host "$PAUSED $OURS_RUNS rping -c -a @ -p $RPING $options -V"
			check "... ten times" [ "$(grep -c '^ping data: rdma-ping' <<< "$OUT")" = 10 ]
			both "siw's rping to Debian's over ours, $size bytes, CRC $crc" mpa_crc_required=$crc host:$HOST_PORT \
				"$OURS_RUNS rping -s -p $HOST_PORT $options" guest "rping -c -a @ -p $HOST_PORT $options -V"
			check "... ten times" [ "$(grep -c '^server ping data: rdma-ping' "$TMP/server")" = 10 ]
		done
	done
}

# four CLIENT: four of them, each begun when the one ahead of it pings, for of those that come at one moment rping -s -P
# loses some by its own fault (docs/clients.md). They compare every byte until they are killed, side by side; a fifth
# ends by itself.
four() {
	cat <<- END
		dir=\$(mktemp -d)
		trap 'kill \${pids[*]} 2> /dev/null; rm -r \$dir' EXIT
		for i in 1 2 3 4; do
			$1 -v -V > \$dir/\$i & pids+=(\$!)
			for n in {1..150}; do grep -q rdma-ping \$dir/\$i && break; kill -0 \$! || exit 1; sleep 0.1; done
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
	both "five of siw's rping to Debian's server over ours" "" host:$HOST_PORT "$OURS_RUNS rping -s -P -p $HOST_PORT -S 4000" \
		guest "$(four "rping -c -a @ -p $HOST_PORT -S 4000")"
}

# Its server sends first. Ours as the responder sends nothing ahead of the initiator's first FPDU (RFC 5044 section
# 7.1.2), and siw's initiator has none to send but a ready-to-receive: hence peer_to_peer.
ucmatose_rows() {
	late both "ucmatose over ours to siw's" "" guest:$UCMATOSE ucmatose host "$OURS_RUNS ucmatose -s @"
	both "siw's ucmatose to ours" peer_to_peer=Y host:$HOST_PORT "$OURS_RUNS ucmatose -p $HOST_PORT" \
		guest "ucmatose -s @ -p $HOST_PORT"
}

# tells_time COMMAND...: a run of perftest, and another one if it could not measure the processor's frequency by the
# clock, as happens on busy virtual machines: it prints no figures then.
tells_time() {
	local try
	for try in 1 2 3; do
		"$@"
		[[ $OUT == *"Correlation coefficient"* ]] || return 0
	done
}

# perftest_connects, perftest_accepts PROGRAM SIZE COUNT [SWITCHES]: our end connects, or accepts siw's.
perftest_connects() {
	local options="-R -F -s $2 -n $3"
	tells_time late both "$1 over ours to siw's" "" guest:$PERFTEST "$1 $options -d siw0" \
		host "$OURS_RUNS $1 $options -d $HOST_DEV @"
	perftest_tells "$2" "$3"
}
perftest_accepts() {
	local options="-R -F -s $2 -n $3"
	tells_time both "siw's $1 to ours" "${4:-}" host:$HOST_PORT "$OURS_RUNS $1 $options -d $HOST_DEV -p $HOST_PORT" \
		guest "$1 $options -d siw0 -p $HOST_PORT @"
	perftest_tells "$2" "$3"
}
perftest_tells() { check "... tells its figures" matches "$OUT" $'\n'" *$1 +$2 +[0-9.]*[1-9]"; }
# Of ib_write_lat the server writes first, as ucmatose's sends.
perftest_rows() {
	local what
	for what in send write read; do
		perftest_connects ib_${what}_bw 65536 200
		perftest_accepts ib_${what}_bw 65536 200
		perftest_connects ib_${what}_lat 64 20
	done
	perftest_accepts ib_write_lat 64 20 peer_to_peer=Y
}
