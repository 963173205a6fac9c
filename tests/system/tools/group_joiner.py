#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# group_joiner.py GROUP DEVICE_ADDRESS OWN_ADDRESS: one host that wants all places of a sender of diw cp --group. It
# joins by 100 ports, sends nothing more, and prints how many the sender accepted.
import random, select, socket, struct, sys, time, zlib

QKEY, GROUP_PORT, MAGIC = 0x64697721, 4793, 0x44495758
REFUSE, ANNOUNCE, JOIN, WELCOME = 2, 8, 9, 10
group, device, own = sys.argv[1:]
epoch = random.getrandbits(16)


def say(sock, to, kind, ident, body):
    data = struct.pack('>IIQI', MAGIC, 1 << 24 | kind << 16, ident, 0) + body
    seg = struct.pack('>BBIIIIIHI', 0x41, 0x43, 0, 0, random.getrandbits(32), 0, QKEY, epoch, len(data)) + data
    sock.sendto(seg + struct.pack('<I', zlib.crc32(seg)), to)


# (kind, id, flags, body) of a Send of one segment, or None
def message(d):
    if len(d) < 52 or d[:2] != b'\x41\x43' or struct.unpack('>I', d[28:32])[0] != MAGIC:
        return None
    head, ident, flags = struct.unpack('>IQI', d[32:48])
    return head >> 16 & 0xff, ident, flags, d[48:-4]


hear = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
hear.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
hear.bind((group, GROUP_PORT))
hear.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group) + socket.inet_aton(device))
hear.settimeout(60)
kind = 0
while kind != ANNOUNCE:
    d, sender = hear.recvfrom(65536)
    kind, ident, _, _ = message(d) or (0, 0, 0, 0)
ports = []
for _ in range(100):
    ports.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    ports[-1].bind((own, 0))
    say(ports[-1], sender, JOIN, ident, struct.pack('>QQQIH', 0, 7, 0, 1 << 20, 0))
accepted, refused, until = 0, 0, time.monotonic() + 2
while accepted + refused < len(ports) and (left := until - time.monotonic()) > 0:
    for sock in select.select(ports, [], [], left)[0]:
        kind, _, flags, body = message(sock.recv(65536)) or (0, 0, 0, b'')
        if kind == WELCOME and flags:
            accepted += 1
        elif kind == WELCOME:
            say(sock, sender, JOIN, ident, struct.pack('>QQQIH', struct.unpack('>Q', body[:8])[0], 7, 0, 1 << 20, 0))
        elif kind == REFUSE:
            refused += 1
print('accepted', accepted, 'refused', refused, flush=True)
