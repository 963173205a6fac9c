#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The libfabric provider by libfabric's calls (fabric*.c), in all modes and with loss, and by fi_info and
# fi_pingpong.
. "${0%/*}/../lib.sh"
[ -e "$BUILD/lib/diwarp/fi/libdiwarp-fi.so" ] || { skip "built without libfabric-dev"; end; }
[ "$MODE" = release ] || [ "$MODE" = debug ] || { skip "libfabric cannot load a provider built for a sanitizer"; end; }
export FI_PROVIDER_PATH=$BUILD/lib/diwarp/fi
two_namespaces 1500 || { not_ok "two network namespaces"; end; }

# What diw stat shows of the program that executes this command, time after time.
SHOW="'$DIW' stat --json \$PPID >> '$TMP/shown'"
most() { jq -s "map(.counters.fabric_$1) | max" "$TMP/shown"; }
# shows COUNTER...: diw stat showed more than 0 of each.
shows() { for name; do [ "$(most "$name")" -gt 0 ] || { echo "fabric_$name: $(most "$name")"; return 1; }; done; }
# shows_logged COUNTER...: what was logged when the endpoint was closed, too.
shows_logged() {
	shows "$@" || return 1
	for name; do
		logged=$(sed -n "s/.*dropped messages: $name \([0-9]*\)\$/\1/p" <<< "$OUT" | tail -n 1)
		[ "$(most "$name")" = "$logged" ] || { echo "$name: $(most "$name"), logged: $logged"; return 1; }
	done
}

for mode in write-record read sendrecv; do
	run "messages of every kind, $mode" env FI_DIWARP_MODE=$mode timeout 300 "$BUILD/tests/system/fabric" diw_lo
	check "... to the end" matches "$OUT" '(^|
)done$'
	rm -f "$TMP/shown"
	run "... to a peer that keeps to no protocol" env FI_DIWARP_MODE=$mode FI_LOG_LEVEL=warn timeout 300 \
		"$BUILD/tests/system/fabric_hostile" diw_lo "$SHOW"
	check "... the first dropped message is logged" matches "$OUT" 'dropped messages: malformed 1($|
)'
	check "... diw stat shows how many were dropped" shows_logged malformed stray flood
	run "... with loss, duplicates and reordering" env FI_DIWARP_MODE=$mode \
		DIWARP_IMPAIR=loss=1%,dup=1%,reorder=1%,seed=3 \
		timeout 300 "$BUILD/tests/system/fabric" diw_va
done
for keys in "" keys; do
	run "reads and writes of memory${keys:+, keys of the application}" \
		timeout 300 "$BUILD/tests/system/fabric_rma" diw_lo $keys
	check "... to the end" matches "$OUT" '(^|
)done$'
done
by_memory() { [ "$(jq -s 'map(.counters | .shm_tx_datagrams + .shm_tx_bytes) | max' "$TMP/shown")" -gt 0 ]; }
for mode in write-record sendrecv rc; do
	rm -f "$TMP/shown"
	background "$TMP/watch" sh -c "
		until [ -e '$TMP/id' ]; do sleep 0.1; done
		while [ -e '$TMP/id' ]; do
			'$DIW' stat --json \$(cat '$TMP/id') >> '$TMP/shown'
			sleep 0.2
		done"
	# shellcheck disable=SC2016  # of the inner shell
	run "messages of every kind by shared memory, $mode" env DIWARP_LOOPBACK=memory FI_DIWARP_MODE=$mode \
		timeout 300 sh -c 'echo $$ > "$0"; exec "$@"' "$TMP/id" "$BUILD/tests/system/fabric" diw_lo
	rm "$TMP/id"
	check "... to the end" matches "$OUT" '(^|
)done$'
	join "$PID" 10
	check "... diw stat shows that they went by memory" by_memory
done
run "calls that move no data" timeout 300 "$BUILD/tests/system/fabric_calls" diw_lo
run "objects, and what is bound to them" timeout 300 "$BUILD/tests/system/fabric_objects" diw_lo
run "a peer that is gone" timeout 300 "$BUILD/tests/system/fabric_gone" diw_lo
run "a peer that is stopped, or restarts" timeout 300 "$BUILD/tests/system/fabric_apart" diw_lo
check "... to the end" matches "$OUT" '(^|
)done$'
for mode in write-record rc; do
	rm -f "$TMP/shown"
	run "a peer that sends 1 GiB to an endpoint that does not receive, $mode" env FI_DIWARP_MODE=$mode \
		FI_DIWARP_BUFFERED=16777216 FI_LOG_LEVEL=warn timeout 300 \
		"$BUILD/tests/system/fabric_flood" diw_lo "$SHOW"
	check "... to the end" matches "$OUT" '(^|
)done$'
	check "... it was held" matches "$OUT" 'peers held, since their messages found no receive: [1-9]'
	check "... diw stat shows it" shows held
	run "a peer that ends while others only wait for it, $mode" env FI_DIWARP_MODE=$mode timeout 400 \
		"$BUILD/tests/system/fabric_died" diw_lo
	check "... to the end" matches "$OUT" '(^|
)done$'
done
counts() { [ "$(jq -s "map(.counters.$1) | max" "$TMP/shown")" -gt 0 ]; }
for mode in write-record rc; do
	rm -f "$TMP/shown"
	run "short messages that travel together, $mode" env FI_DIWARP_MODE=$mode FI_DIWARP_EAGER=512 \
		FI_DIWARP_BUFFERED=1048576 timeout 300 "$BUILD/tests/system/fabric_packed" diw_lo "$SHOW"
	check "... to the end" matches "$OUT" '(^|
)done$'
	check "... diw stat shows that they did" counts tx_appended
