# SPDX-License-Identifier: BSD-2-Clause
"""TCP in every way that programs use it.
calls                          prints the results of many calls: the same with and without the interposer
echo PORT                      sends back the received bytes
turns PORT                     sends back short messages, after a banner, in one thread
tell PORT                      prints of each connection how it ended, how many bytes came, and which
ask PORT BYTES [COUNT]         sends BYTES to an echo and expects them back, COUNT connections one after the other
many PORT COUNT                makes COUNT connections to a turns at once
say PORT COUNT                 makes COUNT connections to an echo, with three messages each
once                           connects to itself; each listener is closed as soon as its connection is accepted
hold PORT                      connects, sends and waits for a line
TCP_HOST is the address to connect to."""
import array
import errno
import fcntl
import hashlib
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import zlib

SO_TIMESTAMPING, MSG_ERRQUEUE, IP_RECVERR = 37, 0x2000, 11
BANNER = b"220 ready\n"
LIMIT = 30
HOST = os.environ.get("TCP_HOST", "127.0.0.1")
counter = 0


def data(n, seed=1):
    return hashlib.shake_128(b"%d" % seed).digest(n)


def readable(s, events=select.POLLIN):
    p = select.poll()
    p.register(s, events)
    if not p.poll(LIMIT * 1000):
        sys.exit("nothing came")


def exactly(s, n):
    got = b""
    while len(got) < n:
        piece = s.recv(min(n - len(got), 100000))
        if not piece:
            sys.exit("it ended after %d of %d bytes" % (len(got), n))
        got += piece
    return got


def pair(family=socket.AF_INET):
    with socket.socket(family) as listener:
        listener.bind(("127.0.0.1" if family == socket.AF_INET else "::1", 0))
        listener.listen(5)
        a = socket.socket(family)
        a.connect(listener.getsockname())
        b, peer = listener.accept()
        assert peer == a.getsockname()
        # After these bytes both directions have decided between FPDUs and plain bytes.
        a.sendall(b"1")
        assert exactly(b, 1) == b"1"
        b.sendall(b"2")
        assert exactly(a, 1) == b"2"
    return a, b


def tell(what, result):
    if isinstance(result, bytes):
        result = "%d bytes %s" % (len(result), hashlib.md5(result).hexdigest()[:8])
    print(what, result, flush=True)


def told(what, call, *args):
    try:
        result = call(*args)
    except OSError as e:
        result = errno.errorcode.get(e.errno, e)
    tell(what, result)
    return result


def waits_for(s, n, what=termios.FIONREAD):
    """Waits until FIONREAD, or WHAT, is N."""
    for _ in range(LIMIT * 100):
        a = array.array("i", [0])
        fcntl.ioctl(s, what, a)
        if a[0] == n:
            return n
        select.select([], [], [], 0.01)
    return a[0]


# ---- The results of calls ----


def sizes(family):
    a, b = pair(family)
    for n in (1, 2, 3, 4, 5, 63, 64, 65, 1000, 2047, 2048, 2049, 5000, 65503, 65504, 65505, 131008, 200000, 1000000):
        for x, y in (a, b), (b, a):
            sender = threading.Thread(target=x.sendall, args=(data(n),))
            sender.start()
            tell("%d" % n, exactly(y, n))
            sender.join()
    for step in 1, 2, 3, 7, 19, 20, 21, 24, 64, 1000:
        for _ in range(20):
            a.send(data(step, _))
        tell("20 of %d in one" % step, exactly(b, 20 * step))
        a.sendall(data(20 * step))
        tell("one of %d" % (20 * step), b"".join(exactly(b, step) for _ in range(20)))


