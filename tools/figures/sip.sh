# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2154
# SIPp's figures, for tools/figures/run.

# uas HOW TRANSPORT: starts SIPp's server; SERVER is its process.
uas() {
	(use "$1" sipp -sn uas -t "$2" -i 127.0.0.1 -p 5070 -nostdin -buff_size 4194304 \
		-max_socket $(($(ulimit -n) - 1000)) \
		> "$TMP/uas.out" 2> "$TMP/uas.err" < /dev/null) &
	SERVER=$!
	within 20 listening 5070
}
# uac HOW TRANSPORT OPTION...: replaces the shell by SIPp's client.
uac() {
	local how=$1 transport=$2
	shift 2
	use "$how" sipp -sn uac -t "$transport" -i 127.0.0.1 -nostdin -timer_resol 1 -buff_size 4194304 "$@" \
		127.0.0.1:5070 \
		> "$TMP/uac.out" 2> "$TMP/uac.err" < /dev/null
}

# response HOW TRANSPORT FILE: sets WIRE to how the calls went.
response() {
	uas "$1" "$2"
	(STAMPS=$3 && uac "$1" "$2" -r 400 -m 1000 -l 1)
	stop_now "$SERVER"
	WIRE=$(wire "$TMP/uac.err" "$([[ $2 = t* ]] && echo TCP || echo UDP)")
}

sip_response() {
	local round row
	${CC:-cc} -shared -fPIC -O2 -D_GNU_SOURCE -o "$TMP/stamp.so" tools/figures/stamp.c -ldl || return
	rm -f "$TMP"/stamps.*
	for ((round = 0; round < ${ROUNDS:-5}; round++)); do
		for row in "interposed u1" "plain u1" "interposed t1" "plain t1"; do
			export STAMPS=
			response $row "$TMP/stamps.${row/ /.}"
			[ "$round" -gt 0 ] || echo "$WIRE" > "$TMP/wire.${row/ /.}"
		done
	done
	unset STAMPS
	for row in interposed.u1 interposed.t1 plain.u1 plain.t1; do
		row lo us "$(way "$row")" SIPp "$(median "$TMP/stamps.$row")"
	done
	compare us "% less" UD RC UD
}
# way NAME: how the bytes of this pair went.
way() { case $1 in interposed*) cat "$TMP/wire.$1" ;; *) echo "$(< "$TMP/wire.$1") without" ;; esac; }

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
	within 90 enough_calls "$3" || echo "only $(calls_now) of $3 calls" >&2
	after=$(slabs)
	user=$(rss "$SERVER" "$CLIENT")
	live "$CLIENT" >> "$TMP/uac.err"
	stop_now "$CLIENT" "$SERVER"
	kernel=$((after - before))
	over=$(wire "$TMP/uac.err" "$([[ $2 = t* ]] && echo TCP || echo UDP)")
	echo "$2,$1,$over,$3,$user,$kernel,$((user + kernel))"
}

sip_memory() {
	local calls row
	rm -f "$TMP/memory.csv"
	for calls in ${COUNTS:-100 1000 3000 10000}; do
		for row in "interposed un" "interposed tn" "plain un" "plain tn"; do
			memory $row "$calls" | tee -a "$TMP/memory.csv"
			sleep 1
		done
	done
	awk -F, '{ print "lo,MB," ($2 == "plain" ? $3 " without" : $3) "," $4 "," $7 / 1e6 }' \
		"$TMP/memory.csv" >> "$CSV"
	compare MB "% less" UD RC UD
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
