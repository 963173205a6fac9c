# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# What the parts of tools/goals share: rows, medians, pairs of processes. tools/goals includes this file.
port=4891

# field KEY: prints its first number in the first JSON line of standard input: of a baseline the ratio, and not the
# interval that follows
field() { sed -n 1p | grep -o "\"$1\": *[-0-9.e+][-0-9.e+]*" | sed -n '1s/.*: *//p'; }

# row LABEL VALUE RELATION GOAL: prints a row; a GOAL of 0.00 means that there is no goal
row() {
	local ok
	if [ "$4" = 0.00 ]; then printf '%-64s %10.4g\n' "$1" "${2:-0}"; return; fi
	ok=$(awk -v v="$2" -v r="$3" -v g="$4" 'BEGIN {
		if (v == "" || (v == 0 && g > 0.01)) print "no figure"
		else print (r == "<=" ? v <= g : v >= g) ? "ok" : "MISSED" }')
	[ "$ok" = ok ] || missed=$((missed + 1))
	printf '%-64s %10.4g   %s %-8s %s\n' "$1" "${2:-0}" "$3" "$4" "$ok"
}

perf() { "$DIW" perf "$@" --local --secs "$secs" --json; }
median() { sort -g | awk '{ v[NR] = $1 } END { if (NR) print v[int((NR + 1) / 2)] }'; }
over() { awk -v a="$1" -v b="$2" 'BEGIN { if (b > 0) print a / b }'; }

# paired FIELD QP OTHER TEST OPTION...: prints the FIELD of QP / that of OTHER, the median of 5 interleaved rounds
paired() {
	local figure=$1 qp=$2 other=$3 a b
	shift 3
	for _ in 1 2 3 4 5; do
		a=$(perf "$@" --qp "$qp" | field "$figure"); b=$(perf "$@" --qp "$other" | field "$figure")
		over "$a" "$b"
	done | median
}

# What outlives the commands of a part: namespaces and directories. goals_end removes it, also after a signal.
namespaces=() directories=()
# namespace NAME: makes a network namespace with its loopback interface.
namespace() { namespaces+=("$1"); ip netns add "$1" && ip -n "$1" link set lo up; }
# directory WHERE: makes a directory there, and sets tmp.
directory() { tmp=$(mktemp -d -p "$1") && directories+=("$tmp"); }
goals_end() {
	local name running
	mapfile -t running < <(jobs -p; for name in "${namespaces[@]}"; do ip netns pids "$name"; done)
	[ ${#running[@]} -eq 0 ] || kill "${running[@]}"
	for name in "${namespaces[@]}"; do ip netns del "$name"; done
	[ ${#directories[@]} -eq 0 ] || rm -rf "${directories[@]}"
	namespaces=() directories=()
} 2> /dev/null

# veth TYPE BASELINE OP...: runs the rows over veth in two namespaces
veth() {
	local type=$1 base=$2 a=goal$$a b=goal$$b op server
	shift 2
	if [ "$(id -u)" != 0 ]; then echo "  left out: needs root"; return; fi
	namespace $a && namespace $b && ip -n $a link add v0 mtu 1500 type veth peer name v0 netns $b mtu 1500 ||
		return 1
	ip -n $a addr add 192.0.2.1/24 dev v0 && ip -n $b addr add 192.0.2.2/24 dev v0
	ip -n $a link set v0 up && ip -n $b link set v0 up
	for op in "$@"; do
		ip netns exec $b taskset -c 1 "$DIW" perf --server --port $port >/dev/null 2>&1 &
		server=$!
		sleep 0.5
		row "  512 KiB, $op" "$(ip netns exec $a taskset -c 0 "$DIW" perf bw --qp "$type" --op "$op" \
			--size 512k \
			--against "$base" --secs "$secs" --connect 192.0.2.2 --port $port --json |
				field ratio)" '>=' 0.75
		kill $server 2>/dev/null
		wait $server 2>/dev/null
	done
	goals_end
}

# ends SERVER CLIENT: runs two command lines, each on a core of its own, and prints the output of the client. The client
# starts when the server listens on $port, or after a time.
ends() {
	local server i=0
	port=$((port + 1))
	eval "taskset -c 1 timeout --foreground 120 $1" > /dev/null 2>&1 &
	server=$!
	until ss -Htln "sport = :$port" | grep -q . || [ $i = 100 ]; do sleep 0.05; i=$((i + 1)); done
	eval "taskset -c 0 timeout --foreground 120 $2" 2> /dev/null
	kill $server 2> /dev/null
	wait $server 2> /dev/null
}
