# SPDX-License-Identifier: BSD-2-Clause
"""FILE: is it an MPEG transport stream without a gap between its first and its last packet?"""
import sys

data = open(sys.argv[1], "rb").read()
counters = {}
for at in range(0, len(data) - len(data) % 188, 188):
    if data[at] != 0x47:
        sys.exit("no packet at %d" % at)
    pid = (data[at + 1] & 0x1F) << 8 | data[at + 2]
    if pid == 0x1FFF or not data[at + 3] & 0x10:
        continue
    if pid in counters and data[at + 3] & 15 not in (counters[pid], (counters[pid] + 1) % 16):
        sys.exit("PID %d: a gap at %d" % (pid, at))
    counters[pid] = data[at + 3] & 15
