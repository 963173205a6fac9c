#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# diw stat shows the counters of running processes. It handles pages of dead processes, of other users, and of no
# process.
. "${0%/*}/../lib.sh"

# A /dev/shm for this test alone: it shows no other processes, and the test can fill it.
if [ -z "${DIW_TEST_SHM:-}" ]; then
	export DIW_TEST_SHM=1
	if unshare -m mount -t tmpfs -o size=4m,mode=1777 tmpfs /dev/shm 2> /dev/null; then
		rm -rf "$TMP"
		exec unshare -m "$BASH" \
			-c 'mount -t tmpfs -o size=4m,mode=1777 tmpfs /dev/shm && exec "$BASH" "$0" "$@"' "$SELF"
	fi
	skip "no mount namespace here"
	end
fi
STAT="$DIW stat"
# jsons EXPRESSION: EXPRESSION is true of the array of all objects that the last command printed.
jsons() { grep '^{' <<< "$OUT" | jq -e -s "$1" > "$TMP/jq" || { echo "not so: $1, of: $OUT"; return 1; }; }
pages() { find /dev/shm -name 'diwarp.*' | wc -l; }
says() { matches "$OUT" "$1"; }

expect 1 "nobody shows anything" $STAT
check "... and it says so" says 'no process shows counters'
run "... which is nothing to scrape" $STAT --prometheus
check "... nothing" [ -z "$OUT" ]

# A program that knows its own counters.
mkfifo "$TMP/stdin"
exec 3<> "$TMP/stdin"
"$BUILD/tests/system/stat" < "$TMP/stdin" > "$TMP/self" 2>&1 &
SELFPID=$!
JOBS+=("$SELFPID")
lines() { [ "$(wc -l < "$TMP/self")" -eq 2 ]; }
check "a program with two queue pairs" eventually 20 lines
run "stat PID" $STAT $SELFPID --json
grep '^{' <<< "$OUT" | jq -S '{local, gauges, counters}' | jq -s -S 'sort_by(.local)' > "$TMP/shown"
jq -S . "$TMP/self" | jq -s -S 'sort_by(.local)' > "$TMP/counted"
check "... shows exactly the counters of diw_qp_counters() and the states of diw_qp_query()" \
	diff "$TMP/shown" "$TMP/counted"
check "... of two queue pairs with drops, records and Reads" jsons '
	length == 2 and any(.[]; .counters.rx_crc > 0) and
	any(.[]; .counters.record_closed_window > 0 and .gauges.records_held > 0) and
	any(.[]; .counters.read_timeouts > 0) and any(.[]; .counters.impair_lost > 0) and any(.[]; .tx_fill > 1)'
check "... with all that identifies them" \
	jsons "all(.[]; .pid == $SELFPID and .uid == $(id -u) and .program == \"stat\" and .device == \"diw_lo\" and
		.type == \"UD\" and .qp > 0)"
run "a person can read it" $STAT $SELFPID
for what in 'partial: [0-9]+ window' 'rx_crc [0-9]+' 'impair_lost [0-9]+' '[1-9][0-9]* timeouts' \
	'datagrams of .*, [0-9.]+ a burst'; do
	check "... $what" says "$what"
