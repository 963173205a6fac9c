# SPDX-License-Identifier: BSD-2-Clause
"""talk.py: two sockets send each other 100 datagrams."""
import socket
a, b = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for i in range(2))
for s in a, b:
    s.bind(("127.0.0.1", 0))
for i in range(100):
    a.sendto(b"ping", b.getsockname())
    m, who = b.recvfrom(100)
    b.sendto(m, who)
    assert a.recv(100) == b"ping"
