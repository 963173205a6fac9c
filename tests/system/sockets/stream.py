# SPDX-License-Identifier: BSD-2-Clause
"""Datagrams whose content shows whether they arrived as they were sent.
send ADDRESS PORT BYTES     sends one every 2 ms, until standard input ends
receive ADDRESS PORT COUNT  receives COUNT of them; exit status 0 if all were as sent"""
import select
import socket
import sys

what, address, port, n = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)


def payload(number, size):
    head = b"%08d " % number
    return head + (head[::-1] * (size // len(head) + 1))[: size - len(head)]


if what == "send":
    number = 0
    while not select.select([sys.stdin], [], [], 0.002)[0]:
        try:
            s.sendto(payload(number, n), (address, port))
            number += 1
        except ConnectionRefusedError:
            pass
    sys.stdin.readline()
else:
    s.bind((address, port))
    for _ in range(n):
        data = s.recv(65536)
        if data != payload(int(data[:8]), len(data)):
            sys.exit("not what was sent: %r" % data)
    print("received", n)
