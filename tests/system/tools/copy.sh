#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# diw cp and recv: on lo, with losses by diw's impairment; RD and RC also between two namespaces.
. "${0%/*}/../lib.sh"
head -c 3333333 /dev/urandom > "$TMP/file"

# ---- Ends that fall silent: started here, checked below, because each timeout takes 5 to 10 s ----

truncate -s 512M "$TMP/sparse"
# far NAME PORT OPTION...: starts a receiver into TMP/NAME.
declare -A FAR
far() {
	local name=$1 port=$2
	shift 2
	mkdir "$TMP/$name"
	background "$TMP/$name.recv" $DIW recv --port "$port" "$@" "$TMP/$name"
	FAR[$name]=$PID
	eventually 10 listening "$port"
}
# near NAME COMMAND...: starts the sender that belongs to it.
declare -A NEAR
near() {
	background "$TMP/$1.cp" "${@:2}"
	NEAR[$1]=$PID
}
begun() { compgen -G "$TMP/$1/.diw-recv-*"; }
nothing_left() { ! begun "$1"; }

near nobody $DIW cp --port 4799 "$TMP/file" 127.0.0.1:
check "a receiver for UD" far ud 4801 --count 1
near ud $DIW cp --qp rd --port 4801 "$TMP/file" 127.0.0.1:
check "a receiver for RD" far rd 4802 --qp rd --count 1
near rd $DIW cp --port 4802 "$TMP/file" 127.0.0.1:
check "a receiver whose RD sender dies" far orphan 4803 --qp rd
near orphan $DIW cp --qp rd --port 4803 "$TMP/sparse" 127.0.0.1:half
check "a transfer over RD has begun" eventually 60 begun orphan
kill -KILL "${NEAR[orphan]}"
check "an RD receiver that dies" far dead 4804 --qp rd
near dead $DIW cp --qp rd --port 4804 "$TMP/sparse" 127.0.0.1:half
check "another transfer over RD has begun" eventually 60 begun dead
kill -KILL "${FAR[dead]}"

# ---- Over UD ----

# same [NAME]: the received file is equal to the sent file.
same() { cmp "$TMP/file" "$TMP/in/${1:-file}"; }

for mulpdu in 1452 8952 65000; do
	receiver
	run "cp loses nothing on lo, mulpdu $mulpdu" $DIW cp --json --mulpdu $mulpdu "$TMP/file" 127.0.0.1:
	check "SHA-256 agrees" holds '.sha256_ok and .bytes_valid == 3333333 and .missing == []'
	check "the hash is the file's" [ "$(field .sha256)" = "$(sha256sum < "$TMP/file" | cut -d' ' -f1)" ]
	check "recv ends after one transfer" join $RECV 10
	check "the file is the same" same
done

little_else() { holds '.bytes_asked_again > 0 and .bytes_asked_again < 2 * 3333333'; }
impaired() {
	receiver
	run "cp under $impair" $DIW cp --json --mulpdu 1452 --impair $impair "$TMP/file" 127.0.0.1:
	check "all of it arrived" holds '.sha256_ok and .bytes_valid == 3333333'
	check "recv ends well" join $RECV 15
	check "the file is the same" same
}
impair=reorder=2%,dup=2%,seed=1
impaired
# A receiver that loses the processor within a message loses the rest of the message as well.
for impair in loss=1%,seed=7 loss=20%,seed=3 burst=2%:20,seed=5 corrupt=1%,seed=2 \
	tx.loss=5%,tx.reorder=1%,tx.delay=200us,seed=9; do
	TRIES=5 measured impaired "what was lost was asked for again, and little else" little_else
done

