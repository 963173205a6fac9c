/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A datagram to a multicast group or a broadcast address reaches every socket of this network namespace that is bound
 * to its port, and hosts that the interface leads to. It is framed if all of these are known to be capable. The kernel
 * lists the sockets here, and the registry must have each of them. Other hosts are vouched for by the configuration
 * alone; there are none if the datagram leaves by lo.
 */
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "sockets_preload/answers.h"
#include "sockets_preload/dgram/group.h"
#include "sockets_preload/reach.h"
#include "sockets_preload/stage.h"

#define MOST 64u                             /* the most sockets at one port */
#define GROUP_ANSWERS 64u

/* The result of a search; is.route.key 0: datagrams are sent plain. */
struct group_answer {
	struct diw_answer is;
	uint32_t n;
	struct diw_ref member[MOST];
};
static struct group_answer answers[GROUP_ANSWERS];
static const struct diw_answers kept = { answers, GROUP_ANSWERS, sizeof *answers };

bool diw_group_is(const struct diw_sock *s, const struct diw_addr *dst)
{
	return diw_addr_is_multicast(dst) || (s->broadcasts && diw_is_broadcast(dst, s->netns));
}

/* ---- The sockets that listen ---- */

struct query {
	const struct diw_sock *s;
	const struct diw_addr *dst;
	bool vouched;                        /* the datagram may go to other hosts */
	struct group_answer *a;
};

/* A connected socket, or one that has not joined, may not receive it. Such a socket may nevertheless prevent frames, if
 * it is not known. */
static bool socket_may_hear(const struct inet_diag_msg *m, const struct diw_addr *dst)
{
	const __be32 *at = m->id.idiag_src;

	if (m->idiag_family == AF_INET)
		return !at[0] || memcmp(at, dst->ip + 12, 4) == 0;
	return !(at[0] | at[1] | at[2] | at[3]) || memcmp(at, dst->ip, 16) == 0;
}

/* False: the socket of M receives the datagram and is not known to be capable. */
static bool add_member(struct query *q, const struct inet_diag_msg *m)
{
	uint64_t cookie = (uint64_t)m->id.idiag_cookie[1] << 32 | m->id.idiag_cookie[0];
	struct group_answer *a = q->a;
	struct diw_route r;

	if (ntohs(m->id.idiag_sport) != q->dst->port || !socket_may_hear(m, q->dst))
		return true;
	if (a->n == MOST || !diw_reg_find_cookie(NULL, q->dst->port, q->s->netns, cookie, false, &r))
		return false;
	/* Frames that leave the host carry the configured key. Another seq means that the entry is another one. */
	if (q->vouched && ((r.shown.entry->flags & DIW_SOCK_TAG) != diw_reg_peer_tag() || !diw_ref_holds(&r.shown)))
		return false;
	a->is.route.crc |= r.crc;
	a->member[a->n++] = r.shown;
	return true;
}

/* 1: the list is complete. 0: there are more. -1: a socket is not capable, or not known. */
static int read_some(struct query *q, int fd, uint8_t *buf)
{
	ssize_t n = real.recv(fd, buf, DIW_STAGE, MSG_DONTWAIT | MSG_TRUNC);
	const struct nlmsghdr *h = (const void *)buf;

	if (n <= 0 || n > (ssize_t)DIW_STAGE)
		return -1;
	for (size_t left = (size_t)n; NLMSG_OK(h, left); h = NLMSG_NEXT(h, left)) {
		if (h->nlmsg_type == NLMSG_DONE)
			return 1;
		if (h->nlmsg_type != SOCK_DIAG_BY_FAMILY || h->nlmsg_flags & NLM_F_DUMP_INTR ||
		    h->nlmsg_len < NLMSG_LENGTH(sizeof(struct inet_diag_msg)) || !add_member(q, NLMSG_DATA(h)))
			return -1;
	}
	return 0;
}

