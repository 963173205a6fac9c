#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# diw run --sockets: every call has the same result as without the interposer, for every peer, also a hostile one.
. "${0%/*}/../lib.sh"
[ "$MODE" != asan ] || sanitized sockets sockets_many sockets_gso sockets_high
[ "$MODE" != tsan ] || sanitized sockets_many

RUN="$DIW run --sockets"
export XDG_RUNTIME_DIR=$TMP/run DIWARP_STAT=on
unset LD_PRELOAD DIWARP_SOCKETS DIWARP_SOCKETS_CRC DIWARP_SOCKETS_PEERS DIWARP_SOCKETS_LOG
mkdir -m 700 "$TMP/run"
mkfifo "$TMP/stdin"
exec 3<> "$TMP/stdin"
# counted PID NAME: the counter of that process, 0 if it has none.
counted() { $DIW stat "$1" --json 2> /dev/null | jq -s "map(.counters.$2) | add // 0"; }
at_least() { [ "$(counted "$1" "$2")" -ge "$3" ]; }
has_line() { grep -qx -- "$1" "$2"; }

# ---- Every call ----

CALLS=$TMP/calls
printf '#!/bin/sh\n%s && %s && %s && %s && exec %s\n' "$BUILD/tests/system/sockets" "$BUILD/tests/system/sockets_many" \
	"$BUILD/tests/system/sockets_gso" "$BUILD/tests/system/sockets_errqueue" "$BUILD/tests/system/sockets_held" > \
		"$CALLS"
chmod +x "$CALLS"
run "the calls without the interposer" "$CALLS"
printf '%s\n' "$OUT" > "$TMP/plain"
check "... all of them" [ "$(grep -cx end "$TMP/plain")" -eq 5 ]
# same WHAT [ENVIRONMENT...]: the program prints the same as without the interposer.
same() {
	local what=$1
	shift
	run "the calls $what" env "$@" $RUN "$CALLS"
	grep -v '^diwarp sockets: ' <<< "$OUT" > "$TMP/seen"
	check "... see the same" diff "$TMP/plain" "$TMP/seen"
}
same "with it"
same "with the CRC on" DIWARP_SOCKETS_CRC=on
same "with Write-Record" DIWARP_SOCKETS_MODE=write-record
run "a thread with descriptors of its own" timeout 60 env DIWARP_SOCKETS_LOG=info $RUN \
	"$BUILD/tests/system/sockets_apart"
check "... sees the same" [ "$(grep -c ^ok <<< "$OUT")$(grep '^not ok' <<< "$OUT")" = 26 ]
check "... also what was in frames" matches "$OUT" "sock_rx_framed=2[01]"

# ---- What would be framed ----

run "--check of a program" $RUN --check "$BUILD/tests/system/sockets"
check "... datagrams" matches "$OUT" 'sockets: UDP goes to another interposed program in frames$'
run "--check of a script" $RUN=all --check "$CALLS"
check "... names its interpreter" matches "$OUT" 'a script of /bin/sh'
check "... and streams" matches "$OUT" 'UDP and TCP go'
printf '#!/usr/bin/env cat\n' > "$TMP/by_env"
chmod +x "$TMP/by_env"
run "--check of a script of env" $RUN --check "$TMP/by_env"
check "... names the program" matches "$OUT" "$(command -v cat): UDP goes"
expect 1 "--check of one that is left out" env DIWARP_SOCKETS_EXCLUDE_PROGRAMS="x, sockets" $RUN --check \
	"$BUILD/tests/system/sockets"
check "... says so" matches "$OUT" 'all is plain: the environment leaves it out'
printf '[sockets]\nexclude_programs = x, sockets\nstreams = on\n' > "$TMP/diwarp.ini"
expect 1 "--check of one that the configuration file leaves out" env DIWARP_CONFIG="$TMP/diwarp.ini" $RUN --check \
	"$BUILD/tests/system/sockets"
