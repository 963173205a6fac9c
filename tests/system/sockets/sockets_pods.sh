#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# diw run --sockets=all in containers that share only a network namespace and a directory, in a container where every
# program has a filter of system calls, and with hardly any memory for the registries.
. "${0%/*}/../lib.sh"
case $MODE in asan | tsan) skip "programs of others cannot load a library built for a sanitizer"; end ;; esac
unshare -m -p -i -f --mount-proc mount -t tmpfs tmpfs /dev/shm 2> /dev/null || { skip "no containers here"; end; }

RUN="$DIW run --sockets=all"
STREAM="python3 tests/system/sockets/stream.py"
TCP="python3 tests/system/sockets/tcp.py"
export DIWARP_SOCKETS_LOG=info
unset LD_PRELOAD DIWARP_SOCKETS DIWARP_SOCKETS_CRC DIWARP_SOCKETS_PEERS DIWARP_SOCKETS_STREAMS DIWARP_SOCKETS_USERS \
	XDG_RUNTIME_DIR DIWARP_SOCKETS_DIR
mkdir -m 777 "$TMP/shared"
mkfifo "$TMP/stdin"
exec 3<> "$TMP/stdin"
told() { sed -n "s/.*counted.* $1=\\([0-9]*\\).*/\\1/p" "${2:-$TMP/out}" | awk '{ s += $1 } END { print s + 0 }'; }
# contained COMMAND...: runs it with its own processes, mounts and /dev/shm, in this network. IPC=-i: also with its own
# System V segments.
IPC=-i
contained() {
	unshare -m -p $IPC -f --kill-child --mount-proc sh -c 'mount -t tmpfs tmpfs /dev/shm && exec "$@"' - "$@"
}
# received COUNT [VARIABLE=VALUE...]: a container receives COUNT messages from another container; COUNT "more": until it
# is ended. The sender's output is in TMP/sender.
received() {
	local count=$1 command=$STREAM
	shift
	[ "$count" != more ] || command="python3 $TMP/more.py"
	background "$TMP/receiver" contained env "$@" $RUN $command receive 127.0.0.1 5000 "$count"
	RECEIVER=$PID
	check "a receiver in a container" eventually 30 listening 5000
	contained env "$@" $RUN $STREAM send 127.0.0.1 5000 700 < "$TMP/stdin" > "$TMP/sender" 2>&1 3>&- &
	SENDER=$!
	JOBS+=("$SENDER")
}
ended() {
	kill -9 -- -"$1"
	wait "$1"
	check "... which is killed" eventually 30 sh -c "! ss -Htuln 'sport = :5000' | grep -q ."
} 2> /dev/null
stop() {
	printf '\n' > "$TMP/stdin"
	check "its sender noticed nothing" join "$SENDER" 30
}

# ---- A pod ----

received 300
check "... hears one in another container" join "$RECEIVER" 60
stop
check "... plain, if they share no directory" [ "$(told sock_tx_framed "$TMP/sender")" -eq 0 ]
IPC=
received 300
check "one hears it in frames" join "$RECEIVER" 60
stop
check "... if they share System V's segments" [ "$(told sock_tx_framed "$TMP/sender")" -ge 100 ]
IPC=-i
received 300 DIWARP_SOCKETS_DIR="$TMP/shared"
check "with a shared directory it hears it" join "$RECEIVER" 60
stop
check "... in frames" [ "$(told sock_tx_framed "$TMP/sender")" -ge 200 ]
check "... by a registry there" [ "$(stat -c '%a %F' "$TMP/shared/diwarp-$(id -u)")" = '700 directory' ]
cat > "$TMP/more.py" << END
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", 5000))
for i in range(1000000):
    s.recv(1000)
    if i == 200:
        print("heard some", flush=True)
END
received more DIWARP_SOCKETS_DIR="$TMP/shared"
check "... hears some" eventually 30 grep -q "heard some" "$TMP/receiver"
ended "$RECEIVER"
run "a plain one in the place of one that was killed gets none" timeout 60 $STREAM receive 127.0.0.1 5000 100
stop
check "... which the other had" [ "$(told sock_tx_framed "$TMP/sender")" -ge 50 ]
if DIWARP_CONFIG=/dev/null $RUN true 2>&1 | grep -q 'cannot read configuration'; then
	skip "this build reads no configuration file"
