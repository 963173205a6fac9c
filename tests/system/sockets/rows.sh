# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2034
# The rows of sockets_programs.sh; lib.sh says how they are written.
BOTH=(sipp_u1 sipp_un dig iperf3 socat nc tftp python)
LARGE=()
ALONE=(sipp_u1 dig iperf3 socat tftp)

about_sipp_u1() { echo 'SIPp, uac and uas over one socket each (`-t u1`), 1,000 calls'; }
row_sipp_u1() {
	first sipp -sn uas -i 127.0.0.1 -p 5070 -nostdin
	waits 5070
	second sipp -sn uac -i 127.0.0.1 -p 5080 -r 300 -m 1000 -nostdin -timer_resol 1 127.0.0.1:5070
	fine "sipp failed: $STATUS" [ $STATUS -eq 0 ]
	live
	ends KILL
}

about_sipp_un() { echo 'SIPp, the uac with a socket each call (`-t un`), 500 calls'; }
row_sipp_un() {
	ELIGIBLE=second
	first sipp -sn uas -i 127.0.0.1 -p 5070 -nostdin
	waits 5070
	second sipp -sn uac -t un -max_socket 1000 -i 127.0.0.1 -r 200 -m 500 -nostdin -timer_resol 1 127.0.0.1:5070
	fine "sipp failed: $STATUS" [ $STATUS -eq 0 ]
	live
	ends KILL
}

about_dig() { echo 'dig and dnsmasq, 400 questions, each from a socket of its own'; }
row_dig() {
	local i
	ELIGIBLE=second
	first dnsmasq --keep-in-foreground --conf-file=/dev/null --no-resolv --no-hosts --user=root --group=root --pid-file= \
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
	fine "it measured nothing" jq -e '.end.sum.packets > 1000 and .end.sum.bytes > 1e6' "$TMP/second.out"
	join $FIRST 30 > /dev/null
	# It connects, and only then asks.
	fine "what arrived is not what was sent" jq -e '.end.sum.lost_percent < 20' "$TMP/second.out"
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
	first python3 tests/system/sockets/echo.py 5301
	waits 5301
	for ((i = 0; i < 200; i++)); do echo "line $i"; sleep 0.002; done > "$TMP/lines"
	mkfifo "$TMP/pipe" 2> /dev/null
	INPUT=$TMP/pipe
	(while read -r line; do echo "$line"; sleep 0.003; done < "$TMP/lines" > "$TMP/pipe"; sleep 0.2) &
	second nc.openbsd -u -w 2 127.0.0.1 5301
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
# The child that sent the file has ended.
child_told() { [ $WHO = second ] || grep -q 'sock_tx_framed=[0-9]\{3\}' "$TMP/first.err"; }

about_python() { echo 'Python, 2,000 questions and answers of up to 60,000 bytes'; }
row_python() {
	first python3 tests/system/sockets/echo.py 5302
	waits 5302
	second python3 tests/system/sockets/echo.py 5302 2000 60000
	fine "it failed: $STATUS" [ $STATUS -eq 0 ]
	live
	ends KILL
}
