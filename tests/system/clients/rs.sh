# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# For clients.sh: programs over rsockets, and socket programs under librspreload.so.

# rs_words PLACE WORD...: prints the command line. FILE in it stands for a file of 20 MB.
rs_words() {
	local place=$1 word
	shift
	for word; do
		case $word in
		spread) printf '%s\n' /usr/bin/env "LD_PRELOAD=$PRELOAD" ;;
		iperf3 | curl | nc.traditional) rs_program "$word" ;;
		FILE) echo "$TMP/rs.in" ;;
		*NEW) echo "${word%NEW}$TMP/rs.out" ;;
		http:*) echo "http://$(with "$place" ADDR):$PORT/" ;;
		ADDR | ADDR6 | PORT) with "$place" "$word" ;;
		*) printf '%s\n' "$word" ;;
		esac
	done | sed "s|ADDR:|$(with "$place" ADDR):|"
}
rs_program() {
	local dir
	for dir in "$CLIENTS"/root/usr/bin "$CLIENTS"/root/bin /usr/bin; do
		[ ! -x "$dir/$1" ] || { readlink -f -- "$dir/$1"; return; }
	done
	echo "$1"
}

rs_prepare() {
	local so
	[ ! -e "$TMP/rs.in" ] || return 0
	for so in "$CLIENTS"/root/usr/lib/*/rsocket/librspreload.so /usr/lib/*/rsocket/librspreload.so; do
		[ ! -e "$so" ] || { PRELOAD=$(readlink -f -- "$so"); break; }
	done
	head -c 20000000 /dev/urandom > "$TMP/rs.in"
	{ printf 'HTTP/1.0 200 OK\r\nContent-Length: 20000000\r\n\r\n'; cat "$TMP/rs.in"; } > "$TMP/rs.http"
}

# rs_endless: the server never ends by itself. The test kills it when its client has ended.
rs_endless() { [[ $1 = udpong || $1 = rcopy ]]; }

# rs_pair PLACE TYPES SERVER OPTION... '|' CLIENT OPTION...: runs both ends and judges the run.
rs_pair() {
	local place=$1 types=$2 in=() server client sv cl=none bytes
	shift 2
	local line="$*" program=$1 limit=$LIMIT
	[[ $line != *"-S all"* ]] || limit=250
	[ "$program" != spread ] || program=$2
	rs_prepare
	[ "$place" = lo ] || in=(in_b)
	PORT=$((PORT + 1))
	rm -f "$TMP/rs.out"
	mapfile -t server < <(rs_words "$place" ${line%%|*})
	mapfile -t client < <(rs_words "$place" ${line#*|})
	[ "$program" != nc.traditional ] || server=("$BASH" -c 'exec "$@" < "$0"' "$TMP/rs.http" "${server[@]}")
	start_counting
	client "$TMP/server" "$limit" "${server[@]}"
	sv=$PID
	: > "$TMP/client"
	if serves "$sv" "$PORT"; then
		client "${in[@]}" "$TMP/client" "$limit" "${client[@]}"
		join "$PID" $((limit + 5)); cl=$?
	fi
	if [ "$cl" != 0 ] || rs_endless "$program"; then
		{ sleep 0.5; kill $sv; } 2> /dev/null
	fi
	join $sv $((limit + 5)); sv=$?
	rs_endless "$program" && [ $sv = 143 ] && sv=0
	stop_counting
	bytes=$(moved 2 "$types")
	[[ $line != *NEW* ]] || cmp -s "$TMP/rs.in" "$TMP/rs.out" || bytes="the copy differs"
	judge_pair "$line ($place, $PERSONALITY)" "$sv" "$cl" "$bytes"
	line=${line#*| }
	note "$program" "$line" "$place" $VERDICT
}
