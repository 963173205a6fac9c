#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# group_squatter.py GROUP DEVICE_ADDRESS OWN_ADDRESS: a hostile sender to the receivers of diw recv --group that answers
# their JOINs correctly. It announces a new file every 10 ms, from its own address, under valid and invalid names and
# sizes, and with the STag of any other announcement that it receives. It never sends a file; it writes beyond the end
# of its own, and with STags of others. It runs until it is killed, and prints the messages that it causes.
import os, random, select, signal, socket, struct, sys, time, zlib

QKEY, GROUP_PORT, MAGIC = 0x64697721, 4793, 0x44495758
ANNOUNCE, JOIN, WELCOME, MARK, KEPT = 8, 9, 10, 11, 14
group, device, own = sys.argv[1:]

hear = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
hear.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
hear.bind((group, GROUP_PORT))
hear.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group) + socket.inet_aton(device))
talk = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
talk.bind((own, 0))
talk.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(device))
msn, epoch = random.getrandbits(32), random.getrandbits(16)
drew = {'joins': 0, 'kept': 0, 'stags': 0}


def send(seg, to):
    talk.sendto(seg + struct.pack('<I', zlib.crc32(seg)), to)


def say(to, kind, ident, body, flags=0):
    global msn
    msn = (msn + 1) & 0xffffffff
    data = struct.pack('>IIQI', MAGIC, 1 << 24 | kind << 16, ident, flags) + body
    send(struct.pack('>BBIIIIIHI', 0x41, 0x43, 0, 0, msn, 0, QKEY, epoch, len(data)) + data, to)


def write(stag, to, data):
    global msn
    msn = (msn + 1) & 0xffffffff
    send(struct.pack('>BBIQIHIII', 0xc1, 0x4c, stag, to, QKEY, epoch, msn, 0, len(data)) + data, (group, GROUP_PORT))


# (kind, id, body) of a Send of one segment, or None
def message(d):
    if len(d) < 52 or d[:2] != b'\x41\x43' or struct.unpack('>I', d[28:32])[0] != MAGIC:
        return None
    head, ident, _ = struct.unpack('>IQI', d[32:48])
    return head >> 16 & 0xff, ident, d[48:-4]


def file(size, block, stag, name):
    return struct.pack('>QII', size, block, stag) + os.urandom(32) + struct.pack('>H', len(name)) + name


def stop(*_):
    print(*(f'{v} {k}' for k, v in drew.items()), flush=True)
    os._exit(0)


signal.signal(signal.SIGTERM, stop)
names = (b'../escaped', b'x/y', b'..', b'', b'x\0y', b'a' * 255, b'x', b'y')
sizes = (9, 1 << 60, (1 << 64) - 1, 1000000)
blocks = (0, 63, 1 << 31, 1420, 65000)
stolen, mine = [], {}
while True:
    ident = random.getrandbits(64)
    honest = random.random() < .7
    stag = stolen[-1] if stolen and random.random() < .5 else random.randrange(0x100, 0xffffff)
    what = (1000000, 1420, stag, b'squat%d' % (ident % 1000)) if honest else \
        (random.choice(sizes), random.choice(blocks), stag, random.choice(names))
    mine[ident] = what
    say((group, GROUP_PORT), ANNOUNCE, ident, file(*what))
    until = time.monotonic() + .01
    while (left := until - time.monotonic()) > 0:
        for sock in select.select([hear, talk], [], [], left)[0]:
            d, src = sock.recvfrom(65536)
            m = message(d)
            if not m:
                continue
            if sock is hear and m[0] == ANNOUNCE and m[1] not in mine:
                stag = struct.unpack('>I', m[2][12:16])[0]
                if stag not in stolen:
                    stolen.append(stag)
                    drew['stags'] += 1
                write(stag, 0, b'forged' * 100)
            elif m[0] == JOIN and m[1] in mine:
                drew['joins'] += 1
                token, nonce = struct.unpack('>QQ', m[2][:16])
                say(src, WELCOME, m[1], struct.pack('>QQ', 77, nonce) + file(*mine[m[1]]), 1 if token == 77 else 0)
                for i in 0, 1:
                    say((group, GROUP_PORT), MARK, m[1], struct.pack('>QIII', 1 << 40, i, i, 0xffffffff), i)
                for to in 0, 1000000, 999999, 1 << 62, (1 << 64) - 9:
                    write(mine[m[1]][2], to, b'forged' * 100)
            elif m[0] == KEPT:
                drew['kept'] += 1