def ways():
    a, b = pair()
    x = data(3000)
    parts = [x[:1], x[1:17], b"", x[17:1500], x[1500:]]
    room = [bytearray(n) for n in (5, 0, 1000, 1995)]
    told("sendmsg", a.sendmsg, parts)
    tell("recv", exactly(b, 3000))
    told("writev", os.writev, a.fileno(), parts)
    readable(b)
    waits_for(b, 3000)
    told("readv", os.readv, b.fileno(), room)
    tell("  is", b"".join(room))
    told("write", os.write, a.fileno(), x)
    waits_for(b, 3000)
    got = b.recvmsg_into(room)
    tell("recvmsg", (got[0], got[1], int(got[2])))
    tell("  is", b"".join(room))
    told("sendto", a.sendto, x, ("127.0.0.1", 9))
    waits_for(b, 3000)
    got = b.recvfrom(4000)
    tell("recvfrom", got[0])
    tell("  from", got[1])
    told("many pieces", a.sendmsg, [x[i:i + 3] for i in range(0, 3000, 3)])
    tell("  read", b"".join(os.read(b.fileno(), 300) for _ in range(10)))
    told("nothing", a.send, b"")
    told("nothing asked for", b.recv, 0)


def flags():
    a, b = pair()
    a.sendall(data(5000))
    tell("FIONREAD", waits_for(b, 5000))
    told("peek", b.recv, 100, socket.MSG_PEEK)
    told("peek more", b.recv, 10000, socket.MSG_PEEK)
    told("some", b.recv, 100)
    told("peek", b.recv, 10000, socket.MSG_PEEK)
    tell("FIONREAD", waits_for(b, 4900))
    tell("discarded", len(b.recv(900, socket.MSG_TRUNC)))
    told("rest", b.recv, 10000)
    tell("FIONREAD", waits_for(b, 0))
    told("nothing", b.recv, 10, socket.MSG_DONTWAIT)
    told("nothing to peek at", b.recv, 10, socket.MSG_DONTWAIT | socket.MSG_PEEK)
    for n in 10, 20, 30:
        a.sendall(data(n))
    tell("FIONREAD", waits_for(b, 60))
    told("peek", b.recv, 55, socket.MSG_PEEK)
    told("all", b.recv, 1000)
    later = threading.Timer(0.05, a.sendall, [data(700)])
    a.sendall(data(300))
    later.start()
    told("wait for all", b.recv, 1000, socket.MSG_WAITALL)
    later.join()
    a.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    a.send(b"ab")
    a.send(b"cd", socket.MSG_MORE)
    a.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
    a.send(b"ef")
    tell("corked", exactly(b, 6))


def urgent():
    for inline in 0, 1:
        a, b = pair()
        b.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, inline)
        a.sendall(b"before")
        told("urgent", a.send, b"x!", socket.MSG_OOB)
        a.sendall(b"after")
        readable(b, select.POLLPRI)
        told("to the mark", b.recv, 100)
        told("urgent byte", b.recv, 1, socket.MSG_OOB)
        if inline:
            told("in line", exactly, b, 1)
        tell("behind it", exactly(b, 5))
    # An urgent byte that is not taken before the next one becomes an ordinary byte.
    for ways in (b"before", b"one!", b"two!"), (b"before", b"1", b"2", b"end"), (b"", b"one!", b"two!", b"three!"):
        for size in 1000, 1:
            a, b = pair()
            a.sendall(ways[0])
            for piece in ways[1:]:
                a.send(piece, socket.MSG_OOB)
            n = len(b"".join(ways)) - 1
            tell("to the last mark", waits_for(b, n))
            a.sendall(b"after")
            tell("pieces of %d" % size, b"".join(exactly(b, size) for _ in range(n)) if size == 1 else exactly(b, n))
            told("urgent byte", b.recv, 1, socket.MSG_OOB)
            tell("behind it", exactly(b, 5))


def waiting():
    a, b = pair()
    b.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, b"\0" * 8 + (30000).to_bytes(8, "little"))
    told("timeout", b.recv, 10)
    b.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, b"\0" * 16)
    a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, b"\0" * 8 + (30000).to_bytes(8, "little"))
    sent = 0
    try:
        while True:
            sent += a.send(data(100000))
    except BlockingIOError as e:
        tell("the sender's timeout", errno.errorcode[e.errno])
    exactly(b, sent)

    class Alarm(Exception):
        pass

    def alarm(number, frame):
        raise Alarm

    for call in lambda: b.recv(10), lambda: b.recv(10, socket.MSG_WAITALL), lambda: a.sendall(data(50 << 20)):
        signal.signal(signal.SIGALRM, alarm)
        a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, b"\0" * 16)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.03)
            call()
            tell("not interrupted", "")
        except Alarm:
            tell("interrupted", "")


