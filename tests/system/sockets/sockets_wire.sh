#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# DIWARP_IMPAIR and DIWARP_PCAP under diw run --sockets: datagrams that are lost, duplicated, damaged and delayed, and
# invalid settings. A program that is captured has the same results.
. "${0%/*}/../lib.sh"
if [ "$MODE" = asan ]; then
	export DIWARP_PCAP=$TMP/%p
	sanitized sockets_many sockets_gso
fi
[ "$MODE" != tsan ] || { skip "programs of others cannot load a library built for a sanitizer"; end; }

RUN="$DIW run --sockets"
export XDG_RUNTIME_DIR=$TMP/run DIWARP_SOCKETS_LOG=info
unset LD_PRELOAD DIWARP_SOCKETS DIWARP_SOCKETS_CRC DIWARP_SOCKETS_PEERS DIWARP_IMPAIR DIWARP_PCAP
mkdir -m 700 "$TMP/run"
# of NAME: the counter in the line that the program printed last.
of() { sed -n "s/.*counted.* $1=\\([0-9]*\\).*/\\1/p" <<< "$OUT" | tail -n 1 | grep . || echo 0; }
between() { [ "$2" -le "$1" ] && [ "$1" -le "$3" ] || { echo "$1 is not from $2 to $3"; return 1; }; }

# Prints how many of 1,000 messages arrived. With CUT they are sent in buffers of 50.
cat > "$TMP/thousand.py" << 'END'
import os, socket
a, b = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in "ab")
a.bind(("127.0.0.1", 5100))
a.setblocking(False)
got = 0
def take():
    global got
    try:
        while True:
            data = a.recv(60000)
            got += len(data) // 100
    except BlockingIOError:
        pass
take()
cut = "CUT" in os.environ
if cut:
    a.setsockopt(17, 104, 1)
    take()
    b.setsockopt(17, 103, 100)
for i in range(20 if cut else 1000):
    assert b.sendto(b"x" * (5000 if cut else 100), ("127.0.0.1", 5100)) == (5000 if cut else 100)
    take()
print("came", got)
END
# The receive after a MSG_PEEK gets the message that MSG_PEEK showed, although two sockets take turns.
cat > "$TMP/looks.py" << 'END'
import array, fcntl, socket, termios
two = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in "ab"]
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for s in two:
    s.bind(("127.0.0.1", 0))
    s.setblocking(False)
looked = 0
for i in range(400):
    for s in two:
        out.sendto(b"%d" % i * 20, s.getsockname())
    seen = [None, None]
    for j, s in enumerate(two):
        try:
            seen[j] = s.recv(999, socket.MSG_PEEK)
        except BlockingIOError:
            pass
    for j, s in reversed(list(enumerate(two))):
        if seen[j] is not None:
            n = array.array("i", [0])
            fcntl.ioctl(s, termios.FIONREAD, n)
            assert n[0] == len(seen[j]), (n[0], seen[j])
            data = s.recv(999)
            assert data == seen[j], (data, seen[j])
            looked += 1
        try:
            while True:
                s.recv(999)
        except BlockingIOError:
            pass
print("looked", looked)
END
# Every message but the first is lost.
cat > "$TMP/waits.py" << 'END'
import socket, threading, time
a, b = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in "ab")
a.bind(("127.0.0.1", 0))
b.sendto(b"x", a.getsockname())
assert a.recv(9) == b"x"
a.settimeout(None)
a.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, (0).to_bytes(8, "little") + (300000).to_bytes(8, "little"))
t = threading.Timer(0.2, b.sendto, (b"y", a.getsockname()))
t.start()
begin = time.monotonic()
try:
    print("got", a.recv(9))
except BlockingIOError:
    took = time.monotonic() - begin
    print("waited" if 0.28 < took < 0.45 else took)
END
LATE=$PWD/tests/system/sockets/late.py
# thousand WHAT [VARIABLE=VALUE...]: sends 1,000 messages; CAME is how many arrived.
thousand() {
	run "$1" timeout 120 env "${@:2}" $RUN python3 "$TMP/thousand.py"
	CAME=$(sed -n 's/^came //p' <<< "$OUT")
}

# ---- The impairment ----

