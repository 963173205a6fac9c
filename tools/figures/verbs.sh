# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2154
# The figures of diw perf, for tools/figures/run: both ends here, and over a pair of interfaces of MTU 1500.

PORT=4793

# PLACE is lo; veth, two namespaces and MTU 1500; packets, the same where super-buffers of UDP and TCP are split before
# they cross; or fragments, the same as veth with datagrams of up to 64 KiB, which IP cuts.
# perf PLACE TEST OPTION...: prints diw perf's rows. But over lo, two_ends has run. RUNS: what runs diw perf.
perf() {
	local place=$1 more=()
	shift
	[ "$place" != fragments ] || more=(--mulpdu 65503)
	if [ "$place" = lo ]; then
		${RUNS:-} "$DIW" perf "$@" --local --secs "$SECS" --json
	else
		taskset -c 0 ${RUNS:-} "$DIW" perf "$@" "${more[@]}" --connect 198.51.100.2 --port $PORT \
			--secs "$SECS" --json
	fi 2>> "$TMP/perf.err" || { echo "diw perf $* over $place:"; tail -n 2 "$TMP/perf.err"; } >&2
}

# two_ends: two namespaces (link.sh), and a server of diw perf in the other one. Once a run.
two_ends() {
	[ -z "${SERVER_OF_PERF:-}" ] || return 0
	two_namespaces || return
	nsenter -t "$HOLDER" -n taskset -c 1 "$DIW" run "$DIW" perf --server --port $PORT > "$TMP/server.out" 2>&1 &
	SERVER_OF_PERF=$!
	within 5 there sh -c "ss -Htln 'sport = :$PORT' | grep -q ."
}

# rows PLACE FILTER: adds to ID.csv what jq's FILTER makes of each row of diw perf on standard input, which is also
# $row: [unit, curve, x, y].
rows() {
	jq -r --arg place "$1" '
		def op: { send: "Send", write: "Write", read: "Read", "write-imm": "Write" }[.op];
		def qp: .qp | ascii_upcase;
		def by: if .provider == "verbs" then " by verbs" else "" end;
		def gbits: .GBps * 8;
		# Of one processor, both ends together.
		def cpu($secs): 100 * .cpu_s / $secs;
		. as $row | '"$2"' | select(.[3] != null) | [$place] + . | map(tostring) | join(",")' >> "$CSV"
}

# The value of a row of lat or bw, and the ratio to RC in the same rounds.
AGAINST_RC='(.test == "lat") as $lat |
	if $lat then ["us", qp + " " + op + by, .size, .lat_us_p50]
		else ["GB/s", qp + " " + op + by, .size, .GBps] end,
	(select(.ratios.rc) | if $lat then ["% less", op + by, .size, 100 * (1 - .ratios.rc)]
		else ["% more", op + by, .size, 100 * (.ratios.rc - 1)] end)'

# segments PLACE: how many segments a super-buffer may have that crosses.
segments() {
	local n=65535
	[ "$1" != packets ] || n=1
	ip link set va gso_max_segs $n && there ip link set vb gso_max_segs $n
}

# verbs lat|bw OPS: UD against RC, in each place; and the same by libibverbs, whose UD has Sends of up to 4096 bytes,
# and 1024 where the MTU is 1500.
verbs() {
	local place most
	for place in $PLACES; do
		[ "$place" = lo ] || { two_ends && segments "$place"; } || continue
		perf "$place" "$1" --qp ud,rc --op "$2" --size "$SIZES" | rows "$place" "$AGAINST_RC"
		[ -e "$BUILD/lib/diwarp/libibverbs.so.1" ] && [ "$place" != fragments ] || continue
		most=1024
		[ "$place" != lo ] || most=4096
		by_libibverbs "$place" "$1" ud,rc send "$(sizes le $most)"
		by_libibverbs "$place" "$1" rc send "$(sizes gt $most)"
		[ "$2" = send ] || by_libibverbs "$place" "$1" rc "${2#send,}" "$SIZES"
	done
}
# by_libibverbs PLACE TEST QPS OPS SIZES
by_libibverbs() {
	[ -n "$5" ] || return 0
	RUNS="$DIW run" perf "$1" "$2" --qp "$3" --op "$4" --size "$5" --provider verbs | rows "$1" "$AGAINST_RC"
}
# sizes le|gt BYTES: those of SIZES which are so.
sizes() {
	local size list=
	for size in ${SIZES//,/ }; do
		test "$(numfmt --from=iec "${size^^}")" "-$1" "$2" && list+=,$size
	done
	echo "${list#,}"
}

# sockets lat|bw: a program of TCP sockets, over the interposer and without it, and RC's verbs. The runs take turns.
sockets() {
	local size how value='if .test == "lat" then .lat_us_p50 else .GBps end'
	for size in ${SIZES//,/ }; do
		for how in "sockets over RC" TCP "RC Write"; do
			case $how in
			sockets*) LD_PRELOAD=$PRELOAD DIWARP_SOCKETS_STREAMS=on perf lo "$1" --qp raw-tcp \
				--size "$size" ;;
			TCP) perf lo "$1" --qp raw-tcp --size "$size" ;;
			RC*) perf lo "$1" --qp rc --op write --size "$size" ;;
			esac | rows lo '[if .test == "lat" then "us" else "GB/s" end, "'"$how"'", .size, '"$value"']'
		done
	done
	if [ "$1" = lat ]; then
		compare us "% more" "sockets over RC" "RC Write" "sockets over RC Write"
	else
		compare GB/s "% less" "sockets over RC" "RC Write" "sockets below RC Write"
	fi
}

