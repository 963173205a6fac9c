#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# RC in Wireshark's own dissectors of MPA, DDP and RDMAP. A capture of every operation has as many FPDUs as our counters
# say, each with a good CRC and none malformed. DIWARP_PCAP's capture inside the program has as many. The queue pairs
# are "packed", with one FPDU in a TCP segment, because the dissector finds only FPDUs that begin a segment.
. "${0%/*}/../lib.sh"

prog=$BUILD/tests/system/rc_tshark
export LC_ALL=C
command -v tshark dumpcap > /dev/null || { skip "no tshark"; end; }
# shark: without this option Wireshark takes the data of a Send for RPC, and reports a Send without data as malformed.
file=$TMP/rc.pcapng
shark() { tshark -r "$file" --disable-protocol rpcordma "$@" 2> "$TMP/err"; }

# capture ARGUMENT...: captures a run of the program into the file; OUT has the program's output.
capture() {
	file=$TMP/rc.pcapng
	rm -f "$file" "$TMP/own.pcapng"
	background "$TMP/dumpcap" dumpcap -q -B 64 -i lo -f tcp -w "$file"
	local cap=$PID
	eventually 20 captures || { not_ok "dumpcap captures"; cat "$TMP/dumpcap"; return 1; }
	run "every operation: $*" env DIWARP_PCAP="$TMP/own.pcapng" timeout 300 "$prog" "$@"
	# dumpcap has written all packets of the program when the file has the FINs, which are sent last.
	eventually 10 complete_capture || not_ok "the capture has ended streams"
	kill -INT "$cap"
	join "$cap" 10
}
# dumpcap announces its capture a moment before it captures. So connections that are refused are sent until the file has
# one.
captures() {
	(: < /dev/tcp/127.0.0.1/9) 2> /dev/null
	[ "$(shark | wc -l)" -gt 0 ]
}
complete_capture() { [ "$(shark -Y 'tcp.flags.fin == 1' | wc -l)" -ge 2 ]; }

# lines N REGEX FILE: for check; N lines match.
lines() { local n; n=$(grep -c -E -e "$2" "$TMP/$3"); [ "$n" -eq "$1" ] || { echo "$n and not $1: $2"; return 1; }; }

rdma="opcode term_layer term_etype_rdma term_errcode_rdma term_hdrct_m hdrct_d hdrct_r term_ddp_seg_len atomic.opcode"
rdma+=" atomic.add_data atomic.swap_data atomic.compare_data"
# fields: the dissector's values of each frame, as lines of NAME=VALUE.
# shellcheck disable=SC2046  # words are meant
fields() {
	shark -o ip.check_checksum:TRUE -o tcp.check_checksum:TRUE -E header=y -T fields \
		$(printf -- '-e iwarp_rdma.%s ' $rdma) \
		-e iwarp_ddp.last_flag -e iwarp_mpa.req -e iwarp_mpa.rep -e iwarp_mpa.bad_length -e _ws.malformed \
		-e tcp.flags.syn -e tcp.flags.fin -e ip.checksum.status -e tcp.checksum.status |
		awk -F '\t' 'NR == 1 { n = split($0, name) } NR > 1 { for (i = 1; i <= n; i++) if ($i != "")
			printf "%s=%s ", name[i], $i; print "" }'
}

