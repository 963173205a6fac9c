#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Wrong arguments: exit status 2 and a line on stderr. --help: stdout and exit status 0.
. "${0%/*}/../lib.sh"

while read -r line; do
	expect 2 "usage: diw $line" $DIW $line
	check "... with a reason" [ -n "$OUT" ]
done << 'END'

nonsense
info surplus
ping
ping a b
ping -c 0 127.0.0.1
ping -s 10g 127.0.0.1
ping --port 99999 127.0.0.1
ping --qp uc 127.0.0.1
listen --port x
cp
cp onlyone
cp /etc/hostname 127.0.0.1
cp /etc/hostname :
cp --mulpdu 1 /etc/hostname 127.0.0.1:
cp --mulpdu 127 /etc/hostname 127.0.0.1:
perf bw --mulpdu 127 --local
cp --impair rain=1% /etc/hostname 127.0.0.1:
cp --qp tcp /etc/hostname 127.0.0.1:
cp --qp rc --once /etc/hostname 127.0.0.1:
cp --qp rc --impair loss=1% /etc/hostname 127.0.0.1:
recv
recv a b
recv --count none /tmp
perf
perf sideways --local
perf lat
perf bw --op jump --local
perf bw --size 0x --local
perf bw --size 0 --local
perf bw --size 4:2 --local
perf bw --size 1:1m:4 --local
perf bw --size 1:8:x1 --local
perf bw --size 1: --local
perf bw --size 1:99999999g --local
perf bw --size 1:1g,1:1g,1:1g --local
perf bw --depth 1:65001 --local
perf bw --op send,send --local
perf bw --qp ud,tcp --local
perf bw --markers --local
perf lat --rounds 0 --local
perf lat --rounds 100 --local
perf bw --hist --local
perf bw --local --server
stat self
stat 0
stat 1 2
stat --watch 0
stat --watch=soon
stat --json --prometheus
stat --watch --prometheus
dump
dump FILE
dump -i lo -r FILE
dump -r FILE --op jump
dump -r FILE --qp 0
dump -r FILE -c none
run
run --
run --personality router ls
run --personality
run --check
run --check ls -l
run --flags ls
run --sockets
run --sockets --check ls -l
run --mpi
run --mpi --dev ls
run --mpi --check ls
run --sockets --personality ca ls
run --sockets --dev ls
run --sockets=tcp ls
run --check --dev ls
sockets surplus
sockets --all
END
for sub in '' info ping listen cp recv 'perf' stat dump run sockets; do
	run "diw $sub --help" $DIW $sub --help
	check "... is a usage" matches "$OUT" 'diw'
done
run "diw --version" $DIW --version
check "... is the library's" matches "$OUT" '^diw [0-9]+\.[0-9]+\.[0-9]+$'
expect 1 "figures that nobody gets are no success" sh -c "$DIW info > /dev/full"
end