thousand "a loss of 10 %" DIWARP_IMPAIR=loss=10%,seed=3
check "... by the counter" between "$(of sock_impair_lost)" 60 140
check "... and by what came" [ "$CAME" -eq $((1000 - $(of sock_impair_lost))) ]
first=$CAME
thousand "the same seed" DIWARP_IMPAIR=loss=10%,seed=3
check "... loses as many" [ "$CAME" -eq "$first" ]
thousand "... also of buffers that the kernel is to cut" DIWARP_IMPAIR=loss=10%,seed=3 CUT=1
check "... each message by itself" [ "$CAME" -eq "$first" ]
thousand "a mask" DIWARP_IMPAIR=mask=8001
check "... of exactly these" [ "$CAME $(of sock_impair_lost)" = "968 32" ]
thousand "doubles" DIWARP_IMPAIR=dup=50%
check "... come twice" [ "$CAME" -eq $((1000 + $(of sock_impair_duplicated))) ]
check "... half of them" between "$CAME" 1400 1600
thousand "damage" DIWARP_IMPAIR=corrupt=30% DIWARP_SOCKETS_CRC=on
check "... is found by the CRC" between "$(of sock_rx_crc)" 150 350
check "... what came is whole, or no frame any more" [ "$CAME" -le $((1000 - $(of sock_rx_crc))) ]
thousand "a loss of what is received" DIWARP_IMPAIR=rx.loss=10%,seed=3
check "... by the counter" between "$(of sock_impair_lost)" 60 140
check "... and by what came" [ "$CAME" -eq $((1000 - $(of sock_impair_lost))) ]
first=$CAME
thousand "the same seed" DIWARP_IMPAIR=rx.loss=10%,seed=3
check "... loses as many" [ "$CAME" -eq "$first" ]
thousand "... also of buffers that the kernel has joined" DIWARP_IMPAIR=rx.loss=10%,seed=3 CUT=1
check "... each message by itself" [ "$CAME" -eq "$first" ]
thousand "a mask of what is received" DIWARP_IMPAIR=rx.mask=8001
check "... of exactly these" [ "$CAME $(of sock_impair_lost)" = "968 32" ]
for cut in "" CUT=1; do
	thousand "doubles of what is received $cut" DIWARP_IMPAIR=rx.dup=50% $cut
	check "... come twice" [ "$CAME" -eq $((1000 + $(of sock_impair_duplicated))) ]
	check "... half of them" between "$CAME" 1400 1600
done
thousand "damage to what is received" DIWARP_IMPAIR=rx.corrupt=30% DIWARP_SOCKETS_CRC=on
check "... is found by the CRC" between "$(of sock_rx_crc)" 150 350
run "a program that looks before it receives" timeout 60 env DIWARP_IMPAIR=rx.loss=20%,rx.dup=20%,rx.corrupt=20% $RUN \
	python3 "$TMP/looks.py"
check "... receives what it saw" matches "$OUT" 'looked [1-9]'
check "... of what was doubled, too" [ "$(of sock_impair_duplicated)" -gt 0 ]
run "a loss while a call waits" timeout 60 env DIWARP_IMPAIR=rx.mask=fffffffffffffffe $RUN python3 "$TMP/waits.py"
check "... lets it wait for the rest of its time" matches "$OUT" 'waited'
for case in delay closed others changed forked ends alone signals refused filled; do
	run "late datagrams: $case" timeout 60 env DIWARP_IMPAIR=delay=50ms $RUN python3 "$LATE" $case
done
check "... and nothing of it was lost" [ "$(of sock_impair_lost)" -eq 0 ]
run "late datagrams: buffers that the kernel is to cut" timeout 60 env DIWARP_IMPAIR=delay=2ms CUT=1 $RUN python3 \
	"$TMP/thousand.py"
check "... each message by itself" [ "$(of sock_impair_delayed)" -eq 1000 ]
run "reordered datagrams" timeout 60 env DIWARP_IMPAIR=reorder=20%,seed=1 $RUN python3 "$LATE" reorder
check "... by the counter" between "$(of sock_impair_reordered)" 10 30
# shellcheck disable=SC2086  # it may be two words
echo '__thread char large[600000]; char *get(void) { return large; }' |
	${CC:-gcc} -shared -fPIC -xc -o "$TMP/large.so" -
run "late datagrams: a library that wants 600 KB of each thread" timeout 60 env DIWARP_IMPAIR=delay=50ms \
	LD_PRELOAD="$TMP/large.so" $RUN python3 "$LATE" delay
for case in "ends 100" "leaves 100" "executes 100" "spawned 200"; do
	python3 -c '
import select, socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", 5103))
n = 0
while select.select([s], [], [], 2 if n else 20)[0]:
    s.recv(99)
    n += 1
print(n)' > "$TMP/count" &
	counter=$!
	JOBS+=("$counter")
	check "... a program that counts" eventually 30 sh -c "ss -Hlun sport = 5103 | grep -q ."
	run "late datagrams: ${case% *}" timeout 60 env PORT=5103 DIWARP_IMPAIR=delay=10s $RUN python3 "$LATE" \
		${case% *}
	wait $counter
	check "... leaves none behind" [ "$(cat "$TMP/count")" = "${case#* }" ]
done
run "late datagrams, and a filter of system calls" timeout 60 env DIWARP_IMPAIR=delay=50ms $RUN \
	"$BUILD/tests/system/sockets_filtered" itself