check "... says so" matches "$OUT" 'all is plain: the configuration file leaves it out \(exclude_programs\)'
run "--check of one that the environment does not" env DIWARP_CONFIG="$TMP/diwarp.ini" \
	DIWARP_SOCKETS_EXCLUDE_PROGRAMS=x $RUN --check "$BUILD/tests/system/sockets"
check "... says so, and streams" matches "$OUT" 'UDP and TCP go'
expect 1 "--check of a static program" $RUN --check /sbin/ldconfig
check "... says so" matches "$OUT" 'all is plain: .*(statically|another C library)'

# The filter kills the program for any system call that the program does not make without the interposer.
FILTERED=$BUILD/tests/system/sockets_filtered
run "a program that was started with a filter" env DIWARP_SOCKETS_LOG=debug $RUN=all "$FILTERED"
check "... works" [ "$OUT" = works ]
mkdir -m 700 "$TMP/none"
run "a program with a filter of its own" env XDG_RUNTIME_DIR="$TMP/none" $RUN=all "$FILTERED" itself
check "... works" matches "$OUT" works
same "with it switched off" DIWARP_SOCKETS=off
check "... silently" [ -z "$(grep '^diwarp' <<< "$OUT")" ]

$RUN "$BUILD/tests/system/sockets" hold < "$TMP/stdin" > "$TMP/held" 2>&1 3>&- &
HELD=$!
JOBS+=("$HELD")
check "it ran" eventually 30 has_line end "$TMP/held"
run "its counters" $DIW stat $HELD
check "... are shown" matches "$OUT" 'messages in frames sent, '
run "... as JSON" $DIW stat $HELD --json
cp "$TMP/out" "$TMP/stat"
check "what could go in frames did" holds '.counters | .sock_tx_framed > 180 and
	.sock_plain_unknown < .sock_tx_framed / 10 and .sock_rx_framed >= .sock_tx_framed - 5'
check "each reason for plain was met" holds '.counters | .sock_plain_unknown > 0 and .sock_plain_size > 0 and
	.sock_plain_option > 0 and .sock_plain_flags > 0 and (.sock_plain_group + .sock_plain_away) > 0'
check "a look-alike, too" holds '.counters | .sock_rx_strange > 0'
run "Prometheus" $DIW stat $HELD --prometheus
check "... has them" matches "$OUT" "diwarp_sock_tx_framed_total\\{pid=\"$HELD\""
kill $HELD
wait $HELD 2> /dev/null

# ---- UDP_SEGMENT and UDP_GRO ----

# of NAME: the counter in the line that the program printed last in OUT.
of() { sed -n "s/.*counted.* $1=\([0-9]*\).*/\1/p" <<< "$OUT" | tail -n 1 | grep . || echo 0; }
run "UDP_SEGMENT and UDP_GRO" env DIWARP_SOCKETS_LOG=info $RUN "$BUILD/tests/system/sockets_gso"
check "... go in frames" [ "$(of sock_tx_framed)" -gt 40000 ]
check "... all but those that do not fit" [ \
	$(($(of sock_plain_unknown) + $(of sock_plain_size) + $(of sock_plain_flags))) -lt 250 ]
check "... and arrive" [ "$(of sock_rx_framed)" -ge $(($(of sock_tx_framed) - 20)) ]
check "... none is lost" [ "$(of sock_rx_mixed) $(of sock_tx_lost)" = "0 0" ]

