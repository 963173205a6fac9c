/* SPDX-License-Identifier: BSD-2-Clause */
/* Address vectors: tables of peers by fi_addr and by address. FI_AV_MAP and FI_AV_TABLE are the same here. */
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/addr.h"
#include "base/clock.h"
#include "base/rng.h"
#include "mpi_glue/glue.h"

#define AV_BUCKETS 4096u
#define AV_FULL (100 * DIW_MS)           /* the least time between two searches that find little */

static struct glue_peer **av_bucket(const struct glue_av *av, const struct diw_addr *addr)
{
	return &av->bucket[diw_addr_hash(addr, av->seed) & (AV_BUCKETS - 1)];
}

static struct glue_peer *av_look(const struct glue_av *av, const struct diw_addr *addr)
{
	struct glue_peer *p = *av_bucket(av, addr);

	while (p && !diw_addr_eq(&p->addr, addr))
		p = p->next;
	return p;
}

static struct glue_peer *av_new(struct glue_av *av, const struct diw_addr *addr)
{
	struct glue_peer **head = av_bucket(av, addr), *p = diw_pool_get(&av->peers);

	if (!p)
		return NULL;
	*p = (struct glue_peer){ .next = *head, .addr = *addr,
				 .index = diw_pool_index(&av->peers, p),
				 .fi_addr = FI_ADDR_NOTAVAIL, .patience = 1, .restarted = diw_clock_ns() };
	*head = p;
	return p;
}

static void av_learn(struct glue_av *av, struct glue_peer *p, bool learned)
{
	av->learned += learned;
	av->learned -= p->learned;
	p->learned = learned;
}

/* The peer that the operation refers to, or NULL. */
static struct glue_peer *op_peer(const struct glue_op *op)
{
	if (op->kind == GLUE_OP_FREE || op->ended)
		return NULL;
	return op->kind == GLUE_OP_RECV && !op->peer ? (struct glue_peer *)(uintptr_t)op->key.source : op->peer;
}

/* Marks the peers that operations refer to, or unmarks them. */
static void peers_mark(const struct glue_av *av, bool used)
{
	const struct diw_pool *ops = &av->domain->ops;

	for (uint32_t i = 0; i < ops->fresh; i++) {
		struct glue_peer *p = op_peer(diw_pool_at(ops, i));

		if (p)
			p->used = used;
	}
}

/* The address of P is inserted again: operations with P from now on are with the next process that has it. */
static void peer_expect(const struct glue_av *av, struct glue_peer *p)
{
	const struct diw_pool *ops = &av->domain->ops;

	p->expected = true;
	for (uint32_t i = 0; i < ops->fresh; i++) {
		struct glue_op *op = diw_pool_at(ops, i);

		op->earlier |= op_peer(op) == p;
	}
}

/* Forgets the peers that are not inserted and to which no operation and no request refers. False: none is free. */
static bool peers_forget(struct glue_av *av)
{
	uint64_t now = diw_clock_ns();
	uint32_t before = av->learned;

	if (now < av->full_until)
		return false;
	peers_mark(av, true);
	for (uint32_t i = 0; i < AV_BUCKETS; i++)
		for (struct glue_peer **at = &av->bucket[i], *p = *at; p; p = *at) {
			if (!p->learned || p->connected || p->used || p->requests || p->holder || p->teller) {
				at = &p->next;
				continue;
			}
			*at = p->next;
			av_learn(av, p, false);
			diw_pool_put(&av->peers, p);
		}
	peers_mark(av, false);
	if (before - av->learned < GLUE_LEARNED / 4)
		av->full_until = now + AV_FULL;
	return av->learned < GLUE_LEARNED;
}

/* A peer whose address was not inserted exists from its first message on. Its address may be inserted later. */
struct glue_peer *diw_glue_av_find(struct glue_av *av, const struct diw_addr *addr)
{
	struct glue_peer *p = av_look(av, addr);

	if (!p && (av->learned < GLUE_LEARNED || peers_forget(av))) {
		p = av_new(av, addr);
		if (p)
			av_learn(av, p, true);
	}
	return p;
}

struct glue_peer *diw_glue_av_peer(struct glue_av *av, fi_addr_t addr)
{
	return addr < av->count ? av->entry[addr] : NULL;
}

/* The least number that no peer has. */
static size_t av_vacancy(struct glue_av *av)
{
	while (av->vacant < av->count && av->entry[av->vacant])
		av->vacant++;
	return av->vacant;
}

