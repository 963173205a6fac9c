# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2154
# SIPp's figures, for tools/figures/run.

# uas HOW TRANSPORT: starts SIPp's server; SERVER is its process.
uas() {
	local IN=$FAR_IN
	(use "$1" sipp -sn uas -t "$2" -i "$FAR" -p 5070 -nostdin -buff_size 4194304 \
		-max_socket $(($(ulimit -n) - 1000)) \
		> "$TMP/uas.out" 2> "$TMP/uas.err" < /dev/null) &
	SERVER=$!
	within 20 listening 5070
}
# uac HOW TRANSPORT OPTION...: replaces the shell by SIPp's client.
uac() {
	local how=$1 transport=$2
	shift 2
	use "$how" sipp -sn uac -t "$transport" -i "$NEAR" -nostdin -timer_resol 1 -buff_size 4194304 "$@" \
		"$FAR:5070" \
		> "$TMP/uac.out" 2> "$TMP/uac.err" < /dev/null
}

# response HOW TRANSPORT CALLS FILE: sets WIRE to how the calls went.
response() {
	uas "$1" "$2"
	(STAMPS=$4 && uac "$1" "$2" -r 400 -m "$3" -l 1 -max_socket 1000)
	stop_now "$SERVER"
	WIRE=$(wire "$TMP/uac.err" "$([[ $2 = t* ]] && echo TCP || echo UDP)")
}

