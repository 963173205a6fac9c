#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# diw cp and recv --group: one sender and many receivers. Each receiver has other losses. Some receivers come late, end,
# or are hostile. Senders are hostile, or two send at once.
. "${0%/*}/../lib.sh"
GROUP=239.1.1.1
AT=(--group "$GROUP" --dev diw_lo)
SIZE=8000000          # more blocks than one page of the bitmap has
head -c $SIZE /dev/urandom > "$TMP/file"
declare -A RECVS

# recv_group NAME OPTION...: empties TMP/NAME and starts a receiver there, for one file.
recv_group() {
	local name=$1
	shift
	rm -rf "${TMP:?}/$name"
	mkdir "$TMP/$name"
	background "$TMP/log.$name" $DIW recv --json --count 1 "${AT[@]}" "$@" "$TMP/$name"
	RECVS[$name]=$PID
	eventually 10 attached "$name"
}
# bound PID: the process has a UDP socket with a port.
bound() { ss -Hulnp | grep -q "pid=$1,"; }
attached() { ss -Hulnp "sport = :4793" | grep -q "pid=$(pid_of "$1"),"; }
# pid_of NAME: the process of diw. Under a sanitizer setarch replaces itself by diw, so the job's number is right there
# too.
pid_of() { echo "${RECVS[$1]}"; }
receivers() { local i; for i in $(seq "$1"); do recv_group "$i" "${@:2}" || return; done; }
# all_have N: receivers 1 to N ended with status 0 and have the file.
all_have() {
	local i
	for i in $(seq "$1"); do
		join "${RECVS[$i]}" 10 || { echo "receiver $i"; cat "$TMP/log.$i"; return 1; }
		cmp "$TMP/file" "$TMP/$i/file" || return
	done
}
CP=("$DIW" cp --json "${AT[@]}" --mulpdu 1452 "$TMP/file")
# begun NAME: the start of the file has arrived.
begun() { cmp -s -n 1000 "$TMP/file" "$(find "$TMP/$1" -name ".diw-recv-*")"; }

# ---- Without loss: each byte is sent once ----

check "8 receivers" receivers 8
run "cp to a group of 8" "${CP[@]}" --receivers 8
check "8 have it" holds '.joined == 8 and .done == 8 and ([.receivers[].state] | unique) == ["done"]'
check "the hash is the file's" [ "$(field .sha256)" = "$(sha256sum < "$TMP/file" | cut -d' ' -f1)" ]
check "each file is the same" all_have 8

: > "$TMP/file"
check "2 receivers" receivers 2
run "an empty file" "${CP[@]}" --receivers 2
check "they have it" all_have 2
head -c $SIZE /dev/urandom > "$TMP/file"

# ---- Each receiver loses 5 %, independently ----

# After the first pass a block is missing at one receiver or more of 8 with probability 34 %, after the second with 2 %.
# So the sender sends 1.36 times the file, and 2 % of headers.
# A receiver without a processor loses more.
lossy() {
	for i in {1..8}; do recv_group "$i" --impair "rx.loss=5%,seed=$i" || not_ok "receiver $i"; done
	run "cp to 8 receivers that lose 5 % each" "${CP[@]}" --receivers 8
	check "8 have it" holds '.done == 8 and ([.receivers[].state] | unique) == ["done"]'
	check "the sender sent no less than what one of them lost" holds \
		".bytes_sent_again >= .03 * $SIZE and .window_cuts > 0 and .bytes_sent <= .tx_bytes"
	check "each file is the same" all_have 8
}
measured lossy "the sender sent at most 1.6 times the file" "holds '.tx_bytes <= 1.6 * $SIZE'" \
	"what they asked for was merged" "holds '([.receivers[].bytes_asked_again] | add) > 1.1 * .bytes_sent_again'"

for i in {1..3}; do recv_group "$i" --impair "rx.loss=20%,rx.reorder=2%,rx.dup=2%,rx.corrupt=1%,seed=$i"; done
run "cp to 3 receivers that lose 20 %, reorder, duplicate and damage" "${CP[@]}" --receivers 3
check "each file is the same" all_have 3