GSO="python3 tests/system/sockets/gso.py"
# cut_to PORT WHAT COMMAND...: sends 20 buffers of 30 messages to the server at PORT.
cut_to() {
	check "a server" eventually 30 listening "$1"
	run "$2" timeout 60 env DIWARP_SOCKETS_LOG=info "${@:3}" $GSO ask "$1" 20 1200 30
	run "... by the socket's option" timeout 60 env DIWARP_SOCKETS_LOG=info "${@:3}" $GSO ask "$1" 20 700 30 option
}
background "$TMP/gso" $GSO serve 5300
cut_to 5300 "an interposed program's, to one that is not" $RUN
check "... plain" [ "$(of sock_tx_framed)" -eq 0 ]
background "$TMP/gso" $RUN $GSO serve 5301
cut_to 5301 "to an interposed program, from one that is not"
cut_to 5301 "between two" $RUN
check "... in frames" [ "$(of sock_tx_framed)" -ge $((19 * 31)) ]

# ---- The error queue ----

# On this route a frame is too large although its message fits, and the route fragments packets.
ip route add local 198.51.100.8/32 dev lo table local mtu lock 1500
# came_back WHAT N ARGUMENT...: the error queue has the same messages, and at least N of them were sent in frames.
came_back() {
	local what=$1 n=$2 mode
	shift 2
	run "$what without the interposer" "$BUILD/tests/system/sockets_errqueue" "$@"
	printf '%s\n' "$OUT" > "$TMP/before"
	check "... all of it" [ "$(tail -n 1 "$TMP/before")" = end ]
	for mode in sendrecv write-record; do
		run "$what, $mode" env DIWARP_SOCKETS_LOG=info DIWARP_SOCKETS_MODE=$mode $RUN \
			"$BUILD/tests/system/sockets_errqueue" "$@"
		grep -v '^diwarp sockets: ' <<< "$OUT" > "$TMP/seen"
		check "... sees the same" diff "$TMP/before" "$TMP/seen"
		check "... of frames" [ "$(sed -n 's/.*counted.* sock_err_framed=\([0-9]*\).*/\1/p' <<< "$OUT" |
			grep . || echo 0)" -ge "$n" ]
	done
}
came_back "what comes back" 200
came_back "what comes back by a route with a small MTU" 9 198.51.100.8

# ---- Bad frames, few descriptors ----

ip addr add 198.51.100.7/32 dev lo
for mode in sendrecv write-record; do
	run "bad frames, $mode" sh -c "echo | DIWARP_SOCKETS_MODE=$mode $RUN $BUILD/tests/system/sockets_bad 076433c6"
	while IFS= read -r line; do
		case $line in "ok - "*) ok "${line#ok - }" ;; "not ok - "*) not_ok "${line#not ok - }" ;; esac
	done <<< "$OUT"
done

# The KiB that the first socket adds to the registry.
mkdir -m 700 "$TMP/first"
receives='
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", 5101))
s.setblocking(False)
try:
    s.recv(1)
except BlockingIOError:
    pass
'
run "the first socket" env XDG_RUNTIME_DIR="$TMP/first" $RUN python3 -c "$receives"
check "... takes at most 1 MB of registry" [ "$(du -sk "$TMP/first" | cut -f 1)" -le 1000 ]
locked='
import ctypes, re, socket
libc = ctypes.CDLL(None, use_errno=True)
kb = lambda: int(re.search("VmLck:\\s+(\\d+)", open("/proc/self/status").read()).group(1))
assert libc.mlockall(2) == 0
before = kb()'"$receives"'
assert kb() - before < 2000, kb() - before
'
if [ "$(ulimit -l)" = unlimited ] || [ "$(id -u)" -eq 0 ]; then
	run "after mlockall() a socket locks next to nothing" env XDG_RUNTIME_DIR="$TMP/first" $RUN python3 -c "$locked"
	check "... and takes no more of the registry" [ "$(du -sk "$TMP/first" | cut -f 1)" -le 1000 ]
	mkdir -m 700 "$TMP/locked"
	run "... nor does the first" env XDG_RUNTIME_DIR="$TMP/locked" $RUN python3 -c "$locked"
	check "... " [ "$(du -sk "$TMP/locked" | cut -f 1)" -le 1000 ]
