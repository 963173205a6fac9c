#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# DIWARP_PCAP, diw dump and the Wireshark dissector on a capture with every operation: both decoders show each field
# with the value that the program knows.
. "${0%/*}/../lib.sh"

prog=$BUILD/tests/system/dump
gen=$BUILD/tests/system/pcap
lua=tools/wireshark/diwarp.lua
export LC_ALL=C TZ=UTC
fields="op opcode tagged last solicited inv_stag qn stag to msn mo qkey epoch length imm payload sink_stag sink_to"
fields+=" read_length source_stag source_to error error_seg_len quoted_tagged quoted_msn crc crc_good fault flow_number"
fields+=" flow_window validation doubted_op doubted_tagged doubted_epoch doubted_msn token"

# count EXPRESSION: how many objects of the last dump match.
count() { jq -s "[.[] | select($1)] | length" "$TMP/json"; }
# all N EXPRESSION: for check; exactly N objects match.
all() { [ "$(count "$2")" -eq "$1" ] || { echo "$(count "$2") and not $1: $2"; return 1; }; }
# lines N FILE: the file has N objects.
lines() { [ "$(grep -c '^{' "$2")" -eq "$1" ]; }
json() { run "$1" sh -c '"$0" dump --json "$@" > "'"$TMP/json"'"' "$DIW" "${@:2}"; }

# ---- Every operation, over IPv4 and IPv6 ----

for ip in 127.0.0.1 ::1; do
	file=$TMP/all.pcapng
	run "every operation over $ip, captured" env DIWARP_PCAP="$file" timeout 300 "$prog" $ip
	check "... all as without a capture" [ "$OUT" = "$(timeout 300 "$prog" $ip)" ]
	json "diw dump reads it" -r "$file"
	check "... every segment has a direction, the address and a time in nanoseconds" all 0 \
		'(.dir != "in" and .dir != "out") or .src != "'$ip'" or (.time | test("^[0-9]{10}\\.[0-9]{9}$") | not)'
	check "... a send with an immediate" all 2 '.op == "send" and .imm == "0xdeadbeef" and .length == 100 and .last'
	check "... a solicited send without data" all 2 '.op == "send-se" and .length == 0'
	check "... a send of 8 segments" all 16 '.op == "send" and .length == 10000'
	check "... a write-record of 8, one of them lost" all 15 \
		'.op == "write-record" and .length == 10000 and .imm == "0xdeadbeef" and .solicited'
	check "... which says so" all 1 \
		'.op == "write-record" and .mo == 3750 and .dir == "out" and .dropped == "impair_lost"'
	check "... a damaged one: it left so," all 1 '.dir == "out" and .crc_good == false and .dropped == null'
	check "... and was dropped" all 1 '.dir == "in" and .crc_good == false and .dropped == "rx_crc"'
	check "... one that was refused" all 1 '.dropped == "rx_stag" and .op == "write-record" and .dir == "in"'
	check "... a read that was refused" all 1 '.dropped == "rx_stag" and .op == "read-request" and .dir == "in"'
	check "... a send without a receive" all 1 '.dropped == "rx_no_recv"'
	check "... a read before its source proved itself" all 1 '.dropped == "read_unproved" and .op == "read-request"'
	check "... no other drop" all 6 '.dropped'
	check "... which draws a challenge, and that a proof with the same token" all 4 \
		'.op == "validation" and .doubted_op == "read-request" and .doubted_tagged == false and
			.qkey == "0x00000000"'
	check "... both of the same" [ \
		"$(jq -rs 'map(select(.validation)) | (map(.validation) | sort) + (map([.token, .doubted_msn,
		.doubted_epoch]) | unique | map("token")) |
			join(" ")' "$TMP/json")" = "challenge challenge proof proof token" ]
	check "... read requests" all 6 '.op == "read-request" and .read_length == 10000 and .sink_stag and .source_to'
	check "... the response" all 16 '.op == "read-response" and .length == 10000 and .qkey == "0x00000000"'
	check "... the error messages, both ways" all 2 \
		'.op == "error" and .error == "0x1202" and .quoted_tagged == false'
	check "... of the write-record too" all 2 '.op == "error" and .error == "0x1100" and .quoted_tagged'
	check "... a write over UC" all 8 '.op == "write" and .length == 5000'
	check "... how far UC's peer is: a question, and its answer" all 4 \
		'.op == "flow" and .qkey == "0x00000000" and .qn == 2 and .payload == 8'
	check "... the answer says of the question's number" all 2 '.flow_window >= 32768 and .flow_number'
	check "... and none is faulty by its header" all 0 '.fault and .crc_good'
	total=$(count true)
	cp "$TMP/json" "$TMP/all.json"

	# ---- The dissector: the same values in every field ----

	if ! command -v tshark > /dev/null; then
		skip "no tshark"
		continue
	fi
	# shellcheck disable=SC2046  # words are meant
	tshark -X "lua_script:$lua" -r "$file" -T fields $(printf -- '-e diwarp.%s ' $fields) > "$TMP/all" 2> "$TMP/err"
	column=0
	for field in $fields; do
		column=$((column + 1))
		cut -f $column "$TMP/all" > "$TMP/got"
		jq -r ".$field | if . == null then \"\" elif . == true then 1 elif . == false then 0 else . end" \
			"$TMP/all.json" > "$TMP/want"
		check "tshark and diw dump agree on $field" diff "$TMP/want" "$TMP/got"
		[ $field = fault ] || check "... which some segment has" grep -q . "$TMP/want"
	done
	tshark -r "$file" -X "lua_script:$lua" -T fields -e frame.time_epoch -e udp.srcport -e udp.dstport \
		-e frame.comment \
		> "$TMP/got" 2> "$TMP/err"
	jq -r '[.time, .src_qp, .dst_qp, .dropped // ""] | @tsv' "$TMP/all.json" > "$TMP/want"
	check "tshark and diw dump agree on time, queue pairs and comments" diff "$TMP/want" "$TMP/got"
	tshark -r "$file" -X "lua_script:$lua" -o ip.check_checksum:TRUE -o udp.check_checksum:TRUE \
		-Y 'ip.checksum.status == "Bad" || udp.checksum.status == "Bad" || _ws.malformed' > "$TMP/got" 2> \
			"$TMP/err"
	check "tshark finds no wrong checksum, nothing malformed" [ ! -s "$TMP/got" ]
	check "... and every packet is of the protocol" [ \
		"$(tshark -r "$file" -X "lua_script:$lua" -Y diwarp 2> /dev/null |
		wc -l)" -eq "$total" ]
