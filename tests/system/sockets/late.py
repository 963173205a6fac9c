# SPDX-License-Identifier: BSD-2-Clause
# late.py CASE: the calls of a program whose datagrams DIWARP_IMPAIR=delay=... holds back. The program sends 100
# messages to a socket of its own, or to PORT of the environment, where another program counts them.
import ctypes, os, select, signal, socket, struct, sys, threading, time

CASE = sys.argv[1]
LIBC = ctypes.CDLL(None, use_errno=True)


def socket_at(port=0):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("127.0.0.1", port))
    return s


def drain(s, seconds=0.3, least=0):
    """The datagrams that arrive until none has arrived for SECONDS; of the LEAST first each may be 10 s late."""
    got = []
    while select.select([s], [], [], 10 if len(got) < least else seconds)[0]:
        got.append(s.recv(2000))
    return got


def threads():
    return len(os.listdir("/proc/self/task"))


def settled():
    """The thread that delays datagrams ends a moment after it has sent the last one."""
    for _ in range(100):
        if threads() == 1:
            return True
        time.sleep(0.01)
    return False


a, b = socket_at(), socket_at()
to = a.getsockname()
if "PORT" in os.environ:
    to = ("127.0.0.1", int(os.environ["PORT"]))
numbers = [b"%d" % i for i in range(100)]

if CASE == "delay":
    b.sendto(b"x", to)
    assert a.recv(9) == b"x"
    calls, tooks = [], []
    for _ in range(10):
        begin = time.monotonic()
        b.sendto(b"y", to)
        calls.append(time.monotonic() - begin)
        assert a.recv(9) == b"y"
        tooks.append(time.monotonic() - begin)
    assert min(calls) < 0.04, "the call waits"
    assert 0.05 <= min(tooks) < 0.5, tooks
    for n in numbers:
        b.sendto(n, to)
    assert drain(a, least=100) == numbers
    assert settled()
elif CASE == "reorder":
    for n in numbers:
        b.sendto(n, to)
    got = drain(a, least=100)
    assert sorted(got) == sorted(numbers) and got != numbers, got
elif CASE == "closed":
    for how in (lambda s: s.close(), lambda s: os.dup2(0, s.fileno()),
                lambda s: os.closerange(s.fileno(), s.fileno() + 1),
                lambda s: s.shutdown(socket.SHUT_RDWR)):
        c = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        c.connect(to)
        for n in numbers:
            c.send(n)
        how(c)
        assert drain(a, 0.01) == numbers
elif CASE == "others":                  # a socket that is closed does not hurry another's
    c = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    c.sendto(b"c", to)
    b.sendto(b"b", to)
    c.close()
    assert drain(a, 0.02) == [b"c"]
    assert drain(a, least=1) == [b"b"]
elif CASE == "changed":
    c, other = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket_at()
    a.setsockopt(socket.IPPROTO_IP, 12, 1)                 # IP_RECVTTL
    c.connect(to)
    for n in range(1, 6):
        c.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, n)
        c.send(b"%d" % n)
    c.connect(other.getsockname())
    for n in range(1, 6):
        data, control, _, _ = a.recvmsg(9, 99)
        assert (int(data), struct.unpack("i", control[0][2])[0]) == (n, n)
    assert not drain(other)
elif CASE == "forked":
    for n in numbers:
        b.sendto(n, to)
    if os.fork() == 0:
        time.sleep(0.1)
        os._exit(0)
    assert os.wait()[1] == 0
    assert drain(a, least=100) == numbers
    if os.fork() == 0:
        b.sendto(b"child", to)
        os._exit(0)
    os.wait()
    assert drain(a, least=1) == [b"child"]
elif CASE in ("ends", "leaves", "executes", "spawned"):
    for n in numbers:
        b.sendto(n, to)
    if CASE == "leaves":
        os._exit(0)
    elif CASE == "executes":
        os.execv("/bin/true", ["true"])
    elif CASE == "spawned":
        pid = os.fork()
        if not pid:
            for n in numbers:
                b.sendto(n, to)
            os.execv("/bin/true", ["true"])
        os.waitpid(pid, 0)
    sys.exit(0)
elif CASE == "alone":
    for n in numbers:
        b.sendto(n, to)
    assert threads() == 2
    assert LIBC.unshare(0x10000000) == 0, os.strerror(ctypes.get_errno())   # CLONE_NEWUSER
    assert threads() == 1
    assert drain(a, least=100) == numbers
    b.sendto(b"x", to)
    assert drain(a, least=1) == [b"x"]
elif CASE == "signals":
    seen = []
    signal.signal(signal.SIGALRM, lambda *_: seen.append(threading.get_ident()))
    signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
    for _ in range(200):
        b.sendto(b"x", to)
        time.sleep(0.001)
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert len(drain(a, least=200)) == 200 and len(seen) > 20
elif CASE == "refused":                 # an error that a late datagram met is not lost
    gone = socket_at()
    c = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    c.connect(gone.getsockname())
    gone.close()
    errors = 0
    for _ in range(20):
        try:
            c.send(b"x")
        except ConnectionRefusedError:
            errors += 1
        time.sleep(0.06)
    assert errors, "no error"
elif CASE == "filled":                  # a socket without room, and a receiver that is slow
    b.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    a.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    for n in numbers:
        b.sendto(n + bytes(1000), to)
    assert [d.rstrip(b"\0") for d in drain(a, least=100)] == numbers
print("done", CASE)