done
run "Prometheus can" $STAT --prometheus
prometheus() {
	local rx
	rx=$(jq -s 'map(.counters.rx_crc) | add' "$TMP/self")
	grep "^diwarp_rx_crc_total{pid=\"$SELFPID\",qp=\"[0-9]*\",device=\"diw_lo\"," <<< "$OUT" |
		grep -c ",local=\"127.0.0.1:[0-9]*\"} [0-9]*$" |
		grep -qx 2 && [ "$(awk '/^diwarp_rx_crc_total/ { n += $2 } END { print n }' <<< "$OUT")" -eq "$rx" ]
}
check "... its samples" prometheus
check "... each metric once, with HELP and TYPE, its samples together" awk '
	/^# HELP diwarp_[a-z0-9_]+ ./ { help = $3; next }
	/^# TYPE diwarp_[a-z0-9_]+ (counter|gauge)$/ { if ($3 != help || seen[$3]++) exit 1; type = $3; next }
	{ name = $1; sub(/\{.*/, "", name); if (name != type || NF != 2 || again[$1]++) exit 1; n++ }
	END { exit n < 100 }' "$TMP/out"
documented() {
	for name in $(jq -r '.counters, .gauges | keys[]' "$TMP/self" | sort -u); do
		grep -q "^\.It Li $name\$" man/diwarp.7 || { echo "$name is not in diwarp(7)"; return 1; }
	done
}
check "every name is in diwarp(7)" documented

# diw's own commands have counters as well.
background "$TMP/listen" $DIW listen
LISTEN=$PID
check "diw listen" eventually 10 listening 4791
run "... is pinged" $DIW ping -c 7 -W 60 -i 0 127.0.0.1
run "... and seen" $STAT $LISTEN --json
settled() { OUT=$($STAT $LISTEN --json) && jsons "$1"; }
check "... with what came" eventually 5 settled \
	'.[0].counters.rx_messages == 7 and .[0].counters.tx_messages == 7 and .[0].qp == 4791'
check "... its state as it sleeps" eventually 5 settled '.[0].gauges.rq_posted > 0 and .[0].gauges.sq_pending == 0'
background "$TMP/server" $DIW perf --server --port 4801
SERVER=$PID
check "a perf server" eventually 10 listening 4801
background "$TMP/client" $DIW perf bw --op write --size 64k --connect 127.0.0.1 --port 4801 --secs 600
CLIENT=$PID
busy() { $STAT "$SERVER" --json > "$TMP/busy" 2>&1 && jq -e 'select(.counters.rx_messages > 100)' "$TMP/busy"; }
check "... is seen under load" eventually 10 busy
$STAT $SERVER --watch 0.3 > "$TMP/watch" 2>&1 &
WATCH=$!
JOBS+=("$WATCH")
check "... with rates, by --watch" eventually 5 grep -Eq '[1-9][0-9]* messages/s' "$TMP/watch"
kill $WATCH
check "... which ends well by a signal" join $WATCH 5
run "all are listed without a PID" $STAT --json
check "... with this one, too" jsons "map(.pid) | unique | contains([$LISTEN, $SELFPID])"

# A process that ends removes its page. The page of a killed process stays.
pages_before=$(pages)
kill $LISTEN
check "listen ends" join $LISTEN 5
check "... and so does its page" [ "$(pages)" -eq $((pages_before - 1)) ]
expect 1 "... there is no such process" $STAT $LISTEN
check "... it says so" says "there is no process $LISTEN"
kill -9 $SERVER
wait $SERVER 2> /dev/null
kill $CLIENT 2> /dev/null
wait $CLIENT 2> /dev/null
expect 1 "a killed process" $STAT $SERVER
check "... is recognised by its page" says 'process is dead; the page was removed'
expect 1 "... which is gone then" $STAT $SERVER
check "... and only then" says "there is no process $SERVER"
background "$TMP/kill" $DIW listen --port 4900
KILLED=$PID
check "another one" eventually 10 listening 4900
kill -9 $KILLED
wait $KILLED 2> /dev/null
cp /dev/shm/diwarp.$KILLED.* "$TMP/page"
expect 1 "a process that comes after the dead" $DIW ping -c 1 -W 0.01 127.0.0.1
swept() { ! ls /dev/shm/diwarp.$KILLED.* 2> /dev/null; }
check "... has removed their pages" swept

# Processes without a page.
run "DIWARP_STAT=off works" env DIWARP_STAT=off $DIW perf bw --op write --size 64k --secs 0.2 --local --json
# flows WHAT COMMAND...: bytes arrive, in a short run or in a longer one if that got no processor.
flows() {
	local what=$1 by=("${@:2}")
	measured flow "... all of it" "holds '.bytes_valid > 0'"
}
flow() { run "$what" perf_try "${by[@]}" $DIW perf bw --op write --size 64k --local; }
background "$TMP/off" env DIWARP_STAT=off $DIW listen --port 4901
check "a process that shows nothing" eventually 10 listening 4901
expect 1 "... cannot be seen" $STAT $PID
check "... it says why" says 'shows no counters: .*DIWARP_STAT=off'
hostile() {
	expect 1 "$1" $STAT 4242
	check "... $2" says "$2"
	rm -rf /dev/shm/diwarp.4242.*
}
P=/dev/shm/diwarp.4242.00
: > $P; hostile "an empty page" 'not a page of counters'
head -c 5000 /dev/urandom > $P; hostile "garbage" 'not a page of counters'
truncate -s 1g $P; hostile "a huge page" 'too large'
ln -s /etc/passwd $P; hostile "a symbolic link" 'a symbolic link'
mkfifo $P; hostile "a pipe" 'not a file'
mkdir $P; hostile "a directory" 'not a file'
held() { background "$TMP/held" "$BUILD/tests/system/hold" $P; eventually 10 grep -q held "$TMP/held"; }
truncate -s 5000 $P
check "a page that is not finished, of a living process" held
run "... is no fault" $STAT --prometheus
check "... and nothing is said of it" matches "$OUT" '^# HELP'
expect 1 "... nor anything shown" $STAT $PID
check "... for it has no queue pair yet" says 'shows no counters: no queue pair'
truncate -s 8m $P
printf '\001' | dd of=$P conv=notrunc status=none
expect 1 "what a living process holds and is no page" $STAT $PID
check "... is told" says 'not a page of counters'
kill $PID
rm $P
live=$(echo /dev/shm/diwarp.$SELFPID.*)
cp "$live" "$TMP/live"
truncate -s 5000 "$live"
expect 1 "a page that was cut while its process lives" $STAT $SELFPID
check "... truncated" says 'truncated'
cat "$TMP/live" > "$live"
run "... and is whole again" $STAT $SELFPID
printf 'x' | dd of="$live" bs=1 seek=8 conv=notrunc status=none
expect 1 "a page of another version" $STAT $SELFPID
check "... another version" says 'another version'
cat "$TMP/live" > "$live"

# A forged page: the content of a true page, held by a process, but with a mode or a second link that diwarp's pages
# never have.
cp "$TMP/live" $P
chmod 644 $P
check "a page that others may read, held by a process" held
expect 1 "... is not believed" $STAT $PID
check "... for its mode" says 'not as diwarp makes it'
chmod 600 $P
run "... as it is with the right one" $STAT $PID
ln $P $P.1
expect 1 "... nor with a second name" $STAT $PID
check "... it says so" says 'a second link'
kill $PID
rm -f $P $P.1

# Pages of another user.
as_user() { setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all env HOME=/ "$@"; }
mkdir -p "$TMP/bin"
cp "$BUILD/bin/diw" "$TMP/bin/diw"
chmod 755 "$TMP" "$TMP/bin"
if as_user true 2> /dev/null; then
	expect 1 "an ordinary user cannot look at root's process" as_user "$TMP/bin/diw" stat $SELFPID
	check "... it says whose it is" says 'another user: only that user and root may read its counters'
	expect 1 "... nor find it" as_user "$TMP/bin/diw" stat
	check "... but learns that there is something" says 'pages of other users: [1-9]'
	background "$TMP/user" as_user "$TMP/bin/diw" listen --port 4902
	check "an ordinary user's process" eventually 10 listening 4902
	users() { $STAT --json | jq -e 'select(.uid == 65534 and .qp == 4902)'; }
	check "... is seen by root" users
	check "... and by that user" as_user "$TMP/bin/diw" stat --json
	USERS=$($STAT --json | jq 'select(.uid == 65534 and .qp == 4902).pid')
	kill -9 "$USERS"
	gone() { ! kill -0 "$USERS" 2> /dev/null; }
	check "it is killed" eventually 10 gone
	expect 1 "... and leaves its page" $STAT "$USERS"
	check "... is removed by root, too" says 'process is dead; the page was removed'
else
	skip "no second user here"
fi

# No room for a page: diw stat shows nothing, and the traffic goes on.
head -c 8m /dev/zero > /dev/shm/full 2> /dev/null
flows "with /dev/shm full traffic flows"
background "$TMP/full" $DIW listen --port 4903
check "... a process works" eventually 10 listening 4903
expect 1 "... unseen" $STAT $PID
check "... and stat says so" says 'shows no counters: .*found no room'
rm /dev/shm/full
flows "under a limit of file sizes traffic flows" bash -c 'ulimit -f 64; exec "$0" "$@"'
mount -t tmpfs -o size=4m,mode=000,ro tmpfs /dev/shm
flows "without a writable /dev/shm traffic flows"
umount /dev/shm

exec 3>&-
kill $SELFPID 2> /dev/null
background "$TMP/rc" $DIW perf lat --qp rc --op send --secs 600 --local
rc_shown() { $STAT | grep -A1 ' to .* RC on ' | grep -q 'FPDUs of .*, [0-9.]* a burst'; }
check "RC queue pairs: with the peer, and FPDUs" eventually 10 rc_shown
kill "$PID"
join "$PID" 5

# The peers of an RD queue pair: a perf server and its client. Each has a row with the other as its peer.
background "$TMP/server" $DIW perf --server --port 4802
SERVER=$PID
check "a perf server for RD" eventually 10 listening 4802
background "$TMP/client" env DIWARP_IMPAIR=loss=10%,seed=3 \
	$DIW perf lat --qp rd --op send --wait --connect 127.0.0.1 --port 4802 --secs 600
CLIENT=$PID
rd_rows() {
	OUT=$($STAT $CLIENT --json) && holds '.type == "RD" and .all_peers == 1 and (.peers | length) == 1 and
		.peers[0].window > 0 and .peers[0].srtt_us > 0 and .peers[0].retransmits > 0' &&
		PEER=$(field '.peers[0].address') &&
		OUT=$($STAT $SERVER --json) && [ "$(field .local)" = "$PEER" ] &&
		[ "$(field '.peers[0].address')" = "$($STAT $CLIENT --json | jq -r .local)" ]
}
check "RD queue pairs: a row a peer, at both ends" eventually 10 rd_rows
run "a person can read it" $STAT $CLIENT
check "... the peer's row" says \
	"peer +$PEER: window [1-9][0-9]*, [0-9]+ under way, round trip [0-9.]+ us, [1-9][0-9]* sent"
end