done

# ---- Lines, messages, filters ----

file=$TMP/all.pcapng
run "lines for people" "$DIW" dump -r "$file"
line='write-record solicited stag 0x[0-9a-f]{8} to 0x[0-9a-f]{16} msn [0-9]+ mo 3750\+1250 of 10000 .*'
check "... tell the operation" matches "$OUT" "$line crc good DROPPED impair_lost"
check "... and what an error message says" matches "$OUT" 'error last qn 2 .*invalid STag \(0x1100\) of tagged msn'
check "... and count" matches "$OUT" "$total packets: $total segments \(2 bad CRC, 0 other header faults, 6 dropped\)"
run "messages" "$DIW" dump -r "$file" --message --op write-record
map=$'\n''  \[#{24}\.{8}#{32}\]'$'\n''  lost \(offset\+length\): 3750\+1250'
check "... draw the map of the record with its hole" matches "$OUT" \
	'in \[::1\].*: 8750 of 10000 bytes in 7 segments.*'"$map"
json "messages as objects" -r "$file" --message
check "... the long send is whole, sent and received" all 2 \
	'.op == "send" and .length == 10000 and .valid == 10000 and .segments == 8 and .lost == []'
check "... the record is not" all 2 \
	'.op == "write-record" and .length == 10000 and .valid == 8750 and .lost == [[3750, 1250]]'
