# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2034
# The rows of sockets_programs.sh; lib.sh describes the rows.
STREAMS=(sipp_t1 sipp_tn iperf3_tcp socat_tcp nc_tcp http node_net node_http)
BOTH=(sipp_u1 sipp_un sipp_un_un dig iperf3 socat nc tftp python group chronyd chronyd_v6 coturn node "${STREAMS[@]}")
LARGE_STREAMS=(ffmpeg_http vlc_http java_tcp)
LARGE=(ffmpeg vlc ffmpeg_vlc vlc_rtp vlc_group ffmpeg_group java "${LARGE_STREAMS[@]}")
ALONE=(sipp_u1 dig iperf3 socat tftp group node chronyd sipp_t1 http node_net)

# SIPp makes at most 10 calls at once, so the sockets' queues do not overflow.
about_sipp_u1() { echo 'SIPp, uac and uas over one socket each (`-t u1`), 1,000 calls'; }
row_sipp_u1() {
	first sipp -sn uas -i 127.0.0.1 -p 5070 -nostdin
	waits 5070
	second sipp -sn uac -i 127.0.0.1 -p 5080 -r 300 -m 1000 -l 10 -nostdin -timer_resol 1 127.0.0.1:5070
	fine "sipp failed: $STATUS" [ $STATUS -eq 0 ]
	live
	ends KILL
}

# row_sipp_sockets UAS CALLS
row_sipp_sockets() {
	ELIGIBLE=second
	first sipp -sn uas -t "$1" -max_socket 1000 -i 127.0.0.1 -p 5070 -nostdin
	waits 5070
	second sipp -sn uac -t un -max_socket 1000 -i 127.0.0.1 -r 300 -m "$2" -l 10 -nostdin -timer_resol 1 \
		127.0.0.1:5070
	fine "sipp failed: $STATUS" [ $STATUS -eq 0 ]
	live
	ends KILL
}
about_sipp_un() { echo 'SIPp, the uac with a socket each call (`-t un`), 1,000 calls'; }
row_sipp_un() { row_sipp_sockets u1 1000; }
about_sipp_un_un() { echo 'SIPp, both with `-t un`, 300 calls'; }
row_sipp_un_un() { row_sipp_sockets un 300; }

row_sipp_tcp() {
	first sipp -sn uas -t "$1" -max_socket 2000 -i 127.0.0.1 -p 5070 -nostdin
	eventually 30 accepting 5070 || fault "no server"
	second sipp -sn uac -t "$1" -max_socket 2000 -i 127.0.0.1 -p 5080 -r 300 -m 1000 -l 100 \
		-nostdin -timer_resol 1 \
		127.0.0.1:5070
	fine "sipp failed: $STATUS" [ $STATUS -eq 0 ]
	live
	ends KILL
}
about_sipp_t1() { echo 'SIPp over one TCP connection (`-t t1`), 1,000 calls'; }
row_sipp_t1() { row_sipp_tcp t1; }
about_sipp_tn() { echo 'SIPp, both with `-t tn`, a TCP connection each call, 1,000 calls'; }
row_sipp_tn() { row_sipp_tcp tn; }

about_dig() { echo 'dig and dnsmasq, 400 questions, each from a socket of its own'; }
row_dig() {
	local i
	ELIGIBLE=second
	first dnsmasq --no-daemon --conf-file=/dev/null --no-resolv --no-hosts --pid-file= \
		--port 5353 --address=/example.org/192.0.2.77 --listen-address=127.0.0.1 --bind-interfaces
	waits 5353
	for ((i = 0; i < 400; i++)); do echo "n$i.example.org A"; done > "$TMP/questions"
	second dig -p 5353 @127.0.0.1 +short +tries=3 -f "$TMP/questions"
	fine "not every question has its answer" [ "$(grep -cx 192.0.2.77 "$TMP/second.out")" -eq 400 ]
	live
	ends
}

