#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# diw dump and the Wireshark dissector show the same values of each field in captures of reliable datagrams.
. "${0%/*}/../lib.sh"

lua=tools/wireshark/diwarp.lua
export LC_ALL=C TZ=UTC
fields="rd_kind rd_ask rd_tag rd_number rd_ack rd_window rd_own_tag rd_own_epoch rd_first op opcode tagged last qn stag"
fields+=" to msn mo qkey epoch length payload sink_stag sink_to read_length source_stag source_to crc crc_good fault"

# count EXPRESSION: how many objects of the dump match.
count() { jq -s "[.[] | select($1)] | length" "$TMP/json"; }
some() { [ "$(count "$1")" -gt 0 ] || { echo "none: $1"; return 1; }; }
none() { [ "$(count "$1")" -eq 0 ] || { echo "$(count "$1"): $1"; return 1; }; }

for op in send write read fetch-add; do
	file=$TMP/$op.pcapng
	run "$op over RD, captured" env DIWARP_PCAP="$file" timeout 60 "$DIW" perf lat --local --qp rd --op $op \
		--secs 0.05
	run "diw dump reads it" sh -c '"$0" dump --json -r "$1" > "$2"' "$DIW" "$file" "$TMP/json"
	check "... two that come to know each other" some '.rd_kind == "open" and .rd_own_epoch != "0x00000000"'
	check "... by a GRANT" some '.rd_kind == "grant" and .rd_own_tag'
	check "... the first segment announces its sender" some '.rd_kind == "data" and .rd_first == .rd_number'
	check "... acknowledgements" some '.rd_ack and .rd_window > 0'
	case $op in
	send) check "... Sends" some '.op == "send" and .length == 64' ;;
	write) check "... Write-Records" some '.op == "write-record" and .stag and .length == 64' ;;
	read) check "... Read Requests, and Responses" [ "$(count '.read_length == 64')" -gt 0 -a \
		"$(count '.op == "read-response"')" -gt 0 ] ;;
	*) check "... Atomic Requests, and Responses" [ "$(count '.op == "atomic-request" and .payload == 52')" -gt 0 \
		-a \
		"$(count '.op == "atomic-response" and .payload == 12')" -gt 0 ] ;;
	esac
	check "... and none is faulty" none '.fault or .crc_good == false'
	if ! command -v tshark > /dev/null; then
		skip "no tshark"
		continue
	fi
	# shellcheck disable=SC2046,SC2086
	tshark -X "lua_script:$lua" -r "$file" -T fields $(printf -- '-e diwarp.%s ' $fields) > "$TMP/all" 2> "$TMP/err"
	n=0
	for field in $fields; do
		n=$((n + 1))
		cut -f $n "$TMP/all" > "$TMP/got"
		jq -r "if .$field == null then \"\" elif .$field == true then 1 elif .$field == false then 0
			else .$field end" "$TMP/json" > "$TMP/want"
		check "tshark and diw dump agree on $field of $op" diff "$TMP/want" "$TMP/got"
	done
done
end