check "... the read is whole" all 2 '.op == "read-response" and .valid == 10000 and .to'
json "messages with faults only" -r "$file" --message --fault
check "... are those" all 6 true
json "--fault" -r "$file" --fault
check "... has what was dropped, damaged, or tells of a fault" all 13 '.dropped or (.crc_good | not) or .op == "error"'
check "... and nothing else" all 13 true
json "--op read-request" -r "$file" --op read-request
check "... has those" all 6 '.op == "read-request"'
check "... and nothing else" all 6 true
qp=$(jq -r 'select(.op == "write") | .dst_qp' "$TMP/all.json" | head -n 1)
json "--qp" -r "$file" --qp "$qp"
check "... has what came to it" all 8 ".dst_qp == $qp"
check "... and nothing else" all 8 true
json "-c" -r "$file" -c 3
check "... ends" all 3 true
run "a reader of the output that leaves" \
	bash -c 'exec 3>&1; { until [ -e "$2" ]; do sleep 0.01; done; "$0" dump -r "$1"; echo $? >&3; } |
		{ exec < /dev/null; : > "$2"; }' "$DIW" "$file" "$TMP/left"
check "... ends it without a word" [ "$OUT" = 141 ]
mkfifo "$TMP/fifo"
background "$TMP/piped" "$DIW" dump --json -r "$TMP/fifo"
piped=$PID
exec 9> "$TMP/fifo"
cat "$file" >&9
check "a pipe is read to its last packet" eventually 10 grep -q "$(jq -r .time "$TMP/all.json" | tail -n 1)" \
	"$TMP/piped"
kill -INT "$piped"
check "... and SIGINT meanwhile is no damage" join "$piped" 10
exec 9>&-

# ---- Damaged files, and files of other programs ----

sed 's/impair_lost/\x1b[31m\xc2\x9b1m\xffx/' "$file" > "$TMP/escape"
run "a comment that would steer a terminal" "$DIW" dump -r "$TMP/escape"
check "... does not" matches "$OUT" $'DROPPED \\?\\[31m\\?\\?1m\\?x\n'
json "... nor leave UTF-8" -r "$TMP/escape"
check "... in JSON" iconv -f UTF-8 -t UTF-8 "$TMP/json"

size=$(stat -c %s "$file")
head -c $((size - 700)) "$file" > "$TMP/cut"
expect 1 "a file that ends in a packet" "$DIW" dump -r "$TMP/cut"
check "... is said to be truncated, behind its packets" matches "$OUT" \
	'write last.*truncated.*[0-9]+ segments|crc good.*truncated'
{ head -c 5000 "$file"; head -c 4000 /dev/zero | tr '\0' '\377'; } > "$TMP/corrupt"
expect 1 "a file with garbage in it" "$DIW" dump -r "$TMP/corrupt"
check "... is said to be damaged" matches "$OUT" 'diw dump: .+'
head -c 10 "$file" > "$TMP/short"
for bad in short nothing; do
	[ -e "$TMP/$bad" ] || : > "$TMP/$bad"
	expect 1 "a file that is $bad" "$DIW" dump -r "$TMP/$bad"
	check "... is named" matches "$OUT" "diw dump: .*$bad: (truncated|unknown file format)"
done
expect 1 "a file that is no capture" "$DIW" dump -r "$DIW"
check "... is said to be none" matches "$OUT" 'unknown file format'
expect 1 "a file that is not there" "$DIW" dump -r "$TMP/none"
check "... is named" matches "$OUT" 'none: No such file'
expect 1 "an interface that is not there" "$DIW" dump -i none0
check "... is named" matches "$OUT" 'none0'
# A classic pcap of three raw IPv4 packets: UDP of another protocol, TCP, and a fragment.
{
	printf '\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\0\0\4\0\x65\0\0\0'
	for what in '\0\0\x40\x11' '\0\0\x40\x06' '\x20\0\x40\x11'; do
		printf '\1\0\0\0\2\0\0\0\x28\0\0\0\x28\0\0\0'
		# shellcheck disable=SC2059  # escapes are meant
		printf "\\x45\\0\\0\\x28\\0\\0$what"'\0\0\x7f\0\0\1\x7f\0\0\1'
		printf '\0\x35\x10\0\0\x14\0\0hello world!'
	done
} > "$TMP/other.pcap"
expect 1 "a capture of other traffic" "$DIW" dump -r "$TMP/other.pcap"
others='1 of other protocols over UDP, 0 of other protocols over TCP, 1 of neither, 1 IP fragments'
check "... is counted" matches "$OUT" "3 packets: 0 segments .*$others"
check "... and said to hold nothing of ours" matches "$OUT" 'no segment of iWARP'

# ---- Captures of other programs, and packets that a hostile peer could send ----

