# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2034
# Rows of sockets_programs.sh with servers of several processes or threads, and with load generators. lib.sh describes
# the rows.
SERVERS=(haproxy_http haproxy_tcp ab wrk)
STREAMS+=("${SERVERS[@]}")
BOTH+=("${SERVERS[@]}" pgbench quic)
STREAMS+=(pgbench)
WITHOUT+=(pgbench quic)
ALONE+=("${SERVERS[@]}" quic)

# serves PORT PROCESSES: starts nginx as the first. It serves $TMP/www, and accepts files by PUT.
serves() {
	mkdir -p "$TMP/www" "$TMP/nginx"
	head -c 5000000 /dev/urandom > "$TMP/www/large"
	head -c 20000 /dev/urandom > "$TMP/www/small"
	cat > "$TMP/nginx/conf" <<- END
		daemon off;
		worker_processes $2;
		user $(id -un) $(id -gn);
		pid $TMP/nginx/pid;
		error_log stderr crit;
		events { worker_connections 512; }
		http {
			access_log off;
			client_max_body_size 0;
			$(printf "%s_temp_path $TMP/nginx/%s;\n" client_body{,} proxy{,} fastcgi{,} uwsgi{,} scgi{,})
			server { listen 127.0.0.1:$1; root $TMP/www; dav_methods PUT; }
		}
	END
	first nginx -e stderr -p "$TMP/nginx" -c "$TMP/nginx/conf"
	eventually 30 accepting "$1" || fault "no server"
}

# row_haproxy_in MODE PORT: curl sends to nginx through haproxy, and receives the same way.
row_haproxy_in() {
	local who=$WHO
	rm -f "$TMP/www/put"
	[ "$who" = both ] || WHO=none
	serves 5383 2
	WHO=$who
	BESIDE+=("$FIRST")
	cat > "$TMP/haproxy" <<- END
		defaults
			mode $1
			timeout connect 30s
			timeout client 30s
			timeout server 30s
			option splice-auto
			option splice-request
			option splice-response
		listen relay
			bind 127.0.0.1:$2
			server nginx 127.0.0.1:5383
	END
	first haproxy -db -f "$TMP/haproxy"
	eventually 30 accepting "$2" || fault "no proxy"
	second curl -sS "http://127.0.0.1:$2/large" --next -sS -T "$TMP/www/large" "http://127.0.0.1:$2/put"
	fine "it failed: $STATUS" [ $STATUS -eq 0 ]
	fine "the file that came is not the same" cmp "$TMP/www/large" "$TMP/second.out"
	fine "the file that went is not the same" cmp "$TMP/www/large" "$TMP/www/put"
	live
	ends
}
about_haproxy_http() { echo 'curl to nginx through haproxy, which splices, HTTP, 5 MB there and back'; }
row_haproxy_http() { row_haproxy_in http 5384; }
about_haproxy_tcp() { echo 'the same, where haproxy knows no HTTP (`mode tcp`)'; }
row_haproxy_tcp() { row_haproxy_in tcp 5385; }

about_ab() { echo 'ab and nginx, 2,000 connections, 8 at a time, each asks for 20,000 bytes'; }
row_ab() {
	SEEN=                            # an FPDU shares its packet with the Request or Reply
	serves 5386 2
	second ab -q -n 2000 -c 8 http://127.0.0.1:5386/small
	fine "it failed: $STATUS" [ $STATUS -eq 0 ]
	says $'Complete requests: *2000\nFailed requests: *0\n'
	says $'HTML transferred: *40000000 bytes'
	ends
}

about_wrk() { echo 'wrk and nginx, 1 s over 8 connections that stay, 20,000 bytes an answer'; }
row_wrk() {
	serves 5387 2
	second wrk -t 2 -c 8 -d 1s http://127.0.0.1:5387/small
	fine "it failed: $STATUS" [ $STATUS -eq 0 ]
	says 'Requests/sec: *[1-9][0-9][0-9]'
	fine "errors" [ "${OUT/errors}${OUT/Non-2xx}" = "$OUT$OUT" ]
	ends
}

# Runs as an ordinary user, because PostgreSQL refuses to run as root.
about_pgbench() { echo 'pgbench and PostgreSQL, which forks for each of 4 connections, 800 transactions'; }
row_pgbench() {
	local data=$TMP/nobody/pg.$WHO who=$WHO
	ELIGIBLE=first                   # the client sends before the serving process has read (docs/streams.md)
	as_nobody || fault "no ordinary user"
	WHO=none
	second initdb -D "$data" -A trust -U postgres --no-sync
	WHO=$who
	fine "no database" [ $STATUS -eq 0 ]
	rm -f "$TMP"/second.*
	first postgres -D "$data" -p 5392 -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off \
		-c shared_buffers=16MB -c autovacuum=off
	eventually 60 accepting 5392 || fault "no server"
	eventually 60 pg_answers || fault "no answer"
	second pgbench -h 127.0.0.1 -p 5392 -U postgres -i -q postgres
	fine "the tables were not made" [ $STATUS -eq 0 ]
	second pgbench -h 127.0.0.1 -p 5392 -U postgres -c 4 -j 2 -t 200 -n postgres
	fine "it failed: $STATUS" [ $STATUS -eq 0 ]
	says 'actually processed: 800/800'
	ends INT
}
pg_answers() {
	local who=$WHO
	WHO=none
	second pg_isready -h 127.0.0.1 -p 5392
	WHO=$who
	[ $STATUS -eq 0 ]
}

about_quic() { echo 'ngtcp2: gtlsclient and gtlsserver, which sends by UDP_SEGMENT, QUIC, 5 MB'; }
row_quic() {
	local watch
	# The unpacked openssl does not find its own configuration.
	printf '[req]\ndistinguished_name = name\n[name]\n' > "$TMP/quic.conf"
	[ -e "$TMP/quic.key" ] || env LD_LIBRARY_PATH="$(LIBRARIES)" "$(path openssl)" req -x509 -newkey rsa:2048 \
		-config "$TMP/quic.conf" -nodes -days 9 \
		-subj /CN=localhost -keyout "$TMP/quic.key" -out "$TMP/quic.cert" 2> /dev/null || fault "no certificate"
	mkdir -p "$TMP/www"
	head -c 5000000 /dev/urandom > "$TMP/www/large"
	rm -f "$TMP/large" "$TMP/buffers"
	# On lo a capture shows a whole buffer of UDP_SEGMENT as one packet.
	dumpcap -q -i lo -s 64 -f 'udp src port 5443 and udp[4:2] > 3000' -w "$TMP/buffers" 2> /dev/null &
	watch=$!
	JOBS+=("$watch")
	eventually 30 [ -s "$TMP/buffers" ] || fault "no capture of buffers"
	first gtlsserver -q -d "$TMP/www" 127.0.0.1 5443 "$TMP/quic.key" "$TMP/quic.cert"
	waits 5443
	second gtlsclient -q --exit-on-all-streams-close --no-quic-dump --no-http-dump --download="$TMP" 127.0.0.1 \
		5443 \
		https://localhost:5443/large
	fine "it failed: $STATUS" [ $STATUS -eq 0 ]
	fine "the file is not the same" cmp "$TMP/www/large" "$TMP/large"
	{ eventually 5 has_buffers || fault "$(buffers) buffers of UDP_SEGMENT"; kill $watch; wait $watch;
		} 2> /dev/null
	live
	ends
}
buffers() { tshark -r "$TMP/buffers" 2> /dev/null | wc -l; }
has_buffers() { [ "$(buffers)" -ge 50 ]; }