few_holes() { holds '.sha256_ok == false and .bytes_valid < 3333333 and .bytes_valid > 3000000'; }
# Every byte outside the holes is equal to the file's; every byte in the holes is zero. cmp -l lists the bytes that
# differ: their positions, from 1, and their values in octal.
holes_are_zero() {
	cmp -l "$TMP/file" "$TMP/in/file" | awk -v holes="$missing" '
		BEGIN { n = split(holes, h, /[ \n]/); i = 1 }
		{
			at = $1 - 1
			while (i < n && at >= h[i] + h[i + 1]) i += 2
			if (i >= n || at < h[i] || $3 != 0) { print "byte " at " is wrong"; bad = 1; exit }
			seen++
		}
		END { exit bad || !seen }'
}
once() {
	receiver
	expect 1 "cp --once with holes exits 1" \
		$DIW cp --json --once --mulpdu 1452 --impair loss=1%,seed=7 "$TMP/file" 127.0.0.1:
	check "missing and valid bytes add up" holds '.bytes_valid + ([.missing[][1]] | add) == 3333333'
	missing=$(field '.missing[] | "\(.[0]) \(.[1])"')
	judge "$TMP/out.check" 1 "recv of a file with holes exits 1" join $RECV 15
	check "holes are zeros, everything else is the file" holes_are_zero
}
TRIES=5 measured once "cp says that it has holes, and most of the file" few_holes

receiver
expect 1 "cp --once for a person" $DIW cp --once --mulpdu 1452 --impair loss=1%,seed=7 "$TMP/file" 127.0.0.1:
check "it shows a map and ranges" matches "$OUT" 'validity map.*missing ranges'

: > "$TMP/empty"
receiver
run "an empty file" $DIW cp --json "$TMP/empty" 127.0.0.1:
check "it arrived" eventually 5 test -e "$TMP/in/empty"
receiver
run "over IPv6, with another name" $DIW cp --json "$TMP/file" '[::1]:other'
check "the file is the same" same other
join $RECV 10

# rc_copy WHAT IN HOST OPTION...: copies the file over RC.
rc_copy() {
	local what=$1 in=$2 host=$3
	shift 3
	receiver $in
	check "recv takes RC connections, $what" eventually 10 accepting 4791 $in
	run "cp over RC, $what" $DIW cp --qp rc --json "$@" "$TMP/file" "$host:"
	check "SHA-256 agrees, $what" holds '.qp == "rc" and .sha256_ok and .saved and .bytes_valid == 3333333 and
		.bytes_asked_again == 0 and .missing == []'
	check "recv ends after one transfer, $what" join $RECV 10
	check "... and tells that it came over RC" grep -q ' over RC$' "$TMP/recv"
	check "the file is the same, $what" same
}
rc_copy "on lo" '' 127.0.0.1
rc_copy "IPv6" '' '[::1]'
rc_copy "many small Writes" '' 127.0.0.1 --message 1k
rc_copy "small FPDUs" '' 127.0.0.1 --mulpdu 128
rc_copy "large Writes" '' 127.0.0.1 --message 64m
for mtu in 1500 9000; do
	two_namespaces $mtu || { skip "no veth pair here"; break; }
	rc_copy "two namespaces, MTU $mtu" in_b $B4
	rc_copy "two namespaces, IPv6, MTU $mtu" in_b "[$B6]"
done
receiver
run "an empty file over RC" $DIW cp --qp rc --json "$TMP/empty" 127.0.0.1:
check "it arrived" eventually 5 test -e "$TMP/in/empty"
check "recv ends well" join $RECV 10

# rd_copy WHAT IN HOST OPTION...: copies the file over RD. The receiver asks for no block again.
rd_copy() {
	local what=$1 in=$2 host=$3
	shift 3
	receiver $in --qp rd
	run "cp over RD, $what" $DIW cp --qp rd --json "$@" "$TMP/file" "$host:"
	check "SHA-256 agrees, RD, $what" holds '.qp == "rd" and .sha256_ok and .saved and .bytes_valid == 3333333 and
		.bytes_asked_again == 0 and .missing == []'
	check "recv ends after one transfer, RD, $what" join $RECV 10
	check "... and tells that it came over RD" grep -q ' over RD$' "$TMP/recv"
	check "the file is the same, RD, $what" same
}
rd_copy "on lo" '' 127.0.0.1
rd_copy "IPv6" '' '[::1]'
rd_copy "many small Writes" '' 127.0.0.1 --message 1k
rd_copy "large Writes" '' 127.0.0.1 --message 64m
for impair in loss=1%,seed=7 loss=20%,seed=3 reorder=2%,dup=2%,seed=1 corrupt=1%,seed=2; do
	rd_copy "$impair" '' 127.0.0.1 --mulpdu 1452 --impair $impair