fi
mkdir -m 700 "$TMP/small"
run "with a limit on the size of files" env XDG_RUNTIME_DIR="$TMP/small" bash -c 'ulimit -f 100; exec "$@"' - $RUN \
	python3 -c '
import socket
a = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
a.bind(("127.0.0.1", 5101))
a.sendto(b"x", ("127.0.0.1", 5101))
assert a.recv(9) == b"x"'
check "... a warning says why all is plain" matches "$OUT" "ulimit -f"

run "a program whose malloc() makes system calls under its lock" timeout 60 env DIWARP_SOCKETS_LOG=info \
	LD_PRELOAD="$BUILD/lib/diwarp/libdiwarp_sockets.so $BUILD/tests/preload/allocator.so" \
	python3 tests/system/sockets/talk.py
check "... sends frames" matches "$OUT" "sock_rx_framed=1[0-9][0-9] "

# The global scope has no name of the interposer or of its libraries. So a plugin of a program finds its own functions
# of these names.
run "what a program finds in the global scope" timeout 60 $RUN python3 -c '
import ctypes
scope = ctypes.CDLL(None)
scope.socket
for name in "ini_parse", "ini_parse_file", "crc32_iscsi", "crc32_gzip_refl", "crc32_ieee", "diw_crc32", "diw_log":
    assert not hasattr(scope, name), name'
run "high descriptors" env DIWARP_SOCKETS_LOG=info $RUN=all "$BUILD/tests/system/sockets_high" ${DIW_TEST_FULL:+many}
while IFS= read -r line; do
	case $line in "ok - "*) ok "${line#ok - }" ;; "not ok - "*) not_ok "${line#not ok - }" ;;
		"SKIP: "*) skip "${line#SKIP: }" ;; esac
done <<< "$OUT"
tried=$(sed -n 's/^end //p' <<< "$OUT")
if [ "${tried:-0}" -gt 0 ]; then
	check "... send frames" matches "$OUT" "sock_tx_framed=$((tried * 20)) "
	check "... and streams FPDUs" matches "$OUT" "sock_stream_tx=$((tried * 22)) "
fi

# ---- Foreign or damaged registries ----

reg=$TMP/run/diwarp
file=$(echo "$reg"/sockets-*)
check "the registry is the user's alone" [ "$(stat -c '%a %F' "$reg" "$file" | tr '\n' ' ')" = \
	'700 directory 600 regular file ' ]
bad() {
	same "$1"
	check "... and a warning says why" matches "$OUT" "diwarp sockets: [^:]*: warn: [^:]*: $2"
	expect 1 "... diw sockets, too" $DIW sockets
	check "... why" matches "$OUT" "$2"
}
printf x | dd of="$file" conv=notrunc status=none
bad "with a damaged registry" "it is damaged"
truncate -s 5000 "$file"
bad "with a registry that was cut" "it is damaged"
rm "$file"
: > "$file"
chmod 666 "$file"
bad "with a registry that others may write" "others may write it"
rm "$file"
ln -s /etc/hostname "$file"
bad "with a symbolic link for a registry" "Too many levels of symbolic links"
rm "$file"
chmod 777 "$reg"
bad "with a directory that others may write" "others may write it"
chmod 700 "$reg"
if chown 65534 "$reg" 2> /dev/null; then
	bad "with another user's directory" "it belongs to another user"
	chown "$(id -u)" "$reg"
else
	skip "there is only one user here"
fi
rm -r "$reg"
same "after it was removed"

if unshare -m mount -t tmpfs tmpfs "$TMP/run" 2> /dev/null; then
	cat > "$TMP/full" << END
