/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asks sock_diag which socket the kernel finds for given addresses and ports. Opening a socket takes longer than the
 * question, so one socket is kept open, at a high number that programs do not ask for. The program may close it. Its
 * cookie shows whether the number is another file's, and then another socket is opened.
 */
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <pthread.h>
#include <string.h>

#include "sockets_preload/dgram/route.h"
#include "sockets_preload/reach.h"

#define NONE (-1)

/* Only the thread that has set `busy` may use `kept`. */
static _Atomic bool busy;
static struct { _Atomic int fd; pid_t pid; uint64_t netns, cookie; } kept = { .fd = NONE };

/* ---- The socket ---- */

static bool is_kept(int fd)
{
	return fd >= 0 && diw_sock_option64(fd, SO_COOKIE) == kept.cookie;
}

static void drop_kept(void)
{
	int fd = atomic_exchange(&kept.fd, NONE);

	if (is_kept(fd))
		real.close(fd);
}

/* The kept socket, for questions about NETNS. A socket with a number that programs may want is not kept; a confined
 * program may not be able to give it another number. */
static int kept_one(uint64_t netns)
{
	int fd, high;

	if (kept.netns == netns && is_kept(atomic_load(&kept.fd)))
		return kept.fd;
	drop_kept();
	fd = diw_sock_open(AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG, netns);
	high = fd < 0 || diw_denied ? fd : diw_raise_fd(fd);
	if (high < DIW_HIGH_FD)
		return high;
	kept.netns = netns;
	kept.cookie = diw_sock_option64(high, SO_COOKIE);
	kept.pid = getpid();
	atomic_store(&kept.fd, high);
	return high;
}

/* A child of vfork() has a copy of the descriptor, but shares this memory. */
void diw_ask_make_way(unsigned first, unsigned last)
{
	unsigned fd = (unsigned)atomic_load_explicit(&kept.fd, memory_order_relaxed);

	if (DIW_LIKELY(fd < first || fd > last) || kept.pid != getpid() || atomic_exchange(&busy, true))
		return;
	drop_kept();
	atomic_store(&busy, false);
}

void diw_ask_forked(void)
{
	drop_kept();
	atomic_store(&busy, false);
}

/* ---- The question ---- */

struct diag_question { struct nlmsghdr head; struct inet_diag_req_v2 req; };

static void diag_put_ip(__be32 at[4], const struct diw_addr *a, bool v4)
{
	if (!v4)
		memcpy(at, a->ip, 16);
	else if (diw_addr_is_v4(a))
		memcpy(at, a->ip + 12, 4);
}

/* Asks which socket receives datagrams from SRC to DST. For UDP the kernel takes source and destination as the
 * sender's, for TCP as those of the socket in question. A process that was forked unnoticed may share the netlink
 * socket: its answers have another number. */
static void diag_put_question(struct diag_question *q, int protocol, const struct diw_addr *src,
			      const struct diw_addr *dst, uint32_t interface)
{
	bool v4 = diw_addr_is_v4(dst);
	const struct diw_addr *first = protocol == IPPROTO_UDP ? src : dst, *second = first == src ? dst : src;

	*q = (struct diag_question){
		.head = { .nlmsg_len = sizeof *q, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST,
			  .nlmsg_seq = (uint32_t)diw_ticks() },
		.req = { .sdiag_family = v4 ? AF_INET : AF_INET6, .sdiag_protocol = (uint8_t)protocol,
			 .idiag_states = ~0u,
			 .id = { .idiag_sport = htons(first->port), .idiag_dport = htons(second->port),
				 .idiag_if = interface,
				 .idiag_cookie = { INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE } } },
	};
	diag_put_ip(q->req.id.idiag_src, first, v4);
	diag_put_ip(q->req.id.idiag_dst, second, v4);
}

struct diag_answer { struct nlmsghdr head; struct inet_diag_msg msg; char more[64]; };

