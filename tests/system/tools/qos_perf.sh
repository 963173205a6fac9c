#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# diw perf qos for a short time: the streams of UD, RD and RC share what their device sends by the weights. So they do
# on a link of 400 Mbit/s, where the kernel has a token bucket.
. "${0%/*}/../lib.sh"

every() { jq -e -s "length > 0 and all(.[]; $1)" "$TMP/rows" > /dev/null || { cat "$TMP/rows"; return 1; }; }
contains() { [[ $OUT == *"$1"* ]]; }
# qos OPTION...: the rows of a run, in $TMP/rows: of a short one, and of longer ones if that got no processor.
qos() {
	local secs=([1]=0.2 1 5)
	STATUS=0
	$DIW perf qos "$@" --secs "${secs[TRY]}" --local --json > "$TMP/rows" 2> "$TMP/err" || STATUS=$?
}
ran() { [ $STATUS -eq 0 ] || { cat "$TMP/err"; return 1; }; }
sums() { every '.test == "qos" and .GBps > 0 and (.stream_GBps | length) == .nprefer + .nbeside and
	all(.stream_GBps[]; . >= 0) and ((.stream_GBps | add) - .GBps | fabs) < 0.01 * .GBps and
	((.prefer_GBps + .beside_GBps) - .GBps | fabs) < 0.01 * .GBps'; }
# shared WHAT OPTION...
shared() {
	local what=$1
	shift
	measured "qos $*" "$what: perf qos $*" ran "... messages have come, and the sums are right" sums \
		"... the preferred streams send more" more
}
# Octets that have left, whatever the receiver's sockets have lost. tests/sim/arbiter.c judges the exact shares.
more() { every '.sent_ratio == null or .sent_ratio > 2'; }

for qp in ud rd rc; do
	shared "$qp" --prefer $qp --beside $qp --weight 16 --size 8k
done
shared "RC beside RD" --prefer rc:3 --beside rd --weight 16 --size 64k
shared "a class blocks the other" --mode blocking --prefer rc --beside rc --weight 2,64 --size 64k
check "... a row a weight, of that mode" \
	jq -e -s 'map(.weight) == [2, 64] and all(.[]; .mode == "blocking")' "$TMP/rows"
if tc qdisc add dev lo root tbf rate 400mbit burst 128k limit 4m 2> "$TMP/tc"; then
	shared "a slow link" --prefer ud --beside ud --weight 16 --size 8k
	tc qdisc del dev lo root
else
	skip "no token bucket: $(head -n 1 "$TMP/tc")"
fi

expect 2 "a weight of 0" $DIW perf qos --local --weight 0
expect 2 "a weight of 256" $DIW perf qos --local --weight 1,256
expect 2 "a mode that there is not" $DIW perf qos --local --mode strict
check "... is named" contains strict
expect 2 "a type that has no streams here" $DIW perf qos --local --prefer uc
expect 2 "no streams" $DIW perf qos --local --beside rc:0
expect 2 "too many streams" $DIW perf qos --local --prefer ud:17
expect 2 "no place" $DIW perf qos --weight 2
expect 2 "an argument" $DIW perf qos bw --local
expect 2 "a size above the limit" $DIW perf qos --local --size 2m
expect 1 "a server that is not there" $DIW perf qos --connect 127.0.0.1 --port 9

# A client that asks for streams that there are not, and one that goes away.
$DIW perf --server --bind 127.0.0.1 --port 4999 2> "$TMP/server" &
server=$!
check "a server listens" eventually 10 grep -q serving "$TMP/server"
ask() { python3 - "$1" << 'END'
import socket, sys
s = socket.create_connection(("127.0.0.1", 4999), 5)
s.settimeout(5)
s.sendall(sys.argv[1].encode() + b"\n")
print(s.recv(4096).decode())
END
}
for streams in '"nprefer":1e9,"nbeside":1,"size":64' '"nprefer":-1,"nbeside":1,"size":64' \
	'"nprefer":31,"nbeside":31,"size":64' '"nprefer":1,"nbeside":1,"size":1e18' '"nprefer":1,"nbeside":1'; do
	run "a client asks for {$streams}" ask '{"do":"qos","prefer":"ud","beside":"rc",'"$streams"'}'
	check "... and is refused" contains 'does not know those streams'
done
run "a client goes away before it begins" \
	ask '{"do":"qos","prefer":"ud","beside":"rc","nprefer":1,"nbeside":1,"size":64}'
check "... it was told the ports" contains ports
run "the server serves the next client" $DIW perf qos --connect 127.0.0.1 --port 4999 --weight 2 --secs 1
kill $server
end
