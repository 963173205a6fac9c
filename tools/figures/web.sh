# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2154
# The web shop's figures, for tools/figures/run: browsers, nginx, an application in Node and PostgreSQL, here or in four
# network namespaces. web_shop.js and web_browse.js have TPC-W's interactions and mixes.
# How they run is TCP, without the interposer; RC, all of them interposed; or "RC inside", all but the browsers. Beside
# it, "without offloads": super-buffers are split before they cross.

WEB_PORT=8080 APP_PORT=8081 DB_PORT=5432

# shop_make: the tables and the pictures, once a run.
shop_make() {
	local data
	command -v node > /dev/null || { echo "no node here (Debian's nodejs)" >&2; return 1; }
	as_nobody || return
	[ -z "${SHOP:-}" ] || return 0
	SHOP=$TMP/nobody/shop data=$TMP/nobody/shop/data
	$AS mkdir -p "$SHOP/www/picture"
	for picture in 1 2; do $AS sh -c "head -c 5000 /dev/urandom > '$SHOP/www/picture/$picture'"; done
	cp tools/figures/web_*.js "$SHOP" && chmod 644 "$SHOP"/*.js
	(use plain initdb -D "$data" -A trust -U postgres --no-sync -E UTF8 --locale C) > "$TMP/initdb" 2>&1 &&
		(use plain postgres --single -j -D "$data" postgres) < tools/figures/web.sql > "$TMP/tables" 2>&1 &&
		$AS sh -c "echo 'host all all 198.18.0.0/15 trust' >> '$data/pg_hba.conf'" &&
		! grep -q 'ERROR\|FATAL' "$TMP/tables" || { cat "$TMP/initdb" "$TMP/tables" >&2; return 1; }
}

# tier_namespace VARIABLE: another network namespace; VARIABLE is a process in it.
tier_namespace() {
	unshare -n sleep 36000 > /dev/null &
	declare -g "$1=$!"
	HOLDER=$! within 5 other_namespace && nsenter -t $! -n ip link set lo up
}
# pair NAMESPACE NAMESPACE NET MTU SEGMENTS: a veth pair between two of them, addresses NET.1 and NET.2.
pair() {
	local name=t${3##*.}
	nsenter -t "$1" -n ip link add "${name}a" mtu "$4" gso_max_segs "$5" type veth \
		peer name "${name}b" mtu "$4" gso_max_segs "$5" netns "$2" &&
		nsenter -t "$1" -n ip addr add "$3.1/24" dev "${name}a" &&
		nsenter -t "$1" -n ip link set "${name}a" up &&
		nsenter -t "$2" -n ip addr add "$3.2/24" dev "${name}b" &&
		nsenter -t "$2" -n ip link set "${name}b" up
}
# tiers PLACE: where the three servers are. PLACE is lo, or MTU[/packets]: four namespaces in a row.
tiers() {
	local segments=65535 mtu=${1%/*}
	WEB_IN='' APP_IN='' DB_IN='' WEB=127.0.0.1 APP=127.0.0.1 DB=127.0.0.1
	[ "$1" != lo ] || return 0
	[ "$mtu" = "$1" ] || segments=1
	[ -n "${WEB_NS:-}" ] ||
		{ tier_namespace WEB_NS && tier_namespace APP_NS && tier_namespace DB_NS || return; }
	ip link del t1a 2> /dev/null
	nsenter -t "$WEB_NS" -n ip link del t2a 2> /dev/null
	nsenter -t "$APP_NS" -n ip link del t3a 2> /dev/null
	pair $$ "$WEB_NS" 198.18.1 "$mtu" $segments && pair "$WEB_NS" "$APP_NS" 198.18.2 "$mtu" $segments &&
		pair "$APP_NS" "$DB_NS" 198.18.3 "$mtu" $segments || return
	WEB_IN="nsenter -t $WEB_NS -n" APP_IN="nsenter -t $APP_NS -n" DB_IN="nsenter -t $DB_NS -n"
	WEB=198.18.1.2 APP=198.18.2.2 DB=198.18.3.2
}

nginx_conf() {
	cat << END
daemon off;
worker_processes 1;
pid $SHOP/nginx.pid;
error_log stderr crit;
events { worker_connections 4096; }
http {
	access_log off;
	keepalive_requests 1000000000;
	$(printf "%s_temp_path $SHOP/%s;\n" client_body{,} proxy{,} fastcgi{,} uwsgi{,} scgi{,})
	upstream application { server $APP:$APP_PORT; keepalive 600; keepalive_requests 1000000000; }
	server {
		listen $WEB:$WEB_PORT backlog=1024;
		root $SHOP/www;
		location /picture/ { }
		location / {
			proxy_pass http://application;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
		}
	}
}
END
}

# shop_open HOW: starts the three servers.
shop_open() {
	DB_PID='' APP_PID='' WEB_PID=''
	nginx_conf > "$SHOP/nginx.conf"
	rm -rf "$SHOP/open"                       # what others have bought would cost time
	$AS cp -a "$SHOP/data" "$SHOP/open"
	(IN=$DB_IN use "$1" postgres -D "$SHOP/open" -p $DB_PORT -c listen_addresses="$DB" -c fsync=off \
		-c unix_socket_directories= -c max_connections=60 -c shared_buffers=128MB -c autovacuum=off \
		> "$TMP/db.out" 2> "$TMP/db.err" < /dev/null) &
	DB_PID=$!
	IN=$DB_IN within 20 listening $DB_PORT || { cat "$TMP/db.err" >&2; return 1; }
	(IN=$APP_IN use "$1" node "$SHOP/web_shop.js" "$APP" $APP_PORT "$DB" $DB_PORT 50 \
		> "$TMP/app.out" 2> "$TMP/app.err" < /dev/null) &
	APP_PID=$!
	(IN=$WEB_IN use "$1" nginx -e stderr -p "$SHOP" -c "$SHOP/nginx.conf" \
		> "$TMP/web.out" 2> "$TMP/web.err" < /dev/null) &
	WEB_PID=$!
	IN=$APP_IN within 20 listening $APP_PORT && IN=$WEB_IN within 20 listening $WEB_PORT ||
		{ cat "$TMP/app.err" "$TMP/web.err" >&2; return 1; }
}
shop_close() {
	stop $WEB_PID $APP_PID
	kill -INT $DB_PID 2> /dev/null            # or it would wait for its clients
	stop $DB_PID
}

# spent PID: the processor time of a process and its children, in ms.
spent() {
	cat /proc/[0-9]*/stat 2> /dev/null | awk -v pid="$1" -v tick="$(getconf CLK_TCK)" '
		{ split($0, at, " "); sub(/.*\) /, "") } at[1] == pid || $2 == pid { s += $12 + $13 }
		END { printf "%d\n", s * 1000 / tick }'
}
spent_all() { local pid; for pid in $WEB_PID $APP_PID $DB_PID; do spent "$pid"; done; }

