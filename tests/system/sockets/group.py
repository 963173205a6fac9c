# SPDX-License-Identifier: BSD-2-Clause
"""send GROUP PORT COUNT: sends numbered datagrams to a group, one every 1 ms.
member GROUP PORT COUNT: joins the group, and expects each datagram as it was sent, up to number COUNT."""
import random
import socket
import sys
import time

what, group, port, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def message(number):
    return b"%08d" % number + random.Random(number).randbytes(number * 37 % 1300)


if what == "send":
    for number in range(count):
        s.sendto(message(number), (group, port))
        time.sleep(0.001)
else:
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("", port))
    s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group) + socket.inet_aton("127.0.0.1"))
    number = -1
    while number < count - 1:
        data = s.recv(65536)
        number = int(data[:8])
        if data != message(number):
            sys.exit("message %d is another" % number)
