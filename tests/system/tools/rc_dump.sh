#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Connections in captures. Of a program's own capture (DIWARP_PCAP) diw dump shows what the program did. Of a capture
# that is incomplete, out of order or damaged, diw dump shows the data that it has, and how much is lost.
. "${0%/*}/../lib.sh"

prog=$BUILD/tests/system/rc_tshark
gen=$BUILD/tests/system/pcap_rc
export LC_ALL=C TZ=UTC

# count EXPRESSION: how many objects of the last dump match.
count() { jq -s "[.[] | select($1)] | length" "$TMP/json"; }
# all N EXPRESSION: for check; exactly N objects match.
all() { [ "$(count "$2")" -eq "$1" ] || { echo "$(count "$2") and not $1: $2"; return 1; }; }
json() { run "$1" sh -c '"$0" dump --json "$@" > "'"$TMP/json"'"' "$DIW" "${@:2}"; }
# op NAME MESSAGES: for check; MESSAGES messages were sent, and as many received.
op() { all $((2 * $2)) ".op == \"$1\" and .last" && all "$2" ".op == \"$1\" and .last and .dir == \"out\""; }

# ---- The operations of a program ----

# captured IP HOW: runs every operation and captures them; OUT has the program's output.
captured() {
	rm -f "$TMP/own"
	run "every operation over $1, $2" env DIWARP_PCAP="$TMP/own" timeout 300 "$prog" "$1" 200000 "$2"
	read -r fpdus _ < <(sed -n 's/^fpdus //p' <<< "$OUT")
	json "diw dump reads the capture" -r "$TMP/own"
	check "... as many FPDUs as were sent left, and as many came" op_fpdus "$fpdus"
	check "... nothing is lost or faulty" matches "$OUT" "\\(0 bad CRC, 0 faults, 0 octets lost\\)"
	check "... both ends of both halves" all 4 '.mpa == "end" and .reset == false'
	check "... what came is what left" diff <(direction out) <(direction in)
	check "... all addresses" all 0 ".src != \"$1\" or .dst != \"$1\" or (.src_port | not) or (.dst_port | not)"
}
op_fpdus() { all "$1" '.mpa == "fpdu" and .dir == "out"' && all "$1" '.mpa == "fpdu" and .dir == "in"'; }
# direction DIR: the messages of one end after those of the other. The ends hand messages to TCP independently of each
# other, so the order between them means nothing.
direction() { jq -c "select(.dir == \"$1\") | del(.time, .dir)" "$TMP/json" | sort -s -t: -k2,5; }

for ip in 127.0.0.1 ::1; do
	captured $ip loose
	check "... the request, with its private data and what is taken" all 2 '.mpa == "request" and .revision == 2 and
		.enhanced and .crc and .markers == false and .reject == false and .ird == 16 and .ord == 16 and .p2p and
		.rtr == ["write"] and .private_data == "696e69746961746f72" and
		.takes == ["rfc7306", "send-imm", "words"]'
	check "... and the reply" all 2 \
		'.mpa == "reply" and .rtr == ["write"] and .takes == ["rfc7306", "send-imm", "words"]'
	check "... Sends" op send 4
	check "... a Send with SE" op send-se 1
	check "... a Send with Invalidate" op send-inv 1
	check "... a Send with both" op send-se-inv 1
	check "... Read Requests" op read-request 3
	check "... Read Responses" op read-response 2
	check "... Immediates" op immediate 1
	check "... and with SE" op immediate-se 1
	check "... Atomic Requests" op atomic-request 2
	check "... and Responses" op atomic-response 2
	check "... a Terminate: invalid STag, of the Read Request" all 2 '.op == "terminate" and .error == "0x0100" and
		.error_seg_len == 46 and .quoted_tagged == false'
	check "... long messages: a Send, a Write, a Read Response, of 4 FPDUs each" all 6 \
		'.last and .message_length == 200000 and .message_segments == 4'
	check "... a Read's length and STags" all 2 \
		'.op == "read-request" and .read_length == 200000 and .sink_stag == .source_stag'
	check "... the immediate of a Send" all 2 '.op == "send" and .imm == "0xdeadbeef" and .payload == 108'
	check "... the immediate of a Write" all 2 '.op == "immediate" and .data == "0x0000000000000008"'
	check "... FetchAdd" all 2 '.atomic_opcode == 0 and .add_swap == "0x0000000000000001"'
	check "... CmpSwap" all 2 '.atomic_opcode == 2 and .add_swap == "0x0000000000000002" and
		.compare == "0x0000000000000001" and .compare_mask == "0xffffffffffffffff"'
	check "... words that ask, and words that answer" \
		[ "$(count '.word_asks')" -ge 10 -a "$(count \
			'.word_asks == false and .word_placed > 0 and .payload == 0')" -ge 2 ]