static bool ask_family(struct query *q, int fd, uint8_t family)
{
	const struct { struct nlmsghdr head; struct inet_diag_req_v2 req; } question = {
		.head = { .nlmsg_len = sizeof question, .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			  .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
		.req = { .sdiag_family = family, .sdiag_protocol = IPPROTO_UDP, .idiag_states = ~0u,
			 .id = { .idiag_sport = htons(q->dst->port),
				 .idiag_cookie = { INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE } } },
	};
	struct diw_hold stage;
	int rc = 0;

	if (real.send(fd, &question, sizeof question, MSG_DONTWAIT) != (ssize_t)sizeof question ||
	    !diw_stage_hold(DIW_STAGE_ONE, &stage))
		return false;
	while (rc == 0)
		rc = read_some(q, fd, stage.mem);
	diw_stage_let_go(DIW_STAGE_ONE, &stage);
	return rc > 0;
}

/* An IPv6 socket may receive datagrams to an IPv4 group. */
static bool are_known(struct query *q)
{
	int fd = diw_sock_open(AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG, q->s->netns);
	bool all = fd >= 0 && ask_family(q, fd, AF_INET6) && (!diw_addr_is_v4(q->dst) || ask_family(q, fd, AF_INET));

	if (fd >= 0)
		real.close(fd);
	return all;
}

/* A firewall rule may redirect the datagram to one socket elsewhere. So if the kernel tracks connections, it is not
 * certain that a datagram stays on the host. */
static void group_find_out(const struct diw_sock *s, int fd, const struct diw_addr *dst, struct group_answer *a)
{
	struct query q = { .s = s, .dst = dst, .a = a, .vouched = diw_conf.have_key && diw_conf_is_peer(dst) };

	a->is.cookie = s->cookie;
	a->is.dst = *dst;
	a->is.until = diw_coarse_ns() + DIW_ANSWER_BELIEVED;
	a->n = 0;
	a->is.route = (struct diw_route){ .crc = q.vouched || diw_conf.crc == DIW_CRC_ON, .home = !q.vouched };
	a->is.route.away = !q.vouched && (diw_reach_look() || !diw_home_has(s, fd, dst));
	if (a->is.route.away)
		return;
	if (are_known(&q) && (q.vouched || a->n))
		a->is.route.key = q.vouched ? diw_reg_peer_key(dst->port) :
					      diw_reg_group_key(dst->port, a->is.route.crc);
}

/* ---- Stored answers ---- */

/* Whether all entries are still valid: an entry ends at the moment when its process is killed or executes another
 * program. */
static bool all_hold(const struct group_answer *a)
{
	for (uint32_t i = 0; i < a->n; i++)
		if (!diw_ref_holds(&a->member[i]))
			return false;
	return true;
}

/* Asks with signals blocked and cancellation disabled. */
static bool group_ask(const struct diw_sock *s, int fd, const struct diw_addr *dst, struct group_answer *a)
{
	sigset_t all, mask;
	int cancel;

	sigfillset(&all);
	if (pthread_sigmask(SIG_BLOCK, &all, &mask))
		return false;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	group_find_out(s, fd, dst, a);
	pthread_setcancelstate(cancel, NULL);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	return true;
}

void diw_group_forked(void)
{
	diw_answers_forked(&kept);
}

bool diw_group_find(const struct diw_sock *s, int fd, const struct diw_addr *dst, struct diw_route *route)
{
	struct diw_answer *slot = diw_answer_slot(&kept, s->cookie, dst);
	struct group_answer a;
	int saved = errno;

	if (!diw_may_ask())
		return false;
	if (!diw_answer_recall(&kept, slot, s->cookie, dst, &a.is) || !all_hold(&a)) {
		if (!group_ask(s, fd, dst, &a))
			return false;
		a.is.size = (uint32_t)(offsetof(struct group_answer, member) + a.n * sizeof a.member[0]);
		diw_answer_remember(slot, &a.is);
		errno = saved;
	}
	*route = a.is.route;
	return a.is.route.key && all_hold(&a);
}
