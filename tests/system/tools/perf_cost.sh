#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# diw perf setup, mr and post: each act has a row with a plausible time. No speed is judged.
. "${0%/*}/../lib.sh"

KEYS='["test","object","qp","act","depth","size","batch","count","ns_p50","ns_p99","ns_mean","user_ns","goal_ns",
	"machine"]'
rows() { jq -e -s "$1" "$TMP/rows" > /dev/null || { echo "not so: $1"; cat "$TMP/rows"; return 1; }; }

# cost TEST OPTION...: runs a test for a short time; every row has its keys, and a time.
cost() {
	run "perf $*" $DIW perf "$@" --secs 0.1 --json
	grep '^{' <<< "$OUT" > "$TMP/rows"
	check "... has rows, with all keys" rows "length > 0 and all(.[]; $KEYS - keys == [])"
	check "... each with its count and times" rows \
		'all(.[]; .count > 0 and .ns_mean > 0 and (.ns_p50 == null or .ns_p99 >= .ns_p50))'
}

cost mr --size 4k,64m
check "... registering and deregistering of each size" rows \
	'map([.act, .size]) == [["register", 4096], ["deregister", 4096], ["register", 67108864],
		["deregister", 67108864]]'
cost setup --object cq,qp --qp ud,uc,rd,rc --depth 1,1024
check "... three acts, two depths, five kinds" rows \
	'length == 30 and (map([.object, .qp, .depth]) | unique | length) == 10'
check "... a completion queue is resized, a queue pair reset" rows \
	'(map(select(.object == "cq") | .act) | unique) == ["create", "destroy", "resize"] and
		(map(select(.object == "qp") | .act) | unique) == ["create", "destroy", "reset"]'
cost setup --object conn --qp rc --bind ::1
check "... connections are made, ended and broken" rows 'map(.act) == ["connect", "disconnect", "destroy"]'
cost setup
check "... completion queues, queue pairs and connections" rows '(map(.object) | unique) == ["conn", "cq", "qp"]'
# The user time of an act is the thread's, by the kernel's ticks: a thread that had none has no figure.
cost post --qp ud,rc --size 64 --batch 1,32
check "... five acts of each" rows \
	'length == 20 and (map(.act) | unique) == ["poll", "poll-empty", "post-recv", "post-send", "request"]'
check "... and the goal at the requests" rows 'all(.[]; (.act == "request") == (.goal_ns == 100))'
measured "cost post --qp ud --depth 64" "user time of a request" \
	"rows 'any(.[]; .act == \"request\" and .user_ns > 0)'"
run "a person can read it" $DIW perf post --qp ud --batch 1 --secs 0.1
check "... as a table with the goal" matches "$OUT" 'request .*goal 100 ns of user time: (met|missed)'

while read -r line; do
	# shellcheck disable=SC2086  # several arguments
	expect 2 "perf $line" $DIW perf $line
done << 'END'
mr --depth 4
mr --qp ud
setup --size 64
setup --batch 2
setup --object srq
setup --object conn --qp ud
post --object cq
post --qp rd
post --batch 0
post --batch 65
post --local
setup cq
END
end