check "... works" matches "$OUT" works
for wrong in rx.delay=1ms rx.reorder=1% nonsense=1 loss=2; do
	name=${wrong%=*}
	thousand "$name is refused" DIWARP_IMPAIR="$wrong"
	check "... by its name" matches "$OUT" "DIWARP_IMPAIR: .*$name.*; nothing is impaired"
	check "... and nothing is" [ "$CAME $(of sock_impair_lost)" = "1000 0" ]
done
run "connections" env DIWARP_IMPAIR=loss=50% $RUN=all python3 -c '
import socket
s = socket.create_server(("127.0.0.1", 0))
c = socket.create_connection(s.getsockname())
d, _ = s.accept()
for _ in range(100):
    c.sendall(b"x" * 1000)
    n = 0
    while n < 1000:
        n += len(d.recv(1000))'
check "... are not, and that is told" matches "$OUT" "connections of TCP are not impaired"
check "... once" [ "$(grep -c "connections of TCP" <<< "$OUT")" -eq 1 ]

# ---- The capture ----

for prog in sockets_many sockets_gso sockets_errqueue sockets_held; do
	run "$prog" "$BUILD/tests/system/$prog"
	printf '%s\n' "$OUT" > "$TMP/plain"
	run "... captured" env DIWARP_PCAP="$TMP/%p-$prog" DIWARP_SOCKETS_CRC=on $RUN "$BUILD/tests/system/$prog"
	grep -v '^diwarp sockets: ' <<< "$OUT" > "$TMP/seen"
	check "... sees the same" diff "$TMP/plain" "$TMP/seen"
done
thousand "an exchange" DIWARP_PCAP="$TMP/exchange" DIWARP_SOCKETS_CRC=on DIWARP_IMPAIR=loss=2%,corrupt=2%,seed=1
lost=$(of sock_impair_lost) bad=$(of sock_rx_crc) damaged=$(of sock_impair_corrupted)
run "its capture" $DIW dump -r "$TMP/exchange" --json
cp "$TMP/out" "$TMP/dumped"
# packets EXPRESSION: how many packets match.
packets() { grep '^{' "$TMP/dumped" | jq -s "map(select($1)) | length"; }
check "... has what left" [ "$(packets '.dir == "out" and .dropped == null')" -eq $((1000 - lost)) ]
check "... what was lost" [ "$(packets '.dropped == "impair_lost"')" -eq "$lost" ]
check "... what was dropped, and why" [ "$(packets '.dropped == "sock_rx_crc"')" -eq "$bad" ]
check "... and what came" [ "$(packets '.dir == "in" and .src == "127.0.0.1" and .dst_qp == 5100 and .crc_good and
	.op == "send" and .payload == 100')" -eq $((1000 - lost - damaged)) ]
thousand "buffers" DIWARP_PCAP="$TMP/buffers" DIWARP_SOCKETS_CRC=on CUT=1
run "their capture" $DIW dump -r "$TMP/buffers" --json
cp "$TMP/out" "$TMP/dumped"
check "... has each message, there and back" [ "$(packets '.crc_good and .payload == 100')" -eq 2000 ]

ln -s "$TMP/elsewhere" "$TMP/link"
thousand "a symbolic link" DIWARP_PCAP="$TMP/link"
check "... is not followed" matches "$OUT" "DIWARP_PCAP=.*a symbolic link"
check "... nothing is there" [ ! -e "$TMP/elsewhere" ]
check "... and all came" [ "$CAME" -eq 1000 ]
run "two processes" env DIWARP_PCAP="$TMP/two-%p" $RUN python3 -c '
import os, socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", 5101))
for _ in range(10):
    s.sendto(b"x", ("127.0.0.1", 5101))
    s.recv(9)
if os.fork() == 0:
    for _ in range(10):
        s.sendto(b"x", ("127.0.0.1", 5101))
        s.recv(9)
    os._exit(0)
os.wait()'
check "... have a file each" [ "$(find "$TMP" -name 'two-*' | wc -l)" -eq 2 ]
run "a program that closes every descriptor and opens files of its own" env DIWARP_PCAP="$TMP/closed" $RUN python3 -c '
import os, socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", 5101))
s.sendto(b"x", ("127.0.0.1", 5101))
s.recv(9)
os.closerange(3, s.fileno())
os.closerange(s.fileno() + 1, 1000)
files = [os.open(sys.argv[1], os.O_RDWR | os.O_CREAT) for _ in range(20)]
for _ in range(10):
    s.sendto(b"x", ("127.0.0.1", 5101))
    s.recv(9)
' "$TMP/own"
check "... finds nothing in them" [ ! -s "$TMP/own" ]
check "... and is told" matches "$OUT" "nothing more is captured"
end
