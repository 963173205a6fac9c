#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# group_liar.py GROUP DEVICE_ADDRESS [still]: a hostile receiver of diw cp --group, written from docs/ud-profile.md and
# tools/cp/xfer.h alone. It joins, reports false values, requests everything at the end of each pass, and blocks that do
# not exist; it never has the file. With "still" it repeats the report of a mark that was never sent, and no more. It
# ends when the sender says BYE or REFUSE, or after 60 s.
import random, socket, struct, sys, time, zlib

QKEY, GROUP_PORT, MAGIC = 0x64697721, 4793, 0x44495758
REFUSE, BYE, ANNOUNCE, JOIN, WELCOME, MARK, REPORT, WANT, KEPT = 2, 7, 8, 9, 10, 11, 12, 13, 14
group, own = sys.argv[1:3]
still = sys.argv[3:] == ['still']

hear = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
hear.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
hear.bind((group, GROUP_PORT))
hear.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group) + socket.inet_aton(own))
hear.settimeout(60)
talk = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
talk.bind((own, 0))
talk.settimeout(2)
msn, epoch = random.getrandbits(32), random.getrandbits(16)


def say(to, kind, ident, body, flags=0):
    global msn
    msn = (msn + 1) & 0xffffffff
    data = struct.pack('>IIQI', MAGIC, 1 << 24 | kind << 16, ident, flags) + body
    seg = struct.pack('>BBIIIIIHI', 0x41, 0x43, 0, 0, msn, 0, QKEY, epoch, len(data)) + data
    talk.sendto(seg + struct.pack('<I', zlib.crc32(seg)), to)


# (kind, id, flags, body) of a Send of one segment, or None
def message(d):
    if len(d) < 52 or d[:2] != b'\x41\x43' or struct.unpack('>I', d[28:32])[0] != MAGIC:
        return None
    head, ident, flags = struct.unpack('>IQI', d[32:48])
    return head >> 16 & 0xff, ident, flags, d[48:-4]


def next_of(sock, kinds):
    while True:
        d, src = sock.recvfrom(65536)
        m = message(d)
        if m and m[0] in kinds:
            return m, src


(kind, ident, _, body), sender = next_of(hear, (ANNOUNCE,))
size, block = struct.unpack('>QI', body[:12])
blocks = -(-size // block)
say(sender, REPORT, ident, struct.pack('>QQII', 1, 0, 1, 0))             # nobody knows it yet
say(sender, WANT, ident, struct.pack('>QQI', 1, 0, 0) + b'\xff' * 448)
say(sender, JOIN, ident, struct.pack('>QQQIH', 0xbad, 7, 0, 1 << 20, 0))         # that is no token
say(sender, JOIN, ident, struct.pack('>QQQIH', 0, 7, 0, 0, 0))
(_, _, _, body), _ = next_of(talk, (WELCOME,))
token, nonce = struct.unpack('>QQ', body[:16])
assert nonce == 7
say(sender, JOIN, ident, struct.pack('>QQQIH', token, 7, 1 << 63, 0, 0))
print('joined', flush=True)
talk.setblocking(False)
end, wants = time.monotonic() + 60, 0


# Whether a REFUSE is among what has come to the own address.
def refused():
    while True:
        try:
            m = message(talk.recv(65536))
        except BlockingIOError:
            return False
        if m and m[0] == REFUSE:
            print('refused after', wants, 'wants', flush=True)
            return True


# The sender's next message. On a busy machine, marks queue up: of marks that have come, the last one of a pass or else
# the newest, for an answer to an old one is none.
def next_mark():
    found = None
    while True:
        hear.settimeout(0 if found else max(end - time.monotonic(), 0.01))
        try:
            m, src = next_of(hear, (MARK, BYE))
        except BlockingIOError:
            return found
        if m[1] != ident or src != sender:
            continue
        if m[0] == BYE or m[2] & 1:
            return m
        found = m


while still and time.monotonic() < end and not refused():
    say(sender, REPORT, ident, struct.pack('>QQII', token, 0, 1 << 31, 0))
    time.sleep(0.1)
while not still and time.monotonic() < end:
    kind, which, flags, body = next_mark()
    if kind == BYE:
        refused()
        break
    _, mark, done, _ = struct.unpack('>QIII', body)
    say(sender, REPORT, ident, struct.pack('>QQII', token, random.getrandbits(64), mark + 1000, 7))
    say(sender, REPORT, ident, struct.pack('>QQII', token ^ 2, 0, mark, done), 3)
    say(sender, REPORT, ident, struct.pack('>QQII', token, 0, mark, done))
    say(sender, 99, ident, b'')
    if flags & 1:
        say(sender, WANT, ident, struct.pack('>QQI', token, 1, done) + b'\xff' * 448)
        say(sender, WANT, ident, struct.pack('>QQI', token, 1 << 62, done) + b'\xff' * 448)
        say(sender, WANT, ident, struct.pack('>QQI', token, 0, done) + b'\xff' * 100)
        for first in range(0, blocks, 3584):
            for _ in range(3):
                say(sender, WANT, ident, struct.pack('>QQI', token, first, done) + b'\xff' * 448)
                wants += 1
        say(sender, REPORT, ident, struct.pack('>QQII', token, 0, mark, done), 1)
    if refused():
        break
