#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Our iWARP against that of the Linux kernel (siw), in a guest that is booted once: make check-interop.
INTEROP=${INTEROP:-build/interop}
FETCH=(tests/interop/build.sh "tools/clients get")
. "${0%/*}/../system/lib.sh"
. tests/interop/lib.sh
. tests/interop/programs.sh

exec {LOG}>&1
fetched tests/interop/build.sh || end
RPING=7174 UCMATOSE=7471 PERFTEST=18515         # the default ports of these programs
HOST_PORT=7999                                  # with NAT host and guest need different listening ports
run "the guest boots" guest_start $RPING $UCMATOSE $PERFTEST || end
GUEST_SECONDS=30
uptime_() { cut -d ' ' -f 1 /proc/uptime; }
host_begin=$(uptime_) guest_begin=$(guest "$(declare -f uptime_); uptime_")
echo "$GUEST_ACCEL, the host sees the guest at $GUEST4${GUEST6:+ and $GUEST6}"

# row WHAT SWITCHES SIDE:PORT SERVER SIDE CLIENT: runs a row. SERVER runs with siw's SWITCHES until it listens on PORT,
# then CLIENT runs. The row succeeds when both exit with 0. @ in a command stands for the server's address as the client
# sees it. SIDE is host, guest or far; if both run in the guest, one runs in far. With SERVES_ON the server must still
# run at the end. DIW is set on the host. OUT is the client's output, TMP/server the server's.
row() {
	local what=$1 switches=$2 listener=${3%:*} port=${3#*:} server=$4 caller=$5 client=$6 at before=$FAILED
	at=$(address "$listener" "$caller")
	server=${server//@/$at}
	siw_set $switches || { not_ok "$what (siw's switches)"; return 1; }
	case $listener in
	host) background "$TMP/server" env DIW="$DIW" bash -c "$server" ;;
	*) background "$TMP/server" on "$listener" "$server" ;;
	esac
	SERVER=$PID
	if check "$what: serves" listens "$listener" "$port" && run "$what" on "$caller" "${client//@/$at}"; then
		if [ -n "${SERVES_ON:-}" ]; then
			check "... and its server serves on" kill -0 "$SERVER"
		else
			check "... and its server ends well" join "$SERVER" 20
		fi
	fi
	[ $FAILED -eq "$before" ] || sed 's/^/    server: /' "$TMP/server" | tail -n 20
	give_up "$SERVER" "$listener" "$port"
}
# both: a row has five tries (ROW_TRIES: so many), and the output of failed tries is shown. On a busy machine siw drops
# some one of a hundred connections, with correct traffic and without a Terminate. In captures siw reads all data and
# sends its FIN in the same millisecond, or resets the connection with the last message unread. siw's acceptor also
# loses data that follows the Request at once. AGAIN counts the repeated rows; the test fails if there are many.
AGAIN=0
both() {
	local before=$FAILED try
	for ((try = 1; try <= ${ROW_TRIES:-5}; try++)); do
		FAILED=$before
		row "$@" > "$TMP/row"
		[ "$FAILED" -eq "$before" ] || boot_again
		[ "$FAILED" -ne "$before" ] && [ $try -lt "${ROW_TRIES:-5}" ] || break
		[ -n "${ROW_TRIES:-}" ] || AGAIN=$((AGAIN + 1))
		sed 's/^/# try '$try': /' "$TMP/row"
	done
	cat "$TMP/row"
	[ "$FAILED" -eq "$before" ]
}
# boot_again: begins the test anew, at most twice, if the guest's kernel has failed. In Debian's 6.1 a connection that
# ends while it begins can hit a BUG() of iw_cm (drivers/infiniband/core/iwcm.c), by which all later ones wait for ever.
boot_again() {
	[ "$BASH_SUBSHELL" -eq 0 ] && [ "${SIW_BOOTS:-1}" -lt 3 ] && grep "kernel BUG at" "$GUEST_CONSOLE" || return
	guest_kill
	cleanup
	ip link del diwtap 2> /dev/null
	SIW_BOOTS=$((${SIW_BOOTS:-1} + 1)) exec "$BASH" "$SELF" >&$LOG
}
# late ROW...: delays the guest's packets. siw as acceptor begins to listen to a connection after it has sent its Reply.
# With the delay siw listens before the initiator's next data arrives. The row needs this if the initiator sends nothing
# after its ready-to-receive.
late() {
	guest "tc qdisc add dev eth0 root netem delay 50ms" || not_ok "a delay in the guest"
	"$@"
	guest "tc qdisc del dev eth0 root"
}
# give_up PID SIDE PORT: ends a server that still runs, because the next server needs the port.
give_up() {
	kill "$1" && wait "$1"
	case $2 in
	host) ;;
	guest) guest_free "$3" ;;
	far) guest_free "$3" far ;;
	esac
} 2> /dev/null
on() {
	case $1 in
	host) DIW=$DIW bash -c "$2" ;;
	guest) guest "$2" ;;
	far) guest "far $2" ;;
	esac
}
listens() {
	case $1 in
	host) eventually 10 listening "$2" ;;
	guest) guest_listens "$2" ;;
	far) guest_listens "$2" far ;;
	esac
}
address() {
	case $1,$2 in
	guest,host) echo "$GUEST4" ;;
	host,guest) echo "$HOST4" ;;
	guest,far) echo $NEAR4 ;;
	far,guest) echo $FAR4 ;;
	esac
}