static bool av_grow(struct glue_av *av, size_t want)
{
	size_t room = av->room ? av->room : 64;
	struct glue_peer **entry;

	while (room < want)
		room *= 2;
	if (room == av->room)
		return true;
	entry = realloc(av->entry, room * sizeof *entry);
	if (!entry)
		return false;
	av->entry = entry;
	av->room = room;
	return true;
}

/* The link has failed all requests to a peer that is gone. Those failures, and messages of a peer, that are still to be
 * handled must not concern the peer that gets its address. */
static void av_settle(struct glue_av *av)
{
	for (struct diw_list *n = av->domain->eps.next; n != &av->domain->eps; n = n->next) {
		struct glue_ep *ep = diw_container(n, struct glue_ep, link);

		if (ep->av == av)
			diw_glue_port_drain(ep);
	}
}

static int av_add(struct glue_av *av, const struct sockaddr *sa, fi_addr_t *fi_addr)
{
	struct diw_addr addr;
	struct glue_peer *p;
	size_t number;
	bool known;

	if (sa->sa_family != AF_INET && sa->sa_family != AF_INET6)
		return -FI_EINVAL;
	diw_addr_from_sockaddr(&addr, sa);
	if (!av_grow(av, av->count + 1))
		return -FI_ENOMEM;
	p = av_look(av, &addr);
	if (p) {
		av_settle(av);
		p = av_look(av, &addr);
	}
	known = p;
	if (p && p->gone) {
		p->restarted = diw_clock_ns();
		p->epoch = 0;
	}
	if (!p && av->learned >= GLUE_LEARNED)
		peers_forget(av);
	if (!p && av->peers.used - av->learned < GLUE_PEERS)
		p = av_new(av, &addr);
	if (!p)
		return -FI_ENOMEM;
	av_learn(av, p, false);
	if (known)
		peer_expect(av, p);
	number = av_vacancy(av);
	p->inserts++;
	p->numbers++;
	if (p->fi_addr > number)         /* FI_ADDR_NOTAVAIL is the greatest */
		p->fi_addr = number;
	p->gone = 0;
	p->holds = 0;
	*fi_addr = number;
	av->entry[number] = p;
	if (number == av->count)
		av->count++;
	return 0;
}

static int av_insert(struct fid_av *fid, const void *addr, size_t count, fi_addr_t *fi_addr, uint64_t flags, void *ctx)
{
	struct glue_av *av = (struct glue_av *)fid;
	const uint8_t *at = addr;
	int good = 0;

	glue_lock(av->domain);
	for (size_t i = 0; i < count; i++) {
		fi_addr_t got = FI_ADDR_NOTAVAIL;
		struct sockaddr_storage ss = { 0 };
		size_t size;
		int rc;

		memcpy(&ss, at, sizeof ss.ss_family);
		size = ss.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
		memcpy(&ss, at, size);
		at += size;
		rc = av_add(av, (struct sockaddr *)&ss, &got);
		if (flags & FI_SYNC_ERR && ctx)
			((int *)ctx)[i] = -rc;
		if (fi_addr)
			fi_addr[i] = got;
		good += rc == 0;
	}
	glue_unlock(av->domain);
	return good;
}

static int av_insertsvc(struct fid_av *fid, const char *node, const char *service, fi_addr_t *fi_addr, uint64_t flags,
			void *ctx)
{
	struct addrinfo *ai, ask = { .ai_socktype = SOCK_DGRAM };
	int rc;

	if (getaddrinfo(node, service, &ask, &ai) != 0)
		return -FI_ENODATA;
	rc = av_insert(fid, ai->ai_addr, 1, fi_addr, flags, ctx);
	freeaddrinfo(ai);
	return rc;
}

static int av_insertsym(struct fid_av *fid, const char *node, size_t nodecnt, const char *service, size_t svccnt,
			fi_addr_t *fi_addr, uint64_t flags, void *ctx)
{
	(void)fid, (void)node, (void)nodecnt, (void)service, (void)svccnt, (void)fi_addr, (void)flags, (void)ctx;
	return -FI_ENOSYS;
}

/* The least number of P that is greater than AFTER. */
static fi_addr_t av_number(const struct glue_av *av, const struct glue_peer *p, fi_addr_t after)
{
	fi_addr_t n = after + 1;

	while (p->numbers && n < av->count && av->entry[n] != p)
		n++;
	return p->numbers ? n : FI_ADDR_NOTAVAIL;
}