# tell KIND FIELD...: the dissector's fields of the capture KIND.
# shellcheck disable=SC2046  # words are meant
tell() { tshark -X "lua_script:$lua" -r "$TMP/$1" -T fields $(printf -- '-e %s ' "${@:2}") 2> "$TMP/err"; }

for kind in pieces quiet backwards super cut tiny roce chance vlan sll sll2 loop; do
	"$gen" $kind > "$TMP/$kind"
done
for link in vlan sll sll2 loop; do
	json "big-endian, in nanoseconds: $link" -r "$TMP/$link"
	check "... is read" all 3 '.op == "write-record" and .crc_good and (.time | test("\\.123456789$"))'
done
json "a merged capture whose time goes back" -r "$TMP/backwards" --message
check "... lasts no time" all 1 '.valid == 300 and .duration_ns == 0'
json "a record in more pieces than can be followed" -r "$TMP/pieces" --message
check "... says so" all 1 '.length == 1073741824 and .segments == 5000 and .unfollowed == 904 and .valid == 4096 * 32'
run "as a line" "$DIW" dump -r "$TMP/pieces" --message
check "... too" matches "$OUT" ' in 5000 segments, .*, 904 not followed'
json "a super-buffer with a damaged segment" -r "$TMP/super"
check "... is cut into its segments" all 3 '.payload == 100 and .crc_good == (.mo != 100)'
json "datagrams too short for a header" -r "$TMP/tiny"
check "... have no fields" all 2 \
	'(.fault == "rx_malformed" and .crc or .fault == "rx_short" and .crc == null) and .op == null'
cp "$TMP/json" "$TMP/tiny.json"
run "a capture that cut a packet short" "$DIW" dump -r "$TMP/cut"
check "... counts it" matches "$OUT" '2 packets: 1 segments \(0 bad CRC.*, 1 cut short'
for other in roce:2 chance:1; do
	"$DIW" dump -r "$TMP/${other%:*}" > "$TMP/out.other" 2>&1
	check "${other%:*} is not ours" grep -q "${other#*:} of other protocols over UDP" "$TMP/out.other"
done
json "-c with two messages that end at once" -r "$TMP/quiet" --message -c 1
check "... ends behind one" all 1 true

if ! command -v tshark > /dev/null; then
	skip "no tshark"
else
	tell super diwarp.mo diwarp.crc_good > "$TMP/got"
	check "the dissector cuts a super-buffer, too" [ "$(< "$TMP/got")" = $'0,100,200\t1,0,1' ]
	tell tiny diwarp.op diwarp.crc diwarp.crc_good diwarp.fault |
		sed 's/\t1\t/\ttrue\t/; s/\t0\t/\tfalse\t/' > "$TMP/got"
	jq -r '[.op, .crc, .crc_good, .fault] | @tsv' "$TMP/tiny.json" > "$TMP/want"
	check "... agrees on those too short for a header" diff "$TMP/want" "$TMP/got"
	tell cut diwarp.mo _ws.expert _ws.col.Info > "$TMP/got"
	check "... finds no fault with what was cut short" matches "$(< "$TMP/got")" \
		$'^0\t\t[^\n]*\n\t\tcut short by the capture$'
	tell roce _ws.col.Protocol diwarp.mo > "$TMP/got"
	check "... leaves RoCEv2 to its own, and not more" \
		[ "$(tr '\n' ' ' < "$TMP/got")" = $'RRoCE\t RRoCE\t diwarp\t0 diwarp\t100 diwarp\t200 ' ]
	tshark -X "lua_script:$lua" -r "$TMP/roce" -V > "$TMP/got" 2>&1
	check "... without an error of its own" [ "$(grep -c 'Lua Error' "$TMP/got")" = 0 ]
	tell chance diwarp.mo > "$TMP/got"
	check "... and is not led by a CRC that is good by chance" [ -z "$(tr -d '\n' < "$TMP/got")" ]
fi

# ---- Traffic goes on where no capture can be written ----

want=$(timeout 300 "$prog")
while read -r path reason; do
	run "DIWARP_PCAP=$path" env DIWARP_PCAP="$path" timeout 300 "$prog"
	check "... the program does as ever" [ "$(grep -v ^diwarp: <<< "$OUT")" = "$want" ]
	check "... and there is one warning, which says why" [ \
		"$(grep -c "^diwarp: dump\\[[0-9]*\\]: DIWARP_PCAP=$path: .*$reason" <<< "$OUT")" = 1 ]