about_iperf3() { echo 'iperf3 -u, 1 s of 1,460 bytes at 40 Mbit/s'; }
row_iperf3() {
	ELIGIBLE=second
	first iperf3 -s -1 -p 5201
	eventually 30 accepting 5201 || fault "no server"
	second iperf3 -u -c 127.0.0.1 -p 5201 -t 1 -b 40M -l 1460 --json
	fine "it measured nothing" jq -e '.end.sum.packets > 200 and .end.sum.bytes > 2e5' "$TMP/second.out"
	join $FIRST 30 > /dev/null
	# iperf3 connects its socket first, and asks the kernel about its peer afterwards.
	fine "what arrived is not what was sent" jq -e '.end.sum.lost_percent < 90' "$TMP/second.out"
}

about_iperf3_tcp() { echo 'iperf3, TCP, 1 s at 40 Mbit/s'; }
row_iperf3_tcp() {
	first iperf3 -s -1 -p 5201
	eventually 30 accepting 5201 || fault "no server"
	second iperf3 -c 127.0.0.1 -p 5201 -t 1 -b 40M --json
	fine "it measured nothing" jq -e '.end.sum_received.bytes > 2e5' "$TMP/second.out"
	join $FIRST 30 > /dev/null
}

about_socat_tcp() { echo 'socat, a TCP connection that a forked child has answered by cat, 3 MB'; }
row_socat_tcp() {
	head -c 3000000 /dev/urandom > "$TMP/file"
	first socat TCP-LISTEN:5310,bind=127.0.0.1,fork,reuseaddr EXEC:cat
	eventually 30 accepting 5310 || fault "no server"
	INPUT=$TMP/file
	second socat -t 30 - TCP:127.0.0.1:5310
	INPUT=
	fine "not what was sent came back" cmp "$TMP/file" "$TMP/second.out"
	[ $WHO != both ] || eventually 10 grep -q 'sock_stream_tx=' "$TMP/first.err"
	ends
}

about_nc_tcp() { echo 'nc to Python over TCP, 3 MB and back'; }
row_nc_tcp() {
	head -c 3000000 /dev/urandom > "$TMP/file"
	first python3 tests/system/sockets/tcp.py echo 5311
	eventually 30 accepting 5311 || fault "no server"
	INPUT=$TMP/file
	second nc.openbsd -N 127.0.0.1 5311
	INPUT=
	fine "not what was sent came back" cmp "$TMP/file" "$TMP/second.out"
	live
	ends KILL
}

about_http() { echo "curl and Python's http.server, 3 MB"; }
row_http() {
	mkdir -p "$TMP/www"
	head -c 3000000 /dev/urandom > "$TMP/www/file"
	first python3 -m http.server 5380 --bind 127.0.0.1 -d "$TMP/www"
	eventually 30 accepting 5380 || fault "no server"
	second curl -sS http://127.0.0.1:5380/file
	fine "the file is not the same" cmp "$TMP/www/file" "$TMP/second.out"
	live
	ends
}

about_socat() { echo 'socat, 300 datagrams each answered'; }
row_socat() {
	first socat -b 2000 UDP-LISTEN:5300,bind=127.0.0.1 EXEC:cat
	waits 5300
	second python3 tests/system/sockets/echo.py 5300 300
	fine "it failed: $STATUS" [ $STATUS -eq 0 ]
	ends
}

about_nc() { echo 'nc -u, lines answered by Python'; }
row_nc() {
	ELIGIBLE=second
	first python3 tests/system/sockets/echo.py 5301
	waits 5301
	for ((i = 0; i < 200; i++)); do echo "line $i"; sleep 0.002; done > "$TMP/lines"
	mkfifo "$TMP/pipe" 2> /dev/null
	INPUT=$TMP/pipe
	(while read -r line; do echo "$line"; sleep 0.003; done < "$TMP/lines" > "$TMP/pipe"; sleep 0.2) &
	second nc.openbsd -u -q 5 127.0.0.1 5301
	INPUT=
	fine "not what was sent came back" cmp "$TMP/lines" "$TMP/second.out"
	live
	ends KILL
}