# browse HOW MIX CONNECTIONS: lets browsers in, all at once. Its result is in $TMP/browse; SPENT has the servers'
# processor time, in ms.
browse() {
	local before after
	mapfile -t before < <(spent_all)
	(IN='' use "$1" node "$SHOP/web_browse.js" "$WEB" $WEB_PORT "$2" "$3" "${SECONDS_OF_SHOP:-5}") \
		> "$TMP/browse" 2> "$TMP/browse.err" || { cat "$TMP/browse.err" >&2; return 1; }
	mapfile -t after < <(spent_all)
	SPENT=($((after[0] - before[0])) $((after[1] - before[1])) $((after[2] - before[2])))
	result errors > "$TMP/errors"
	[ "$(< "$TMP/errors")" = 0 ] || echo "$(< "$TMP/errors") errors with $3 connections" >&2
}
# result NAME: the number of that line; of interactions, their rate. "nan" for a rate with errors.
result() {
	awk -F, -v name="$1" '$1 == "errors" { bad = $2 } $1 == name { n = $2; s = $3 }
		END { print name != "interactions" ? n + 0 : bad + 0 || !s ? "nan" : n / s }' "$TMP/browse"
}
# framed: the share of the bytes from and to the application that went in FPDUs.
framed() {
	live "${APP_PID:-none}" | tr ' ' '\n' |
		awk -F= '/^sock_stream_[rt]x(_plain)?=/ { n += $2; if ($1 !~ /plain/) f += $2 }
		END { printf "%.0f\n", n ? 100 * f / n : 0 }'
}

# shop HOW COMMAND...: runs COMMAND while the shop is open; HOW is TCP, RC or RC inside. INSIDE and OUTSIDE are how the
# servers and the browsers run.
shop() {
	local how=$1 share
	shift
	INSIDE=interposed OUTSIDE=plain
	case $how in TCP*) INSIDE=plain ;; "RC inside"*) ;; *) OUTSIDE=interposed ;; esac
	shop_open $INSIDE && "$@"
	share=$(framed)
	shop_close
	[ $INSIDE = plain ] || [ "$share" -ge 90 ] ||
		echo "$how: only $share % of the application's bytes went in FPDUs" >&2
}

# Interactions by the servers' processor time, which other programs of the machine hardly change.
OF_CPU="interactions/CPU s of the servers"