done
if two_namespaces 1500; then
	rd_copy "two namespaces" in_b $B4
	rd_copy "two namespaces, IPv6" in_b "[$B6]"
else
	skip "no veth pair here"
fi
receiver --qp rd
run "an empty file over RD" $DIW cp --qp rd --json "$TMP/empty" 127.0.0.1:
check "recv of it ends well" join $RECV 10
check "it arrived over RD" test -e "$TMP/in/empty"
expect 2 "--once is not for RD" $DIW cp --qp rd --once "$TMP/file" 127.0.0.1:

# Two ends of different types: the sender names the receiver that is missing, and the receiver serves the next sender.
expect 1 "cp over RD to a receiver for UD" join "${NEAR[ud]}" 10
check "... says which one is missing" grep -q "is 'diw recv --qp rd' running" "$TMP/ud.cp"
run "the receiver takes UD all the same" $DIW cp --port 4801 "$TMP/file" 127.0.0.1:
check "it ends well" join "${FAR[ud]}" 10
expect 1 "cp over UD to a receiver for RD" join "${NEAR[rd]}" 10
check "... says which one is missing" grep -q "is 'diw recv' running there, without --qp rd" "$TMP/rd.cp"
check "the receiver for RD takes RC connections" eventually 10 accepting 4802
run "... and a file over RC" $DIW cp --qp rc --port 4802 "$TMP/file" 127.0.0.1:
check "it ends well" join "${FAR[rd]}" 10
check "the file is the same, RC beside RD" cmp "$TMP/file" "$TMP/rd/file"

# A sender over RC dies: the end of its connection ends the transfer, and the receiver removes the partial file.
rm -rf "$TMP/in"
mkdir "$TMP/in"
background "$TMP/recv" $DIW recv "$TMP/in"
RECV=$PID
eventually 10 accepting 4791
cp "$TMP/file" "$TMP/in/there"
expect 1 "a name that exists is refused over RC" $DIW cp --qp rc "$TMP/file" 127.0.0.1:there
check "... with the reason" matches "$OUT" 'exists'
background "$TMP/cp" $DIW cp --qp rc "$TMP/sparse" 127.0.0.1:half
check "a transfer over RC has begun" eventually 60 begun in
kill -KILL "$PID"
check "its end is noticed" eventually 10 grep -q 'the connection ended' "$TMP/recv"
check "nothing stays of it" eventually 5 nothing_left in
run "the next transfer over RC succeeds" $DIW cp --qp rc "$TMP/file" 127.0.0.1:next
check "the file is the same" same next
kill -TERM $RECV
expect 1 "recv tells that one failed" join $RECV 5

# An RD end notices the death of its peer by the peer's silence.
check "the end of an RD sender is noticed" eventually 30 grep -q 'the sender is gone' "$TMP/orphan.recv"
check "nothing stays of its file" eventually 5 nothing_left orphan
run "the next transfer over RD succeeds" $DIW cp --qp rd --port 4803 "$TMP/file" 127.0.0.1:next
check "the file is the same" cmp "$TMP/file" "$TMP/orphan/next"
expect 1 "the end of an RD receiver is noticed" join "${NEAR[dead]}" 30
# The receiver may have died before its first ASK left.
check "... with the reason" grep -Eq '127.0.0.1: (send: |no answer)' "$TMP/dead.cp"

expect 1 "cp over RC to nobody fails" $DIW cp --qp rc --port 4799 "$TMP/file" 127.0.0.1:
expect 1 "cp to nobody fails" join "${NEAR[nobody]}" 10
expect 1 "cp of a directory fails" $DIW cp "$TMP" 127.0.0.1:
expect 1 "recv into no directory fails" $DIW recv "$TMP/none"
end
