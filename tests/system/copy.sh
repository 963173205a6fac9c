#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# diw cp and recv on lo, with loss by diw's own impairment.
. "${0%/*}/lib.sh"
head -c 3333333 /dev/urandom > "$TMP/file"

# same: what was received is the file.
same() { cmp "$TMP/file" "$TMP/in/${1:-file}"; }

for mulpdu in 1452 8952 65000; do
	receiver
	run "cp loses nothing on lo, mulpdu $mulpdu" $DIW cp --json --mulpdu $mulpdu "$TMP/file" 127.0.0.1:
	check "SHA-256 agrees" holds '.sha256_ok and .bytes_valid == 3333333 and .missing == []'
	check "the hash is the file's" [ "$(field .sha256)" = "$(sha256sum < "$TMP/file" | cut -d' ' -f1)" ]
	check "recv ends after one transfer" join $RECV 10
	check "the file is the same" same
done

for impair in loss=1%,seed=7 loss=20%,seed=3 burst=2%:20,seed=5 reorder=2%,dup=2%,seed=1 corrupt=1%,seed=2 \
	tx.loss=5%,tx.reorder=1%,tx.delay=200us,seed=9; do
	receiver
	run "cp under $impair" $DIW cp --json --mulpdu 1452 --impair $impair "$TMP/file" 127.0.0.1:
	check "all of it arrived" holds '.sha256_ok and .bytes_valid == 3333333'
	case $impair in reorder*) ;; *)
		check "what was lost was asked for again, and little else" \
			holds '.bytes_asked_again > 0 and .bytes_asked_again < 2 * 3333333' ;;
	esac
	check "recv ends well" join $RECV 15
	check "the file is the same" same
done

receiver
expect 1 "cp --once with holes exits 1" $DIW cp --json --once --mulpdu 1452 --impair loss=1%,seed=7 "$TMP/file" 127.0.0.1:
check "it says so" holds '.sha256_ok == false and .bytes_valid < 3333333 and .bytes_valid > 3000000'
check "missing and valid bytes add up" holds '.bytes_valid + ([.missing[][1]] | add) == 3333333'
missing=$(field '.missing[] | "\(.[0]) \(.[1])"')
expect 1 "recv of a file with holes exits 1" join $RECV 15
# Outside the holes every byte is the file's, in them it is zero: cmp lists the bytes that differ, from 1, in octal.
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
check "holes are zeros, everything else is the file" holes_are_zero

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

expect 1 "cp to nobody fails" $DIW cp --port 4799 "$TMP/file" 127.0.0.1:
expect 1 "cp of a directory fails" $DIW cp "$TMP" 127.0.0.1:
expect 1 "recv into no directory fails" $DIW recv "$TMP/none"
end
