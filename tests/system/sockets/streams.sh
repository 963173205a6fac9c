#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# diw run --sockets=all: a TCP connection between two interposed programs carries RC, and the programs see no
# difference. Both ends are interposed, or either alone. Peers are hostile, come, go, and are killed.
. "${0%/*}/../lib.sh"
[ "$MODE" != asan ] || sanitized streams_load streams_self streams_files
[ "$MODE" != tsan ] || sanitized streams_load

RUN="$DIW run --sockets"
TCP="python3 tests/system/sockets/tcp.py"
export XDG_RUNTIME_DIR=$TMP/run DIWARP_STAT=on DIWARP_SOCKETS_LOG=info
unset LD_PRELOAD DIWARP_SOCKETS DIWARP_SOCKETS_CRC DIWARP_SOCKETS_PEERS
export DIWARP_SOCKETS_STREAMS=on
mkdir -m 700 "$TMP/run" "$TMP/full"
ulimit -n "$(ulimit -Hn)"

# told NAME [FILE]: the counter that the processes of the last command, or of FILE, printed when they ended, added up.
told() { sed -n "s/.*counted.* $1=\\([0-9]*\\).*/\\1/p" "${2:-$TMP/out}" | awk '{ s += $1 } END { print s + 0 }'; }
counted() { $DIW stat "$1" --json 2> /dev/null | jq -s "map(.counters.$2) | add // 0"; }
at_least() { [ "$(counted "$1" "$2")" -ge "$3" ]; }
# server COMMAND...: starts a server at port 5000; SERVER is its process.
server() {
	background "$TMP/server" "$@"
	SERVER=$PID
	check "a server" eventually 30 accepting 5000
}
# interposed COMMAND...: the same, a server whose clients are to send FPDUs: the kernel accepts before listen() has told
# the interposers of clients.
interposed() {
	server "$@"
	check "... that takes FPDUs" eventually 30 announced
}
announced() { $DIW sockets --json 2> /dev/null | jq -se 'any(.[]; .mode == "listens")' > /dev/null; }
ends() {
	kill "${1:--TERM}" "$SERVER" 2> /dev/null
	wait "$SERVER" 2> /dev/null
}

# ---- Every call ----

run "the calls without the interposer" timeout 300 $TCP calls
cp "$TMP/out" "$TMP/plain"
check "... all of them" grep -qx end "$TMP/plain"
# same BYTES WHAT [VARIABLE=VALUE...]: the program prints the same as without the interposer, and sends at least BYTES
# in FPDUs.
same() {
	local bytes=$1 what=$2
	shift 2
	run "the calls $what" timeout 300 env "$@" $RUN $TCP calls
	grep -v '^diwarp sockets: ' "$TMP/out" > "$TMP/seen"
	check "... see the same" diff "$TMP/plain" "$TMP/seen"
	if [ "$bytes" -gt 0 ]; then
		check "... by FPDUs" [ "$(told sock_stream_tx)" -ge "$bytes" ]
	else
		check "... without FPDUs" [ "$(told sock_stream_tx)" -eq 0 ]
	fi
	check "... without a fault" [ "$(told 'sock_stream_\(crc\|malformed\|orphan\|full\)')" -eq 0 ]
}
same 5000000 "with it"
same 5000000 "with the CRC" DIWARP_SOCKETS_CRC=on
same 0 "with streams switched off" DIWARP_SOCKETS_STREAMS=off