# dissect [TIMES [loose]]: the checks of every capture, which has every operation TIMES times. loose: FPDUs share
# frames, so operations are not counted.
dissect() {
	local sent received
	read -r sent received < <(sed -n 's/^fpdus //p' <<< "$OUT")
	shark -V > "$TMP/all"
	fields > "$TMP/fields"
	check "... all that was sent was received" [ "$sent" -eq "$received" ]
	check "... as many FPDUs as we counted: $sent" lines "$sent" 'ULPDU length: ' all
	check "... every one with a good CRC" lines "$sent" 'CRC check: 0x[0-9a-f]{8} .Good CRC32.' all
	[ "${2:-}" = loose ] || check "... none malformed" lines 0 'malformed|bad_length' fields
	check "... a request and a reply" lines 2 'mpa.re[qp]=' fields
	"$DIW" dump --json -r "$file" > "$TMP/dump" 2> "$TMP/dump.counts"
	check "... diw dump has them, too" seen $((sent * ${1:-1})) fpdu
	check "... and finds no fault" matches "$(< "$TMP/dump.counts")" '\(0 bad CRC, 0 faults, 0 octets lost\)'
	[ "${2:-}" = loose ] || operations "$sent"
}
seen() { [ "$(grep -c "\"mpa\":\"$2\"" "$TMP/dump")" = "$1" ]; }

# op CODE MESSAGES WHAT: MESSAGES last segments have this opcode.
op() { check "... $3" lines "$2" "rdma.opcode=0x0$1 .*last_flag=1" fields; }

operations() {
	check "... each FPDU a segment of DDP" lines "$1" 'rdma.opcode=0x0[0-9a-b] ' fields
	op 0 5 "Writes, the one that says ready-to-receive among them"
	op 1 3 "Read Requests"
	op 2 2 "Read Responses"
	op 3 3 "Sends"
	op 4 1 "a Send with Invalidate"
	op 5 1 "a Send with SE"
	op 6 1 "a Send with both"
	op 7 1 "a Terminate"
	op 8 1 "an Immediate"
	op 9 1 "an Immediate with SE"
	op a 2 "Atomic Requests"
	op b 2 "Atomic Responses"
	quotes='hdrct_m=1 .*hdrct_d=1 .*hdrct_r=1 .*term_ddp_seg_len=00:?2e'
	check "... the Terminate says invalid STag, and quotes both headers" lines 1 \
		"layer=0x00 .*rdma=0x01 .*errcode_rdma=0x00 .*$quotes" fields
	check "... FetchAdd" lines 1 'atomic.opcode=0 .*add_data=1 ' fields
	check "... CmpSwap" lines 1 'atomic.opcode=2 .*swap_data=2 .*compare_data=1 ' fields
}

# own: the same checks of the program's own capture. That capture has each segment twice, as sent and as received. The
# dissector takes the second for a retransmission.
own() {
	file=$TMP/own.pcapng
	echo "DIWARP_PCAP"
	dissect 2 "${1:-}"
	check "... a handshake, which both ends saw" lines 4 'flags.syn=1' fields
	check "... the end of both halves, too" lines 4 'flags.fin=1' fields
	check "... good checksums of TCP" lines "$(wc -l < "$TMP/fields")" 'tcp.checksum.status=1' fields
}

for mtu in 65536 1500; do
	ip link set lo mtu $mtu
	for ip in 127.0.0.1 ::1; do
		echo "MTU $mtu"
		capture $ip 200000 && dissect && own
	done
done

# The dissector notices an error: the payload changes here, and the CRC does not.
sed -i 's/\x0e\x15\x1c\x23/\x0e\x15\x1c\x24/' "$file"
shark -V > "$TMP/all"
check "a changed octet is seen as a bad CRC" grep -q -F 'Bad CRC32' "$TMP/all"

# When a marker follows the last octet of an FPDU, the marker belongs to the next FPDU (RFC 5044 section 4.3). The
# dissector counts it to the FPDU before, and loses the stream. Messages of this length avoid the case.
capture 127.0.0.1 20000 markers && {
	dissect
	check "... with markers" grep -q -F 'FPDU back pointer' "$TMP/all"
	own
}

# FPDUs that begin and end anywhere in a segment. The dissector finds them in a capture that lost no segment.
# It mistakes those of a stream whose receiver read it in other pieces than it was sent, as on a busy machine.
loose() {
	run "FPDUs of 64 KiB" env DIWARP_PCAP="$TMP/loose.pcapng" timeout 300 "$prog" 127.0.0.1 200000 loose
	mv "$TMP/loose.pcapng" "$TMP/own.pcapng"
	own loose
}
measured loose "... none malformed" "lines 0 'malformed|bad_length' fields"
end
