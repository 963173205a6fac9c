#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Debian's programs over diw run --sockets. Each pair runs with both ends interposed, some also with one end interposed.
# usage: sockets_programs.sh [PATTERN]     only the rows that PATTERN matches
#
# With both ends interposed, 99 % of the messages that the eligible ends send must go in frames, or a quarter of the
# bytes over TCP. A capture must show frames. An end is eligible if it sends to peers that have received before. A
# server whose client asks once from each socket is not eligible.
# DIW_TEST_FULL=1: also the large programs. SOCKETS_TABLE=FILE: writes the results into that page.
GET="tools/programs get${DIW_TEST_FULL:+ media}"
FETCH=("$GET")
. "${0%/*}/../lib.sh"
. tests/system/sockets/lib.sh
. tests/system/sockets/rows.sh
. tests/system/sockets/servers.sh
. tests/system/sockets/places.sh
PATTERN=${1:-.}
[ "$MODE" = release ] || [ "$MODE" = debug ] || { skip "programs of others cannot load a library built for a sanitizer";
	end; }
fetched "$GET" || end
root=$($GET)
export XDG_RUNTIME_DIR=$TMP/run
mkdir -m 700 "$TMP/run"
ip addr add 192.0.2.9/24 dev lo          # without any address programs do not find 127.0.0.1
ip route add 224.0.0.0/4 dev lo
unset LD_PRELOAD DIWARP_SOCKETS DIWARP_SOCKETS_PEERS

if ! command -v node > /dev/null; then
	skip "no node here"
	BOTH=("${BOTH[@]/#node*/}") ALONE=("${ALONE[@]/#node*/}") WITHOUT=("${WITHOUT[@]/#node*/}")
fi
if ! as_nobody; then
	skip "PostgreSQL wants an ordinary user, and user 65534 can't be had here or can't run $BUILD/bin/diw"
	BOTH=("${BOTH[@]/#pgbench/}") WITHOUT=("${WITHOUT[@]/#pgbench/}")
fi
if [ "$(cat /proc/self/setgroups 2> /dev/null)" = deny ]; then
	skip "in.tftpd takes on a user's groups, which an ordinary user's namespace forbids"
	BOTH=("${BOTH[@]/#tftp/}") ALONE=("${ALONE[@]/#tftp/}")
fi
if ! { nft add table ip diw && nft add chain ip diw out '{ type nat hook output priority -100; }'; } 2> /dev/null; then
	skip "nft changes no addresses here"
	ELSEWHERE=("${ELSEWHERE[@]/#redirect*/}") WITHOUT=("${WITHOUT[@]/#redirect*/}")
fi
nft delete table ip diw 2> /dev/null
for row in "${BOTH[@]}" ${DIW_TEST_FULL:+"${LARGE[@]}"}; do
	[[ -n $row && $row =~ $PATTERN ]] && play "$row" both
done
for row in "${ALONE[@]}"; do
	[[ -n $row && $row =~ $PATTERN ]] || continue
	play "$row" first
	play "$row" second
done
for row in "${ELSEWHERE[@]}"; do
	[[ -n $row && $row =~ $PATTERN ]] && play "$row" second
done
# The same rows without the interposer: a row that fails here as well is no fault of the interposer.
for row in "${WITHOUT[@]}"; do
	[[ -n $row && $row =~ $PATTERN ]] && play "$row" none
done
if [ -n "${DIW_TEST_FULL:-}" ]; then
	[[ cpython =~ $PATTERN ]] && cpython test_socket -i '*VSOCK*' && cpython test_asyncio -m '*atagram*' &&
		cpython test_selectors && cpython test_epoll && cpython test_poll && cpython test_select &&
		cpython test_httplib && cpython test_ftplib && cpython test_smtplib && cpython test_poplib &&
			cpython test_xmlrpc
fi
[ -z "${SOCKETS_TABLE:-}" ] || write_table "$SOCKETS_TABLE"
end