# asked WHAT BYTES [VARIABLE=VALUE...] -- COMMAND...: a program that connects to itself sends BYTES bytes in FPDUs.
asked() {
	local what=$1 bytes=$2 vars=()
	shift 2
	while [ "$1" != -- ]; do vars+=("$1"); shift; done
	shift
	run "$what" timeout 60 env "${vars[@]}" "$@" python3 -c '
import socket
l = socket.create_server(("127.0.0.1", 5000))
c = socket.create_connection(("127.0.0.1", 5000))
a, _ = l.accept()
c.sendall(b"x" * 1000)
assert a.recv(1000, socket.MSG_WAITALL) == b"x" * 1000'
	check "... $bytes bytes in FPDUs" [ "$(told sock_stream_tx)" -eq "$bytes" ]
}
python=$(basename "$(readlink -f "$(command -v python3)")")
unset DIWARP_SOCKETS_STREAMS
mkdir -m 700 "$TMP/none"
asked "datagrams alone by default" 0 XDG_RUNTIME_DIR="$TMP/none" -- $RUN
check "... TCP leaves no file behind" [ -z "$(find "$TMP/none" -type f)" ]
asked "datagrams alone by option" 0 DIWARP_SOCKETS_STREAMS=on -- $RUN=datagrams
asked "streams by option" 1000 -- $RUN=all
asked "streams by the environment" 1000 DIWARP_SOCKETS_STREAMS=on -- $RUN
asked "streams but for a port" 0 DIWARP_SOCKETS_EXCLUDE_PORTS=4000,4999-5001 -- $RUN=all
asked "streams but for another port" 1000 DIWARP_SOCKETS_EXCLUDE_PORTS=4000,5001 -- $RUN=all
asked "streams but for a program" 0 DIWARP_SOCKETS_EXCLUDE_PROGRAMS="sshd, python3 $python" -- $RUN=all
asked "streams but for another program" 1000 DIWARP_SOCKETS_EXCLUDE_PROGRAMS="sshd" -- $RUN=all
printf '[sockets]\nstreams = on\nexclude_ports = 6000\nexclude_programs = sshd\n' > "$TMP/diwarp.ini"
if ! DIWARP_CONFIG=$TMP/diwarp.ini $RUN true 2>&1 | grep -q 'cannot read configuration files'; then
	asked "streams by a file" 1000 DIWARP_CONFIG="$TMP/diwarp.ini" -- $RUN
	sed -i 's/6000/5000/' "$TMP/diwarp.ini"
	asked "... but for a port" 0 DIWARP_CONFIG="$TMP/diwarp.ini" -- $RUN
	sed -i "s/5000/6000/; s/sshd/python3, $python/" "$TMP/diwarp.ini"
	asked "... but for a program" 0 DIWARP_CONFIG="$TMP/diwarp.ini" -- $RUN
fi
export DIWARP_SOCKETS_STREAMS=on

# A program may give its socket to an epoll before it connects, as nginx does, and not receive before its peer has sent.
run "an epoll that has the socket before it connects" timeout 60 $RUN python3 -c '
import os, select, socket
l = socket.create_server(("127.0.0.1", 5000))
if os.fork():
    a, _ = l.accept()
    a.recv(1)
    a.sendall(b"x" * 2000)
else:
    c, ready = socket.socket(), select.epoll()
    ready.register(c, select.EPOLLIN | select.EPOLLET)
    c.connect(("127.0.0.1", 5000))
    c.sendall(b"1")
    assert ready.poll(30) and c.recv(2000, socket.MSG_WAITALL) == b"x" * 2000'
check "... is sent FPDUs" [ "$(told sock_stream_tx)" -ge 2000 ]

# Files of another PID namespace are removed when another process looks, and again some seconds later.
mkdir -m 700 "$TMP/pids"
files() { find "$TMP/pids" -name 'streams-*' | wc -l; }
asked "streams in another PID namespace" 1000 XDG_RUNTIME_DIR="$TMP/pids" -- unshare -p -f $RUN=all
check "... take little memory" [ "$(du -sk "$TMP/pids" | cut -f 1)" -le 1024 ]
asked "streams in this one" 1000 XDG_RUNTIME_DIR="$TMP/pids" -- $RUN=all
check "... take a file each" [ "$(files)" -eq 2 ]
sleep 2.5
asked "streams in this one" 1000 XDG_RUNTIME_DIR="$TMP/pids" -- $RUN=all
check "... remove the other" [ "$(files)" -eq 1 ]

SELF=$BUILD/tests/system/streams_self
run "a C program without the interposer" timeout 300 "$SELF"
cp "$TMP/out" "$TMP/self"
for crc in off on; do
	run "a C program with it, CRC $crc" timeout 300 env DIWARP_SOCKETS_CRC=$crc $RUN "$SELF"
	check "... sees the same" diff "$TMP/self" <(grep -v '^diwarp sockets: ' "$TMP/out")
	check "... by FPDUs" [ "$(told sock_stream_rx)" -ge 1000000 ]
done

# ---- In the middle of a call, and under load ----