# The frames that open a connection, as siw sends them: they show the effect of siw's switches, and that both directions
# work. The host's end is nc of busybox, one of the guest's programs.
busybox=$INTEROP/tree/usr/bin/busybox
hex() { od -An -v -tx1 | tr -d ' \n'; }
request_key=$(printf 'MPA ID Req Frame' | hex) reply_key=$(printf 'MPA ID Rep Frame' | hex)

frame_is() { [ "$(hex < "$TMP/frame")" = "$1" ] || { echo "not $1 but $(hex < "$TMP/frame")"; return 1; }; }

# asks WHAT SWITCHES FRAME: siw connects to the host; FRAME follows the key in siw's Request.
asks() {
	local listener
	siw_set $2
	background "$TMP/frame" "$busybox" nc -l -p $HOST_PORT
	listener=$PID
	eventually 5 listening $HOST_PORT
	background "$TMP/client" guest "rping -c -a $HOST4 -p $HOST_PORT -C 1"
	eventually 10 frame_is "$request_key$3"
	check "siw asks $1" frame_is "$request_key$3"
	kill "$listener" "$PID"
	wait "$listener" "$PID"
} 2> /dev/null
asks "for revision 2, enhanced, IRD and ORD of 1" "" 1002000400010001
asks "for a CRC" mpa_crc_required=Y 5002000400010001
asks "for peer-to-peer, by write or read" peer_to_peer=Y 100200048001c001
asks "for peer-to-peer, by write alone" "peer_to_peer=Y rtr_type=0x8000" 1002000480018001
asks "for revision 1" mpa_version=1 00010000
asks "for large FPDUs, by a reserved bit" try_gso=Y 1802000400010001

