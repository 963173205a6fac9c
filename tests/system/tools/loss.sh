#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A file crosses a veth pair that loses datagrams, in the kernel if the kernel can. The path MTU changes during a
# transfer.
. "${0%/*}/../lib.sh"
head -c 20000000 /dev/urandom > "$TMP/file"

about_2() { holds '.bytes_asked_again / .size | . > 0.01 and . < 0.2'; }
# A receiver that loses the processor within a message loses the rest of the message as well.
lossy() {
	receiver in_b
	run "cp to $host, MTU $mtu, 2 % lost by $LOSS" "${LOSS_ENV[@]}" $DIW cp --json "$TMP/file" "$host:"
	check "SHA-256 agrees" holds .sha256_ok
	check "recv ends well" join $RECV 15
	check "the file is the same" cmp "$TMP/file" "$TMP/in/file"
}
for mtu in 1500 9000; do
	for host in $B4 "[$B6]"; do
		two_namespaces $mtu || { skip "no veth pair here"; end; }
		lose 2
		TRIES=5 measured lossy "about 2 % was asked for again" about_2
	done
done

two_namespaces 9000
lose 2
most() { holds '.bytes_valid / .size | . > 0.9 and . < 1'; }
once() {
	receiver in_b
	expect 1 "cp --once, 2 % lost by $LOSS" "${LOSS_ENV[@]}" $DIW cp --once --json "$TMP/file" $B4:
	join $RECV 15
}
TRIES=5 measured once "most of it is valid" most
end
