#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# pthread_cancel(3): the only cancellation points of the libraries are calls that wait (base/nocancel.h). All calls work
# after a thread was cancelled in such a call: of diw.h (cancel.c), of libibverbs (of_cancel.c), and of librdmacm and
# its rsockets (cma_cancel.c).
. "${0%/*}/../lib.sh"

# The C library's cancellation points: those that POSIX requires, those that POSIX permits, and other names of both.
POINTS='accept4?|(fdata|m)?sync|fsync|clock_nanosleep|close|connect|creat|epoll_p?wait2?|fallocate|fcntl|getrandom|lockf
(msg|mq_timed)?(rcv|snd|send|receive)
nanosleep|u?sleep|open(at)?(64)?|__open(at)?(64)?_2|pause|p?poll|p?select
pthread_(join|timedjoin_np|clockjoin_np|cond_(timed|clock)?wait)
(p|p64)?(read|write)v?(64|2)?|recv(from|msg|mmsg)?|send(to|msg|mmsg)?|sem_(clock|timed)?wait
sig(suspend|timedwait|wait|waitinfo)|system|tcdrain|wait(id|pid|[34])?
(fd?|pf?|free?|tmp)?open(64)?|fdopen|fclose|pclose|fflush|v?[fd]?printf|v?f?scanf|__isoc[0-9]+_f?scanf|perror
puts|putchar|psiginfo
f(get|put)w?[cs]|f(read|write)|getw?c(har)?|putw?c|getline|getdelim|__getdelim|(v?sys|close|open)log
getaddrinfo|getnameinfo|getifaddrs|gethost.*|getserv.*|getpw.*|getgr.*|if_(nameindex|nametoindex|indextoname)
opendir|fdopendir|readdir|closedir|mkstemps?
__(p?read|recv|recvfrom|p?poll|fgets|fread|v?[fd]?printf)(64)?_chk'
POINTS=${POINTS//$'\n'/|}

points() {
	for folder in base llp mpa ddp rdmap verbs mpi_glue; do
		[ ! -d "$BUILD/obj/$folder" ] || find "$BUILD/obj/$folder" -name '*.o' ! -name nocancel.o
	done | while read -r object; do
		nm -u "$object" | awk -v f="${object##*/obj/}" '{ print f, $2 }'
	done | grep -E " ($POINTS)\$"
}
find "$BUILD/obj/verbs" -name '*.o' | grep -q . || { skip "the objects that were linked are not here"; end; }
OUT=$(points)
[ -z "$OUT" ] || echo "${OUT}"
check "no object of the libraries has a cancellation point but base/nocancel.o" [ -z "$OUT" ]
check "... which has" matches "$(nm -u "$BUILD/obj/base/nocancel.o")" ' U ppoll'

program() {
	local rc
	timeout 600 "$@" < /dev/null
	rc=$?
	[ $rc -eq 0 ] || { FAILED=$((FAILED + 1)); [ $rc -eq 1 ] || echo "not ok - ${*: -1} ends (exit $rc)"; }
}
program "$BUILD/tests/system/cancel"
DIWARP_PROGRESS=inline program "$BUILD/tests/system/cancel"
if [ -e "$BUILD/lib/diwarp/librdmacm.so.1" ]; then
	for who in ca rnic; do
		program "$DIW" run --personality $who "$BUILD/tests/system/of_cancel"
		program "$DIW" run --personality $who "$BUILD/tests/system/cma_cancel"
	done
else
	skip "librdmacm-dev was not there when this was built"
fi
end