# ---- One receiver comes late, one dies and comes again ----

check "3 receivers" receivers 3
background "$TMP/cp" "${CP[@]}" --receivers 3 --rate 2m
SENDER=$PID
check "it has begun" eventually 10 begun 3
recv_group late
kill -9 "${RECVS[3]}"
wait "${RECVS[3]}" 2> /dev/null
recv_group 3
expect 1 "cp ends, and says that one was lost" join "$SENDER" 20
OUT=$(< "$TMP/cp")
check "the others have it, with the late one and the one that came again" holds \
	'.joined == 5 and .done == 4 and ([.receivers[].state] | sort) == ["done", "done", "done", "done", "lost"]'
check "it says why" matches "$(< "$TMP/cp")" 'lost: silent for 3 s'
check "each file is the same" all_have 3
check "the late one ends well" join "${RECVS[late]}" 10
check "... with the file" cmp "$TMP/file" "$TMP/late/file"

# ---- A hostile receiver ----

check "2 receivers" receivers 2 --impair rx.loss=5%,seed=3
background "$TMP/liar" python3 "${SELF%/*}/group_liar.py" $GROUP 127.0.0.1
LIAR=$PID
expect 1 "cp to two receivers and one that asks for everything for ever" "${CP[@]}" --receivers 3
check "two have it" holds '.done == 2 and ([.receivers[].state] | sort) == ["done", "done", "refused"]'
check "what the liar drew is bounded" holds ".bytes_sent <= 5.5 * $SIZE and .wants_refused == 1 and .bad_messages > 5"
check "the liar ends" join "$LIAR" 10
check "it was told" matches "$(< "$TMP/liar")" 'joined.*refused'
check "each file is the same" all_have 2

check "a receiver" receivers 1
background "$TMP/liar" python3 "${SELF%/*}/group_liar.py" $GROUP 127.0.0.1 still
LIAR=$PID
expect 1 "cp to a receiver and one that reports no progress" timeout 30 "${CP[@]}" --receivers 2 --rate 600k
check "one has it" holds '.done == 1 and ([.receivers[].state] | sort) == ["done", "refused"]'
check "it says why" matches "$OUT" 'refused: it reports no progress'
check "the liar ends" join "$LIAR" 10
check "each file is the same" all_have 1

check "a receiver" receivers 1
background "$TMP/cp" "${CP[@]}" --receivers 17
SENDER=$PID
run "one host joins by 100 ports" python3 "${SELF%/*}/group_joiner.py" $GROUP 127.0.0.1 127.0.0.2
check "it has 16 places" matches "$OUT" '^accepted 16 refused 84$'
expect 1 "cp ends, and says that they were lost" join "$SENDER" 20
OUT=$(< "$TMP/cp")
check "the receiver has it" holds '.joined == 17 and .done == 1 and .joins_refused >= 84'
check "the file is the same" all_have 1

# ---- Hostile senders ----

check "a receiver" receivers 1
background "$TMP/forger" python3 "${SELF%/*}/group_forger.py" $GROUP 127.0.0.1 3
FORGER=$PID
check "a forger" eventually 10 bound "$FORGER"
run "cp while a forger announces" "${CP[@]}"
check "the file is the same" all_have 1
check "the forger ends" join "$FORGER" 10
check "it drew JOINs alone" matches "$(< "$TMP/forger")" '^drew [1-9][0-9]* JOIN, 0 others$'
check "nothing else is there" [ "$(ls -A "$TMP/1")" = file ]