done
run "as lines" "$DIW" dump -r "$TMP/own"
request='mpa-request revision 2 crc ird 16 ord 16 rtr write private 9 B 696e69746961746f72'
check "... with the frame" matches "$OUT" \
	"out \[::1\]:[0-9]+ > \[::1\]:[0-9]+ $request, takes rfc7306 send-imm words"$'\n'
check "... an FPDU" matches "$OUT" 'send last qn 0 msn [0-9]+ mo 0\+108 imm 0xdeadbeef placed [0-9]+ asks crc good'$'\n'
check "... a message's last" matches "$OUT" \
	'read-response last stag 0x[0-9a-f]{8} to 0x[0-9a-f]{16}\+[0-9]+, message of 200000 in 4 crc good'
check "... the Terminate" matches "$OUT" \
	'terminate last .* invalid STag \(of a Read.s source\) \(0x0100\) of an untagged segment of 46 octets crc good'
check "... and the ends" matches "$OUT" ' end'$'\n'
port=$(sed -n 's/.* > .*:\([0-9]*\) mpa-request.*/\1/p' <<< "$OUT" | head -n 1)
json "messages only" -r "$TMP/own" --message --op read-response
check "... are their last FPDUs" all 4 '.last and .op == "read-response"'
json "faults only" -r "$TMP/own" --fault
check "... are the Terminate" all 2 '.op == "terminate"'
json "one port" -r "$TMP/own" --op mpa-request --qp "$port"
check "... is a filter" all 2 true
json "three lines" -r "$TMP/own" -c 3
check "... are three" all 3 true

captured 127.0.0.1 markers
check "... markers were asked for both ways" all 4 '(.mpa == "request" or .mpa == "reply") and .markers'
captured 127.0.0.1 plain
check "... without a CRC" all 0 '.mpa == "fpdu" and (.crc != "0x00000000" or .crc_on or .crc_good)'
check "... and nothing that has to be agreed on" all 0 '.takes or .word_placed'

# ---- Captures that no program makes ----

# made KIND: makes a capture and dumps it.
made() {
	"$gen" "$@" > "$TMP/made"
	json "a capture: $*" -r "$TMP/made"
}
# sends N: for check; N of the 20 Sends of one direction are there, each once and complete.
sends() {
	all "$1" '.op == "send" and .src_port == 5000 and .payload == 300 and .last and
		(.crc_good or .crc_on == false) and (.fault | not)' &&
		[ "$(jq 'select(.src_port == 5000) | .msn // empty' "$TMP/json" | sort -nu | wc -l)" -eq "$1" ]
}

for kind in whole octets wrap reorder again markers nocrc eager; do
	made $kind
	check "... has all" sends 20
	check "... and no fault" matches "$OUT" "\\(0 bad CRC, 0 faults, 0 octets lost\\)"
	check "... with the request" all 1 '.mpa == "request" and .private_data == "68656c6c6f" and .revision == 1'
	check "... and the end" all 2 '.mpa == "end"'