about_tftp() { echo 'tftp and tftpd, which forks, 2 MB in blocks of 512 bytes'; }
row_tftp() {
	head -c 2000000 /dev/urandom > "$TMP/file"
	chmod 644 "$TMP/file"
	chmod 755 "$TMP"
	first in.tftpd -L -u "$(id -un)" --address 127.0.0.1:6969 "$TMP"
	waits 6969
	second tftp -m binary 127.0.0.1 6969 -c get "$TMP/file" "$TMP/second.file"
	fine "the file is not the same" cmp "$TMP/file" "$TMP/second.file"
	eventually 10 child_told
	ends
}
# The child that sent the file has ended and written its counters.
child_told() { [ $WHO != both ] || grep -q 'sock_tx_framed=[0-9]\{3\}' "$TMP/first.err"; }

about_python() { echo 'Python, 2,000 questions and answers of up to 60,000 bytes'; }
row_python() {
	first python3 tests/system/sockets/echo.py 5302
	waits 5302
	second python3 tests/system/sockets/echo.py 5302 2000 60000
	fine "it failed: $STATUS" [ $STATUS -eq 0 ]
	live
	ends KILL
}

about_group() { echo 'Python, 1,500 messages to a multicast group'; }
row_group() {
	ELIGIBLE=second
	first python3 tests/system/sockets/group.py member 239.1.1.1 5303 1500
	waits 5303
	sleep 0.1
	second python3 tests/system/sockets/group.py send 239.1.1.1 5303 1500
	join $FIRST 30 > /dev/null || fault "the member did not get them"
}