LIB=$BUILD/lib/diwarp/libdiwarp_sockets.so
SHORT_SO=$BUILD/tests/preload/short.so
# all_of WHAT COMMAND...: takes each line "ok" and "not ok" of COMMAND as a check.
all_of() {
	local what=$1
	shift
	run "$what" timeout 600 "$@"
	while IFS= read -r line; do
		case $line in "ok - "*) ok "$what: ${line#ok - }" ;; "not ok - "*) not_ok "$what: ${line#not ok - }" ;;
			esac
	done <<< "$OUT"
}
all_of "pipes and files without the interposer" "$BUILD/tests/system/streams_files"
for crc in off on; do
	export DIWARP_SOCKETS_CRC=$crc
	all_of "pipes and files, CRC $crc" env LD_PRELOAD="$LIB $SHORT_SO" "$BUILD/tests/system/streams_files"
	check "... by FPDUs" [ "$(told sock_stream_rx)" -ge 9000000 ]
	if [ "$MODE" = release ]; then  # other modes need more stack
		all_of "small stacks, CRC $crc" env LD_BIND_NOW=1 $RUN "$BUILD/tests/system/streams_stack"
		check "... by FPDUs" [ "$(told sock_stream_rx)" -ge 100000 ]
	fi
	all_of "left, CRC $crc" env LD_PRELOAD="$LIB $SHORT_SO" "$BUILD/tests/system/streams_left"
	check "... each is counted" [ "$(told sock_stream_orphan)" -eq 8 ]
	all_of "load, CRC $crc" $RUN "$BUILD/tests/system/streams_load" ${DIW_TEST_FULL:+100}
	check "... by FPDUs" [ "$(told sock_stream_rx)" -ge 20000000 ]
	for seed in 1 2 3; do
		all_of "cut everywhere, CRC $crc, seed $seed" env SHORT=$seed LD_PRELOAD="$LIB $SHORT_SO" \
			"$BUILD/tests/system/streams_load"
		check "... by FPDUs" [ "$(told sock_stream_rx)" -ge 5000000 ]
	done
done
unset DIWARP_SOCKETS_CRC

all_of "parts of FPDUs" env DIWARP_SOCKETS_CRC=on timeout 120 $RUN "$BUILD/tests/system/streams_half"
all_of "the kept socket" env "XDG_RUNTIME_DIR=$TMP/run" $RUN "$BUILD/tests/system/streams_kept"
check "... to its end" grep -qx end "$TMP/out"

all_of "descriptors that remain" env "XDG_RUNTIME_DIR=$TMP/run" $RUN "$BUILD/tests/system/streams_copies"
check "... to the end" grep -qx end "$TMP/out"
check "... by FPDUs" [ "$(told sock_stream_framed)" -ge 10000 ]

all_of "a connection that was closed unseen" $RUN "$BUILD/tests/system/streams_stale"
check "... the first had FPDUs" [ "$(told sock_stream_framed)" -ge 1 ]

# 17,500 connections of processes that are killed. Each takes two slots: together more than the registry has.
mkdir -m 700 "$TMP/storm"
all_of "a storm" env "XDG_RUNTIME_DIR=$TMP/storm" $RUN "$BUILD/tests/system/streams_storm" 5000 17500
# Under this limit of file sizes the file has room for the first segment only, for every process. The registry is larger
# than the limit, so a process without the limit makes it first.
run "a datagram" env "XDG_RUNTIME_DIR=$TMP/full" $RUN python3 -c '
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", 0))
s.sendto(b"x", s.getsockname())
s.recv(1)'
all_of "no slot is left" env "XDG_RUNTIME_DIR=$TMP/full" bash -c 'ulimit -f 4489; exec "$@"' - $RUN \
	"$BUILD/tests/system/streams_full" fixed
check "... which is counted" [ "$(told sock_stream_full)" -ge 40 ]
all_of "the first segment is full" env "XDG_RUNTIME_DIR=$TMP/full" $RUN "$BUILD/tests/system/streams_full"
check "... and no slot is missing" [ "$(told sock_stream_full)" -eq 0 ]
check "... nor takes it much memory" [ "$(du -sk "$TMP/full" | cut -f 1)" -le 20000 ]
# 2,000 connections need more than two segments, 202,000 connections more than eight.
mkdir -m 700 "$TMP/many"
all_of "many processes" env "XDG_RUNTIME_DIR=$TMP/many" $RUN "$BUILD/tests/system/streams_many" \
	"${DIW_TEST_FULL:+20}2000"
