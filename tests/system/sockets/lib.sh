# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# For sockets_programs.sh: the machinery of its rows. A row is two programs that communicate on lo, over TCP if STREAMS
# or LARGE_STREAMS names the row, else over UDP.
#
# A row is a function row_NAME. It may set two variables: SEEN is empty if no FPDU begins a packet. BEFORE is the number
# of messages that are sent before an end has received, if that is more than one of 100. The function uses
#   first COMMAND...     starts the end that waits; FIRST is its process
#   beside COMMAND...    starts another process of that end, earlier; BESIDE has these processes
#   second COMMAND...    runs the end that begins; OUT is its output
#   says REGEX, fine WHAT COMMAND...   the row fails if OUT does not match, or COMMAND fails
# WHO says which ends are interposed: both, first, second, none.

export DIWARP_SOCKETS_LOG=info
ROWS=() ELIGIBLE=both
declare -A BYTES=([messages]='' [bytes]=' bytes') LEAST=([messages]=99 [bytes]=25)

# path NAME: the program, which runs with the libraries that came with it.
path() {
	local dir
	for dir in "$root/usr/bin" "$root/usr/sbin" "$root/bin" "$root"/usr/lib/jvm/*/bin \
		"$root"/usr/lib/postgresql/*/bin; do
		[ ! -x "$dir/$1" ] || { echo "$dir/$1"; return; }
	done
	command -v "$1"
}
interposed() { case $WHO in both | "$1") echo "$DIW run --sockets=all" ;; esac; }
LIBRARIES() { printf '%s:' "$root"/usr/lib/*-linux-gnu "$root"/lib/*-linux-gnu \
	"$root"/usr/lib/*-linux-gnu/{blas,lapack,pulseaudio,vlc}; }

# A process that ends writes its counters to $TMP/first.err or second.err. For a process that runs, live() asks diw
# stat.
first() {
	local program
	program=$(path "$1")
	shift
	# shellcheck disable=SC2046  # words
	$AS env LD_LIBRARY_PATH="$(LIBRARIES)" $(interposed first) "$program" "$@" \
		> "$TMP/first.out" 2>> "$TMP/first.err" < "${INPUT:-/dev/null}" &
	FIRST=$!
	JOBS+=("$FIRST")
}
beside() {
	first "$@"
	BESIDE+=("$FIRST")
}
second() {
	local program
	program=$(path "$1")
	shift
	# shellcheck disable=SC2046
	timeout 90 $AS env LD_LIBRARY_PATH="$(LIBRARIES)" $(interposed second) "$program" "$@" \
		> "$TMP/second.out" 2> "$TMP/second.err" < "${INPUT:-/dev/null}"
	STATUS=$?
	OUT=$(tr -d '\0' < "$TMP/second.out")
}
fault() { FAULT="${FAULT:+$FAULT; }$*"; }
fine() { local what=$1; shift; "$@" > /dev/null 2>&1 || fault "$what"; }
says() { [[ $OUT =~ $1 ]] || fault "no $1 in its output"; }
waits() { eventually 30 listening "$1" || fault "nobody waits at $1"; }
# Ends the first as its user would, and the processes beside it.
ends() {
	local pid
	for pid in $FIRST "${BESIDE[@]}"; do
		kill -"${1:-TERM}" $pid 2> /dev/null
		join $pid 30 > /dev/null
		[ $? -ne 124 ] || fault "the first does not end"
	done
}
# live [PROCESS FILE]: appends the counters of a running process to FILE, in the form of a process that ends. Without
# arguments: those of the first.
live() {
	$DIW stat "${1:-$FIRST}" --json 2> /dev/null | jq -r '.counters | to_entries | map("\(.key)=\(.value)") |
		"diwarp sockets: counted " + join(" ")' >> "${2:-$TMP/first.err}"
}
# sum FILE COUNTER...: the sum of these counters over the processes of one end.
sum() {
	local file=$1
	shift
	# shellcheck disable=SC2048
	awk -v names="$*" 'BEGIN { k = split(names, n, " ") } /^diwarp sockets: .*counted/ {
		for (i = 1; i <= NF; i++) { split($i, v, "="); for (j = 1; j <= k; j++) if (v[1] == n[j]) s += v[2] } }
		END { print s + 0 }' "$file"
}
DAMAGED="sock_rx_crc sock_rx_malformed sock_stream_crc sock_stream_malformed sock_stream_cut sock_stream_orphan"
PLAIN="sock_plain_unknown sock_plain_size sock_plain_option sock_plain_flags sock_plain_group sock_plain_away"

# Counts what the eligible ends sent, in messages or bytes: FRAMED of ALL.
count() {
	FRAMED=0 ALL=0
	local end framed=sock_tx_framed plain=$PLAIN
	[ $KIND != bytes ] || framed=sock_stream_tx plain=sock_stream_tx_plain
	for end in first second; do
		[ $ELIGIBLE = both ] || [ $ELIGIBLE = $end ] || continue
		FRAMED=$((FRAMED + $(sum "$TMP/$end.err" $framed)))
		ALL=$((ALL + $(sum "$TMP/$end.err" $framed $plain)))
	done
}

# The number of frames in the capture that have a good CRC. Wireshark finds only FPDUs that begin a packet.
captured() {
	if [ $KIND = bytes ]; then
		LC_ALL=C tshark -r "$TMP/capture" -Y iwarp_mpa -V 2> /dev/null |
			grep -c 'CRC check: 0x[0-9a-f]* .Good CRC32'
	else
		grep -c '"op": *"send".*"crc_good": *true' "$TMP/capture"
	fi
}
capture() {
	case $KIND in
	bytes) dumpcap -q -B 64 -a filesize:16000 -i lo -f tcp -w "$TMP/capture" 2> /dev/null & ;;
	*) $DIW dump -i lo --json > "$TMP/capture" 2> /dev/null & ;;
	esac
	capture=$!
	JOBS+=("$capture")
	eventually 30 capturing || fault "no capture"
}

# play NAME WHO: runs one row.
play() {
	local name=$1 capture=
	WHO=$2 FAULT='' ELIGIBLE=both INPUT='' AS='' KIND=messages BESIDE=() SEEN=yes BEFORE=0
	case " ${STREAMS[*]} ${LARGE_STREAMS[*]} " in *" $name "*) KIND=bytes ;; esac
	rm -f "$TMP"/first.* "$TMP"/second.* "$TMP/capture"
	touch "$TMP/first.err" "$TMP/second.err" "$TMP/capture"
	if [ $WHO = both ]; then
		export DIWARP_SOCKETS_CRC=on
		capture
	fi
	row_"$name"
	[ -z "$capture" ] || { eventually 10 enough; kill $capture; wait $capture; } 2> /dev/null
	unset DIWARP_SOCKETS_CRC
	judge_row "$name"
}
capturing() { ss -H0 | grep -q .; }
# The capture may end before the last frames. So 10 frames are enough, or all if fewer were sent.
enough() { count; [ -z "$SEEN" ] || [ "$(captured)" -ge $((FRAMED < 10 ? FRAMED : 10)) ]; }

judge_row() {
	local bad
	count
	bad=$(($(sum "$TMP/first.err" $DAMAGED) + $(sum "$TMP/second.err" $DAMAGED)))
	[ $bad -eq 0 ] || fault "$bad damaged frames"
	if [ $WHO = both ]; then
		# Two event loops may wait for each other. Then one direction is plain (docs/streams.md).
		[ "$FRAMED" -gt 0 ] && [ $((FRAMED * 100)) -ge $(((ALL - BEFORE) * LEAST[$KIND])) ] ||
			fault "only $FRAMED of $ALL $KIND in frames"
		# Where a part of a stream was plain, the capture may have only that part.
		{ [ $KIND = bytes ] && [ "$FRAMED" -lt "$ALL" ]; } || enough ||
			fault "a capture shows $(captured) frames"
	else
		[ "$FRAMED" -eq 0 ] || fault "$FRAMED frames to a program that knows none"
	fi
	if [ -z "$FAULT" ]; then
		ok "$1, $WHO: $FRAMED of $ALL $KIND in frames, eligible: $ELIGIBLE"
	else
		not_ok "$1, $WHO: $FAULT"
		tail -n 5 "$TMP"/first.* "$TMP"/second.* | cut -c1-300 | sed 's/^/    /'
	fi
	ROWS+=("$1|$WHO|$FRAMED|$ALL${BYTES[$KIND]}|$ELIGIBLE|${FAULT:-yes}")
}

# Some programs refuse to run as root. AS runs them as an ordinary user, with a registry of its own.
as_nobody() {
	local home=$TMP/nobody
	mkdir -p "$home"
	chmod 755 "$TMP"
	chown 65534:65534 "$home" 2> /dev/null || return
	chmod 700 "$home"
	AS="setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=$home XDG_RUNTIME_DIR=$home"
	AS+=" VLC_PLUGIN_PATH=$(printf '%s' "$root"/usr/lib/*-linux-gnu/vlc/plugins)"
	$AS test -x "$BUILD/bin/diw"
}

# Five seconds of MPEG-TS of some 5 Mbit/s.
media() {
	[ -e "$TMP/media.ts" ] || env LD_LIBRARY_PATH="$(LIBRARIES)" "$(path ffmpeg)" -nostdin -v error -f lavfi \
		-i testsrc2=duration=5:size=640x480:rate=25,noise=alls=30:allf=t -c:v mpeg2video -b:v 5M -maxrate 5M \
		-bufsize 1M -f mpegts "$TMP/media.ts"
	chmod 644 "$TMP/media.ts"
}

# Writes the results into the table between the marks of the page.
table() {
	local row name who framed all eligible fault
	echo '| programs | interposed | in frames, of all sent by | works |'
	echo '|---|---|---|---|'
	for row in "${ROWS[@]}"; do
		IFS='|' read -r name who framed all eligible fault <<< "$row"
		case $who in
		none) ;;
		cpython) echo "| CPython's \`${name#cpython_}\` | alone | | $all cases as without |" ;;
		both) echo "| $(about_"$name") | both | $framed of $all, $eligible | $fault |" ;;
		*) echo "| $(about_"$name") | the $who | 0 | $fault |" ;;
		esac
	done
}
write_table() {
	table > "$TMP/table"
	awk -v file="$TMP/table" '/^<!-- table/ { print; while ((getline line < file) > 0) print line; skip = 1; next }
		/^<!-- end/ { skip = 0 } !skip' "$1" > "$TMP/page" && cat "$TMP/page" > "$1"
}
