#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# diw ping and listen, on lo and between two namespaces.
. "${0%/*}/../lib.sh"
PING="$DIW ping -W 60"          # a busy machine may delay an answer

background "$TMP/listen" $DIW listen --json
LISTEN=$PID
check "listen binds its port" eventually 10 listening 4791
for host in 127.0.0.1 ::1; do
	run "ping $host on lo" $PING -c 20 -i 0 --json $host
	check "$host answered every time" holds '.sent == 20 and .received == 20 and .loss_percent == 0'
	check "the round trip of $host was measured" holds '0 < .rtt_us_min and .rtt_us_min <= .rtt_us_p50 and
		.rtt_us_p50 <= .rtt_us_p99 and .rtt_us_p99 <= .rtt_us_max'
	run "a message of 300 KiB comes back from $host" $PING -c 3 -i 0 -s 300k $host
done
check "listen takes RC connections" eventually 10 accepting 4791
for host in 127.0.0.1 ::1; do
	run "ping $host over RC on lo" $PING --qp rc -c 20 -i 0 --json $host
	check "$host answered every time over RC" holds '.qp == "rc" and .sent == 20 and .received == 20 and
		.loss_percent == 0 and 0 < .rtt_us_min and .rtt_us_min <= .rtt_us_max'
done
run "a message of 1 MiB comes back over RC" $PING --qp rc -c 3 -i 0 -s 1m 127.0.0.1
check "a person can read ping" matches "$OUT" 'round trip min/p50/p99/max'
kill -TERM $LISTEN
check "listen ends well by SIGTERM" join $LISTEN 5
OUT=$(< "$TMP/listen")
check "listen counted what it echoed" holds '.messages == 89 and .unsent == 0 and .rc_connections == 3'
expect 1 "nobody to connect to" $PING --qp rc 127.0.0.1
check "... is said" matches "$OUT" "refused.*diw listen"

# By reliable datagrams. Both ends must have the same type.
background "$TMP/listen" $DIW listen --qp rd --json
LISTEN=$PID
check "listen for RD binds its port" eventually 10 listening 4791
for host in 127.0.0.1 ::1; do
	run "ping $host over RD on lo" $PING --qp rd -c 20 -i 0 --json $host
	check "$host answered every time over RD" holds '.qp == "rd" and .sent == 20 and .received == 20 and
		.duplicates == 0 and 0 < .rtt_us_min and .rtt_us_min <= .rtt_us_max'
	run "a message of 1 MiB comes back from $host over RD" $PING --qp rd -c 3 -i 0 -s 1m $host
done
check "listen for RD takes RC connections" eventually 10 accepting 4791
run "ping over RC beside RD" $PING --qp rc -c 3 -i 0 127.0.0.1
expect 1 "ping by UD gets no answer of a listener for RD" $DIW ping -c 1 -W 0.5 127.0.0.1
check "... and says what is missing" matches "$OUT" "is 'diw listen' running there, without --qp rd"
kill -TERM $LISTEN
check "listen for RD ends well by SIGTERM" join $LISTEN 5
OUT=$(< "$TMP/listen")
check "listen counted what it echoed over RD" holds '.messages == 49 and .unsent == 0 and .rc_connections == 1'
expect 1 "nobody answers over RD" $DIW ping --qp rd -c 1 -W 0.5 127.0.0.1
check "... it says what is missing" matches "$OUT" "is 'diw listen --qp rd' running"

# More connections than a listener serves: the listener refuses the others. It has a place again when a connection ends.
background "$TMP/listen" $DIW listen
LISTEN=$PID HELD=()
check "listen again" eventually 10 accepting 4791
for i in {1..16}; do
	background "$TMP/held$i" $PING --qp rc -c 1000 -i 0.5 127.0.0.1
	HELD+=("$PID")
done
all_answered() { for i in {1..16}; do grep -q 'seq 1' "$TMP/held$i" || return 1; done; }
check "sixteen connections are served at once" eventually 20 all_answered
expect 1 "the seventeenth is refused" $PING --qp rc -c 1 127.0.0.1
check "... with the reason" matches "$OUT" 'too many connections'
run "datagrams are echoed all the same" $PING -c 1 127.0.0.1
kill -KILL "${HELD[0]}"
check "the place of one that died is free" eventually 5 $PING --qp rc -c 1 127.0.0.1
kill -TERM $LISTEN
check "listen ends with connections" join $LISTEN 5
expect 1 "ping ends when its connection does" join "${HELD[1]}" 5
check "... and says so" grep -q 'connection has ended' "$TMP/held2"

background "$TMP/perf" $DIW perf --server
check "the TCP port is taken" eventually 10 accepting 4791
background "$TMP/listen" $DIW listen --json
LISTEN=$PID
udp_bound() { ss -Huln "sport = :4791" | grep -q .; }
check "listen serves UD beside it" eventually 10 udp_bound
run "ping by datagrams" $PING -c 1 127.0.0.1
kill -TERM $LISTEN
check "listen ends" join $LISTEN 5
check "it has said that there is no RC" grep -q 'TCP port 4791.*datagrams only' "$TMP/listen"

matches_any() { [ -n "$("$@")" ]; }
for mtu in 1500 9000; do
	two_namespaces $mtu || { skip "no veth pair here"; break; }
	background "$TMP/listen" in_b $DIW listen
	check "listen in the other namespace, MTU $mtu" eventually 10 listening 4791 in_b
	check "... takes RC connections" eventually 10 accepting 4791 in_b
	for host in $B4 $B6; do
		run "ping $host over RC, MTU $mtu" $PING --qp rc -c 20 -i 0 --json $host
		check "$host answered every time over RC, MTU $mtu" holds '.qp == "rc" and .received == 20'
		run "messages of many FPDUs, $host, MTU $mtu" $PING --qp rc -c 3 -i 0 -s 1m $host
		run "ping $host, MTU $mtu" $PING -c 20 -i 0 --json $host
		check "$host answered every time, MTU $mtu" holds '.received == 20'
		run "messages of many segments, $host, MTU $mtu" $PING -c 3 -i 0 -s 100k $host
	done
done

link_local() { in_b ip -6 addr show dev vb scope link -tentative | sed -n 's/.*inet6 \(fe80[^/]*\).*/\1/p'; }
if eventually 5 matches_any link_local; then
	run "a link-local address with its scope" $PING -c 5 -i 0 --json "$(link_local)%va"
	check "it answered every time" holds '.received == 5'
	run "the same over RC" $PING --qp rc -c 5 -i 0 --json "$(link_local)%va"
	check "it answered every time over RC" holds '.received == 5'
else
	skip "vb got no link-local address"
fi
silent() { ! listening 4791 in_b; }
[ -z "${HOLDER:-}" ] || { kill -TERM "$PID"; check "nothing stays behind in the other namespace" eventually 5 silent; }
end
