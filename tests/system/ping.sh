#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# diw ping and listen, on lo and between two namespaces.
. "${0%/*}/lib.sh"

background "$TMP/listen" $DIW listen --json
LISTEN=$PID
check "listen binds its port" eventually 10 listening 4791
for host in 127.0.0.1 ::1; do
	run "ping $host on lo" $DIW ping -c 20 -i 0 --json $host
	check "$host answered every time" holds '.sent == 20 and .received == 20 and .loss_percent == 0'
	check "the round trip of $host was measured" holds '0 < .rtt_us_min and .rtt_us_min <= .rtt_us_p50 and
		.rtt_us_p50 <= .rtt_us_p99 and .rtt_us_p99 <= .rtt_us_max'
	run "a message of 300 KiB comes back from $host" $DIW ping -c 3 -i 0 -s 300k $host
done
check "a person can read ping" matches "$OUT" 'round trip min/p50/p99/max'
kill -TERM $LISTEN
check "listen ends well by SIGTERM" join $LISTEN 5
OUT=$(< "$TMP/listen")
check "listen counted what it echoed" holds '.messages == 46 and .unsent == 0'

matches_any() { [ -n "$("$@")" ]; }
for mtu in 1500 9000; do
	two_namespaces $mtu || { skip "no veth pair here"; break; }
	background "$TMP/listen" in_b $DIW listen
	check "listen in the other namespace, MTU $mtu" eventually 10 listening 4791 in_b
	for host in $B4 $B6; do
		run "ping $host, MTU $mtu" $DIW ping -c 20 -i 0 --json $host
		check "$host answered every time, MTU $mtu" holds '.received == 20'
		run "messages of many segments, $host, MTU $mtu" $DIW ping -c 3 -i 0 -s 100k $host
	done
done

link_local() { in_b ip -6 addr show dev vb scope link -tentative | sed -n 's/.*inet6 \(fe80[^/]*\).*/\1/p'; }
if eventually 5 matches_any link_local; then
	run "a link-local address with its scope" $DIW ping -c 5 -i 0 --json "$(link_local)%va"
	check "it answered every time" holds '.received == 5'
else
	skip "vb got no link-local address"
fi
silent() { ! listening 4791 in_b; }
[ -z "${HOLDER:-}" ] || { kill -TERM "$PID"; check "nothing stays behind in the other namespace" eventually 5 silent; }
end