else
	printf '[sockets]\ndir = %s\n' "$TMP/named" > "$TMP/diwarp.ini"
	mkdir -m 777 "$TMP/named"
	received more DIWARP_CONFIG="$TMP/diwarp.ini"
	check "with a directory that the configuration file names it hears some" eventually 30 grep -q "heard some" \
		"$TMP/receiver"
	run "... and diw sockets finds it there" env DIWARP_CONFIG="$TMP/diwarp.ini" $DIW sockets
	check "... at its port" matches "$OUT" ':5000'
	ended "$RECEIVER"
	stop
	check "... in frames" [ "$(told sock_tx_framed "$TMP/sender")" -ge 50 ]
	mkdir -m 777 "$TMP/other"
	received 100 DIWARP_CONFIG="$TMP/diwarp.ini" DIWARP_SOCKETS_DIR="$TMP/other"
	check "with another directory in the environment, too" join "$RECEIVER" 60
	stop
	check "... which comes before the file" test -d "$TMP/other/diwarp-$(id -u)"
fi
background "$TMP/server" contained env DIWARP_SOCKETS_DIR="$TMP/shared" $RUN $TCP echo 5000
SERVER=$PID
check "a server in a container" eventually 30 accepting 5000
run "... answers one in another" contained env DIWARP_SOCKETS_DIR="$TMP/shared" $RUN $TCP ask 5000 3000000 3
check "... by FPDUs" [ "$(told sock_stream_tx)" -ge 3000000 ]
check "... in both directions" [ "$(told sock_stream_rx)" -ge 3000000 ]
ended "$SERVER"
run "a directory that is no path" env DIWARP_SOCKETS_DIR=shared $RUN $TCP calls
check "... is refused, and a warning says why" matches "$OUT" "shared/diwarp-[0-9]+: it is no absolute path"

# ---- Filters of system calls ----

export XDG_RUNTIME_DIR=$TMP/tiny
mkdir -m 700 "$TMP/tiny"
TALK="python3 tests/system/sockets/talk.py"
FILTERED="python3 tests/system/sockets/filtered.py"
# filtered WHAT N COMMAND...: the first process of a container, and so COMMAND, has N filters.
filtered() {
	local what=$1 n=$2
	shift 2
	run "$what" timeout 60 unshare -p -f --mount-proc $FILTERED "$n" sh -c '"$@"; exit $?' - "$@"
}
filtered "a program in a container without filters" 0 $RUN $TALK
check "... sends frames" [ "$(told sock_tx_framed)" -ge 190 ]
filtered "in one whose programs all have one" 1 $RUN $TALK
check "... it sends frames" [ "$(told sock_tx_framed)" -ge 190 ]
filtered "in one whose programs all have two" 2 $RUN $TALK
check "... it sends frames" [ "$(told sock_tx_framed)" -ge 190 ]
filtered "with one more than all have" 1 $FILTERED 1 $RUN $TALK
check "... it sends none" [ "$(told sock_tx_framed)" -eq 0 ]
filtered "with one where the others have none" 0 $FILTERED 1 $RUN $TALK
check "... it sends none" [ "$(told sock_tx_framed)" -eq 0 ]

# ---- Hardly any memory ----

cat > "$TMP/some.py" << END
import socket
listener = socket.create_server(("127.0.0.1", 0))
keep = []
for i in range(150):
    c = socket.create_connection(listener.getsockname())
    a, _ = listener.accept()
    keep += [a, c]
    for x, y in (a, c), (c, a):
        x.sendall(b"%d" % i)
        assert y.recv(100) == b"%d" % i
    u, v = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for j in range(2))
    for s in u, v:
        s.bind(("127.0.0.1", 0))
        s.settimeout(60)
    keep += [u, v]
    for j in range(3):
        u.sendto(b"%d" % i, v.getsockname())
        m, who = v.recvfrom(100)
        v.sendto(m, who)
        assert u.recv(100) == b"%d" % i
END
least=1000000 most=0
for size in 8 200 350 360 370 400 500 700 1000 1500 2000 4000 16000; do
	run "with $size KiB for the registries, and for the counters" timeout 100 unshare -m sh -c \
		'mount -t tmpfs -o size='$size'k,mode=700 tmpfs "$1" && mount --bind "$1" /dev/shm &&
			shift && exec "$@"' - \
		"$TMP/tiny" env XDG_RUNTIME_DIR="$TMP/tiny" DIWARP_SOCKETS_CRC=on $RUN python3 "$TMP/some.py"
	framed=$(told 'sock_stream_tx')
	[ "$framed" -lt "$least" ] && least=$framed
	[ "$framed" -gt "$most" ] && most=$framed
done
check "... none of the least goes in frames" [ "$least" -eq 0 ]
check "... and of the most all" [ "$most" -eq 680 ]
end
