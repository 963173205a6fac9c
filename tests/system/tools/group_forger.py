#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# group_forger.py GROUP DEVICE_ADDRESS SECONDS: announces files to the receivers of diw recv --group. Most of these
# files cannot be received. The forger behaves as a sender that has not received the JOINs: it guesses the nonce.
# It prints the messages that it causes.
import os, random, socket, struct, sys, time, zlib

QKEY, GROUP_PORT, MAGIC = 0x64697721, 4793, 0x44495758
REFUSE, BYE, ANNOUNCE, JOIN, WELCOME, MARK = 2, 7, 8, 9, 10, 11
group, own, seconds = sys.argv[1:]
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind((own, 0))
sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(own))
sock.setblocking(False)
msn, epoch = random.getrandbits(32), random.getrandbits(16)


def say(to, kind, ident, body, flags=0):
    global msn
    msn = (msn + 1) & 0xffffffff
    data = struct.pack('>IIQI', MAGIC, 1 << 24 | kind << 16, ident, flags) + body
    seg = struct.pack('>BBIIIIIHI', 0x41, 0x43, 0, 0, msn, 0, QKEY, epoch, len(data)) + data
    sock.sendto(seg + struct.pack('<I', zlib.crc32(seg)), to)


def a_file(name, size, block, stag):
    return struct.pack('>QII', size, block, stag) + os.urandom(32) + struct.pack('>H', len(name)) + name


def announce(ident, *what):
    say((group, GROUP_PORT), ANNOUNCE, ident, a_file(*what))


drew = {}


def listen(seconds, answer):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            d, src = sock.recvfrom(65536)
        except BlockingIOError:
            time.sleep(0.005)
            continue
        if len(d) < 52 or struct.unpack('>I', d[28:32])[0] != MAGIC:
            continue
        kind = struct.unpack('>I', d[32:36])[0] >> 16 & 0xff
        ident = struct.unpack('>Q', d[36:44])[0]
        drew[kind] = drew.get(kind, 0) + 1
        if answer:
            for flags in 0, 1:
                welcome = struct.pack('>QQ', 77, random.getrandbits(64)) + a_file(b'y', 1000000, 1452, 0xc0de07)
                say(src, WELCOME, ident, welcome, flags)


for n, what in enumerate(((b'../escaped', 9, 1452, 0x100), (b'x', 1 << 60, 1452, 0x100), (b'x', 9, 0, 0x100),
                          (b'x', 9, 1 << 31, 0x100), (b'x', 9, 1452, 0xffffffff), (b'x\0y', 9, 1452, 0x100),
                           (b'', 9, 1452, 0x100))):
    announce(1000 + n, *what)
    listen(0.05, False)
end = time.monotonic() + float(seconds)
while time.monotonic() < end:
    for ident in range(2000, 2100):
        announce(ident, b'y%d' % ident, 1000000, 1452, 0xc0de07)
        for flags in 0, 1:
            say((group, GROUP_PORT), MARK, ident, struct.pack('>QIII', 1 << 40, ident, ident, 0xffffffff), flags)
    listen(0.05, True)
say((group, GROUP_PORT), BYE, 2000, b'')
print('drew', drew.pop(JOIN, 0), 'JOIN,', sum(drew.values()), 'others', flush=True)
