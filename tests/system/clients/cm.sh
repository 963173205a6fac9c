# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# For clients.sh: programs over librdmacm.so.1 whose server and client take different options.

# with PLACE WORD...: prints the words. In them ADDR, ADDR6 and PORT stand for the server's address and port, PEER and
# PEER6 for the client's address.
with() {
	local a4=$A4 a6=$A6 b4=$B4 b6=$B6 word
	[ "$1" != lo ] || a4=127.0.0.1 a6=::1 b4=127.0.0.1 b6=::1
	shift
	for word; do
		case $word in
		ADDR) echo "$a4" ;;
		ADDR6) echo "$a6" ;;
		PEER) echo "$b4" ;;
		PEER6) echo "$b6" ;;
		PORT) echo "$PORT" ;;
		*) printf "%s\n" "$word" ;;         # printf, because echo would take some words as its options
		esac
	done
}

# port_of PROGRAM: prints the port where the program's server listens; PORT, if the port is an option of the program.
port_of() {
	case $1 in
	udaddy) echo 7174 ;;
	mckey) echo 4793 ;;
	*) echo "$PORT" ;;
	esac
}

# cm_pair PLACE TYPES SERVER OPTION... '|' CLIENT OPTION...: runs both ends and judges the run.
cm_pair() {
	local place=$1 types=$2 in=() server client sv cl bytes
	shift 2
	local line="$*" port
	while [[ $1 = --dev || $1 = *=* ]]; do shift; done
	[ "$place" = lo ] || in=(in_b)
	for _ in 1 2 3; do
		PORT=$((PORT + 1))
		port=$(port_of "$1")
		mapfile -t server < <(with "$place" ${line%%|*})
		mapfile -t client < <(with "$place" ${line#*|})
		cl=none
		start_counting
		client "$TMP/server" "$LIMIT" "${server[@]}"
		sv=$PID
		: > "$TMP/client"
		if serves "$sv" "$port"; then
			client "${in[@]}" "$TMP/client" "$LIMIT" "${client[@]}"
			join "$PID" $((LIMIT + 5)); cl=$?
		fi
		[ "$cl" = 0 ] && [ "$1" != cmtime ] || { sleep 0.5; kill $sv; } 2> /dev/null
		join $sv $((LIMIT + 5)); sv=$?
		[ "$1" != cmtime ] || [ $sv != 143 ] || sv=0
		stop_counting
		unclocked || { [ "$types" != - ] && unseen "$sv" "$cl"; } || break
	done
	bytes=$'no byte is asked for\nyes'
	[ "$types" = - ] || bytes=$(moved 2 "$types")
	judge_pair "$line ($place, $PERSONALITY)" "$sv" "$cl" "$bytes"
	line=${line#*| }
	note "$1" "${line/"$1 "/}" "$place" $VERDICT
}