/* Reads the N bytes of A if they answer Q. False: Q cannot be answered. */
static bool read_answer(const struct diag_answer *a, size_t n, const struct diag_question *q, struct diw_told *told)
{
	if (n < sizeof a->head + sizeof(struct nlmsgerr) || a->head.nlmsg_seq != q->head.nlmsg_seq)
		return false;
	if (a->head.nlmsg_type == NLMSG_ERROR) {
		memset(told, 0, sizeof *told);
		return ((const struct nlmsgerr *)(const void *)&a->msg)->error == -ENOENT;
	}
	if (n < sizeof a->head + sizeof a->msg || a->head.nlmsg_type != SOCK_DIAG_BY_FAMILY)
		return false;
	told->cookie = (uint64_t)a->msg.id.idiag_cookie[1] << 32 | a->msg.id.idiag_cookie[0];
	told->uid = a->msg.idiag_uid;
	told->inode = a->msg.idiag_inode;
	told->state = a->msg.idiag_state;
	return true;
}

/* Sends N questions. The kernel answers them, one after the other, within the send. */
static bool ask_on(int fd, const struct diag_question *q, unsigned n, struct diw_told *told)
{
	struct diag_answer a[DIW_ASK_MOST];
	struct iovec iov[DIW_ASK_MOST];
	struct mmsghdr m[DIW_ASK_MOST];
	int got;

	if (real.send(fd, q, n * sizeof *q, MSG_DONTWAIT) != (ssize_t)(n * sizeof *q))
		return false;
	if (n == 1) {
		ssize_t len = real.recv(fd, a, sizeof *a, MSG_DONTWAIT);

		return len > 0 && read_answer(a, (size_t)len, q, told);
	}
	for (unsigned i = 0; i < n; i++) {
		iov[i] = (struct iovec){ &a[i], sizeof a[i] };
		m[i] = (struct mmsghdr){ .msg_hdr = { .msg_iov = &iov[i], .msg_iovlen = 1 } };
	}
	got = real.recvmmsg(fd, m, n, MSG_DONTWAIT, NULL);
	for (unsigned i = 0; i < n; i++)
		if ((int)i >= got || !read_answer(&a[i], m[i].msg_len, &q[i], &told[i]))
			return false;
	return true;
}

/* Asks on the kept socket; or on a new one, if another thread or the interrupted code has `kept`. */
static bool ask_once(uint64_t netns, const struct diag_question *q, unsigned n, struct diw_told *told)
{
	bool shared = !atomic_exchange(&busy, true);
	int fd = shared ? kept_one(netns) : diw_sock_open(AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG, netns);
	bool done = fd >= 0 && ask_on(fd, q, n, told);

	if (fd >= 0 && (!shared || fd != kept.fd))
		real.close(fd);
	else if (!done)
		drop_kept();
	if (shared)
		atomic_store(&busy, false);
	return done;
}

static bool ask_all(uint64_t netns, const struct diag_question *q, unsigned n, struct diw_told *told)
{
	int cancel;
	bool done;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	done = ask_once(netns, q, n, told);
	pthread_setcancelstate(cancel, NULL);
	return done;
}

bool diw_ask(uint64_t netns, int protocol, const struct diw_addr *src, const struct diw_addr *dst, uint32_t interface,
	     struct diw_told *told)
{
	struct diag_question q;

	diag_put_question(&q, protocol, src, dst, interface);
	return ask_all(netns, &q, 1, told);
}

bool diw_ask_peer(uint64_t netns, const struct diw_addr *local, const struct diw_addr *peer, struct diw_told *told)
{
	int saved = errno;
	bool done = diw_may_ask() && diw_ask(netns, IPPROTO_TCP, local, peer, peer->scope, told);

	errno = saved;
	return done;
}

bool diw_ask_peers(uint64_t netns, const struct diw_ends *ends, unsigned n, struct diw_told *told)
{
	struct diag_question q[DIW_ASK_MOST];
	int saved = errno;
	bool done;

	for (unsigned i = 0; i < n; i++) {
		diag_put_question(&q[i], IPPROTO_TCP, &ends[i].local, &ends[i].peer, ends[i].peer.scope);
		q[i].head.nlmsg_seq += i;
	}
	done = diw_may_ask() && ask_all(netns, q, n, told);
	errno = saved;
	return done;
}