done
made reuse
check "... two connections, one after the other, between the same ports" all 40 \
	'.op == "send" and .payload == 300 and .crc_good'
made gap
check "... tells what was lost" all 1 '.mpa == "lost" and .lost == 2 * 324'
check "... in its place" [ "$(jq -r 'select(.src_port == 5000) | .msn // .mpa' "$TMP/json" | tr '\n' ' ')" = \
	"request $(seq -s ' ' 1 4) lost $(seq -s ' ' 7 20) end " ]
check "... and has all else" sends 18
made middle
check "... has what came since" sends 11
check "... and no fault" matches "$OUT" "\\(0 bad CRC, 0 faults, 0 octets lost\\)"
made hole
check "... tells what was lost, and cannot be told apart" all 1 '.mpa == "lost" and .lost >= 1000'
check "... has what was before" sends 6
check "... and takes nothing else for an FPDU" all 0 '.fault or .crc_good == false'
made markers-gap
check "... is not taken up behind the gap, for nobody knows where markers are" all 1 '.mpa == "lost" and .lost >= 700'
check "... and takes nothing else for an FPDU" all 0 '.fault or .crc_good == false'
made damage
check "... tells the damaged FPDU" all 1 '.fault == "rx_crc" and .crc_good == false and .msn == 7'
check "... and has all else" all 20 '.mpa == "fpdu" and .crc_good'
made length
check "... has what was before" sends 6
check "... and tells what was lost" all 1 '.mpa == "lost" and .lost == 14 * 324'
made reset
check "... has all but what was lost" sends 19
check "... tells of that" all 1 '.mpa == "lost" and .lost == 324'
check "... and the reset" all 1 '.mpa == "end" and .reset'
made reject
check "... tells it" all 1 '.mpa == "reply" and .reject'
made longdata
check "... is faulty" all 1 '.mpa == "request" and .fault == "mpa_frame"'
made many
check "... the oldest make room" matches "$OUT" "0 FPDUs and 10000 frames of 5000 connections .* 50000 octets lost"
"$gen" foreign > "$TMP/made"
expect 1 "other protocols" "$DIW" dump -r "$TMP/made"
check "... are none of ours, whatever they begin with" matches "$OUT" \
	"0 of other protocols over UDP, [12] of other protocols over TCP"
for seed in 1 2 3; do
	made fuzz $seed
	check "... is read to its end" matches "$OUT" \
		"^[0-9]{4,} packets: .* FPDUs and [0-9]+ frames of [0-9]+ connections"
	check "... has most of it" [ "$(count '.op == "send" and .crc_good')" -ge 1500 ]
	head -c 200000 "$TMP/made" | tail -c 199000 | cat <(head -c 24 "$TMP/made") - > "$TMP/torn"
	"$DIW" dump -r "$TMP/torn" > "$TMP/out.torn" 2>&1
	check "... and torn anywhere, too" [ $? -le 1 ]
done

# ---- Live ----

background "$TMP/live" "$DIW" dump -i lo --json
live=$PID
sees_or_ended() {
	awk 'FNR > 1 && $4 == "0003" && $6 == 1 { n++ } END { exit !n }' /proc/net/packet || ! kill -0 "$live"
}
ended() { [ "$(grep -c '"mpa":"end"' "$TMP/live")" = 2 ]; }
eventually 10 sees_or_ended
if ! kill -0 "$live" 2> /dev/null; then
	skip "no live capture here: $(cat "$TMP/live")"
else
	run "every operation while lo is captured" timeout 300 "$prog" 127.0.0.1 200000 loose
	check "... to its end" eventually 5 ended
	kill -INT "$live"
	check "... which SIGINT ends" join "$live" 10
	read -r fpdus _ < <(sed -n 's/^fpdus //p' <<< "$OUT")
	grep '^{' "$TMP/live" > "$TMP/json"
	check "... has each FPDU once: $fpdus" all "$fpdus" '.mpa == "fpdu" and .crc_good and .dir == "unknown"'
fi
end
