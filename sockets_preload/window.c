/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets of other users on this host, and of this user in another registry. The kernel says which socket hears a
 * datagram, and whose it is; what that user shows is believed of no other socket. Nobody is asked who could fail to
 * answer.
 */
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <signal.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "sockets_preload/preload.h"

#define BELIEVED DIW_S                   /* for so long an answer of the kernel's, */
#define MISSED (250 * DIW_MS)            /* and that there was none */
#define PAUSE DIW_MS                     /* between two questions */
#define USERS 16u
#define ANSWERS 1024u
#define OVERFLOW_UID 65534u

/* What was found out; route.entry NULL: that it is nothing. */
static struct answer {
	_Atomic uint32_t turn;               /* odd: being written */
	uint64_t cookie, until;
	struct diw_addr dst;
	const struct diw_sockreg *reg;
	struct diw_route route;
} answers[ANSWERS];

/* Once attached, a window stays, or another takes its place: threads may be looking through it. */
static struct { uint32_t uid; int id; struct diw_sockreg *reg; } users[USERS];
static _Atomic bool asking;
static _Atomic uint64_t next_question;

/* ---- The kernel's answer ---- */

struct question { struct nlmsghdr head; struct inet_diag_req_v2 req; };
struct told { uint64_t cookie; uint32_t uid; };

/* What would hear a datagram from SRC: source and destination are the sender's here, whatever their names say. */
static void put_question(struct question *q, const struct diw_addr *src, const struct diw_addr *dst)
{
	bool v4 = diw_addr_is_v4(dst);

	*q = (struct question){
		.head = { .nlmsg_len = sizeof *q, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST },
		.req = { .sdiag_family = v4 ? AF_INET : AF_INET6, .sdiag_protocol = IPPROTO_UDP, .idiag_states = ~0u,
			 .id = { .idiag_sport = htons(src->port), .idiag_dport = htons(dst->port),
				 .idiag_if = dst->scope,
				 .idiag_cookie = { INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE } } },
	};
	if (v4 && diw_addr_is_v4(src))
		memcpy(q->req.id.idiag_src, src->ip + 12, 4);
	else if (!v4)
		memcpy(q->req.id.idiag_src, src->ip, 16);
	memcpy(q->req.id.idiag_dst, v4 ? dst->ip + 12 : dst->ip, v4 ? 4 : 16);
}

static bool ask_on(int fd, uint64_t netns, const struct diw_addr *src, const struct diw_addr *dst, struct told *told)
{
	struct question q;
	struct { struct nlmsghdr head; struct inet_diag_msg msg; char more[512]; } a;
	uint64_t here = 0;
	socklen_t len = sizeof here;
	ssize_t n;

	put_question(&q, src, dst);
	if (getsockopt(fd, SOL_SOCKET, 71 /* SO_NETNS_COOKIE */, &here, &len) < 0 || here != netns ||
	    real.send(fd, &q, sizeof q, MSG_DONTWAIT) != (ssize_t)sizeof q)
		return false;
	n = real.recv(fd, &a, sizeof a, MSG_DONTWAIT);
	if (n < (ssize_t)(sizeof a.head + sizeof a.msg) || a.head.nlmsg_type != SOCK_DIAG_BY_FAMILY)
		return false;
	told->cookie = (uint64_t)a.msg.id.idiag_cookie[1] << 32 | a.msg.id.idiag_cookie[0];
	told->uid = a.msg.idiag_uid;
	return true;
}

static bool ask(uint64_t netns, const struct diw_addr *src, const struct diw_addr *dst, struct told *told)
{
	int fd = real.socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	bool done = fd >= 0 && ask_on(fd, netns, src, dst, told);

	if (fd >= 0)
		real.close(fd);
	return done;
}

/* In a user namespace all users that it does not know have one number. */
static bool is_somebody(uint32_t uid)
{
	static _Atomic int all_known = -1;
	char line[64] = "";
	int fd;

	if (uid != OVERFLOW_UID)
		return true;
	if (all_known < 0) {
		fd = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
		all_known = fd >= 0 && real.read(fd, line, sizeof line - 1) > 0 && strstr(line, " 4294967295\n");
		if (fd >= 0)
			real.close(fd);
	}
	return all_known;
}

/* ---- What its user shows ---- */

static struct diw_sockreg *window_of(uint32_t uid)
{
	for (uint32_t i = 0; i < USERS; i++) {
		struct diw_sockreg *reg;

		if (users[i].reg && users[i].uid != uid)
			continue;
		if (!users[i].reg)
			users[i].id = -1;
		reg = diw_sockwin_open(uid, false, users[i].reg, &users[i].id);
		if (reg) {
			users[i].uid = uid;
			users[i].reg = reg;
		}
		return users[i].reg;
	}
	return NULL;
}

