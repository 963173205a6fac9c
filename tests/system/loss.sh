#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A file crosses a veth pair that loses datagrams, by the kernel where it can; the path MTU changes under a transfer.
. "${0%/*}/lib.sh"
head -c 20000000 /dev/urandom > "$TMP/file"

for mtu in 1500 9000; do
	for host in $B4 "[$B6]"; do
		two_namespaces $mtu || { skip "no veth pair here"; end; }
		lose 2
		receiver in_b
		run "cp to $host, MTU $mtu, 2 % lost by $LOSS" "${LOSS_ENV[@]}" $DIW cp --json "$TMP/file" "$host:"
		check "SHA-256 agrees" holds .sha256_ok
		check "about 2 % was asked for again" holds '.bytes_asked_again / .size | . > 0.01 and . < 0.2'
		check "recv ends well" join $RECV 15
		check "the file is the same" cmp "$TMP/file" "$TMP/in/file"
	done
done

two_namespaces 9000
lose 2
receiver in_b
expect 1 "cp --once, 2 % lost by $LOSS" "${LOSS_ENV[@]}" $DIW cp --once --json "$TMP/file" $B4:
check "most of it is valid" holds '.bytes_valid / .size | . > 0.9 and . < 1'
end