# squatted WHAT: a file comes while another host squats.
squatted() {
	check "a receiver$1" receivers 1
	background "$TMP/squatter" python3 "${SELF%/*}/group_squatter.py" $GROUP 127.0.0.1 127.0.0.2
	SQUATTER=$PID
	check "a squatter" eventually 10 bound "$SQUATTER"
	run "cp while another host announces files that it does not send$1" "${CP[@]}"
	check "the file is the same" all_have 1
	check "nothing else is there" [ "$(ls -A "$TMP/1")" = file ]
	check "... and nothing beside it" [ ! -e "$TMP/escaped" ]
	kill -TERM "$SQUATTER"
	check "the squatter ends" join "$SQUATTER" 5
	check "it was heard, and wrote with another's STag" \
		matches "$(< "$TMP/squatter")" '^[1-9][0-9]* joins [0-9]* kept [1-9][0-9]* stags$'
}
squatted ""
check "... and was refused" matches "$(< "$TMP/squatter")" ' [1-9][0-9]* kept '
[ "$MODE" != release ] || SLOW_DISK=400000 LD_PRELOAD=$BUILD/tests/preload/slow_disk.so squatted ", on a slow disk"

# ---- Two senders at once ----

check "2 receivers" receivers 2 --count 2
head -c $SIZE /dev/urandom > "$TMP/other"
background "$TMP/cp" "$DIW" cp --json "${AT[@]}" --mulpdu 1452 --receivers 2 --rate 8m "$TMP/other"
SENDER=$PID
run "cp of a file while another one is sent to the same group" "${CP[@]}" --receivers 2 --rate 8m
check "the other cp ends well" join "$SENDER" 20
check "each first file is the same" all_have 2
for i in 1 2; do check "... and the second one at $i" cmp "$TMP/other" "$TMP/$i/other"; done

# ---- Transfers that fail ----

check "2 receivers" receivers 2
echo other > "$TMP/2/file"
expect 1 "cp to one that has such a file" "${CP[@]}" --receivers 2
check "it says why" matches "$OUT" 'failed: the file exists'
check "the other one has it" all_have 1
check "the receiver that has it keeps it" [ "$(< "$TMP/2/file")" = other ]
check "... and waits for another file" kill "${RECVS[2]}"

check "a receiver" receivers 1
background "$TMP/cp" "${CP[@]}" --rate 1m
SENDER=$PID
check "it has begun" eventually 10 begun 1
kill -INT "$SENDER"
expect 1 "cp that is interrupted" join "$SENDER" 5
expect 1 "its receiver ends" join "${RECVS[1]}" 10
check "... and says why" matches "$(< "$TMP/log.1")" 'the sender has ended'
check "... and leaves nothing" [ -z "$(ls -A "$TMP/1")" ]

expect 1 "cp to nobody" "${CP[@]}"
check "it says what is missing" matches "$OUT" "no receiver has joined .is 'diw recv --group"
expect 2 "a group that is none" $DIW cp --group 192.0.2.1 "$TMP/file"
expect 2 "--group and --qp rc" $DIW cp --group $GROUP --qp rc "$TMP/file"
expect 2 "--receivers without --group" $DIW cp --receivers 2 "$TMP/file" 127.0.0.1:
expect 2 "--dev without --group" $DIW recv --dev diw_lo "$TMP"

# ---- Between two namespaces, over IPv6 ----

two_namespaces 1500 || { skip "no veth pair here"; end; }
check "IPv6 is configured" eventually 10 configured in_b vb
check "... on both sides" eventually 10 configured "" va
in_b_attached() { [ "$(in_b ss -Huln 'sport = :4793' | wc -l)" = 2 ]; }
apart() {
	for i in 1 2; do
		rm -rf "${TMP:?}/$i"
		mkdir "$TMP/$i"
		background "$TMP/log.$i" in_b $DIW recv --json --count 1 --group ff15::1 --dev diw_vb \
			--impair "rx.loss=5%,seed=$i" "$TMP/$i"
		RECVS[$i]=$PID
	done
	check "two receivers in B" eventually 10 in_b_attached
	run "cp to a group of IPv6" $DIW cp --json --group ff15::1 --dev diw_va --receivers 2 "$TMP/file"
	check "both have it" holds ".done == 2"
	check "each file is the same" all_have 2
}
measured apart "the sender sent at most 1.6 times the file, IPv6" "holds '.tx_bytes <= 1.6 * $SIZE'"
end
