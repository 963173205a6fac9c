#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Datagrams over io_uring: the report of diw info, the fallback where io_uring is forbidden, and a comparison with
# sockets by diw perf. tests/run NAME@uring runs another test over io_uring.
. "${0%/*}/../lib.sh"

# info LLP: prints the report about lo.
info() { DIWARP_LLP=$1 "${@:2}" $DIW info --json; }
why() { info uring | tail -n 1 | jq -r .llp_error; }

run "DIWARP_LLP of something else is udp" info tcp
check "... and told" matches "$OUT" 'DIWARP_LLP=tcp: not one of udp, uring; udp is used'
check "... so" holds '.llp == "udp"'
run "info, over sockets" info udp
check "... says so" holds '.device == "diw_lo" and .llp == "udp" and .llp_error == null'

# A library built without liburing reports this error before any other.
built=$(why)
[ "$built" = "Operation not supported" ] || built=

# Where io_uring is forbidden, sockets carry the datagrams and diw info shows the reason. Nothing else changes.
forbidden() { DIWARP_LLP=uring "$BUILD/tests/system/nouring" "$@"; }
if "$BUILD/tests/system/nouring" 1 true 2> "$TMP/why"; then
	for err in 1:"Operation not permitted" 38:"Function not implemented" 12:"Cannot allocate memory"; do
		run "info where io_uring_setup says ${err#*:}" info uring "$BUILD/tests/system/nouring" "${err%%:*}"
		check "... says so" holds ".llp == \"udp\" and .llp_error == \"${built:-${err#*:}}\""
	done
	run "info for people" forbidden 1 $DIW info
	check "... says so once a device" [ "$(grep -c 'io_uring *not used: Operation not' <<< "$OUT")" \
		-eq "$(grep -c '^diw_' <<< "$OUT")" ]
	background "$TMP/listen" env DIWARP_LLP=uring "$BUILD/tests/system/nouring" 1 $DIW listen
	check "a listener" eventually 10 listening 4791
	run "ping" forbidden 1 $DIW ping -c 10 -W 60 -i 0 127.0.0.1
	kill "$PID"
	expect 1 "perf --llp uring, which cannot compare" forbidden 1 $DIW perf lat --llp udp,uring --secs 0.1 --local
	check "... says so" matches "$OUT" 'io_uring: Operation not'
else
	skip "no seccomp filters: $(< "$TMP/why")"
fi

reason=$(why)
[ "$reason" = null ] || { skip "io_uring: $reason"; end; }
run "info, over io_uring" info uring
check "... says so" holds '.llp == "uring" and .llp_error == null'
received() { jq -e -s 'all(.[]; .bytes_valid > 0)' "$TMP/rows"; }
both() {
	run "perf $test, both in one run" perf_try $DIW perf $test --op send,write --llp udp,uring --local
	grep '^{' <<< "$OUT" > "$TMP/rows"
	check "... a row each" [ "$(jq -r .llp "$TMP/rows" | tr '\n' ' ')" = "udp uring udp uring " ]
}
for test in lat bw rate; do measured both "... all of which received" received; done
run "perf with a baseline" $DIW perf bw --llp uring,udp --against raw-udp --secs 0.3 --local --json
check "... both compared with it" \
	jq -e -s 'length == 3 and all(.[0, 1]; .ratio > 0) and .[0].llp == "uring" and .[2].llp == null' \
		<(grep '^{' <<< "$OUT")
expect 2 "--llp of something else" $DIW perf lat --llp udp,tcp --local
expect 2 "--llp twice the same" $DIW perf lat --llp udp,udp --local
end
