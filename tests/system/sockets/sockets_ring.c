/* SPDX-License-Identifier: BSD-2-Clause */
/* The operations of liburing's own tests of sockets, between a process with an io_uring and a peer that sends and
 * receives by calls. Each operation prints one line, which is the same with the interposer and without. The
 * interposer knows the sockets before the ring is made: one has received datagrams, the others listen. Exit status
 * 77: no io_uring. */
#include <arpa/inet.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef HAVE_URING
#include <liburing.h>

#define BUNDLE (1u << 4)                     /* IORING_RECVSEND_BUNDLE of Linux 6.10; liburing 2.3 has no name for it */
#define FEAT_BUNDLE (1u << 14)

#define MESSAGES 8                           /* datagrams that an operation sends or receives */
#define STREAM 200000                        /* or bytes of a connection */
#define PIECE 4096                           /* the size of a piece */
#define BUFFERS 64                           /* a power of two */
#define BUFFER 2048

static uint8_t pattern[STREAM + PIECE];
static int to_peer[2], from_peer[2];         /* pipes */

static size_t length_of(int i) { return 60 + 211 * (size_t)i; }

static void must(bool is, const char *what)
{
	if (!is) {
		perror(what);
		exit(1);
	}
}

static void put(int fd, const void *what, size_t n) { must(write(fd, what, n) == (ssize_t)n, "write to a pipe"); }
static void get(int fd, void *what, size_t n) { must(read(fd, what, n) == (ssize_t)n, "read from a pipe"); }
static void tell(char what) { put(to_peer[1], &what, 1); }

/* ---- What is sent, and what came ---- */

/* The next that is sent, behind AT bytes of a stream or I datagrams. */
struct next { bool tcp; size_t at; int i; };
static bool is_end(const struct next *n) { return n->tcp ? n->at >= STREAM : n->i >= MESSAGES; }
static size_t next_len(const struct next *n)
{
	if (!n->tcp)
		return length_of(n->i);
	return STREAM - n->at < PIECE ? STREAM - n->at : PIECE;
}
static uint8_t *next_data(const struct next *n) { return pattern + (n->tcp ? n->at : 0); }
static void next_step(struct next *n, size_t len)
{
	n->at += len;
	n->i++;
}

static struct next came;
static bool strange;

static void took(const uint8_t *data, size_t n)
{
	strange |= (came.tcp ? came.at + n > STREAM : n != length_of(came.i)) || memcmp(data, next_data(&came), n) != 0;
	next_step(&came, n);
}
static bool is_all(void) { return strange || is_end(&came); }
static void expect(bool tcp)
{
	came = (struct next){ .tcp = tcp };
	strange = false;
}

/* ---- The peer ---- */

/* Ports: of the datagram socket, and of listeners: two of the ring's process, one of the peer's. */
struct ports { in_port_t udp, listener[2]; };

static int bound(int type, in_port_t *port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof at;
	int fd = socket(AF_INET, type, 0);

	must(bind(fd, (void *)&at, len) == 0 && (type == SOCK_DGRAM || listen(fd, 10) == 0), "bind");
	must(getsockname(fd, (void *)&at, &len) == 0, "getsockname");
	*port = at.sin_port;
	return fd;
}