static int av_remove(struct fid_av *fid, fi_addr_t *fi_addr, size_t count, uint64_t flags)
{
	struct glue_av *av = (struct glue_av *)fid;

	(void)flags;
	glue_lock(av->domain);
	for (size_t i = 0; i < count; i++) {
		struct glue_peer *p = diw_glue_av_peer(av, fi_addr[i]);

		if (!p)
			continue;
		av->entry[fi_addr[i]] = NULL;
		if (fi_addr[i] < av->vacant)
			av->vacant = fi_addr[i];
		p->numbers--;
		if (p->fi_addr == fi_addr[i])
			p->fi_addr = av_number(av, p, fi_addr[i]);
		if (!p->numbers && !p->connected)
			av_learn(av, p, true);
	}
	glue_unlock(av->domain);
	return 0;
}

static int av_lookup(struct fid_av *fid, fi_addr_t fi_addr, void *addr, size_t *len)
{
	struct glue_av *av = (struct glue_av *)fid;
	struct glue_peer *p;
	struct sockaddr_storage ss;
	size_t size;

	glue_lock(av->domain);
	p = diw_glue_av_peer(av, fi_addr);
	size = p ? diw_addr_to_sockaddr(&p->addr, &ss) : 0;
	glue_unlock(av->domain);
	if (!p)
		return -FI_EINVAL;
	memcpy(addr, &ss, size < *len ? size : *len);
	*len = size;
	return 0;
}

static const char *av_straddr(struct fid_av *fid, const void *addr, char *buf, size_t *len)
{
	struct diw_addr a;
	char text[DIW_ADDR_STRLEN];
	size_t n;

	(void)fid;
	diw_addr_from_sockaddr(&a, addr);
	n = strlen(diw_addr_str(&a, text)) + 1;
	if (*len)
		snprintf(buf, *len, "%s", text);
	*len = n;
	return buf;
}

static int av_close(struct fid *fid)
{
	struct glue_av *av = (struct glue_av *)fid;

	glue_lock(av->domain);
	if (av->users) {
		glue_unlock(av->domain);
		return -FI_EBUSY;
	}
	av->domain->users--;
	glue_unlock(av->domain);
	diw_glue_eq_unuse(av->eq);
	diw_arena_fini(&av->arena);
	free(av->entry);
	free(av);
	return 0;
}

static int av_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct glue_av *av = (struct glue_av *)fid;
	int rc = -FI_EINVAL;

	(void)flags;
	glue_lock(av->domain);
	if (bfid->fclass == FI_CLASS_EQ && !av->eq) {    /* an insertion is complete when the call returns */
		av->eq = bfid;
		diw_glue_eq_use(bfid);
		rc = 0;
	}
	glue_unlock(av->domain);
	return rc;
}

static struct fi_ops av_fi_ops = {
	.size = sizeof(struct fi_ops), .close = av_close, .bind = av_bind, .control = diw_glue_no_control,
	.ops_open = diw_glue_no_ops,
};

static struct fi_ops_av av_ops = {
	.size = sizeof(struct fi_ops_av), .insert = av_insert, .insertsvc = av_insertsvc, .insertsym = av_insertsym,
	.remove = av_remove, .lookup = av_lookup, .straddr = av_straddr,
};

int diw_glue_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **out, void *ctx)
{
	struct glue_domain *d = (struct glue_domain *)domain;
	struct glue_av *av;

	if (attr->flags & FI_EVENT || attr->name || attr->rx_ctx_bits)
		return -FI_ENOSYS;
	av = calloc(1, sizeof *av);
	if (!av)
		return -FI_ENOMEM;
	if (diw_arena_init(&av->arena, diw_arena_round(AV_BUCKETS * sizeof *av->bucket) +
			   diw_pool_bytes(sizeof(struct glue_peer), GLUE_PEERS + GLUE_LEARNED)) < 0) {
		free(av);
		return -FI_ENOMEM;
	}
	av->bucket = diw_arena_take(&av->arena, AV_BUCKETS * sizeof *av->bucket);
	diw_pool_init(&av->peers, &av->arena, sizeof(struct glue_peer), GLUE_PEERS + GLUE_LEARNED);
	av->seed = diw_random();
	if (attr->type == FI_AV_UNSPEC)
		attr->type = FI_AV_TABLE;
	av->domain = d;
	av->fid = (struct fid_av){ .fid = { FI_CLASS_AV, ctx, &av_fi_ops }, .ops = &av_ops };
	glue_lock(d);
	d->users++;
	glue_unlock(d);
	*out = &av->fid;
	return 0;
}