done
run "... with loss, duplicates and reordering" env DIWARP_IMPAIR=loss=1%,dup=1%,reorder=1%,seed=3 \
	FI_DIWARP_EAGER=512 FI_DIWARP_BUFFERED=1048576 timeout 300 "$BUILD/tests/system/fabric_packed" diw_va
run "atomic operations" timeout 300 "$BUILD/tests/system/fabric_atomic" diw_lo
run "automatic progress" timeout 300 "$BUILD/tests/system/fabric_auto" diw_lo
for program in fabric fabric_rma fabric_atomic; do
	run "... for $program" env FABRIC_AUTO=1 timeout 300 "$BUILD/tests/system/$program" diw_lo
done
for what in rma atomic; do
	run "... with loss, duplicates and reordering, $what" env DIWARP_IMPAIR=loss=1%,dup=1%,reorder=1%,seed=3 \
		timeout 300 "$BUILD/tests/system/fabric_$what" diw_va
done
for mode in write-record rc; do
	for auto in "" 1; do
		run "children of fork, $mode${auto:+, automatic progress}" env FI_DIWARP_MODE=$mode \
			${auto:+FABRIC_AUTO=1} timeout 100 "$BUILD/tests/system/fabric_fork" diw_lo
	done
done
for setting in qkey=4294967296 qkey=job mode=rc,writes eager=1 buffered=1; do
	name=FI_DIWARP_${setting%%=*}
	expect 1 "a setting that cannot be obeyed: $setting" env "${name^^}=${setting#*=}" \
		timeout 60 "$BUILD/tests/system/fabric" diw_lo
	check "... no provider, and the log says why" matches "$OUT" "setting ${setting%%=*} of the libfabric provider"
	check "... nothing was sent" [ "$(grep -c right: <<< "$OUT")" = 0 ]
done
run "an eager limit that nothing is below of" env FI_DIWARP_EAGER=512 timeout 300 "$BUILD/tests/system/fabric" diw_lo

for mode in rc rc,read rc,sendrecv; do
	for program in fabric fabric_rma fabric_atomic fabric_rc; do
		run "over RC queue pairs, $mode: $program" env FI_DIWARP_MODE=$mode timeout 300 \
			"$BUILD/tests/system/$program" diw_lo
		check "... to the end" matches "$OUT" '(^|
)done$'
	done
done
rm -f "$TMP/shown"
run "over RC: strangers" env FI_DIWARP_MODE=rc FI_LOG_LEVEL=warn timeout 300 \
	"$BUILD/tests/system/fabric_rc" diw_lo "$SHOW"
check "... they are logged" matches "$OUT" 'dropped messages: refused 1($|
)'
check "... and diw stat shows it" shows refused
rm -f "$TMP/shown"
run "over RC: a peer that keeps to no protocol" env FI_DIWARP_MODE=rc timeout 300 \
	"$BUILD/tests/system/fabric_hostile" diw_lo "$SHOW"
check "... diw stat shows that its messages were dropped" shows malformed stray flood
run "over RC: keys of the application" env FI_DIWARP_MODE=rc timeout 300 "$BUILD/tests/system/fabric_rma" diw_lo keys
run "over RC: automatic progress" env FI_DIWARP_MODE=rc timeout 300 "$BUILD/tests/system/fabric_auto" diw_lo

if command -v fi_info > /dev/null; then
	run "fi_info" fi_info -p diwarp
	check "... lists the interface" matches "$OUT" 'domain: diw_va'
	check "... and the loopback interface" matches "$OUT" 'domain: diw_lo'
	expect 61 "fi_info: no endpoint of datagrams" fi_info -p diwarp -t FI_EP_DGRAM
	for kind in msg tagged; do
		background "$TMP/server" in_b fi_pingpong -p diwarp -e rdm -m $kind
		server=$PID
		listens() { in_b ss -ltn | grep -q :47592; }
		check "fi_pingpong: the server listens" eventually 10 listens
		run "fi_pingpong between hosts, $kind" timeout 300 fi_pingpong -p diwarp -e rdm -m $kind $B4
		check "... and its server ends" join "$server" 10
	done
else
	skip "no fi_info and fi_pingpong: libfabric-bin"
fi
end