# sip_response: calls one at a time, all over one socket or each over its own. With a delay a call takes longer, so
# there are fewer.
sip_response() {
	local round at row rows sockets ms calls
	${CC:-cc} -shared -fPIC -O2 -D_GNU_SOURCE -o "$TMP/stamp.so" tools/figures/stamp.c -ldl || return
	for at in $LINKS; do
		link "$at" || continue
		ms=${at%/*}
		calls=$((${CALLS:-1000} / (ms + 1) + 1))
		for sockets in 1 n; do
			rows=("interposed u$sockets" "record u$sockets" "plain u$sockets" "interposed t$sockets"
				"plain t$sockets")
			rm -f "$TMP"/stamps.*
			for ((round = 0; round < ${ROUNDS:-5}; round++)); do
				for row in "${rows[@]}"; do
					export STAMPS=
					response $row $calls "$TMP/stamps.${row/ /.}"
					[ "$round" -gt 0 ] || echo "$WIRE" > "$TMP/wire.${row/ /.}"
				done
			done
			unset STAMPS
			sockets=$([ $sockets = 1 ] && echo "one socket" || echo "a socket each call")
			for row in "${rows[@]/ /.}"; do
				row "$PLACE" us "$(way "$row")" "$sockets" "$(median "$TMP/stamps.$row")"
				row "$PLACE" "us (99th percentile)" "$(way "$row")" "$sockets" \
					"$(quantile 0.99 "$TMP/stamps.$row")"
			done
		done
	done
	ways us "% less"
}

# The bytes of all sockets in the kernel: the sum over the slabs of their objects.
slabs() {
	awk '$1 ~ /^(UDP|TCP|sock_inode_cache|filp|dentry|skbuff_|request_sock_TCP|tw_sock_TCP)/ ||
		$1 ~ /^((tcp|inet)_bind|eventpoll_)/ {
		s += $2 * $4 } END { printf "%.0f\n", s }' /proc/slabinfo
}
rss() {
	local pid
	for pid in "$@"; do cat "/proc/$pid/smaps_rollup"; done |
		awk '/^Pss:/ { s += $2 * 1024 } END { printf "%.0f\n", s }'
}
calls_now() {
	awk -F';' 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "CurrentCall") c = i } END { print $c + 0 }' \
		"$TMP/stat.csv"
}
enough_calls() { [ "$(calls_now)" -ge "$1" ]; }

# memory HOW TRANSPORT CALLS: prints a line of the table.
memory() {
	local before after user kernel over rate=$(($3 / 5))
	rm -f "$TMP/stat.csv"
	before=$(slabs)
	uas "$1" "$2"
	(uac "$1" "$2" -r $((rate > 1000 ? 1000 : rate)) -l "$3" -m "$3" -d 600000 -max_socket $(($3 + 100)) \
		-trace_stat -stf "$TMP/stat.csv" -fd 1) &
	CLIENT=$!
	if ! within 90 enough_calls "$3"; then
		echo "only $(calls_now) of $3 calls" >&2
		stop_now "$CLIENT" "$SERVER"
		return
	fi
	after=$(slabs)
	user=$(rss "$SERVER" "$CLIENT")
	live "$CLIENT" >> "$TMP/uac.err"
	stop_now "$CLIENT" "$SERVER"
	kernel=$((after - before))
	over=$(wire "$TMP/uac.err" "$([[ $2 = t* ]] && echo TCP || echo UDP)")
	echo "$over" > "$TMP/wire.$1.$2"
	echo "$2,$1,$(way "$1.$2"),$3,$user,$kernel,$((user + kernel))"
}

# sip_memory: each call has a socket of its own, a UDP port or a connection. Other programs of the machine change the
# kernel's slabs, too, so a point is the median of rounds.
sip_memory() {
	local calls row round
	rm -f "$TMP/memory.csv"
	link 0/0 || return
	for calls in ${COUNTS:-100 1000 3000 10000}; do
		for ((round = 0; round < ${ROUNDS:-3}; round++)); do
			for row in "interposed un" "record un" "interposed tn" "plain un" "plain tn"; do
				memory $row "$calls" | tee -a "$TMP/memory.csv"
				sleep 1
			done
		done
	done
	for column in "7,MB" "5,MB of the programs" "6,MB of sockets in the kernel"; do
		awk -F, '!seen[$3 "," $4]++ { print $3 "," $4 }' "$TMP/memory.csv" | while IFS=, read -r curve calls; do
			awk -F, -v curve="$curve" -v calls="$calls" -v c="${column%,*}" \
				'$3 == curve && $4 == calls { print $c / 1e6 }' "$TMP/memory.csv" > "$TMP/rounds"
			row "$PLACE" "${column#*,}" "$curve" "$calls" "$(median "$TMP/rounds")"
		done
	done
	ways MB "% less"
	compare "MB of sockets in the kernel" "% less" UD RC "UD: sockets alone"
}

# load HOW RATE: prints a line of SIPp's own statistics. A run that cannot keep the rate has three times the time.
load() {
	rm -f "$TMP/stat.csv"
	uas "$1" u1
	(uac "$1" u1 -r "$2" -m $(($2 * SECONDS_OF_LOAD)) -l 20000 -trace_stat -stf "$TMP/stat.csv" -fd 1) &
	CLIENT=$!
	within $((SECONDS_OF_LOAD * 3)) gone "$CLIENT"
	live "$CLIENT" >> "$TMP/uac.err"
	stop_now "$CLIENT" "$SERVER"
	awk -F';' -v how="$1" -v rate="$2" -v wire="$(wire "$TMP/uac.err" UDP)" '
		NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
		{ split($at["ElapsedTime(C)"], t, ":") }
		END { s = t[1] * 3600 + t[2] * 60 + t[3] + 0; n = $at["SuccessfulCall(C)"]
			printf "%d,%s,%s,%d,%d,%d,%d,%d\n", rate, how, wire, n, $at["FailedCall(C)"],
				$at["Retransmissions(C)"], s, s ? n / s : 0 }' "$TMP/stat.csv"
}

sip_load() {
	local how rate
	SECONDS_OF_LOAD=${SECONDS_OF_LOAD:-60}
	rm -f "$TMP/load.csv"
	for rate in ${RATES:-17500}; do
		for how in plain interposed; do load $how "$rate" >> "$TMP/load.csv"; done
	done
	sed '1i rate,preload,wire,calls,failed,retransmissions,seconds,calls_per_s' "$TMP/load.csv" | column -s, -t
	awk -F, '{ curve = $2 == "plain" ? $3 " without" : $3
		print "lo,calls/s," curve "," $1 "," $8 "\nlo,failed or repeated," curve "," $1 "," $5 + $6 }' \
		"$TMP/load.csv" >> "$CSV"
}