#!/bin/sh
exec unshare -m sh -c 'mount -t tmpfs -o size=100k,mode=700 tmpfs $TMP/run && exec "\$@"' sh "\$@"
END
	chmod +x "$TMP/full"
	RUN="$TMP/full $RUN"
	same "on a full disk"
	check "... and a warning says why" matches "$OUT" "diwarp sockets: [^:]*: warn: [^:]*: No space left"
	RUN=${RUN#* }
else
	skip "no mount namespace here"
fi

# ---- Peers that come, go, are killed, or are replaced ----

STREAM="python3 tests/system/sockets/stream.py"
# sender [BYTES]: sends to port 5000 until "stop"; SENDER is its process.
sender() {
	$RUN $STREAM send "${2:-127.0.0.1}" 5000 "${1:-700}" < "$TMP/stdin" > "$TMP/sender" 2>&1 3>&- &
	SENDER=$!
	JOBS+=("$SENDER")
}
stop() {
	printf '\n' > "$TMP/stdin"
	check "the sender noticed nothing" join "$SENDER" 30
}
sender
run "a plain program hears an interposed one" timeout 60 $STREAM receive 127.0.0.1 5000 50
check "... plain" [ "$(counted $SENDER sock_tx_framed)" -eq 0 ]
run "one that is interposed but for its port hears it" timeout 60 env DIWARP_SOCKETS_EXCLUDE_PORTS=5000 $RUN \
	$STREAM receive 127.0.0.1 5000 50
check "... plain" [ "$(counted $SENDER sock_tx_framed)" -eq 0 ]
run "an interposed one hears it" timeout 60 $RUN $STREAM receive 127.0.0.1 5000 300
check "... in frames" at_least $SENDER sock_tx_framed 100
for round in 1 2 3; do
	background "$TMP/killed" $RUN $STREAM receive 127.0.0.1 5000 100000
	before=$(counted $SENDER sock_tx_framed)
	check "one that is killed gets frames" eventually 30 at_least $SENDER sock_tx_framed $((before + 10))
	kill -9 $PID
	wait $PID 2> /dev/null
	run "a plain one in its place gets none" timeout 60 $STREAM receive 127.0.0.1 5000 20
done
run "one that executes another program gets none any more" timeout 60 $RUN python3 -c '
import os, socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", 5000))
for _ in range(20):
    s.recv(65536)
os.set_inheritable(s.fileno(), True)
os.environ.pop("LD_PRELOAD")
os.execvp("python3", ["python3", "-c", """
import socket
s = socket.socket(fileno=%d)
s.setblocking(False)
try:
    while True:
        s.recv(65536)
except BlockingIOError:
    pass
s.setblocking(True)
for _ in range(20):
    data = s.recv(65536)
    assert len(data) == 700 and data[8:9] == b" ", data
""" % s.fileno()])'
run "one that forgets its descriptor without closing it" timeout 60 $RUN python3 -c '
import ctypes, socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", 5000))
for _ in range(20):
    s.recv(65536)
libc = ctypes.CDLL(None)
f = libc.fdopen
f.restype = ctypes.c_void_p
libc.fclose(ctypes.c_void_p(f(s.detach(), b"r")))'
stop
run "diw sockets without sockets" sh -c "! $DIW sockets"

background "$TMP/listed" $RUN $STREAM receive :: 5001 1
check "a socket is listed" eventually 30 $DIW sockets
run "... with what it is" $DIW sockets --json
check "..." holds ".pid == $PID and .program == \"python3\" and .local == \"[::]:5001\" and .mode == \"sendrecv\""
kill $PID
wait $PID 2> /dev/null
expect 1 "... and no longer" $DIW sockets

# The program closes every descriptor, known to it or not, and then uses every number itself.
$RUN python3 -c '
import os, resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (min(2000, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setblocking(False)
try:
    s.recv(1)
except BlockingIOError:
    pass
os.closerange(3, 2000)
for fd in range(3, 1500):
    try:
        os.close(fd)
        sys.exit("%d was still open" % fd)
    except OSError:
        pass
for fd in range(3, 1500):
    assert os.dup2(0, fd) == fd
print("closed", flush=True)
sys.stdin.readline()' < "$TMP/stdin" > "$TMP/closer" 2>&1 3>&- &
CLOSER=$!
JOBS+=("$CLOSER")
check "a program that closes every descriptor" eventually 30 has_line closed "$TMP/closer"
run "... is still seen" $DIW stat $CLOSER
printf '\n' > "$TMP/stdin"
check "... and ends well" join $CLOSER 30

# ---- Configuration ----

# framed N WHAT [VARIABLE=VALUE...]: of ten messages to port 5100, N go in frames.
framed() {
	local n=$1 what=$2
	shift 2
	run "$what" env DIWARP_SOCKETS_LOG=info "$@" $RUN python3 -c '
import socket
a, b = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in "ab")
a.bind(("127.0.0.1", 5100))
a.setblocking(False)
try:
    a.recv(1)
except BlockingIOError:
    pass
for _ in range(10):
    b.sendto(b"x", ("127.0.0.1", 5100))
    assert a.recv(9) == b"x"'
	check "... $n in frames" [ "$(sed -n 's/.*counted.* sock_tx_framed=\([0-9]*\).*/\1/p' <<< "$OUT" | grep . ||
		echo 0)" -eq "$n" ]
}
framed 10 "unconfigured"
framed 0 "switched off" DIWARP_SOCKETS=off
framed 10 "its port alone" DIWARP_SOCKETS_PORTS=5000,5090-5100
framed 0 "other ports alone" DIWARP_SOCKETS_PORTS=5000,5101-5200
framed 10 "its program alone" DIWARP_SOCKETS_PROGRAMS="sipp, python3, python3.11, $(basename \
	"$(readlink -f "$(command -v python3)")")"
framed 0 "another program alone" DIWARP_SOCKETS_PROGRAMS=sipp
framed 0 "but for its port" DIWARP_SOCKETS_EXCLUDE_PORTS=5000,5090-5100
framed 10 "but for another port" DIWARP_SOCKETS_EXCLUDE_PORTS=5000,5101
framed 0 "its port, and but for it" DIWARP_SOCKETS_PORTS=5100 DIWARP_SOCKETS_EXCLUDE_PORTS=5100
framed 0 "but for its program" DIWARP_SOCKETS_EXCLUDE_PROGRAMS="sipp, python3, $(basename \
	"$(readlink -f "$(command -v python3)")")"
framed 10 "but for another program" DIWARP_SOCKETS_EXCLUDE_PROGRAMS=sipp
framed 10 "a value that is none" DIWARP_SOCKETS_CRC=sometimes
check "... and a warning says so" matches "$OUT" "diwarp sockets: .*: crc: 'sometimes' is not one of its values"
ini=$TMP/diwarp.ini
printf '; of a test\n[sockets]\nports = 5000, 5101-5200\n[other]\nports = 1\n' > "$ini"
if DIWARP_CONFIG=$ini DIWARP_SOCKETS=off $RUN true 2>&1 | grep -q 'cannot read configuration files'; then
	skip "this build reads no configuration file"
else
	framed 0 "a configuration file" DIWARP_CONFIG="$ini"
	framed 10 "the environment before it" DIWARP_CONFIG="$ini" DIWARP_SOCKETS_PORTS=5100
	mkdir -p "$TMP/home/.config"
	cp "$ini" "$TMP/home/.config/diwarp.ini"
	framed 0 "the user's file" HOME="$TMP/home"
	printf '[sockets]\ninterpose = off\n' > "$ini"
	framed 0 "off by file" DIWARP_CONFIG="$ini"
	printf '[sockets]\ncrc = on\nport = 5\n' > "$ini"
	framed 10 "a setting that is none" DIWARP_CONFIG="$ini"
	check "... and a warning says where" matches "$OUT" "diwarp.ini: line 3 cannot be parsed"
	framed 10 "a file that is not there" DIWARP_CONFIG="$TMP/absent"
	check "... and an error says so" matches "$OUT" "absent: cannot be read: No such file"
	framed 10 "a file that is a directory" DIWARP_CONFIG="$TMP/home"
	check "... and an error says so" matches "$OUT" "home: cannot be read: Is a directory"
	run "diw sockets with such a file" sh -c "DIWARP_CONFIG=$TMP/home $DIW sockets; true"
	check "... says so, too" matches "$OUT" "home: cannot be read: Is a directory"
	head -c 100000 /dev/urandom > "$ini"
	framed 10 "a file that is no text" DIWARP_CONFIG="$ini"
fi

# ---- On the wire ----

if $DIW dump -i lo -c 0 > /dev/null 2>&1 || [ "$(id -u)" -eq 0 ]; then
	export DIWARP_SOCKETS_CRC=on
	sender
	background "$TMP/listener" $RUN $STREAM receive 127.0.0.1 5000 100000
	check "frames flow" eventually 30 at_least $SENDER sock_tx_framed 10
	run "a capture shows them" timeout 60 $DIW dump -i lo -c 20 --json
	check "... as Sends of one segment" [ "$(grep '^{' "$TMP/out" |
		jq -s 'map(select(.op == "send" and .payload == 700 and
		.length == 700 and .crc_good and .last and .dst_qp == 5000)) | length')" = 20 ]
	kill $PID
	wait $PID 2> /dev/null
	background "$TMP/listener" env DIWARP_SOCKETS_MODE=write-record $RUN $STREAM receive 127.0.0.1 5000 100000
	check "a receiver that wants Write-Records" eventually 30 $DIW sockets
	run "... says so" $DIW sockets
	check "..." matches "$OUT" ' write-record '
	run "a capture shows them" timeout 60 $DIW dump -i lo -c 20 --json
	check "... of one segment" [ "$(grep '^{' "$TMP/out" |
		jq -s 'map(select(.op == "write-record" and .payload == 700 and
		.length == 700 and .crc_good and .last and .dst_qp == 5000)) | length')" = 20 ]
	check "... and it gets them" kill -0 $PID
	stop
	background "$TMP/gso" $RUN $GSO serve 5302
	check "a server of what is cut" eventually 30 listening 5302
	background "$TMP/gso.ask" $RUN $GSO ask 5302 1000000 1200 30
	run "a capture shows it" timeout 60 $DIW dump -i lo --qp 5302 -c 150 --json
	check "... in a frame each message" [ "$(grep '^{' "$TMP/out" |
		jq -s 'map(select(.op == "send" and .payload == 1200 and
		.length == 1200 and .crc_good and .last and .dst_qp == 5302)) | length')" -ge 130 ]
	check "... while all goes on" kill -0 $PID
	kill $PID
	wait $PID 2> /dev/null
	unset DIWARP_SOCKETS_CRC
else
	skip "no capture on lo"
fi

# ---- Another network namespace ----

if two_namespaces 1500; then
	background "$TMP/there" in_b $RUN $STREAM receive 0.0.0.0 5000 100000
	check "a receiver in another namespace" eventually 30 $DIW sockets
	sender 700 $B4
	check "... gets what is sent plain" eventually 30 at_least $SENDER sock_plain_unknown 20
	check "... because nothing says that it is there" [ "$(counted $SENDER sock_tx_framed)" -eq 0 ]
	stop
	export DIWARP_SOCKETS_PEERS="192.0.2.0/24:5000-5001,[2001:db8::/64]"
	sender 700 $B4
	check "... and frames, if the configuration says so" eventually 30 at_least $SENDER sock_tx_framed 20
	check "... which it gets" eventually 30 at_least $PID sock_rx_framed 20
	stop
	unset DIWARP_SOCKETS_PEERS
	check "nothing of it was damaged" kill -0 $PID
	kill $PID
else
	skip "no second network namespace here"
fi
end
