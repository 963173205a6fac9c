# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Goals of rsockets, beside TCP. tools/goals includes this file.

# rstream SIZE COUNT OPTION...: prints its Gb/s, in both directions in turn, in the namespace $ns, where TCP uses cubic
rstream() {
	port=$((port + 1))
	size=$1 count=$2
	shift 2
	line="ip netns exec $ns timeout --foreground 120 tools/clients run rstream -p $port -S $size -C $count -I 1 $*"
	taskset -c 1 $line > /dev/null 2>&1 &
	server=$!
	i=0
	until ip netns exec $ns ss -Htln "sport = :$port" | grep -q . || [ $i = 200 ]; do sleep 0.05; i=$((i + 1)); done
	taskset -c 0 $line -s 127.0.0.1 2> /dev/null | awk '$1 == "custom" { print $7 }'
	wait $server
}

goals_rsockets() {
echo "Debian's rstream over rsockets against itself over TCP with cubic (-T s), on lo (ratio), medians of 5 rounds"
if [ "$(id -u)" != 0 ]; then echo "  left out: needs root"; return; fi
tools/clients get > /dev/null || { echo "  left out: no clients here"; return; }
ns=goal$$
namespace $ns && ip -n $ns route replace table local local 127.0.0.1 dev lo congctl lock cubic || return
for how in b n; do
	r=
	for i in 1 2 3 4 5; do
		t=$(rstream 65536 20000 -T s -T $how)
		v=$(rstream 65536 20000 -T $how)
		r="$r$(over "$v" "$t")
"
	done
	[ $how = b ] && what=blocking || what="not blocking"
	row "  64 KiB, $what" "$(printf %s "$r" | median)" '>=' 0.8
done
goals_end
}