static struct sockaddr_in at_port(in_port_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = port,
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static int connected(int fd, in_port_t port)
{
	struct sockaddr_in to = at_port(port);

	must(connect(fd, (void *)&to, sizeof to) == 0, "connect");
	return fd;
}

static void peer_sends(int fd, bool tcp)
{
	for (struct next n = { .tcp = tcp }; !is_end(&n); next_step(&n, next_len(&n)))
		must(send(fd, next_data(&n), next_len(&n), 0) == (ssize_t)next_len(&n), "send");
}

static void peer_receives(int fd, bool tcp)
{
	static uint8_t in[65536];

	expect(tcp);
	while (!is_all()) {
		ssize_t n = recv(fd, in, sizeof in, 0);

		must(n > 0, "recv");
		took(in, (size_t)n);
	}
	put(from_peer[1], &strange, sizeof strange);
}

static void peer(void)
{
	struct ports mine = { 0 }, other;
	int udp = bound(SOCK_DGRAM, &mine.udp), listener = bound(SOCK_STREAM, &mine.listener[0]), fd = -1;
	char what;

	close(to_peer[1]);
	put(from_peer[1], &mine, sizeof mine);
	get(to_peer[0], &other, sizeof other);
	connected(udp, other.udp);
	for (;;) {
		get(to_peer[0], &what, 1);
		switch (what) {
		case 'e': exit(0);
		case '0': case '1': fd = connected(socket(AF_INET, SOCK_STREAM, 0), other.listener[what - '0']); break;
		case 'a': must((fd = accept(listener, NULL, NULL)) >= 0, "accept"); break;
		case 'd': close(fd); break;
		case 's': peer_sends(udp, false); break;
		case 'S': peer_sends(fd, true); break;
		case 'r': peer_receives(udp, false); break;
		case 'R': peer_receives(fd, true); break;
		default: exit(1);
		}
	}
}

/* ---- The ring ---- */

static struct io_uring ring;
static struct io_uring_buf_ring *group[2];   /* the buffers of [0] are received into, those of [1] sent */
static uint8_t room[BUFFERS][BUFFER], in[STREAM];
static bool begun;                           /* the peer sends */

static struct io_uring_sqe *sqe(void) { return io_uring_get_sqe(&ring); }

struct result { int res; unsigned flags; };

static struct result done(void)
{
	struct io_uring_cqe *cqe;
	struct result was;

	must(io_uring_submit(&ring) >= 0, "io_uring_submit");
	if (!begun)
		tell(came.tcp ? 'S' : 's');
	begun = true;
	must(io_uring_wait_cqe(&ring, &cqe) == 0, "io_uring_wait_cqe");
	was = (struct result){ cqe->res, cqe->flags };
	io_uring_cqe_seen(&ring, cqe);
	return was;
}

static void group_add(int g, const void *data, size_t len, unsigned short id)
{
	io_uring_buf_ring_add(group[g], (void *)data, (unsigned)len, id, io_uring_buf_ring_mask(BUFFERS), 0);
	io_uring_buf_ring_advance(group[g], 1);
}

static bool group_made(int g)
{
	struct io_uring_buf_reg reg = { .ring_entries = BUFFERS, .bgid = (unsigned short)g };

	if (posix_memalign((void **)&group[g], 4096, BUFFERS * sizeof(struct io_uring_buf)) != 0)
		return false;
	io_uring_buf_ring_init(group[g]);
	reg.ring_addr = (uintptr_t)group[g];
	for (unsigned short i = 0; g == 0 && i < BUFFERS; i++)
		group_add(g, room[i], BUFFER, i);
	return io_uring_register_buf_ring(&ring, &reg, 0) == 0;
}

/* ---- Receiving: 0, or the error ---- */

static int rx_into(int fd, void (*prep)(struct io_uring_sqe *s, int fd))
{
	while (!is_all()) {
		prep(sqe(), fd);
		int n = done().res;

		if (n <= 0)
			return n;
		took(in, (size_t)n);
	}
	return 0;
}

static struct iovec halves[2] = { { in, 50 }, { in + 50, sizeof in - 50 } };
static struct msghdr message = { .msg_iov = halves, .msg_iovlen = 2 };
static void prep_recv(struct io_uring_sqe *s, int fd) { io_uring_prep_recv(s, fd, in, sizeof in, 0); }
static void prep_all(struct io_uring_sqe *s, int fd) { io_uring_prep_recv(s, fd, in, sizeof in, MSG_WAITALL); }
static void prep_recvmsg(struct io_uring_sqe *s, int fd) { io_uring_prep_recvmsg(s, fd, &message, 0); }
static void prep_read(struct io_uring_sqe *s, int fd) { io_uring_prep_read(s, fd, in, sizeof in, 0); }
static void prep_readv(struct io_uring_sqe *s, int fd) { io_uring_prep_readv(s, fd, halves, 2, 0); }
static int rx_recv(int fd) { return rx_into(fd, prep_recv); }
static int rx_recv_all(int fd) { return rx_into(fd, prep_all); }
static int rx_recvmsg(int fd) { return rx_into(fd, prep_recvmsg); }
static int rx_read(int fd) { return rx_into(fd, prep_read); }
static int rx_readv(int fd) { return rx_into(fd, prep_readv); }

static struct msghdr any = { .msg_namelen = sizeof(struct sockaddr_in) };

/* What is in the buffers of the group, from that of CQE on. */
static void rx_taken(const struct result *cqe, bool has_name)
{
	unsigned short id = (unsigned short)(cqe->flags >> IORING_CQE_BUFFER_SHIFT);
	size_t left = (size_t)cqe->res;

	for (; left && !strange; id = (id + 1) % BUFFERS) {
		struct io_uring_recvmsg_out *o = has_name ? io_uring_recvmsg_validate(room[id], cqe->res, &any) : NULL;
		size_t n = left < BUFFER ? left : BUFFER;

		if (o)
			took(io_uring_recvmsg_payload(o, &any), io_uring_recvmsg_payload_length(o, cqe->res, &any));
		else
			took(room[id], n);
		strange |= has_name && !o;
		left -= n;
		group_add(0, room[id], BUFFER, id);
	}
}

/* FLAGS are those of the operation; "no buffer is left" ends only a multishot. */
static int rx_group(int fd, unsigned flags, bool has_name)
{
	struct result cqe = { 0, 0 };

	while (!is_all()) {
		if (!(cqe.flags & IORING_CQE_F_MORE)) {
			struct io_uring_sqe *s = sqe();

			if (has_name)
				io_uring_prep_recvmsg(s, fd, &any, 0);
			else
				io_uring_prep_recv(s, fd, NULL, 0, 0);
			s->ioprio |= (unsigned short)flags;
			s->flags |= IOSQE_BUFFER_SELECT;
			s->buf_group = 0;
		}
		cqe = done();
		if (cqe.res <= 0 && cqe.res != -ENOBUFS)
			return cqe.res ? cqe.res : -EPIPE;
		if (cqe.res > 0)
			rx_taken(&cqe, has_name);
	}
	if (cqe.flags & IORING_CQE_F_MORE) {         /* its end, and the end of what ends it */
		io_uring_prep_cancel_fd(sqe(), fd, IORING_ASYNC_CANCEL_ALL);
		done();
		done();
	}
	return 0;
}
static int rx_buffers(int fd) { return rx_group(fd, 0, false); }
static int rx_multishot(int fd) { return rx_group(fd, IORING_RECV_MULTISHOT, false); }
static int rx_recvmsg_multishot(int fd) { return rx_group(fd, IORING_RECV_MULTISHOT, true); }
static int rx_bundle(int fd) { return rx_group(fd, BUNDLE, false); }
static int rx_bundle_multishot(int fd) { return rx_group(fd, BUNDLE | IORING_RECV_MULTISHOT, false); }

/* The ring says when, and a call receives. */
static int rx_poll(int fd)
{
	while (!is_all()) {
		io_uring_prep_poll_add(sqe(), fd, POLLIN);
		ssize_t n = done().res > 0 ? recv(fd, in, sizeof in, 0) : -1;

		if (n <= 0)
			return -errno;
		took(in, (size_t)n);
	}
	return 0;
}

/* ---- Sending ---- */

static int tx_by(int fd, bool tcp, void (*prep)(struct io_uring_sqe *s, int fd, const struct next *n))
{
	struct result cqe;

	for (struct next n = { .tcp = tcp }; !is_end(&n); next_step(&n, (size_t)cqe.res)) {
		prep(sqe(), fd, &n);
		cqe = done();
		if (cqe.res <= 0)
			return cqe.res;
		if (cqe.flags & IORING_CQE_F_MORE)   /* without a copy: the memory is free */
			done();
	}
	return 0;
}

static struct iovec piece[2];
static struct msghdr outgoing = { .msg_iov = piece, .msg_iovlen = 2 };
static void set_pieces(const struct next *n)
{
	piece[0] = (struct iovec){ next_data(n), 20 };
	piece[1] = (struct iovec){ next_data(n) + 20, next_len(n) - 20 };
}
static void prep_send(struct io_uring_sqe *s, int fd, const struct next *n)
{
	io_uring_prep_send(s, fd, next_data(n), next_len(n), 0);
}
static void prep_send_zc(struct io_uring_sqe *s, int fd, const struct next *n)
{
	io_uring_prep_send_zc(s, fd, next_data(n), next_len(n), 0, 0);
}
static void prep_write(struct io_uring_sqe *s, int fd, const struct next *n)
{
	io_uring_prep_write(s, fd, next_data(n), (unsigned)next_len(n), 0);
}
static void prep_sendmsg(struct io_uring_sqe *s, int fd, const struct next *n)
{
	set_pieces(n);
	io_uring_prep_sendmsg(s, fd, &outgoing, 0);
}
static void prep_sendmsg_zc(struct io_uring_sqe *s, int fd, const struct next *n)
{
	set_pieces(n);
	io_uring_prep_sendmsg_zc(s, fd, &outgoing, 0);
}
static int tx_send(int fd, bool tcp) { return tx_by(fd, tcp, prep_send); }
static int tx_send_zc(int fd, bool tcp) { return tx_by(fd, tcp, prep_send_zc); }
static int tx_write(int fd, bool tcp) { return tx_by(fd, tcp, prep_write); }
static int tx_sendmsg(int fd, bool tcp) { return tx_by(fd, tcp, prep_sendmsg); }
static int tx_sendmsg_zc(int fd, bool tcp) { return tx_by(fd, tcp, prep_sendmsg_zc); }

/* From the buffers of the group: FLAGS are those of the operation. */
static int tx_group(int fd, bool tcp, unsigned flags)
{
	struct next given = { .tcp = tcp }, gone = given;

	while (!is_end(&gone)) {
		for (; !is_end(&given) && given.i < BUFFERS; next_step(&given, next_len(&given)))
			group_add(1, next_data(&given), next_len(&given), (unsigned short)given.i);
		struct io_uring_sqe *s = sqe();

		io_uring_prep_send(s, fd, NULL, 0, MSG_WAITALL);
		s->ioprio |= (unsigned short)flags;
		s->flags |= IOSQE_BUFFER_SELECT;
		s->buf_group = 1;
		int n = done().res;

		if (n <= 0)
			return n;
		next_step(&gone, (size_t)n);
	}
	return 0;
}
static int tx_buffers(int fd, bool tcp) { return tx_group(fd, tcp, 0); }
static int tx_bundle(int fd, bool tcp) { return tx_group(fd, tcp, BUNDLE); }
_Static_assert(STREAM / PIECE < BUFFERS, "all of a stream is given at once");

/* ---- All of them ---- */

enum { UDP = 1, TCP = 2 };
static const struct { const char *name; int over; int (*rx)(int fd); int (*tx)(int fd, bool tcp); } ops[] = {
	{ "recv", UDP | TCP, rx_recv, NULL },
	{ "recv with MSG_WAITALL", UDP | TCP, rx_recv_all, NULL },
	{ "recvmsg", UDP | TCP, rx_recvmsg, NULL },
	{ "read", UDP | TCP, rx_read, NULL },
	{ "readv", UDP | TCP, rx_readv, NULL },
	{ "recv of provided buffers", UDP | TCP, rx_buffers, NULL },
	{ "multishot recv", UDP | TCP, rx_multishot, NULL },
	{ "multishot recvmsg", UDP, rx_recvmsg_multishot, NULL },
	{ "recv of a bundle", TCP, rx_bundle, NULL },
	{ "multishot recv of bundles", TCP, rx_bundle_multishot, NULL },
	{ "poll", UDP | TCP, rx_poll, NULL },
	{ "send", UDP | TCP, NULL, tx_send },
	{ "sendmsg", UDP | TCP, NULL, tx_sendmsg },
	{ "write", UDP | TCP, NULL, tx_write },
	{ "send without a copy", UDP | TCP, NULL, tx_send_zc },
	{ "sendmsg without a copy", UDP | TCP, NULL, tx_sendmsg_zc },
	{ "send of provided buffers", UDP | TCP, NULL, tx_buffers },
	{ "send of a bundle", TCP, NULL, tx_bundle },
};

static void play(size_t which, int fd, bool tcp, const char *by)
{
	bool sends = ops[which].tx;
	int rc;

	expect(tcp);
	begun = sends;
	if (sends)
		tell(tcp ? 'R' : 'r');
	rc = sends ? ops[which].tx(fd, tcp) : ops[which].rx(fd);
	if (sends)
		get(from_peer[0], &strange, sizeof strange);
	printf("%s - %s, %s%s\n", rc == 0 && !strange ? "ok" : "not ok", ops[which].name, tcp ? "TCP" : "UDP", by);
	if (rc < 0 || strange) {
		printf("    %s\n", rc < 0 ? strerror(-rc) : "not what was sent");
		fflush(stdout);
		_exit(1);
	}
}

/* A connection for each of the ways to make one. */
static const char *const ways[] = { ", accepted by the ring", ", accepted by a multishot", ", accepted by a call",
				    ", connected by the ring", ", connected by a call" };

static int connection(size_t way, const int *listener, in_port_t port)
{
	struct sockaddr_in to = at_port(port);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	begun = true;
	if (way >= 3) {
		if (way == 3)
			io_uring_prep_connect(sqe(), fd, (void *)&to, sizeof to);
		must(way == 3 ? done().res == 0 : connected(fd, port) == fd, "connect");
		tell('a');
		return fd;
	}
	close(fd);
	tell(way == 1 ? '1' : '0');
	if (way == 0)
		io_uring_prep_accept(sqe(), listener[0], NULL, NULL, 0);
	fd = way == 2 ? accept(listener[0], NULL, NULL) : done().res;
	must(fd >= 0, "accept");
	return fd;
}

static void play_all(int udp, const int *listener, in_port_t port)
{
	for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
		if (ops[i].over & UDP)
			play(i, udp, false, "");
		for (size_t way = 0; ops[i].over & TCP && way < sizeof ways / sizeof *ways; way++) {
			int fd = connection(way, listener, port);

			play(i, fd, true, ways[way]);
			tell('d');
			close(fd);
		}
	}
}