# answers WHAT SWITCHES REQUEST REPLY: the host connects to siw with REQUEST, and siw answers with REPLY. Both are the
# bytes after the key. With an empty REPLY siw must close the connection.
answers() {
	local want=${4:+$reply_key$4} peer
	siw_set $2
	background "$TMP/server" guest "rping -s -a 0.0.0.0"
	guest_listens $RPING
	exec {peer}<> "/dev/tcp/$GUEST4/$RPING"
	printf 'MPA ID Req Frame%b' "$(sed 's/../\\x&/g' <<< "$3")" >&"$peer"
	timeout 60 head -c $((${#want} ? ${#want} / 2 : 1)) <&"$peer" > "$TMP/frame" || echo "timeout" >> "$TMP/frame"
	# siw begins to listen to the connection after it has sent its Reply. If the peer closes earlier, a siw that
	# waits for a ready-to-receive never notices it. Then rping can no longer be killed, and siw's connection
	# manager serves no later row.
	sleep 0.3
	exec {peer}>&-
	check "siw answers $1" frame_is "$want"
	give_up "$PID" guest $RPING
}
answers "revision 1" "" 00010000 00010000
answers "revision 1, CRC" "" 40010000 40010000
answers "revision 1, no CRC, though it requires one: only as the initiator does it" mpa_crc_required=Y 00010000 00010000
answers "CRC where it forbids one by a reject" mpa_crc_strict=Y 40010000 20010000
answers "markers by a reject" "" 80010000 20010000
answers "revision 2, IRD and ORD" "" 1002000400100010 1002000400100010
answers "an IRD and ORD beyond its own" "" 100200043ffe3ffe 1002000400800080
answers "peer-to-peer, by write or read: write" peer_to_peer=Y 100200048004c004 1002000480048004
answers "revision 3 by nothing" "" 00030000 ""

# Our end and siw, in both roles. tests/interop/exchange.c describes the exchange; each row runs all of it.
PEER=$BUILD/tests/interop/peer OUR_RPING=$BUILD/tests/interop/rping SIW_PEER=/host$BUILD/tests/interop/siw_peer
# siw's acceptor sends its Reply before it listens to the connection. Data that arrives at once, also a
# ready-to-receive, is noticed only when more data arrives.
PAUSE="-w 500"

# connects, accepts WHAT SWITCHES BOTH OURS SIWS: BOTH has the options of both ends, OURS and SIWS those of one end. One
# end has -b. ended REGEX: our end reports this end of the connection.
connects() {
	both "we connect: $1" "$2" guest:$RPING "$SIW_PEER -p $RPING $3 $5" host "$PEER -c @ -p $RPING $PAUSE $3 $4"
	OURS=$OUT
}
accepts() {
	both "we accept: $1" "$2" host:$HOST_PORT "$PEER -p $HOST_PORT $3 $4" guest "$SIW_PEER -c @ -p $HOST_PORT $3 $5"
	OURS=$(< "$TMP/server")
}
ended() { check "... so ours: $1" matches "$OURS" "end: $1"; }

# The ways to begin a connection in the RFCs, each with the whole exchange, up to messages of 1 MiB.
exchange_rows() {
	local crc reads rtr what ways bits ours siws="-d 90 -D 100"
	for crc in N Y; do
		ours="-d 100 -D 90" reads=4
		[ $crc = N ] || { ours+=" -k"; reads=40; }      # more than the 16 that are negotiated
		connects "revision 1, CRC $crc" mpa_crc_required=$crc "-n $reads" "$ours -b -m 1" "$siws"
		accepts "revision 1, CRC $crc" "mpa_version=1 mpa_crc_required=$crc" "-n $reads" "$ours -m 1" "$siws -b"
		for rtr in "nothing - 0" "Write w 0x8000 peer_to_peer=Y" "Read r 0x4000 peer_to_peer=Y"; do
			read -r what ways bits <<< "$rtr"
			what="revision 2, CRC $crc, ready by $what"
			connects "$what" mpa_crc_required=$crc "-n $reads" "$ours -b -t $ways" "$siws"
			accepts "$what" "mpa_crc_required=$crc rtr_type=$bits" "-n $reads" "$ours" "$siws -b"
		done
	done
}
# Our end receives 3.3 MB. siw makes FPDUs of a TCP segment, unless both ends set its reserved bit. Our end returns the
# bit.
large_fpdus() {
	accepts "siw's large FPDUs" try_gso=Y "" -b ""
	check "... are large" fpdus -lt 200
	accepts "siw's FPDUs of a TCP segment" try_gso=N "" -b ""
	check "... are small" fpdus -gt 2000
}
fpdus() {
	local count
	count=$(sed -n 's/.* \([0-9]*\) FPDUs received$/\1/p' <<< "$OURS")
	[ -n "$count" ] && test "$count" "$@" || { echo "not $*: $count FPDUs"; return 1; }
}
# The ways in which either end can end a connection. A stale STag is one that was invalidated. The end that receives a
# Write to it answers by a Terminate with DDP's error 0x1100.
ways_to_end() {
	local how=$1
	$how "we disconnect" "" "-S 1000 -e disconnect" -b ""
	ended "disconnected, ok"
	$how "siw disconnects" "" "-S 1000 -e disconnect" "" -b
	ended "disconnected, ok"
	$how "we abort" "" "-S 1000 -e abort" -b ""
	ended "aborts"
	$how "siw aborts" "" "-S 1000 -e abort" "" -b
	ended "disconnected"
	$how "a Write of ours to a stale STag" "" "-S 1000 -e stale" -b ""
	ended "disconnected, Protocol error, .* told by the peer 1100"
	$how "a Write of siw's to a stale STag" "" "-S 1000 -e stale" "" -b
	ended "disconnected, Protocol error, fault 1100, found here 1100"
}
# Private data: none, as much as siw accepts, and our initiator's fields of RFC 7306 behind it. Also refusals.
private_data() {
	local how=$1 size
	for size in 0 251; do
		$how "$size bytes of private data" "" "-S 1 -d $size -D $size" -b ""
		$how "refused, $size bytes of private data" "" "-x -d $size -D $size" "" ""
	done
}
# Debian's rping on the kernel's side.
rping_rows() {
	local crc k size
	for crc in N Y; do
		k=; [ $crc = N ] || k=-k
		for size in 64 65535; do
			both "our rping to siw's, $size bytes, CRC $crc" "mpa_crc_required=$crc" guest:$RPING \
				"rping -s -a 0.0.0.0 -C 10 -S $size -v" host \
					"$OUR_RPING -c @ -p $RPING $PAUSE $k -S $size"
			both "siw's rping to ours, $size bytes, CRC $crc" "mpa_crc_required=$crc" host:$HOST_PORT \
				"$OUR_RPING -p $HOST_PORT $k -S $size" guest \
					"rping -c -a @ -p $HOST_PORT -C 10 -S $size -v -V"
		done
	done
}
# A responder that sends first. With a ready-to-receive, siw's initiator receives the message after the ready-to-receive
# has arrived here. Without one (revision 1, or not peer-to-peer), our responder holds the message until the initiator's
# first FPDU (RFC 5044 section 7.1.2). siw as the responder holds no message, but waits for the ready-to-receive that
# our initiator offers.
responder_first() {
	local revision rtr what ways bits
	for rtr in "Write w 0x8000" "Read r 0x4000"; do
		read -r what ways bits <<< "$rtr"
		accepts "the responder sends first, ready by $what" "peer_to_peer=Y rtr_type=$bits" "-f -S 1000" -b ""
		late connects "the responder sends first, ready by $what" "" "-f -S 1000" "-b -t $ways" ""
	done
	for revision in 1 2; do
		accepts "revision $revision, what the responder sends first is held" mpa_version=$revision "-S 1000" \
			"-m $revision -f -b" "-w 1000 -q"
		connects "revision $revision, the responder sends first" "" "-f -S 1000" "-m $revision -b -t -" ""
	done
}
if [ -x "$BUILD/tests/interop/siw_peer" ]; then
	exchange_rows
	large_fpdus
	ways_to_end connects
	ways_to_end accepts
	private_data connects
	private_data accepts
	responder_first
	connects "it tells of RFC 7306 behind 100 bytes" "" "-i -S 1000" "-d 100 -D 90 -b" "-d 90 -D 100"
elif [ -n "${CI:-}" ]; then
	not_ok "siw_peer is built"
else
	skip "no librdmacm-dev, libibverbs-dev: no program of ours on siw (see tools/quickstart check-interop)"
fi
rping_rows
if have_programs; then
	rping_program_rows
	ucmatose_rows
	perftest_rows
	rping_server_rows
fi

# siw against siw, both in the guest.
BW_OPTIONS='-R -F -s 65536 -n 200'
for crc in N Y; do
	for gso in N Y; do
		switches="mpa_crc_required=$crc try_gso=$gso"
		both "rping, $switches" "$switches" guest:$RPING "rping -s -a @ -C 10 -v" far \
			"rping -c -a @ -C 10 -v -V"
		# The server of rping exits with 0 also when the client leaves early.
		check "... ten times, says the client" [ "$(grep -c '^ping data: rdma-ping' <<< "$OUT")" = 10 ]
		check "... and the server" [ "$(grep -c '^server ping data: rdma-ping' "$TMP/server")" = 10 ]
		both "ib_write_bw of 64 KiB, $switches" "$switches" guest:$PERFTEST \
			"ib_write_bw $BW_OPTIONS -d siw_near" \
			far "ib_write_bw $BW_OPTIONS -d siw_far @"
		speed=$(awk '$1 == 65536 { print $4 }' <<< "$OUT")
		check "... tells a speed" matches "$speed" '^[0-9.]+$'
		echo "write of 64 KiB, $switches: $speed MB/s"
	done
done
both "ib_send_bw" "" guest:$PERFTEST "ib_send_bw $BW_OPTIONS -d siw_near" far "ib_send_bw $BW_OPTIONS -d siw_far @"
both "ib_read_bw" "" guest:$PERFTEST "ib_read_bw $BW_OPTIONS -d siw_near" far "ib_read_bw $BW_OPTIONS -d siw_far @"
both "ib_write_bw of 1 MiB" "" guest:$PERFTEST "ib_write_bw -R -F -s 1048576 -n 10 -d siw_near" \
	far "ib_write_bw -R -F -s 1048576 -n 10 -d siw_far @"
both "ucmatose" "" guest:$UCMATOSE "ucmatose -b @" far "ucmatose -s @"
both "rping, the far side serves" "" far:$RPING "rping -s -a @ -C 3" guest "rping -c -a @ -C 3"

# diw perf over the guest's libibverbs, whose provider is siw: Debian's library, and a kernel device.
perf_over_siw() {
	siw_set peer_to_peer=Y
	run "diw perf --provider verbs over siw" guest "LD_LIBRARY_PATH=$(printf '%s:' \
		{,/host}{/usr,}/lib/x86_64-linux-gnu) /host$DIW perf bw --provider verbs --qp rc --local \
		--op send,write,read --size 64k --bind $NEAR4 --secs $((TRY * 2 - 1)) --rounds 1 --json"
}
three() { grep '^{' <<< "$OUT" | jq -e -s 'map([.op, .llp]) == (["send", "write", "read"] | map([., "verbs"])) and
	all(.[]; .GBps > 0)'; }
measured perf_over_siw "... its Sends, Writes and Reads" three

# Writes at full speed from near to far: ours, siw's with small FPDUs, and siw's with large FPDUs, in turns, all with
# 128 requests outstanding. The messages are so many that a socket's buffer holds only a small part of them. The ratios
# are printed and cannot fail: on a busy machine that emulates the guest, rounds contradict each other. Ours must be
# measured each time. siw's are 0 where its three tries failed: siw loses connections to itself, too, so one may be 0.
write_siw() {
	both "ib_write_bw" "mpa_crc_required=$1 try_gso=$2" guest:$PERFTEST \
		"ib_write_bw -R -F -s $3 -n $4 -d siw_near" \
		far "ib_write_bw -R -F -s $3 -n $4 -d siw_far @" > "$TMP/rows"
	grep '^not ok' "$TMP/rows" >&2
	awk -v size="$3" '$1 == size { speed = $4 } END { print speed + 0 }' <<< "$OUT"
}
# write_ours CRC: prints MiB a second, as perftest counts them, for Writes of 64 KiB and of 1 MiB.
write_ours() {
	local no_crc=
	[ "$1" = Y ] || no_crc=--no-crc
	background "$TMP/server" guest "chroot /host $DIW perf --server --bind $NEAR4"
	guest_listens 4791
	guest "far chroot /host $DIW perf bw --qp rc --op write --size 64k,1m --depth 128 \
		--connect $NEAR4 --bind $FAR4 \
		$no_crc --json" > "$TMP/client" || cat "$TMP/client" "$TMP/server" >&2
	give_up "$PID" guest 4791
	grep '^{' "$TMP/client" | jq -r 'select(.GBps) | .GBps * 1e9 / 1048576' | xargs
}
# write_rows CRC ROUNDS: measures and prints the Writes.
write_rows() {
	local round ours64 ours1 row
	: > "$TMP/speeds"
	for ((round = 0; round < $2; round++)); do
		read -r ours64 ours1 <<< "$(write_ours "$1")"
		for row in "64 65536 100 400 ${ours64:-0}" "1024 1048576 8 24 ${ours1:-0}"; do
			set -- "$1" "$2" $row
			echo "$3 $7 $(write_siw "$1" N "$4" "$5") $(write_siw "$1" Y "$4" "$6")" >> "$TMP/speeds"
		done
	done
	awk -v crc="$1" '{
		printf "Write of %d KiB, CRC %s: ours %.1f MiB/s, siw %.1f, with try_gso %.1f; ratios %.2f and %.2f\n",
			$1, crc, $2, $3, $4, $2 / ($3 ? $3 : 1), $2 / ($4 ? $4 : 1) }' "$TMP/speeds"
	run "our Writes were measured, CRC $1" awk -v lines=$(($2 * 2)) '$2 > 0 { n++ }
		END { exit n != lines }' "$TMP/speeds"
	run "... and siw's, but for one at most" awk -v lines=$(($2 * 2)) '{ n += ($3 > 0) + ($4 > 0) }
		END { exit n < lines * 2 - 1 }' "$TMP/speeds"
}
# above KIB: prints in how many rounds our Writes were faster.
above() {
	echo "Write of $1 KiB, CRC on: faster than siw with large FPDUs in $(awk -v kib="$1" \
		'$1 == kib { n++; won += $2 > $4 }
		END { print won + 0 " of " n }' "$TMP/speeds") rounds"
}
echo "accelerator $GUEST_ACCEL; ours computes CRC-32C by $(guest "chroot /host $DIW info" |
	sed -n 's/.*CRC-32 engine *//p' | head -n 1), siw by $(guest "grep -B1 -A1 '^name.*crc32c$' /proc/crypto" |
	sed -n 's/^driver *: //p' | head -n 1)"
write_rows N 1
write_rows Y 3
above 64
above 1024

# On a busy machine the guest's clock has run seven times too fast. Then its timeouts and figures are worth nothing.
host_end=$(uptime_) guest_end=$(guest "$(declare -f uptime_); uptime_")
echo "seconds of the host $host_begin to $host_end, of the guest $guest_begin to $guest_end"
run "the guest's clock keeps the host's time, within 5 % and a second" awk -v host="$host_begin $host_end" \
	-v guest="$guest_begin $guest_end" 'BEGIN { split(host, h); split(guest, g)
		there = g[2] - g[1]; here = h[2] - h[1]
		exit !(there > here * 0.95 - 1 && there < here * 1.05 + 1) }'
check "siw lost at most six connections" [ $AGAIN -le 6 ]
expect 3 "a command's exit status comes back" guest "exit 3"
run "the host's diw runs in the guest" guest "chroot /host $BUILD/bin/diw info"
run "the guest's kernel has nothing to complain of" guest \
	'! dmesg | grep -E "BUG:|WARNING:|Oops|Call Trace|general protection|refcount_t"'
run "the guest powers off" guest_stop
end
