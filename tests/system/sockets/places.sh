# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2034
# Rows of sockets_programs.sh where a datagram or a connection arrives at another place than its address says, or where
# a program is killed. lib.sh describes the rows.
ELSEWHERE=(redirect redirect_tcp twice twice_tcp)
STREAMS+=(redirect_tcp twice_tcp killed_nginx node_greets)
BOTH+=(mdns killed_sipp killed_nginx node_greets)
WITHOUT+=(mdns killed_sipp killed_nginx node_greets "${ELSEWHERE[@]}")

# names PORT ADDRESS: starts dnsmasq as the first. It answers every question under example.org with ADDRESS.
names() {
	first dnsmasq --no-daemon --conf-file=/dev/null --no-resolv --no-hosts --pid-file= --port "$1" \
		--address="/example.org/$2" --listen-address="${3:-127.0.0.1}" --bind-interfaces
}
# pages PORT DIRECTORY [ADDRESS]: starts Python's http.server as the first.
pages() {
	mkdir -p "$TMP/$2"
	echo "$2" > "$TMP/$2/name"
	first python3 -m http.server "$1" --bind "${3:-127.0.0.1}" -d "$TMP/$2"
}
# interposed_beside COMMAND...: runs COMMAND interposed, whichever ends of the row are. Its process is beside the first.
interposed_beside() {
	local who=$WHO
	WHO=both
	"$@"
	WHO=$who
	BESIDE+=("$FIRST")
}
# asks ADDRESS PORT: asks 200 questions; each answer must be 192.0.2.77.
asks() {
	local i
	for ((i = 0; i < 200; i++)); do echo "n$i.example.org A"; done > "$TMP/questions"
	second dig -p "$2" "@$1" +short +tries=3 -f "$TMP/questions"
	fine "not every question has the right answer" [ "$(grep -cx 192.0.2.77 "$TMP/second.out")" -eq 200 ]
}
# gets ADDRESS PORT: gets the page of the plain server 20 times.
gets() {
	second curl -sS "http://$1:$2/name?[1-20]"
	fine "not every answer is the right one" [ "$(grep -cx plain "$TMP/second.out")" -eq 20 ]
}

redirected() {
	nft -f - <<- END || fault "nft changes no addresses here"
		table ip diw {
			chain out {
				type nat hook output priority -100;
				$1 dport $2 redirect to :$3
			}
		}
	END
}
about_redirect() { echo 'dig to an interposed dnsmasq, which nftables redirects to a plain one, 200 questions'; }
row_redirect() {
	ELIGIBLE=second
	interposed_beside names 5353 192.0.2.1
	waits 5353
	fine "the other does not answer" dig_once 5353
	names 5354 192.0.2.77
	waits 5354
	redirected udp 5353 5354
	asks 127.0.0.1 5353
	nft delete table ip diw
	ends
}
dig_once() { LD_LIBRARY_PATH="$(LIBRARIES)" "$(path dig)" -p "$1" "@${2:-127.0.0.1}" +short first.example.org A; }

about_redirect_tcp() { echo 'curl to an interposed http.server, which nftables redirects to a plain one, 20 requests'; }
row_redirect_tcp() {
	interposed_beside pages 5388 interposed
	eventually 30 accepting 5388 || fault "no server"
	pages 5389 plain
	eventually 30 accepting 5389 || fault "no server"
	redirected tcp 5388 5389
	gets 127.0.0.1 5388
	nft delete table ip diw
	ends
}

# Two network namespaces have the same address and share /dev/shm. The interposed server is in the other namespace.
TWICE=192.0.2.7
two_places() {
	two_namespaces 1500 && in_b ip addr add $TWICE/32 dev lo && ip addr add $TWICE/32 dev lo ||
		fault "no second network namespace here"
	export DIWARP_SOCKETS_PEERS=192.0.2.0/24
}
one_place() {
	unset DIWARP_SOCKETS_PEERS
	ip addr del $TWICE/32 dev lo
}
there() { AS="nsenter -t $HOLDER -n" "$@"; }
about_twice() { echo \
	'dig to a plain dnsmasq, whose address and port an interposed one has in another network namespace'; }
