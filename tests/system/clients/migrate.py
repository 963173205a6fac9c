# SPDX-License-Identifier: BSD-2-Clause
"""Moves the guest of one qemu to another, and saves a piece of both guests' memory.

usage: migrate.py SOURCE DESTINATION URI ADDRESS SIZE CAPABILITY...
SOURCE and DESTINATION are the sockets of the monitors, which may not exist yet. The memory is saved in NAME.memory.
"""
import json
import socket
import sys
import time


class Monitor:
    def __init__(self, name):
        until = time.time() + 60
        while True:
            try:
                self.socket = socket.socket(socket.AF_UNIX)
                self.socket.connect(name)
                break
            except OSError:
                if time.time() > until:
                    raise
                time.sleep(0.05)
        self.file = self.socket.makefile("rw")
        self.file.readline()
        self("qmp_capabilities")

    def __call__(self, command, **arguments):
        self.file.write(json.dumps({"execute": command, "arguments": arguments}))
        self.file.flush()
        while True:
            answer = json.loads(self.file.readline())
            if "error" in answer:
                sys.exit(f"{command}: {answer['error']['desc']}")
            if "return" in answer:
                return answer["return"]


names, uri, address, size = sys.argv[1:3], sys.argv[3], int(sys.argv[4], 0), int(sys.argv[5], 0)
monitors = [Monitor(name) for name in names]
for monitor in monitors:
    for capability in sys.argv[6:]:
        monitor("migrate-set-capabilities", capabilities=[{"capability": capability, "state": True}])
monitors[0]("migrate", uri=uri)
status = {"status": "setup"}
while status["status"] not in ("completed", "failed", "cancelled"):
    time.sleep(0.05)
    status = monitors[0]("query-migrate")
for monitor, name in zip(monitors, names):
    if status["status"] == "completed":
        monitor("pmemsave", val=address, size=size, filename=name + ".memory")
    monitor("quit")
print(status)
sys.exit(status["status"] != "completed")
