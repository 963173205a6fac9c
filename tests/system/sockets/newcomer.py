# SPDX-License-Identifier: BSD-2-Clause
"""send PORT: sends from 64 sockets in turn (the kernel chooses the receiver of each by a hash), until killed.
receive PORT: receives with SO_REUSEPORT, until killed.
join PORT ROUNDS: binds beside a receiver ROUNDS times. Prints the number of datagrams that came, the number of those
that are not the sent message, and the longest time in ms from bind() to the arrival of one of these, by the kernel's
clock."""
import socket
import struct
import sys
import time

SO_REUSEPORT, SO_TIMESTAMPNS = 15, 35
what, port = sys.argv[1], int(sys.argv[2])
MESSAGE = b"message" * 20


def bound():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, SO_REUSEPORT, 1)
    s.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    s.settimeout(5)
    begun = time.time()
    s.bind(("127.0.0.1", port))
    return s, begun


if what == "send":
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(64)]
    while True:
        for s in sockets:
            s.sendto(MESSAGE, ("127.0.0.1", port))
        time.sleep(0.004)
elif what == "receive":
    s = bound()[0]
    s.settimeout(None)
    while s.recv(999) == MESSAGE:
        pass
    sys.exit("another message")
else:
    came = strange = latest = 0
    for _ in range(int(sys.argv[3])):
        s, begun = bound()
        end = time.time() + 0.2
        while time.time() < end:
            data, control, _, _ = s.recvmsg(999, 99)
            came += 1
            if data != MESSAGE:
                seconds, ns = struct.unpack("qq", control[0][2][:16])
                strange += 1
                latest = max(latest, (seconds - begun + ns / 1e9) * 1000)
        s.close()
    print("came", came, "strange", strange, "latest", int(latest))