row_twice() {
	ELIGIBLE=second
	two_places
	interposed_beside there names 5353 192.0.2.1 $TWICE
	eventually 30 listening 5353 in_b || fault "no server there"
	in_b env LD_LIBRARY_PATH="$(LIBRARIES)" "$(path dig)" -p 5353 @$TWICE +short first.example.org A > /dev/null
	names 5353 192.0.2.77 $TWICE
	waits 5353
	asks $TWICE 5353
	one_place
	ends
}
about_twice_tcp() { echo \
	'curl to a plain http.server, whose address and port an interposed one has in another network namespace'; }
row_twice_tcp() {
	two_places
	interposed_beside there pages 5390 interposed $TWICE
	eventually 30 accepting 5390 in_b || fault "no server there"
	pages 5390 plain $TWICE
	eventually 30 accepting 5390 || fault "no server"
	gets $TWICE 5390
	one_place
	ends
}

about_mdns() { echo 'Python zeroconf, a service of the one resolved by the other by multicast DNS, 3 times'; }
row_mdns() {
	BEFORE=6                         # at most so many are sent before both have received
	PYTHONPATH=$root/usr/lib/python3/dist-packages
	export PYTHONPATH
	first python3 tests/system/sockets/mdns.py serve
	eventually 30 grep -q serves "$TMP/first.out" || fault "no service"
	second python3 tests/system/sockets/mdns.py ask 3
	unset PYTHONPATH
	says 'found 3'
	live
	ends
}

# storm COMMAND...: runs COMMAND, interposed if the second is, and kills it after 0.2 s; 8 times.
storm() {
	local i pid program
	program=$(path "$1")
	shift
	for ((i = 0; i < 8; i++)); do
		# shellcheck disable=SC2046
		env LD_LIBRARY_PATH="$(LIBRARIES)" $(interposed second) "$program" "$@" > /dev/null 2>&1 < /dev/null &
		pid=$!
		sleep 0.2
		kill -9 $pid
		wait $pid
	done 2> /dev/null
}
about_killed_sipp() { echo 'SIPp, 8 uacs killed during their calls (`kill -9`), then 500 calls'; }
row_killed_sipp() {
	first sipp -sn uas -i 127.0.0.1 -p 5070 -nostdin
	waits 5070
	storm sipp -sn uac -i 127.0.0.1 -p 5080 -r 300 -m 100000 -l 10 -nostdin -timer_resol 1 127.0.0.1:5070
	second sipp -sn uac -i 127.0.0.1 -p 5080 -r 300 -m 500 -l 10 -nostdin -timer_resol 1 127.0.0.1:5070
	fine "sipp failed: $STATUS" [ $STATUS -eq 0 ]
	BEFORE=100                       # sent to the ports of the killed processes
	live
	ends KILL
}

about_killed_nginx() { echo 'ab and nginx, whose workers are killed 20 times (`kill -9`), then 1,000 connections'; }
row_killed_nginx() {
	local killer
	SEEN=
	serves 5391 2
	kill_workers > /dev/null 2>&1 &
	killer=$!
	JOBS+=("$killer")
	second ab -q -r -n 3000 -c 8 http://127.0.0.1:5391/small
	wait $killer 2> /dev/null || fault "there was no worker to kill"
	second ab -q -n 1000 -c 8 http://127.0.0.1:5391/small
	fine "it failed afterwards: $STATUS" [ $STATUS -eq 0 ]
	says $'Complete requests: *1000\nFailed requests: *0\n'
	ends
}
worker() { awk 'NF { print $NF; found = 1 } END { exit !found }' "/proc/$FIRST/task/$FIRST/children"; }
kill_workers() {
	local i
	for ((i = 0; i < 20; i++)); do
		sleep 0.05
		eventually 10 worker && kill -9 "$(worker)" || return
	done
}

about_node_greets() { echo "Node's net, four TCP connections of two event loops, and the server speaks first"; }
row_node_greets() {
	SEEN=                            # the greeting shares the packet of the first FPDU
	row_node_tcp greets 5315 100
}