# stream_pairs RC|TCP N SIZE: N streams of TCP's sockets at once, over the interposer or without it, each of two
# processes. They share two processors, so the more they are, the longer is a round, which must be long beside the time
# for which a process waits.
stream_pairs() {
	local i SECS
	SECS=$(awk "BEGIN { print $SECS_OF_POINT * 2 * $2 }")
	for ((i = 0; i < $2; i++)); do
		if [ "$1" = TCP ]; then
			perf lo bw --qp raw-tcp --size "$3" &
		else
			LD_PRELOAD=$PRELOAD DIWARP_SOCKETS_STREAMS=on perf lo bw --qp raw-tcp --size "$3" &
		fi
	done
	wait
}
# socket_streams: goodput of all streams together. The runs take turns. A curve's peak is the most of its sizes.
socket_streams() {
	local size n how SECS_OF_POINT=$SECS
	for size in ${SIZES//,/ }; do
		for n in 1 2 4 8; do
			for how in RC TCP; do
				row lo GB/s "$how $n" "$(numfmt --from=iec "${size^^}")" \
					"$(stream_pairs $how $n "$size" | jq -rs 'map(.GBps) | add // "nan"')"
			done
		done
	done
	awk -F, -v OFS=, 'NR == FNR { if ($5 > most[$3]) most[$3] = $5; next }
		FNR > 1 { print $1, "% of its peak", $3, $4, 100 * $5 / most[$3] }' "$CSV" "$CSV" > "$TMP/compared"
	cat "$TMP/compared" >> "$CSV"
}

# offloads lat|bw: UD with segments of MTU 1500, by the kernel's offloads, and RC. The runs take turns.
offloads() {
	local size offload value='if .test == "lat" then .lat_us_p50 else .GBps end'
	for size in ${SIZES//,/ }; do
		for offload in none gso gro all RC; do
			if [ $offload = RC ]; then
				perf lo "$1" --qp rc --mulpdu 1452 --size "$size"
			else
				DIWARP_OFFLOAD=$offload perf lo "$1" --qp ud --mulpdu 1452 --size "$size"
			fi | rows lo '[if .test == "lat" then "us" else "GB/s" end,
				if .qp == "rc" then "RC" else "UD '$offload'" end, .size, '"$value"']'
		done
	done
	if [ "$1" = lat ]; then
		compare us "% less" "UD gro" "UD none" "receive offload"
		compare us "% less" "UD all" "UD gso" "receive offload beside send"
		compare us "% more" "UD all" RC "all over RC"
	else
		compare GB/s "% more" "UD all" "UD none" "all over none"
		compare GB/s "% more" "UD all" RC "all over RC"
	fi
}

# broadcast: Sends to all receivers at once, the sum of what they got.
broadcast() {
	local size receivers
	for size in 1k 4k 8k 16k 64k 128k 256k 1m; do
		for receivers in 1 2 3; do
			"$DIW" perf group 239.1.1.1 --dev diw_lo --op send --size $size --receivers $receivers \
				--secs "$SECS" --json 2>> "$TMP/perf.err" | rows lo '
				["GB/s in all", "\(.receivers) receivers", .size, .GBps_aggregate],
				["GB/s sent", "\(.receivers) receivers", .size, .GBps_sent]'
		done
	done
	awk -F, -v OFS=, '$2 == "GB/s in all" && $3 == "1 receivers" { $3 = "one thrice"; $5 *= 3; print }' "$CSV" \
		> "$TMP/thrice"
	cat "$TMP/thrice" >> "$CSV"
	compare "GB/s in all" "% less" "3 receivers" "one thrice" "3 receivers"
}

# streams: goodput of UD by the number of streams, with the kernel's offloads and without. The runs take turns.
streams() {
	local streams offload
	for streams in 1 2 4 8; do
		for offload in none all; do
			DIWARP_OFFLOAD=$offload perf lo bw --qp ud --mulpdu 1452 --size 64k --streams $streams |
				rows lo '["GB/s", "UD '$offload'", .streams, .GBps]'
		done
	done
	compare GB/s "% more" "UD all" "UD none" "all over none"
}