static bool find_shown(const struct diw_sockreg *reg, const struct diw_addr *dst, uint64_t netns, uint64_t cookie,
		       struct diw_route *route)
{
	struct diw_sock_entry copy;

	for (uint32_t i = 0; i < DIW_SOCKREG_PROBE; i++) {
		const struct diw_sock_entry *e = diw_sockreg_at((struct diw_sockreg *)reg, dst->port, i);

		if (atomic_load_explicit(&e->seq, memory_order_relaxed) == 0)
			return false;
		if (diw_sock_read(reg, e, &copy) && copy.cookie == cookie && copy.netns == netns) {
			diw_reg_route(e, &copy, route);
			return true;
		}
	}
	return false;
}

static void find_out(const struct diw_sock *s, int fd, const struct diw_addr *dst, struct answer *a)
{
	struct diw_addr src = s->local;
	struct sockaddr_storage ss;
	socklen_t len = sizeof ss;
	struct told told;

	if (!src.port && getsockname(fd, (struct sockaddr *)&ss, &len) == 0)
		diw_addr_from_sockaddr(&src, (struct sockaddr *)&ss);
	a->route.entry = NULL;
	a->until = diw_coarse_ns() + MISSED;
	if (!diw_is_local(dst, s->netns) || !ask(s->netns, &src, dst, &told) || !is_somebody(told.uid))
		return;
	a->reg = window_of(told.uid);
	if (a->reg && diw_sockreg_is_complete(a->reg) &&
	    find_shown(a->reg, dst, s->netns, told.cookie, &a->route))
		a->until += BELIEVED - MISSED;
}

/* ---- The answers ---- */

/* A fence within an inlined function is a warning of gcc's thread sanitizer, which knows none. */
__attribute__((noinline))
static bool recall(struct answer *slot, const struct diw_sock *s, const struct diw_addr *dst, struct answer *a)
{
	uint32_t turn = atomic_load_explicit(&slot->turn, memory_order_acquire);

	if (turn % 2 || slot->cookie != s->cookie)
		return false;
	a->until = slot->until;
	a->dst = slot->dst;
	a->reg = slot->reg;
	a->route = slot->route;
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&slot->turn, memory_order_relaxed) == turn && diw_addr_eq(&a->dst, dst) &&
	       diw_coarse_ns() < a->until;
}

static void remember(struct answer *slot, const struct answer *a)
{
	uint32_t turn = atomic_load_explicit(&slot->turn, memory_order_relaxed);

	if (turn % 2 || !atomic_compare_exchange_strong(&slot->turn, &turn, turn + 1))
		return;
	slot->cookie = a->cookie;
	slot->until = a->until;
	slot->dst = a->dst;
	slot->reg = a->reg;
	slot->route = a->route;
	atomic_store_explicit(&slot->turn, turn + 2, memory_order_release);
}

/* One thread at a time, and never so often that it would be noticed. */
static bool ask_in_turn(const struct diw_sock *s, int fd, const struct diw_addr *dst, struct answer *a)
{
	sigset_t all, before;
	uint64_t now = diw_coarse_ns();

	if (now < atomic_load_explicit(&next_question, memory_order_relaxed))
		return false;
	sigfillset(&all);
	if (pthread_sigmask(SIG_BLOCK, &all, &before))
		return false;
	if (atomic_exchange(&asking, true)) {
		pthread_sigmask(SIG_SETMASK, &before, NULL);
		return false;
	}
	a->cookie = s->cookie;
	a->dst = *dst;
	find_out(s, fd, dst, a);
	atomic_store_explicit(&next_question, now + PAUSE, memory_order_relaxed);
	atomic_store(&asking, false);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return true;
}

void diw_window_forked(void)
{
	atomic_store(&asking, false);
	for (uint32_t i = 0; i < ANSWERS; i++)
		if (atomic_load_explicit(&answers[i].turn, memory_order_relaxed) % 2)
			atomic_store(&answers[i].turn, 0);
}

bool diw_window_find(const struct diw_sock *s, int fd, const struct diw_addr *to, struct diw_route *route)
{
	struct diw_addr dst = diw_destination(to);
	struct answer *slot = &answers[diw_addr_hash(&dst, s->cookie) % ANSWERS], a;
	int saved = errno;

	if (!recall(slot, s, &dst, &a)) {
		if (!ask_in_turn(s, fd, &dst, &a))
			return false;
		remember(slot, &a);
		errno = saved;
	}
	if (!a.route.entry || !diw_sock_is_current(a.reg, a.route.entry, a.route.seq))
		return false;
	*route = a.route;
	return true;
}