def low_water():
    """SO_RCVLOWAT within one message only: between messages the kernel counts the headers as well."""
    a, b = pair()
    tell("low water", b.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT))
    b.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1000)
    tell("low water", b.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT))
    for n, more in (400, 700), (900, 100), (1, 999):
        a.sendall(data(n))
        waits_for(b, n)
        tell("too little", select.select([b], [], [], 0)[0])
        tell("some of it", len(b.recv(n // 2, socket.MSG_DONTWAIT) if n > 1 else b""))
        tell("too little", select.select([b], [], [], 0)[0])
        a.sendall(data(more + n // 2))
        readable(b)
        tell("enough", len(b.recv(2000)))
        tell("nothing", select.select([b], [], [], 0)[0])
    b.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
    tell("low water", b.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT))
    a.sendall(data(3))
    readable(b)
    tell("all of it", exactly(b, 3))
    b.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1000)
    a.sendall(data(3))
    a.shutdown(socket.SHUT_WR)
    readable(b)
    tell("the end is enough", (len(b.recv(2000)), len(b.recv(2000))))


def drained(s):
    n = 0
    try:
        while True:
            piece = s.recv(1000)
            if not piece:
                return "%d and the end" % n
            n += len(piece)
    except BlockingIOError:
        return n


def readiness():
    a, b = pair()
    b.setblocking(False)
    level, edge = select.epoll(), select.epoll()
    level.register(b, select.EPOLLIN)
    edge.register(b, select.EPOLLIN | select.EPOLLET)
    edge.poll(0)
    tell("nothing", (level.poll(0) == [], edge.poll(0) == []))
    for n in 1, 100, 5000:
        a.sendall(data(n))
        waits_for(b, n)
        tell("level %d" % n, len(level.poll(LIMIT)))
        tell("edge %d" % n, len(edge.poll(LIMIT)))
        tell("edge again", len(edge.poll(0)))
        tell("one of it", len(b.recv(1)))
        tell("level", len(level.poll(0)))
        tell("rest", drained(b))
        tell("level", len(level.poll(0)))
        tell("select", select.select([b], [], [], 0)[0])
    # The other direction: an edge comes when there is room again.
    a.setblocking(False)
    out = select.epoll()
    out.register(a, select.EPOLLOUT | select.EPOLLET)
    tell("room", len(out.poll(LIMIT)))
    sent = 0
    for _ in range(5):
        try:
            while True:
                sent += a.send(data(70001))
        except BlockingIOError:
            pass
        while sent:
            readable(b)
            sent -= len(b.recv(1 << 20))
        tell("room again", len(out.poll(LIMIT)))
    a.shutdown(socket.SHUT_WR)
    readable(b, select.POLLRDHUP)
    tell("end", drained(b))


def by_count():
    """Reads as nginx does: after an edge exactly as much as FIONREAD says, and no more before the next edge."""
    a, b = pair()
    b.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 400000)
    b.setblocking(False)
    edge = select.epoll()
    edge.register(b, select.EPOLLIN | select.EPOLLET)
    n, got = 150000, b""
    a.sendall(data(n))
    told("all there", waits_for, a, 0, termios.TIOCOUTQ)
    while len(got) < n and edge.poll(LIMIT):
        due = array.array("i", [0])
        fcntl.ioctl(b, termios.FIONREAD, due)
        got += exactly(b, due[0])
    tell("by count", got)
    # The unread part of a packet must leave room for the rest of the packet: the reader waits until that has come.
    a, b = pair()
    b.setblocking(False)
    edge.register(b, select.EPOLLIN | select.EPOLLET)
    n, got = 5000000, b""
    writer = threading.Thread(target=a.sendall, args=(data(n),), daemon=True)
    writer.start()
    while len(got) < n and edge.poll(LIMIT):
        fcntl.ioctl(b, termios.FIONREAD, due)
        while due[0] > 0:
            piece = b.recv(min(8192, due[0]))
            due[0] -= len(piece)
            got += piece
    tell("by count, more than there is room for", got)
    a.shutdown(socket.SHUT_RDWR)
    writer.join()


def errors():
    a, b = pair()
    told("no descriptor", os.write, 999, b"x")
    b.close()
    exactly_none = a.recv(10)
    tell("end", exactly_none)
    a.send(b"x")
    readable(a, select.POLLERR | select.POLLHUP)
    told("broken", a.send, b"x")
    a, b = pair()
    a.sendall(b"unread")
    readable(b)
    b.close()
    readable(a)
    told("reset", a.recv, 10)
    told("once", a.recv, 10)
    a, b = pair()
    a.shutdown(socket.SHUT_WR)
    told("shut down", a.send, b"x")
    told("end", b.recv, 10)
    b.sendall(b"still")
    told("the other way", exactly, a, 5)
    a, b = pair()
    b.sendall(b"last words")
    b.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    waits_for(a, 10)
    b.close()
    readable(a, select.POLLHUP)
    told("before the reset", a.recv, 100)
    told("reset", a.recv, 100)
    s = socket.socket()
    told("not connected", s.send, b"x")
    told("not connected", s.recv, 1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        told("refused", s.connect_ex, free.getsockname())
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        told("on a listener", listener.recv, 1)


def shared():
    """Only the kernel knows which of two listeners gets a connection."""
    with socket.socket() as one, socket.socket() as two:
        for s in one, two:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            s.bind(one.getsockname() if s is two else ("127.0.0.1", 0))
            s.listen(40)
        for i in range(40):
            a = socket.create_connection(one.getsockname())
            p = select.poll()
            p.register(one, select.POLLIN)
            p.register(two, select.POLLIN)
            b, _ = (one if p.poll(LIMIT * 1000)[0][0] == one.fileno() else two).accept()
            a.sendall(data(100, i))
            if exactly(b, 100) != data(100, i):
                sys.exit("not what was sent")
            b.sendall(data(50, i))
            if exactly(a, 50) != data(50, i):
                sys.exit("not what was answered")
    print("shared")


def stamped():
    """The kernel reports a time stamp with the number of bytes that it has sent."""
    with socket.socket() as listener, socket.socket() as a:
        listener.bind(("127.0.0.1", 0))
        listener.listen(5)
        a.connect(listener.getsockname())
        b, _ = listener.accept()
        a.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, 2 | 16 | 128 | 2048)
        a.sendall(b"x" * 100)
        readable(a, select.POLLERR)
        for level, kind, told_of in a.recvmsg(0, 512, MSG_ERRQUEUE)[1]:
            if (level, kind) == (socket.IPPROTO_IP, IP_RECVERR):
                tell("stamped", struct.unpack_from("=IBBBBII", told_of)[6])
        tell("there", exactly(b, 100))


def connecting():
    """A connection to itself: bytes that are sent before accept() wait for it."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(9)
        s = socket.create_connection(listener.getsockname())
        s.sendall(b"early")
        told("bytes before accept", lambda: exactly(listener.accept()[0], 5))
        s = socket.socket()
        s.setblocking(False)
        told("in progress", s.connect_ex, listener.getsockname())
        readable(s, select.POLLOUT)
        told("connected", s.connect_ex, listener.getsockname())
        s.sendall(b"hello")
        c = listener.accept()[0]
        tell("bytes", exactly(c, 5))
        c.sendall(BANNER)
        readable(s)
        tell("banner", s.recv(100))
        s = socket.create_connection(listener.getsockname())
        c = listener.accept()[0]
        c.sendall(BANNER)
        tell("banner first", exactly(s, len(BANNER)))
        c.close()
        tell("end", s.recv(1))
    with socket.socket(socket.AF_INET6) as both:
        both.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        both.bind(("::", 0))
        both.listen(9)
        for where in ("127.0.0.1", "0.0.0.0", "127.1.2.3"):
            s = socket.create_connection((where, both.getsockname()[1]))
            c = both.accept()[0]
            s.sendall(b"v4")
            tell("to both stacks", exactly(c, 2))
            c.sendall(b"back")
            tell("back", exactly(s, 4))


# ---- Descriptors that are given to other processes ----

CHILD = """
import socket, sys
s = socket.socket(fileno=int(sys.argv[1]))
got = b""
while not got.endswith(b"\\n"):
    got += s.recv(1000)
s.sendall(got.upper())
"""


def ends(pid):
    tell("child", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def elsewhere():
    a, b = pair()
    a.sendall(b"half")
    tell("parent", b.recv(2))
    pid = os.fork()
    if pid == 0:
        tell("child", exactly(b, 2))
        b.sendall(b"from the child")
        os._exit(0)
    ends(pid)
    tell("from the child", exactly(a, 14))
    a.sendall(b"again")
    tell("parent", exactly(b, 5))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(9)
        pid = os.fork()
        if pid == 0:
            c = listener.accept()[0]
            c.sendall(exactly(c, 4)[::-1])
            os._exit(0)
        s = socket.create_connection(listener.getsockname())
        s.sendall(b"turn")
        tell("accepted by a child", exactly(s, 4))
        ends(pid)
        s = socket.create_connection(listener.getsockname())
        s.sendall(b"lower\n")
        c = listener.accept()[0]
        os.set_inheritable(c.fileno(), True)
        subprocess.run([sys.executable, "-c", CHILD, str(c.fileno())], close_fds=False, check=True)
        c.close()
        tell("executed", exactly(s, 6))
        tell("end", s.recv(1))
    left, right = socket.socketpair()
    a, b = pair()
    a.sendall(b"passed")
    readable(b)
    socket.send_fds(left, [b"x"], [b.fileno()])
    b.close()
    b = socket.socket(fileno=socket.recv_fds(right, 1, 1)[1][0])
    tell("by the other number", exactly(b, 6))
    c = socket.socket(fileno=os.dup(b.fileno()))
    a.sendall(b"two")
    tell("one", b.recv(1))
    tell("other", exactly(c, 2))
    b.close()
    c.sendall(b"still there")
    tell("open still", exactly(a, 11))


def files():
    a, b = pair()
    with tempfile.TemporaryFile() as f:
        f.write(data(300000))
        f.flush()
        f.seek(1000)
        sender = threading.Thread(target=a.sendfile, args=(f,))
        sender.start()
        tell("sendfile", exactly(b, 299000))
        sender.join()
        offset = 5
        told("with an offset", os.sendfile, a.fileno(), f.fileno(), offset, 100)
        tell("is", exactly(b, 100))
        told("from before the file", os.sendfile, a.fileno(), f.fileno(), -1, 100)
    told("from no file", os.sendfile, a.fileno(), b.fileno(), None, 100)
    with tempfile.NamedTemporaryFile("wb") as program:
        program.write(b"read line; echo \"$line back\"; cat\n")
        program.flush()
        child = subprocess.Popen(["sh", program.name], stdin=b, stdout=b)
        b.close()
        a.sendall(b"a line\nand the rest\n")
        tell("shell", exactly(a, 12))
        tell("cat", exactly(a, 13))
        a.shutdown(socket.SHUT_WR)
        tell("end", a.recv(1))
        child.wait()
    # A program that uses the C library's streams.
    a, b = pair()
    child = subprocess.Popen(["sed", "-u", "s/x/y/"], stdin=b, stdout=b)
    b.close()
    a.sendall(b"x and x\n")
    tell("sed", exactly(a, 8))
    a.shutdown(socket.SHUT_WR)
    tell("end", a.recv(1))
    child.wait()


def threads():
    a, b = pair()
    n, size = 4, 20000
    senders = [threading.Thread(target=lambda k=k: [a.send(bytes([k])) for _ in range(size // 10)]) for k in range(n)]
    sums, lock = [0] * n, threading.Lock()

    def receive():
        while True:
            piece = b.recv(777)
            if not piece:
                return
            with lock:
                for k in range(n):
                    sums[k] += piece.count(k)

    receivers = [threading.Thread(target=receive) for _ in range(3)]
    for t in senders + receivers:
        t.start()
    for t in senders:
        t.join()
    a.shutdown(socket.SHUT_WR)
    for t in receivers:
        t.join()
    tell("threads", sums)


def calls():
    for part in (lambda: sizes(socket.AF_INET), lambda: sizes(socket.AF_INET6), ways, flags, urgent, waiting, low_water,
                 readiness, by_count, errors, stamped, shared, connecting, elsewhere, files, threads):
        part()
    print("end")


# ---- Two ends ----


def serve(c):
    while True:
        piece = c.recv(65536)
        if not piece:
            break
        c.sendall(piece)
    c.close()


def listening(port):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("0.0.0.0", port))
    s.listen(1024)
    return s


def echo(port):
    listener = listening(port)
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


def turns(port):
    """Echoes short messages, edge-triggered."""
    listener, poll, socks = listening(port), select.epoll(), {}
    listener.setblocking(False)
    poll.register(listener, select.EPOLLIN)
    while True:
        for fd, _ in poll.poll():
            try:
                while fd == listener.fileno():
                    c = listener.accept()[0]
                    c.setblocking(False)
                    socks[c.fileno()] = c
                    poll.register(c, select.EPOLLIN | select.EPOLLET)
                    c.send(BANNER)
                while True:
                    piece = socks[fd].recv(1000)
                    if not piece:
                        socks.pop(fd).close()
                        break
                    socks[fd].send(piece)
            except BlockingIOError:
                pass
            except ConnectionResetError:
                socks.pop(fd).close()


def tell_all(port):
    listener = listening(port)
    while True:
        c, got, how = listener.accept()[0], b"", "end"
        try:
            while True:
                piece = c.recv(65536)
                if not piece:
                    break
                got += piece
            c.sendall(b"bye")
        except OSError as e:
            how = errno.errorcode[e.errno]
        c.close()
        print(how, len(got), "%08x" % zlib.adler32(got), flush=True)


def ask(port, n, count=1):
    for i in range(count):
        s = socket.create_connection((HOST, port))
        s.settimeout(LIMIT * 4)
        sent = data(n, i)
        sender = threading.Thread(target=lambda: (s.sendall(sent), s.shutdown(socket.SHUT_WR)))
        sender.start()
        if exactly(s, n) != sent or s.recv(1):
            sys.exit("not what was sent")
        sender.join()
        s.close()
    print("same", n)


def many(port, count):
    socks = []
    for i in range(count):
        s = socket.create_connection((HOST, port))
        s.settimeout(LIMIT * 4)
        socks.append(s)
    for i, s in enumerate(socks):
        if exactly(s, len(BANNER)) != BANNER:
            sys.exit("another banner")
        s.sendall(b"%08d" % i)
    for i, s in enumerate(socks):
        if exactly(s, 8) != b"%08d" % i:
            sys.exit("not what was sent")
    print("same", count)


def say(port, count):
    for i in range(count):
        s = socket.create_connection((HOST, port))
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(3):
            s.sendall(data(100, i))
            if exactly(s, 100) != data(100, i):
                sys.exit("another answer")
        s.close()


def once():
    for family, host in (socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"):
        with socket.create_server((host, 0), family=family) as listener:
            a = socket.create_connection(listener.getsockname()[:2])
            b, peer = listener.accept()
        a.sendall(data(1000))
        tell("asked", exactly(b, 1000))
        b.sendall(data(2000))
        tell("answered", exactly(a, 2000))


def hold(port):
    s = socket.create_connection((HOST, port))
    s.sendall(b"held")
    exactly(s, 4)
    print("held", flush=True)
    sys.stdin.readline()
    try:
        s.sendall(b"more")
        tell("then", s.recv(4))
    except OSError as e:
        tell("then", errno.errorcode[e.errno])


if __name__ == "__main__":
    what = {"calls": calls, "echo": echo, "turns": turns, "tell": tell_all, "ask": ask,
            "many": many, "say": say, "once": once, "hold": hold}
    what[sys.argv[1]](*[int(a) for a in sys.argv[2:]])
