#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
# Sends buffers that UDP_SEGMENT cuts into messages. The other end has UDP_GRO and answers each buffer.
# usage: gso.py serve PORT      gso.py ask PORT TIMES SIZE COUNT [option]
import socket
import struct
import sys

UDP_SEGMENT, UDP_GRO = 103, 104


def pattern(i, n):
    return bytes((i + k) % 251 for k in range(n))


def serve(port):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
    s.bind(("127.0.0.1", port))
    messages = []
    while True:
        data, control, flags, who = s.recvmsg(65536, 256)
        size = [struct.unpack("i", c[2])[0] for c in control if c[:2] == (socket.IPPROTO_UDP, UDP_GRO)]
        size = size[0] if size else max(len(data), 1)
        messages += [data[i:i + size] for i in range(0, len(data), size)] or [data]
        if messages[-1].startswith(b"end of "):
            # The answer has the lengths of the messages, in their order.
            s.sendto(str([len(m) for m in messages[:-1]]).encode() + pattern(0, 1), who)
            times = int(messages[-1].split()[2])
            assert b"".join(messages[:-1]) == pattern(times, sum(len(m) for m in messages[:-1])), times
            messages = []


def ask(port, times, size, count, option):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect(("127.0.0.1", port))
    s.settimeout(60)
    if option:
        s.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, size)
    control = [] if option else [(socket.IPPROTO_UDP, UDP_SEGMENT, struct.pack("H", size))]
    for i in range(times):
        last = size if i % 2 else 1 + i % size
        assert s.sendmsg([pattern(i, (count - 1) * size + last)], control) == (count - 1) * size + last
        assert s.send(b"end of %d" % i) > 0
        told = s.recv(65536)
        assert told[:-1].decode() == str([size] * (count - 1) + [last]), told


if sys.argv[1] == "serve":
    serve(int(sys.argv[2]))
else:
    ask(*map(int, sys.argv[2:6]), len(sys.argv) > 6)
