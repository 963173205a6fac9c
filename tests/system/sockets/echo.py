# SPDX-License-Identifier: BSD-2-Clause
"""PORT: sends each datagram back. PORT COUNT [BYTES]: asks COUNT times, with up to BYTES, and expects the same back."""
import random
import socket
import sys

s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
if len(sys.argv) == 2:
    s.bind(("127.0.0.1", int(sys.argv[1])))
    while True:
        data, peer = s.recvfrom(65536)
        s.sendto(data, peer)
s.connect(("127.0.0.1", int(sys.argv[1])))
s.setblocking(False)
try:
    s.recv(1)
except BlockingIOError:
    pass
s.setblocking(True)
source = random.Random(7)
for number in range(int(sys.argv[2])):
    data = source.randbytes(source.randint(1, int(sys.argv[3]) if len(sys.argv) > 3 else 1400))
    s.send(data)
    if s.recv(65536) != data:
        sys.exit("message %d is another" % number)
