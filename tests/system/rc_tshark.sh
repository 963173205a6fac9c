#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# RC as Wireshark's own dissectors of MPA, DDP and RDMAP see it: a capture of every operation has as many FPDUs as our
# counters say, each with a good CRC, none malformed. The queue pairs are "packed", one FPDU a TCP segment: the
# dissector finds only what begins a segment.
. "${0%/*}/lib.sh"

prog=$BUILD/tests/system/rc_tshark
export LC_ALL=C
command -v tshark dumpcap > /dev/null || { skip "no tshark"; end; }
# Wireshark guesses at what Sends carry; one without data is no message of RPC.
shark() { tshark -r "$TMP/rc.pcapng" --disable-protocol rpcordma "$@" 2> "$TMP/err"; }

# capture ARGUMENT...: the program's run, of which OUT is what it says, goes to the file.
capture() {
	rm -f "$TMP/rc.pcapng"
	background "$TMP/dumpcap" dumpcap -q -B 64 -i lo -f tcp -w "$TMP/rc.pcapng"
	local cap=$PID
	eventually 20 captures || { not_ok "dumpcap captures"; cat "$TMP/dumpcap"; return 1; }
	run "every operation: $*" timeout 300 "$prog" "$@"
	# The capture's last packets are with it when it sees the one that is sent behind them.
	eventually 10 complete_capture || not_ok "the capture has ended streams"
	kill -INT "$cap"
	join "$cap" 10
}
# It says that it does a moment before: connections that are refused are what it has to see first.
captures() {
	(: < /dev/tcp/127.0.0.1/9) 2> /dev/null
	[ "$(shark | wc -l)" -gt 0 ]
}
complete_capture() { [ "$(shark -Y 'tcp.flags.fin == 1' | wc -l)" -ge 2 ]; }

# number N FILTER: for check; frames that match.
number() { local n; n=$(shark -Y "$2" | wc -l); [ "$n" -eq "$1" ] || { echo "$n and not $1: $2"; return 1; }; }
# lines N REGEX FILE: for check.
lines() { local n; n=$(grep -c -E -e "$2" "$TMP/$3"); [ "$n" -eq "$1" ] || { echo "$n and not $1: $2"; return 1; }; }

# dissect: what has to be true of every capture.
dissect() {
	local sent received
	read -r sent received < <(sed -n 's/^fpdus //p' <<< "$OUT")
	shark -V > "$TMP/all"
	shark -T fields -e iwarp_rdma.opcode -e iwarp_ddp.last_flag > "$TMP/ops"
	check "... all that was sent was received" [ "$sent" -eq "$received" ]
	check "... as many FPDUs as we counted: $sent" lines "$sent" 'ULPDU length: ' all
	check "... every one with a good CRC" lines "$sent" 'CRC check: 0x[0-9a-f]{8} .Good CRC32.' all
	check "... each a segment of DDP" lines "$sent" '^0x0[0-9a-b]' ops
	check "... none malformed" number 0 '_ws.malformed || iwarp_mpa.bad_length'
	check "... a request and a reply" number 2 'iwarp_mpa.req || iwarp_mpa.rep'
	operations
}

# op CODE MESSAGES WHAT: last segments of that opcode.
op() { check "... $3" lines "$2" "^0x0$1	1" ops; }

operations() {
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
	check "... the Terminate says invalid STag, and quotes both headers" number 1 'iwarp_rdma.term_layer == 0 &&
		iwarp_rdma.term_etype_rdma == 1 && iwarp_rdma.term_errcode_rdma == 0 && iwarp_rdma.term_hdrct_m == 1 &&
		iwarp_rdma.hdrct_d == 1 && iwarp_rdma.hdrct_r == 1 && iwarp_rdma.term_ddp_seg_len == 00:2e'
	check "... FetchAdd" number 1 'iwarp_rdma.atomic.opcode == 0 && iwarp_rdma.atomic.add_data == 1'
	check "... CmpSwap" number 1 'iwarp_rdma.atomic.opcode == 2 && iwarp_rdma.atomic.swap_data == 2 &&
		iwarp_rdma.atomic.compare_data == 1'
}

for mtu in 65536 1500; do
	ip link set lo mtu $mtu
	for ip in 127.0.0.1 ::1; do
		echo "MTU $mtu"
		capture $ip 200000 && dissect
	done
done

# What is wrong is seen: a payload that changes below the CRC.
sed -i 's/\x0e\x15\x1c\x23/\x0e\x15\x1c\x24/' "$TMP/rc.pcapng"
shark -V > "$TMP/all"
check "a changed octet is seen as a bad CRC" grep -q -F 'Bad CRC32' "$TMP/all"

# An FPDU whose last octet a marker follows, which is the next one's (RFC 5044 section 4.3), is taken for a longer one
# by the dissector, which loses the stream there: not in messages of this length.
capture 127.0.0.1 20000 markers && {
	dissect
	check "... with markers" grep -q -F 'FPDU back pointer' "$TMP/all"
}
end