check "... each has its slot" [ "$(told sock_stream_full)" -eq 0 ]
# A filter of system calls kills the program's child if the interposer makes other calls than the child's own. A limit
# of file sizes kills the child if the interposer lets a file grow.
CONFINED=$BUILD/tests/system/streams_confined
run "a program that confines itself without the interposer" timeout 300 "$CONFINED"
cp "$TMP/out" "$TMP/confined"
check "... works" [ "$(grep -c 'ended with 0$' "$TMP/confined")" -eq 8 ]
for crc in off on; do
	run "a program that confines itself, CRC $crc" timeout 300 env DIWARP_SOCKETS_CRC=$crc $RUN "$CONFINED"
	check "... sees the same" diff "$TMP/confined" <(grep -v '^diwarp sockets: ' "$TMP/out")
	check "... by FPDUs" [ "$(told sock_stream_rx)" -ge 6000000 ]
	run "... and reads less than is there, CRC $crc" timeout 60 env DIWARP_SOCKETS_CRC=$crc SHORT_READS=$crc \
		LD_PRELOAD="$LIB $SHORT_SO" "$CONFINED"
	check "... sees the same" diff "$TMP/confined" <(grep -v '^diwarp sockets: ' "$TMP/out")
done

# ---- Both ends, and either alone ----

MANY=50000000
interposed $RUN $TCP echo 5000
run "50 MB to an echo and back" timeout 300 $RUN $TCP ask 5000 $MANY
check "... by FPDUs, and nothing else" [ "$(told sock_stream_tx)" -eq $MANY ]
check "... in both directions" [ "$(told sock_stream_rx)" -eq $MANY ]
check "... nothing plain" [ "$(told sock_stream_tx_plain)" -eq 0 ]
run "with the CRC" timeout 300 env DIWARP_SOCKETS_CRC=on $RUN $TCP ask 5000 5000000
check "... by FPDUs" [ "$(told sock_stream_rx)" -eq 5000000 ]
run "short connections" timeout 300 $RUN $TCP ask 5000 10 50
check "... by FPDUs" [ "$(told sock_stream_rx)" -eq 500 ]
run "diw sockets" $DIW sockets --json
# listed EXPRESSION: one entry of the list matches.
listed() { jq -se "any(.[]; $1)" "$TMP/out" > /dev/null || { cat "$TMP/out"; return 1; }; }
check "... lists the listener" listed '.mode == "listens" and .local == "0.0.0.0:5000"'
run "listeners of one connection" timeout 300 $RUN $TCP once
check "... by FPDUs" [ "$(told sock_stream_tx)" -eq 6000 ]
before=$(counted $SERVER sock_stream_tx)
run "a plain client of an interposed server" timeout 300 $TCP ask 5000 3000000 3
check "... gets no FPDUs" [ "$(counted $SERVER sock_stream_tx)" -eq "$before" ]
ends
server $TCP echo 5000
run "an interposed client of a plain server" timeout 300 $RUN $TCP ask 5000 3000000 3
check "... sends no FPDUs" [ "$(told sock_stream_tx)" -eq 0 ]
ends
for _ in 1 2 3; do
	interposed $RUN $TCP echo 5000
	for _ in 1 2 3 4 5; do          # the direction of a client is plain if its server is slow to accept
		run "an interposed server" timeout 300 $RUN $TCP ask 5000 1000
		[ "$(told sock_stream_tx)" -eq 0 ] || break
	done
	check "... gets FPDUs" [ "$(told sock_stream_tx)" -eq 1000 ]
	ends -KILL
	server $TCP echo 5000
	run "a plain one after it was killed" timeout 300 $RUN $TCP ask 5000 1000
	check "... gets none" [ "$(told sock_stream_tx)" -eq 0 ]
	ends -KILL
done

# ---- Killed in the middle ----

interposed $RUN $TCP echo 5000
mkfifo "$TMP/stdin"
exec 3<> "$TMP/stdin"
$RUN $TCP hold 5000 < "$TMP/stdin" > "$TMP/held" 2>&1 3>&- &
HOLD=$!
JOBS+=("$HOLD")
check "a client that waits" eventually 30 grep -qx held "$TMP/held"
run "diw sockets" $DIW sockets --json
framed='.sends == "framed" and .receives == "framed" and .crc == false'
check "... lists who has connected" listed \
	".mode == \"connected\" and .pid == $HOLD and .peer == \"127.0.0.1:5000\" and $framed"
check "... and who was accepted" listed \
	".mode == \"accepted\" and .pid == $SERVER and .local == \"127.0.0.1:5000\" and $framed"