# Each function below is a COMMAND of `shop` that adds to $TMP/shop: PLACE,UNIT,CURVE,X,Y.
rates() {
	local place=$1 curve=$2 mix connections best rate of_cpu
	for mix in ${MIXES:-browsing shopping ordering}; do
		best=nan
		for connections in ${LOADS:-50 200}; do
			browse $OUTSIDE "$mix" "$connections" || continue
			rate=$(result interactions)
			[ "$rate" != nan ] || continue
			[ "$best" != nan ] && awk "BEGIN { exit !($rate <= $best) }" && continue
			best=$rate
			of_cpu=$(awk "BEGIN { print $(result all) * 1000 / (${SPENT[0]} + ${SPENT[1]} + ${SPENT[2]}) }")
		done
		[ "$best" != nan ] || continue
		echo "$place,interactions/s,$curve,$mix,$best" >> "$TMP/shop"
		echo "$place,$OF_CPU,$curve,$mix,$of_cpu" >> "$TMP/shop"
	done
}
by_connections() {
	local connections
	for connections in ${CONNECTIONS:-10 50 100 200 400 600}; do
		browse $OUTSIDE shopping "$connections" &&
			echo "$1,interactions/s,$2,$connections,$(result interactions)" >> "$TMP/shop"
	done
}
costs() {
	local tier us names=("web server" application database)
	browse $OUTSIDE shopping 50 || return
	for tier in 0 1 2; do
		us=$(awk "BEGIN { print ${SPENT[tier]} * 1000 / $(result all) }")
		echo "$1,CPU us of an interaction,$2,${names[tier]},$us" >> "$TMP/shop"
	done
}
# The types of requests whose response times are drawn.
TYPES=home,best_sellers,product_detail,search_results,shopping_cart,buy_confirm
longer() {
	browse $OUTSIDE shopping 50 &&
		awk -F, -v place="$1" -v curve="$2" -v types="$TYPES" '
			NF == 3 && index("," types ",", "," $1 ",") { gsub(/_/, " ", $1)
				printf "%s %s,%% that take longer,%s,%s,%s\n", place, curve, $1, $2, $3 }' \
			"$TMP/browse" >> "$TMP/shop"
}

# in_turns COMMAND PLACE HOW...: rounds of `shop HOW COMMAND NAME HOW`, and the medians in ID.csv. PLACE is that
# of `tiers`, and NAME the one in the picture.
in_turns() {
	local command=$1 place=$2 name round how offloads
	shift 2
	shop_make || return
	name=$place
	[ "$place" = lo ] || name="MTU $place"
	for ((round = 0; round < ${ROUNDS:-3}; round++)); do
		for how in "$@"; do
			offloads=${how#*without offloads}
			if [ "$offloads" = "$how" ]; then tiers "$place"; else tiers "$place/packets"; fi || return
			shop "$how" "$command" "$name" "$how"
		done
	done
}
# medians: of the lines of the rounds, into ID.csv. The order is that of the first round.
medians() {
	local key
	[ -e "$TMP/shop" ] || return
	awk -F, '{ k = $1 FS $2 FS $3 FS $4 } !seen[k]++ { print k }' "$TMP/shop" | while IFS= read -r key; do
		awk -F, -v key="$key" '$1 FS $2 FS $3 FS $4 == key && $5 != "nan" { print $5 }' "$TMP/shop" \
			> "$TMP/rounds"
		IFS=, read -ra key <<< "$key"
		row "${key[@]}" "$(median "$TMP/rounds")"
	done
	rm "$TMP/shop"
	AS=
}

web_rates() {
	in_turns rates lo TCP "RC inside" RC
	in_turns rates 1500 TCP "RC inside" RC "TCP without offloads" "RC without offloads"
	medians
	of_tcp
	compare "$OF_CPU" "% of TCP" "TCP without offloads" TCP "TCP without offloads"
}
of_tcp() {
	compare "$OF_CPU" "% of TCP" RC TCP RC
	compare "$OF_CPU" "% of TCP" "RC inside" TCP "RC inside"
}
# web_mtu MTU
web_mtu() {
	in_turns rates "$1" TCP "RC inside" RC
	medians
	of_tcp
}
web_connections() {
	in_turns by_connections 1500 TCP RC
	medians
	awk -F, 'NR == FNR { most[$3] = $5; next }
		FNR > 1 { printf "%s,%% of the most connections,%s,%s,%.4g\n", $1, $3, $4, 100 * $5 / most[$3] }' \
		"$CSV" "$CSV" > "$TMP/compared"
	cat "$TMP/compared" >> "$CSV"
}
web_costs() {
	in_turns costs lo TCP RC
	in_turns costs 1500 TCP RC
	medians
	compare "CPU us of an interaction" "% more" RC TCP RC
}
# web_times PLACE...: the response times. A median of rounds would mix the shares of different rounds.
web_times() {
	local place SECONDS_OF_SHOP=$((${SECONDS_OF_SHOP:-5} * 3)) ROUNDS=1
	for place in "$@"; do in_turns longer "$place" TCP "RC inside" RC; done
	medians
	# x is the time.
	awk -F, -v OFS=, 'NR > 1 { t = $4; $4 = $5; $5 = t } 1' "$CSV" > "$TMP/turned" && cat "$TMP/turned" > "$CSV"
}