# row_chronyd_at ADDRESS [LINE]: chronyd asks the kernel for the messages that it sent, with the times when they left.
# It finds its message behind the headers of the packet. LINE is a line of the client's configuration.
row_chronyd_at() {
	mkdir -p "$TMP/chrony"
	chmod 750 "$TMP/chrony"
	rm -f "$TMP"/chrony/*
	printf '%s\n' 'port 11123' "bindaddress $1" 'allow' 'local stratum 8' > "$TMP/chrony/first"
	printf '%s\n' 'port 0' "server $1 port 11123 minpoll -6 maxpoll -6 maxsamples 8" "${2:-}" > "$TMP/chrony/second"
	for end in first second; do
		printf '%s\n' 'cmdport 0' "pidfile $TMP/chrony/$end.pid" "bindcmdaddress $TMP/chrony/$end.sock" \
			"user $(id -un)" >> "$TMP/chrony/$end"
	done
	first chronyd -x -d -f "$TMP/chrony/first"
	waits 11123
	(eventually 60 has_its_times && live "$(cat "$TMP/chrony/second.pid")" "$TMP/chrony/counted" &&
		chronyc shutdown) \
		> /dev/null 2>&1 &
	second chronyd -x -d -t 60 -f "$TMP/chrony/second"
	kill $! 2> /dev/null
	wait $!
	cat "$TMP/chrony/counted" >> "$TMP/second.err" 2> /dev/null
	fine "it did not synchronize" grep -q "Selected source $1" "$TMP/second.out" "$TMP/second.err"
	fine "it has not the kernel's times" [ "$(grep -c '^[TR]X timestamping : Kernel' "$TMP/chrony/data")" -eq 2 ]
	fine "its clock is another" awk '/^Offset/ { exit !($3 < 0.05 && $3 > -0.05) }' "$TMP/chrony/data"
	live
	ends
}
chronyc() { LD_LIBRARY_PATH="$(LIBRARIES)" "$(path chronyc)" -h "$TMP/chrony/second.sock" "$@"; }
# Enough answers: with these, the plain ones sent before both had received are fewer than one of 100.
has_its_times() {
	chronyc ntpdata > "$TMP/chrony/data"
	awk -v most=$([ $WHO = both ] && echo 250 || echo 20) '/^Total valid RX/ && $NF >= most { enough = 1 }
		/^[TR]X timestamping : Kernel/ { kernel++ } END { exit !(enough && kernel == 2) }' "$TMP/chrony/data"
}
about_chronyd() { echo 'chronyd, server and client, synchronized by the times when the kernel sent and received'; }
row_chronyd() { row_chronyd_at 127.0.0.1 'acquisitionport 11124'; }
about_chronyd_v6() { echo 'chronyd over IPv6, a socket each question'; }
row_chronyd_v6() { ELIGIBLE=second; row_chronyd_at ::1; }

about_coturn() { echo 'coturn: turnserver between two turnutils_uclient, 600 messages relayed'; }
row_coturn() {
	first turnserver -n --no-auth --listening-ip 127.0.0.1 --listening-port 3478 --relay-ip 127.0.0.1 \
		--no-tls --no-dtls \
		--allow-loopback-peers --no-cli --log-file stdout --pidfile "$TMP/turn.pid" --db "$TMP/turn.db"
	waits 3478
	second turnutils_uclient -y -c -m 2 -n 300 -l 170 -z 2 127.0.0.1
	fine "messages were lost" grep -q 'Total lost packets 0 ' "$TMP/second.out"
	live
	ends
}

about_node() { echo 'Node, 2,000 questions and answers'; }
row_node() {
	first node tests/system/sockets/echo.js 5303
	waits 5303
	second node tests/system/sockets/echo.js 5303 2000
	fine "it failed: $STATUS" [ $STATUS -eq 0 ]
	live
	ends KILL
}

# row_node_tcp KIND PORT COUNT: a server and a client in Node.js.
row_node_tcp() {
	first node tests/system/sockets/tcp.js "$1" "$2"
	eventually 30 accepting "$2" || fault "no server"
	second node tests/system/sockets/tcp.js "$1" "$2" "$3"
	fine "it failed: $STATUS" [ $STATUS -eq 0 ]
	live
	ends KILL
}
about_node_net() { echo "Node's net, four TCP connections, 400 pieces of up to 60,000 bytes and back"; }
row_node_net() { row_node_tcp net 5312 100; }
about_node_http() { echo "Node's http, 400 requests of up to 60,000 bytes, each answered by its body"; }
row_node_http() { row_node_tcp http 5313 400; }

java_compiles() {
	fine "it does not compile" env LD_LIBRARY_PATH="$(LIBRARIES)" "$(path java)" \
		-cp "$root/usr/share/java/eclipse-jdt-core.jar" \
		org.eclipse.jdt.internal.compiler.batch.Main -17 -proc:none -d "$TMP" "tests/system/sockets/$1.java"
}
about_java() { echo 'Java, DatagramSocket and DatagramChannel, 2,000 questions and answers'; }
row_java() {
	java_compiles Echo
	first java -cp "$TMP" Echo 5304
	waits 5304
	second java -cp "$TMP" Echo 5304 2000
	fine "it failed: $STATUS" [ $STATUS -eq 0 ]
	live
	ends KILL
}

about_java_tcp() { echo 'Java, Socket and SocketChannel to a Selector, 400 pieces of up to 60,000 bytes and back'; }
row_java_tcp() {
	java_compiles Stream
	first java -cp "$TMP" Stream 5314
	eventually 30 accepting 5314 || fault "no server"
	second java -cp "$TMP" Stream 5314 200
	fine "it failed: $STATUS" [ $STATUS -eq 0 ]
	live
	ends KILL
}

about_ffmpeg() { echo 'ffmpeg to ffmpeg, MPEG-TS: the same packets as without'; }
row_ffmpeg() {
	local who=$WHO pass
	ELIGIBLE=second
	media
	for pass in none "$who"; do
		WHO=$pass
		: > "$TMP/first.err"
		first ffmpeg -nostdin -v error -y -i 'udp://127.0.0.1:5004?timeout=3000000&fifo_size=100000' -c copy \
			-f framemd5 "$TMP/first.$pass"
		waits 5004
		second ffmpeg -nostdin -v error -re -i "$TMP/media.ts" -c copy -f mpegts \
			'udp://127.0.0.1:5004?pkt_size=1316'
		join $FIRST 30 > /dev/null
	done
	fine "nothing came" [ "$(wc -l < "$TMP/first.none")" -gt 100 ]
	fine "what came differs" cmp "$TMP/first.none" "$TMP/first.$who"
}

# wake PORT DATA: sends a packet and waits until VLC has read it. VLC binds its port long before it reads from it.
wake() {
	python3 -c "import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.sendto($2, ('${AT:-127.0.0.1}', $1))"
	eventually 30 nothing_waits "$1" || fault "VLC does not read"
}
NULL_PACKET='b"\x47\x1f\xff\x10" + 184 * b"\xff"'
nothing_waits() { ss -Huln "sport = :$1" | awk '$2 > 0 { busy = 1 } END { exit busy || !NR }'; }

# vlc_receives SENDER...: VLC writes the received stream to stream.ts of the user nobody.
vlc_receives() {
	as_nobody || return
	rm -f "$TMP/nobody/stream.ts"
	first vlc -I dummy --no-lua --ignore-config --network-caching=300 --demux=dump \
		--demuxdump-file="$TMP/nobody/stream.ts" "udp://@${AT:-127.0.0.1}:5004"
	waits 5004
	wake 5004 "$NULL_PACKET"
	second "$@"
	# VLC writes some time after it reads, and writes its last block when it ends.
	size=-1
	eventually 30 has_settled
	live
	ends
}
# The file is not empty and did not grow for a second.
has_settled() {
	local before=$size
	sleep 1
	size=$(stat -c %s "$TMP/nobody/stream.ts")
	[ "$size" -gt 0 ] && [ "$size" -eq "$before" ]
}

# attempts TRY GOOD: up to three tries. On a busy machine datagrams are lost between the kernel and the program, which
# is no fault of the interposer.
attempts() {
	local number before=$FAULT
	for number in 1 2 3; do
		FAULT=$before
		: > "$TMP/first.err"
		"$1"
		! "$2" > /dev/null 2>&1 || return 0
	done
	fault "the stream is not what it should be"
}

about_vlc() { echo 'VLC to VLC, MPEG-TS over UDP'; }
row_vlc() {
	ELIGIBLE=second
	media
	attempts vlc_to_vlc whole_stream
}
vlc_to_vlc() {
	vlc_receives vlc -I dummy --no-lua --ignore-config --play-and-exit "$TMP/media.ts" \
		--sout "#std{access=udp,mux=ts,dst=${AT:-127.0.0.1}:5004}" || fault "VLC wants an ordinary user"
}
whole_stream() { [ "$(stat -c %s "$TMP/nobody/stream.ts")" -gt 1000000 ] && whole_ts "$TMP/nobody/stream.ts"; }
# The file consists of packets of 188 bytes with the right first byte, and the counter of the first PID has no gap.
whole_ts() { python3 tests/system/sockets/ts.py "$1"; }

about_vlc_group() { echo 'VLC to VLC, MPEG-TS over UDP, by a multicast group'; }
row_vlc_group() { AT=239.1.1.1 row_vlc; }

about_vlc_rtp() { echo 'VLC to VLC, MPEG-TS over RTP'; }
row_vlc_rtp() {
	ELIGIBLE=second
	media
	attempts vlc_by_rtp whole_stream
}
vlc_by_rtp() {
	as_nobody || { fault "VLC wants an ordinary user"; return; }
	rm -f "$TMP/nobody/stream.ts"
	first vlc -I dummy --no-lua --ignore-config --network-caching=300 \
		--sout "#std{access=file,mux=ts,dst=$TMP/nobody/stream.ts}" rtp://@127.0.0.1:5006
	waits 5006
	wake 5006 'b"x"'
	second vlc -I dummy --no-lua --ignore-config --play-and-exit "$TMP/media.ts" \
		--sout '#rtp{dst=127.0.0.1,port=5006,mux=ts}'
	size=-1
	eventually 30 has_settled
	live
	ends
}

about_ffmpeg_http() { echo "Python's http.server to ffmpeg, MPEG-TS: the bytes of the file"; }
row_ffmpeg_http() {
	media
	first python3 -m http.server 5381 --bind 127.0.0.1 -d "$TMP"
	eventually 30 accepting 5381 || fault "no server"
	second ffmpeg -nostdin -v error -y -f data -i http://127.0.0.1:5381/media.ts -map 0 -c copy -f data \
		"$TMP/second.ts"
	fine "it failed: $STATUS" [ $STATUS -eq 0 ]
	fine "what came differs" cmp "$TMP/media.ts" "$TMP/second.ts"
	live
	ends
}

about_vlc_http() { echo 'VLC to VLC over HTTP: the bytes that VLC writes to a file, from where the other came in'; }
row_vlc_http() {
	local who=$WHO
	as_nobody || { fault "VLC wants an ordinary user"; return; }
	media
	WHO=none
	second vlc -I dummy --no-lua --ignore-config --play-and-exit "$TMP/media.ts" \
		--sout "#std{access=file,mux=raw,dst=$TMP/nobody/wanted}"
	WHO=$who
	attempts vlc_by_http follows
}
vlc_by_http() {
	rm -f "$TMP/nobody/stream"
	first vlc -I dummy --no-lua --ignore-config --play-and-exit "$TMP/media.ts" \
		--sout '#std{access=http,mux=raw,dst=127.0.0.1:5382/}'
	eventually 30 accepting 5382 || fault "no server"
	second vlc -I dummy --no-lua --ignore-config --play-and-exit --demux=dump \
		--demuxdump-file="$TMP/nobody/stream" \
		http://127.0.0.1:5382/
	ends
}
# The received piece is part of the stream, and at least half of it. The receiver joins late, and the sender may close
# before its last pictures.
follows() {
	python3 -c 'import sys
whole, piece = (open(name, "rb").read() for name in sys.argv[1:])
sys.exit(len(piece) < len(whole) / 2 or piece not in whole)' "$TMP/nobody/wanted" "$TMP/nobody/stream"
}

about_ffmpeg_vlc() { echo 'ffmpeg to VLC: the bytes that ffmpeg writes to a file'; }
row_ffmpeg_vlc() {
	ELIGIBLE=second
	media
	env LD_LIBRARY_PATH="$(LIBRARIES)" "$(path ffmpeg)" -nostdin -v error -y -i "$TMP/media.ts" -c copy -f mpegts \
		"$TMP/wanted.ts"
	attempts ffmpeg_to_vlc same_stream
}
ffmpeg_to_vlc() {
	vlc_receives ffmpeg -nostdin -v error -re -i "$TMP/media.ts" -c copy -f mpegts \
		"udp://${AT:-127.0.0.1}:5004?pkt_size=1316&bitrate=8000000&burst_bits=100000" ||
			fault "VLC wants an ordinary user"
}
about_ffmpeg_group() { echo 'ffmpeg to VLC by a multicast group: the bytes that ffmpeg writes to a file'; }
row_ffmpeg_group() { AT=239.1.1.1 row_ffmpeg_vlc; }
same_stream() { cmp <(tail -c +189 "$TMP/nobody/stream.ts") "$TMP/wanted.ts"; }

# cpython TEST [OPTION...]: CPython's own test has the same results with and without the interposer.
cpython() {
	local how
	for how in plain interposed; do
		env PYTHONHOME="$root/usr" LD_LIBRARY_PATH="$(LIBRARIES)" timeout 250 \
			$([ $how = plain ] || echo "$DIW run --sockets=all") "$root/usr/bin/python3.11" -m test \
				-v "$@" > "$TMP/cpython.$how" 2>&1
		grep -E '\.\.\. (ok|FAIL|ERROR|skipped|expected)' "$TMP/cpython.$how" | sort > "$TMP/cpython.$how.cases"
	done
	FRAMED=0 ALL=$(wc -l < "$TMP/cpython.plain.cases")
	check "CPython's $1, $ALL cases: the same as without" diff "$TMP/cpython.plain.cases" \
		"$TMP/cpython.interposed.cases"
	check "... some of them" [ "$ALL" -ge 5 ]
	ROWS+=("cpython_$1|cpython|0|$ALL||yes")
}
