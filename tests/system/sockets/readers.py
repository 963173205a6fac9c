# SPDX-License-Identifier: BSD-2-Clause
"""Programs beside interposed ones. A message is "message N"; other data is "strange".
udp PORT [OPTION...]      receives until it is ended; then it prints the numbers of messages and of strange data
tcp PORT [OPTION...]      echoes each connection, and prints the same numbers of the connections' first data
first PORT COMMAND...     gives its datagram socket to COMMAND when one message has come
give PORT COMMAND...      gives each connection to COMMAND, as COMMAND's standard input and output
listen PORT COMMAND...    gives its listener to COMMAND, as COMMAND's standard input
send PORT SECONDS         sends messages, each after a millisecond
talk PORT COUNT           makes COUNT connections, and expects the message of each back
OPTION: fd=N, an existing socket; reuse; device=NAME; at=ADDRESS"""
import os
import signal
import socket
import struct
import sys
import threading
import time

what, port = sys.argv[1], int(sys.argv[2])
options = dict(o.partition("=")[::2] for o in sys.argv[3:]) if what in ("udp", "tcp") else {}
HOST = os.environ.get("READERS_HOST", "127.0.0.1")
got = strange = 0


def message(n):
    return b"message %d" % n


def took(data):
    global got, strange
    got += 1
    strange += not data.startswith(b"message ")


def tell(*_):
    print("got", got, "strange", strange, flush=True)
    os._exit(0)


def bound(kind):
    if "fd" in options:
        return socket.socket(fileno=int(options["fd"]))
    s = socket.socket(socket.AF_INET, kind)
    if kind == socket.SOCK_STREAM:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if "reuse" in options:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if "device" in options:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, options["device"].encode())
    s.bind((options.get("at", "0.0.0.0"), port))
    return s


def echo(c):
    data = c.recv(65536)
    took(data)
    while data:
        c.sendall(data)
        data = c.recv(65536)
    c.close()


def listening(kind=socket.SOCK_STREAM):
    s = bound(kind)
    if "fd" not in options:
        s.listen(1000)
    return s


def udp():
    s = bound(socket.SOCK_DGRAM)
    while True:
        took(s.recv(65536))


def tcp():
    s = listening()
    while True:
        threading.Thread(target=echo, args=(s.accept()[0],), daemon=True).start()


def child(**files):
    # Not subprocess, which may close the descriptor that is to be given.
    pid = os.fork()
    if pid == 0:
        for fd, s in files.items():
            os.dup2(s.fileno(), int(fd[2:]))
        os.execvp(sys.argv[3], sys.argv[3:])
    return pid


def first():
    s = bound(socket.SOCK_DGRAM)
    took(s.recv(65536))
    os.waitpid(child(fd0=s), 0)


def give():
    s = listening()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        c = s.accept()[0]
        child(fd0=c, fd1=c)
        c.close()


def listen():
    os.waitpid(child(fd0=listening()), 0)


def send():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    until, n = time.monotonic() + float(sys.argv[3]), 0
    while time.monotonic() < until:
        try:
            s.sendto(message(n), (HOST, port))
        except ConnectionRefusedError:
            pass
        n += 1
        time.sleep(0.001)


def talk():
    for n in range(int(sys.argv[3])):
        with socket.create_connection((HOST, port)) as s:
            # Not settimeout(): a non-blocking socket waits only 5 ms for its reader (docs/streams.md).
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 300, 0))
            s.sendall(message(n))
            back = b""
            while len(back) < len(message(n)):
                piece = s.recv(1000)
                if not piece:
                    sys.exit("it ended after %r" % back)
                back += piece
            if back != message(n):
                sys.exit("not what was sent: %r" % back)
    print("same", flush=True)


signal.signal(signal.SIGTERM, tell)
{f.__name__: f for f in (udp, tcp, first, give, listen, send, talk)}[what]()