static bool has_ring(void)
{
	int rc = io_uring_queue_init(64, &ring, 0);

	if (rc == 0 && !(ring.features & FEAT_BUNDLE))
		rc = -EOPNOTSUPP;
	if (rc == 0 && (!group_made(0) || !group_made(1)))
		rc = -errno;
	if (rc < 0)
		printf("no io_uring, or none with bundles: %s\n", strerror(-rc));
	return rc == 0;
}

int main(void)
{
	struct ports mine, other;
	int udp, listener[2];
	pid_t child;

	alarm(300);
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; i < sizeof pattern; i++)
		pattern[i] = (uint8_t)(i * 31 + i / 251);
	must(pipe(to_peer) == 0 && pipe(from_peer) == 0, "pipe");
	child = fork();
	if (child == 0)
		peer();
	close(from_peer[1]);
	udp = bound(SOCK_DGRAM, &mine.udp);
	for (int i = 0; i < 2; i++)
		listener[i] = bound(SOCK_STREAM, &mine.listener[i]);
	get(from_peer[0], &other, sizeof other);
	put(to_peer[1], &mine, sizeof mine);
	connected(udp, other.udp);
	for (int turn = 0; turn < 3; turn++) {
		tell('s');
		expect(false);
		while (!is_all())
			took(in, (size_t)recv(udp, in, sizeof in, 0));
		must(!strange, "datagrams before the ring");
	}
	if (!has_ring())
		return 77;
	io_uring_prep_multishot_accept(sqe(), listener[1], NULL, NULL, 0);
	play_all(udp, listener, other.listener[0]);
	tell('e');
	return waitpid(child, &(int){ 0 }, 0) == child ? puts("end") < 0 : 1;
}
#else
int main(void)
{
	puts("built without liburing");
	return 77;
}
#endif