run "... in words" $DIW sockets
check "..." matches "$OUT" ' accepted +no +127.0.0.1:5000 from 127.0.0.1:[0-9]+, sends framed, receives framed'
ends -KILL
check "... and no longer when it is killed" eventually 30 sh -c "! $DIW sockets | grep -q accepted"
printf '\n' > "$TMP/stdin"
check "... ends when its server is killed" join "$HOLD" 30
check "... as ever" grep -qE '^then (0 bytes|ECONNRESET|EPIPE)' "$TMP/held"

# ---- Hostile peers ----

interposed $RUN $TCP tell 5000
run "a peer that forges, damages and cuts" timeout 120 "$BUILD/tests/system/streams_bad" 5000
cp "$TMP/out" "$TMP/want"
check "... is not believed" eventually 30 [ "$(wc -l < "$TMP/want")" -eq 160 ]
all_told() { [ "$(grep -cv '^diwarp' "$TMP/server")" -ge "$(wc -l < "$TMP/want")" ]; }
check "... the server has told of all" eventually 30 all_told
check "... what it should" diff "$TMP/want" <(grep -v '^diwarp' "$TMP/server")
check "... bad CRCs are counted" at_least $SERVER sock_stream_crc 8
check "... bad headers, too" at_least $SERVER sock_stream_malformed 11
check "... and streams that were cut" at_least $SERVER sock_stream_cut 50
ends

# ---- Many connections ----

MOST=$(($(ulimit -n) > 2200 ? 2000 : 400))
# The server speaks first, before its client waits to receive, so only the client's bytes go in FPDUs.
most() { [ "$(told sock_stream_tx)" -eq $((MOST * 8)) ]; }
interposed $RUN $TCP turns 5000
run "$MOST connections at once" timeout 300 $RUN $TCP many 5000 $MOST
check "... by FPDUs" most
run "... again" timeout 300 $RUN $TCP many 5000 $MOST
check "... by FPDUs" most
ends

# ---- Registries that cannot be used ----

for file in "$TMP"/run/diwarp/streams-*; do
	printf x | dd of="$file" conv=notrunc status=none
done
same 0 "with damaged streams"
check "... and a warning says why" grep -q 'streams.*: it is damaged.*; streams are plain' "$TMP/out"
rm "$TMP"/run/diwarp/streams-*
same 5000000 "after they were removed"

# ---- On the wire ----

if command -v tshark dumpcap > /dev/null; then
	export LC_ALL=C
	interposed env DIWARP_SOCKETS_CRC=on $RUN $TCP echo 5000
	background "$TMP/dumpcap" dumpcap -q -B 64 -i lo -f 'tcp port 5000' -w "$TMP/streams.pcapng"
	CAP=$PID
	seen() { tshark -r "$TMP/streams.pcapng" "$@" 2> /dev/null; }
	# The capture announces itself a moment before it captures.
	probed() { (: < /dev/tcp/127.0.0.1/5000) 2> /dev/null; [ "$(seen | wc -l)" -gt 0 ]; }
	check "a capture" eventually 20 probed
	run "40 connections" timeout 300 $RUN $TCP say 5000 40
	# A direction is plain if the server is slow to accept. The client has counted 300 octets for each that is not.
	framed=$(($(told sock_stream_tx) / 300))
	check "... nearly all by FPDUs" [ $framed -ge 36 ]
	complete() { [ "$(seen -Y iwarp_mpa.rep | wc -l)" -ge $framed ]; }
	check "... are seen by Wireshark" eventually 20 complete
	kill -INT "$CAP"
	join "$CAP" 10
	check "... a Request each" [ "$(seen -Y iwarp_mpa.req | wc -l)" -eq $framed ]
	check "... a Reply each" [ "$(seen -Y iwarp_mpa.rep | wc -l)" -eq $framed ]
	# Wireshark's dissector looks for FPDUs behind the Reply, and where a packet begins.
	check "... Sends" [ "$(seen -Y 'iwarp_rdma.opcode == 3' | wc -l)" -ge $framed ]
	check "... with a good CRC" [ "$(seen -V | grep -c 'CRC check: 0x[0-9a-f]* .Good CRC32')" -ge $framed ]
	check "... none with a bad one" [ "$(seen -V | grep -c 'CRC check: 0x[0-9a-f]* .Bad')" -eq 0 ]
	ends
else
	skip "no tshark"
fi
end