done << END
/nonexistent/file No such file
$TMP Is a directory
/dev/full No space left
END
# (LeakSanitizer does not work in a setuid program.)
if [ "$MODE" != asan ] && [ "$(id -u)" = 0 ] && cp "$prog" "$TMP/setuid" && chown 65534 "$TMP/setuid" &&
	chmod 4755 "$TMP/setuid" &&
	chmod 777 "$TMP" && ! findmnt -no OPTIONS -T "$TMP" | grep -q nosuid; then
	run "a program that runs as another user than who started it" env DIWARP_PCAP="$TMP/other" "$TMP/setuid"
	check "... does as ever" [ "$OUT" = "$want" ]
	check "... and writes no file for him" [ ! -e "$TMP/other" ]
else
	skip "no program can have its owner's rights here"
fi
background "$TMP/listen" env DIWARP_PCAP="$TMP/busy" "$DIW" listen
eventually 10 listening 4791
run "a file that another process writes" env DIWARP_PCAP="$TMP/busy" "$DIW" ping -c 2 -W 60 -i 0.01 127.0.0.1
check "... is left to it" matches "$OUT" 'another process writes it.*2 sent, 2 received'
run "%p in the name" env DIWARP_PCAP="$TMP/of-%p-100%%" "$DIW" ping -c 2 -W 60 -i 0.01 127.0.0.1
check "... is the process id" ls "$TMP"/of-[0-9]*-100%
eventually 5 sh -c '[ "$("$0" dump --json -r "$1" | wc -l)" = 8 ]' "$DIW" "$TMP/busy"
json "what the listener captured is there while it runs" -r "$TMP/busy"
check "... at the wildcard address, and what came at the one that was asked" all 8 \
	'.dir == "in" and .dst == "127.0.0.1" or .dir == "out" and .src == "0.0.0.0"'

# ---- Live ----

# live OPTION...: starts a capture of lo and waits until it receives packets; PID is its process. The kernel binds its
# socket to a protocol when its buffer is ready: then /proc/net/packet shows both.
live() {
	background "$TMP/live" "$DIW" dump -i lo --json "$@"
	eventually 10 sees_or_ended
	kill -0 "$PID" 2> /dev/null
}
sees_or_ended() {
	awk 'FNR > 1 && $4 == "0003" && $6 == 1 { n++ } END { exit !n }' /proc/net/packet || ! kill -0 "$PID"
}

if ! live --qp 4791 -c 6; then
	skip "no live capture here: $(cat "$TMP/live")"
else
	live=$PID
	run "ping while lo is captured" "$DIW" ping -c 2 -W 60 -s 100k -i 0.01 127.0.0.1
	check "a live capture ends after what it was asked for" join "$live" 10
	grep '^{' "$TMP/live" > "$TMP/json"
	check "... and had the segments" all 6 '.op == "send" and .crc_good and .src == "127.0.0.1"'
	live --op write-record
	live=$PID
	run "every operation while lo is captured" timeout 300 "$prog"
	seven() { [ "$(grep -c '"length":10000' "$TMP/live")" -ge 7 ]; }
	eventually 5 seven
	kill -INT "$live"
	check "the live capture ends by SIGINT" join "$live" 10
	grep '^{' "$TMP/live" > "$TMP/json"
	check "... and had cut the super-buffer into its segments" all 7 \
		'.length == 10000 and .payload == 1250 and .crc_good'

	# ---- More packets than diw dump can process ----

	live --op send
	live=$PID
	kill -STOP "$live"
	run "pings while the live capture does not look" "$DIW" ping -c 300 -W 60 -i 0 127.0.0.1
	kill -CONT "$live"
	check "... are all in its buffer" eventually 5 lines 600 "$TMP/live"
	kill -STOP "$live"
	run "more than its buffer holds" "$DIW" perf bw --op write --local --secs 1
	kill -CONT "$live"
	sleep 0.2
	kill -INT "$live"
	join "$live" 20
	check "... is told" matches "$(< "$TMP/live")" '[1-9][0-9]* that came too fast to be captured'
fi
end
