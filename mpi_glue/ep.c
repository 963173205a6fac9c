/* SPDX-License-Identifier: BSD-2-Clause */
/* Endpoints, which are bound to queues, counters and an address vector. fi_enable() creates their queue pair. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/addr.h"
#include "base/clock.h"
#include "base/rng.h"
#include "mpi_glue/port.h"

/* The longest time that a closed endpoint waits for acknowledgements, but for connections that are being made. */
#define EP_LINGER (2 * DIW_S)
#define EP_ACKS (5 * DIW_MS)             /* the least time during which it sends acknowledgements */
#define EP_NAP (50 * DIW_US)

static int ep_bind_cq(struct glue_ep *ep, struct glue_cq *cq, uint64_t flags)
{
	if (cq->domain != ep->domain || !(flags & (FI_TRANSMIT | FI_RECV)) ||
	    (flags & FI_TRANSMIT && ep->tx_cq) || (flags & FI_RECV && ep->rx_cq))
		return -FI_EINVAL;
	if (flags & FI_TRANSMIT) {
		ep->tx_cq = cq;
		ep->tx_selective = flags & FI_SELECTIVE_COMPLETION;
		cq->users++;
	}
	if (flags & FI_RECV) {
		ep->rx_cq = cq;
		ep->rx_selective = flags & FI_SELECTIVE_COMPLETION;
		cq->users++;
	}
	return 0;
}

static int ep_bind_cntr(struct glue_ep *ep, struct glue_cntr *cntr, uint64_t flags)
{
	static const uint64_t event[GLUE_EVENTS] = {
		[GLUE_EVENT_SEND] = FI_SEND, [GLUE_EVENT_RECV] = FI_RECV, [GLUE_EVENT_READ] = FI_READ,
		[GLUE_EVENT_WRITE] = FI_WRITE,
	};

	uint64_t known = 0;

	if (cntr->domain != ep->domain)
		return -FI_EINVAL;
	for (int i = 0; i < GLUE_EVENTS; i++) {
		known |= event[i];
		if (flags & event[i] && ep->cntr[i])
			return -FI_EINVAL;
	}
	if (flags & ~known)              /* FI_REMOTE_READ, FI_REMOTE_WRITE: without FI_RMA_EVENT */
		return -FI_ENOSYS;
	for (int i = 0; i < GLUE_EVENTS; i++)
		if (flags & event[i]) {
			ep->cntr[i] = cntr;
			cntr->users++;
		}
	return flags ? 0 : -FI_EINVAL;
}

static int ep_bind_av(struct glue_ep *ep, struct glue_av *av)
{
	if (ep->av || av->domain != ep->domain)
		return -FI_EINVAL;
	ep->av = av;
	av->users++;
	return 0;
}

static int ep_bind_eq(struct glue_ep *ep, struct fid *eq)
{
	if (ep->eq)
		return -FI_EINVAL;
	ep->eq = eq;
	diw_glue_eq_use(eq);
	return 0;
}

static int ep_bind_object(struct glue_ep *ep, struct fid *object, uint64_t flags)
{
	if (ep->enabled)
		return -FI_EOPBADSTATE;
	switch (object->fclass) {
	case FI_CLASS_AV: return ep_bind_av(ep, (struct glue_av *)object);
	case FI_CLASS_CQ: return ep_bind_cq(ep, (struct glue_cq *)object, flags);
	case FI_CLASS_CNTR: return ep_bind_cntr(ep, (struct glue_cntr *)object, flags);
	case FI_CLASS_EQ: return ep_bind_eq(ep, object);
	default: return -FI_EINVAL;
	}
}

static int ep_bind(struct fid *fid, struct fid *object, uint64_t flags)
{
	struct glue_ep *ep = (struct glue_ep *)fid;
	int rc;

	glue_lock(ep->domain);
	rc = ep_bind_object(ep, object, flags);
	glue_unlock(ep->domain);
	return rc;
}

/* An address vector, and a completion queue for each direction. */
static int ep_lacks(const struct glue_ep *ep)
{
	if (!ep->av)
		return -FI_ENOAV;
	return (ep->sends && !ep->tx_cq) || (ep->receives && !ep->rx_cq) ? -FI_ENOCQ : 0;
}

static int ep_enable(struct glue_ep *ep)
{
	int rc;

	glue_lock(ep->domain);
	rc = ep_lacks(ep);
	if (rc == 0 && !ep->enabled) {
		rc = diw_glue_port_open(ep);
		if (rc == 0)
			ep->enabled = true;
		else
			diw_glue_port_close(ep);
	}
	glue_unlock(ep->domain);
	return rc;
}

/* Gets or sets the flags of operations that have none of their own. FLAGS has one direction, FI_TRANSMIT or FI_RECV. */
static int ep_op_flags(struct glue_ep *ep, bool set, uint64_t *flags)
{
	uint64_t way = *flags & (FI_TRANSMIT | FI_RECV), wanted = *flags & ~way;
	uint64_t *of = way == FI_TRANSMIT ? &ep->tx_flags : &ep->rx_flags;

	if ((way != FI_TRANSMIT && way != FI_RECV) ||
	    (set && wanted & ~(uint64_t)(way == FI_TRANSMIT ? GLUE_TX_FLAGS : GLUE_RX_FLAGS)))
		return -FI_EINVAL;
	glue_lock(ep->domain);
	if (set)
		*of = wanted;
	else
		*flags = *of;
	glue_unlock(ep->domain);
	return 0;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
	struct glue_ep *ep = (struct glue_ep *)fid;

	switch (command) {
	case FI_ENABLE:
		return ep_enable(ep);
	case FI_GETOPSFLAG:
	case FI_SETOPSFLAG:
		return ep_op_flags(ep, command == FI_SETOPSFLAG, arg);
	default:
		return -FI_ENOSYS;
	}
}

/* Whether Sends of EP, which has been closing for CLOSING ns, are not acknowledged yet. */
static bool ep_has_to_wait(struct glue_ep *ep, uint64_t closing)
{
	if (!ep->enabled || (closing >= EP_ACKS && !ep->sending && diw_list_empty(&ep->waiting)))
		return false;
	return closing < EP_LINGER || (ep->port->ops->connects && ep->port->ops->connects(ep));
}

/* Completed Sends must reach the peer although the endpoint closes. Peers wait for acknowledgements of their Sends,
 * which the link delays. The domain's lock is free between the steps, so that other endpoints go on. */
static void ep_linger(struct glue_ep *ep)
{
	static const struct timespec nap = { 0, EP_NAP };
	uint64_t begin = diw_clock_ns();
	bool waits = !ep->domain->forked;

	while (waits) {
		glue_lock(ep->domain);
		diw_glue_port_poll(ep);
		waits = ep_has_to_wait(ep, diw_clock_ns() - begin);
		glue_unlock(ep->domain);
		if (waits)
			nanosleep(&nap, NULL);
	}
}

/* Drops unfinished operations without completions. */
static void ep_forget_ops(struct glue_ep *ep)
{
	struct diw_pool *ops = &ep->domain->ops;

	for (uint32_t i = 0; i < ops->fresh; i++) {
		struct glue_op *op = diw_pool_at(ops, i);

		if (op->kind != GLUE_OP_FREE && op->ep == ep && !op->ended)
			diw_glue_op_put(op);
	}
}

static void ep_log_drop(const struct glue_ep *ep, enum glue_drop why)
{
	static const char *const name[GLUE_DROPS] = {
#define GLUE_DROP_TEXT(name, text) [GLUE_DROP_##name] = text,
		GLUE_DROP_NAMES(GLUE_DROP_TEXT)
#undef GLUE_DROP_TEXT
	};

	GLUE_LOG("dropped messages: %s %llu\n", name[why], (unsigned long long)ep->dropped[why]);
}

void diw_glue_drop(struct glue_ep *ep, const struct glue_peer *from, enum glue_drop why)
{
	uint64_t n = ++ep->dropped[why];

	diw_glue_port_count(ep, from, why);
	if ((n & (n - 1)) == 0)
		ep_log_drop(ep, why);
}

static int ep_close(struct fid *fid)
{
	struct glue_ep *ep = (struct glue_ep *)fid;
	struct glue_domain *d = ep->domain;

	ep_linger(ep);
	glue_lock(d);
	for (int i = 0; i < GLUE_DROPS; i++)
		if (ep->dropped[i])
			ep_log_drop(ep, (enum glue_drop)i);
	if (ep->holds)
		GLUE_LOG("peers held, since their messages found no receive: %llu times\n",
			 (unsigned long long)ep->holds);
	ep->enabled = false;
	diw_glue_inbox_forget(ep);
	diw_glue_hold_forget(ep);
	diw_glue_gone_forget(ep);
	diw_glue_port_close(ep);
	ep_forget_ops(ep);
	diw_list_del(&ep->link);
	d->users--;
	if (ep->av)
		ep->av->users--;
	if (ep->tx_cq)
		ep->tx_cq->users--;
	if (ep->rx_cq)
		ep->rx_cq->users--;
	for (int i = 0; i < GLUE_EVENTS; i++)
		if (ep->cntr[i])
			ep->cntr[i]->users--;
	diw_glue_eq_unuse(ep->eq);
	glue_unlock(d);
	diw_match_fini(&ep->tagged);
	diw_match_fini(&ep->untagged);
	free(ep);
	return 0;
}

static struct fi_ops ep_fi_ops = {
	.size = sizeof(struct fi_ops), .close = ep_close, .bind = ep_bind, .control = ep_control,
	.ops_open = diw_glue_no_ops,
};

static int ep_getopt(fid_t fid, int level, int name, void *val, size_t *len)
{
	struct glue_ep *ep = (struct glue_ep *)fid;

	if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV)
		return -FI_ENOPROTOOPT;
	if (*len < sizeof(size_t))
		return -FI_ETOOSMALL;
	memcpy(val, &ep->min_multi_recv, sizeof(size_t));
	*len = sizeof(size_t);
	return 0;
}

static int ep_setopt(fid_t fid, int level, int name, const void *val, size_t len)
{
	struct glue_ep *ep = (struct glue_ep *)fid;

	if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV)
		return -FI_ENOPROTOOPT;
	if (len < sizeof(size_t))
		return -FI_EINVAL;
	memcpy(&ep->min_multi_recv, val, sizeof(size_t));
	return 0;
}

static int ep_no_tx_ctx(struct fid_ep *ep, int i, struct fi_tx_attr *a, struct fid_ep **out, void *ctx)
{
	(void)ep, (void)i, (void)a, (void)out, (void)ctx;
	return -FI_ENOSYS;
}

static int ep_no_rx_ctx(struct fid_ep *ep, int i, struct fi_rx_attr *a, struct fid_ep **out, void *ctx)
{
	(void)ep, (void)i, (void)a, (void)out, (void)ctx;
	return -FI_ENOSYS;
}

static ssize_t ep_no_size_left(struct fid_ep *ep)
{
	(void)ep;
	return -FI_ENOSYS;
}

static struct fi_ops_ep ep_ops = {
	.size = sizeof(struct fi_ops_ep), .cancel = diw_glue_cancel, .getopt = ep_getopt, .setopt = ep_setopt,
	.tx_ctx = ep_no_tx_ctx, .rx_ctx = ep_no_rx_ctx, .rx_size_left = ep_no_size_left,
	.tx_size_left = ep_no_size_left,
};

static int ep_setname(fid_t fid, void *addr, size_t len)
{
	struct glue_ep *ep = (struct glue_ep *)fid;
	const struct sockaddr *sa = addr;
	size_t need = sizeof(struct sockaddr_in);

	if (ep->enabled || len < need || (sa->sa_family != AF_INET && sa->sa_family != AF_INET6))
		return -FI_EINVAL;
	if (sa->sa_family == AF_INET6)
		need = sizeof(struct sockaddr_in6);
	if (len < need)
		return -FI_EINVAL;
	diw_addr_from_sockaddr(&ep->local, sa);
	return 0;
}

static int ep_getname(fid_t fid, void *addr, size_t *len)
{
	struct glue_ep *ep = (struct glue_ep *)fid;
	struct sockaddr_storage ss;
	size_t size = diw_addr_to_sockaddr(&ep->local, &ss), room = *len;

	*len = size;
	if (addr)
		memcpy(addr, &ss, size < room ? size : room);
	return room < size ? -FI_ETOOSMALL : 0;
}

static int ep_no_getpeer(struct fid_ep *ep, void *addr, size_t *len)
{
	(void)ep, (void)addr, (void)len;
	return -FI_ENOSYS;
}

static int ep_no_connect(struct fid_ep *ep, const void *addr, const void *param, size_t len)
{
	(void)ep, (void)addr, (void)param, (void)len;
	return -FI_ENOSYS;
}

static int ep_no_accept(struct fid_ep *ep, const void *param, size_t len)
{
	(void)ep, (void)param, (void)len;
	return -FI_ENOSYS;
}

static int ep_no_shutdown(struct fid_ep *ep, uint64_t flags)
{
	(void)ep, (void)flags;
	return -FI_ENOSYS;
}

static struct fi_ops_cm ep_cm_ops = {
	.size = sizeof(struct fi_ops_cm), .setname = ep_setname, .getname = ep_getname, .getpeer = ep_no_getpeer,
	.connect = ep_no_connect, .accept = ep_no_accept, .shutdown = ep_no_shutdown,
};

static int ep_init_match(struct glue_ep *ep)
{
	uint64_t seed = diw_random();
	int rc = diw_match_init(&ep->tagged, seed);

	return rc < 0 ? rc : diw_match_init(&ep->untagged, seed);
}

int diw_glue_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **out, void *ctx)
{
	struct glue_ep *ep = calloc(1, sizeof *ep);

	if (!ep || ep_init_match(ep) < 0) {
		if (ep)
			diw_match_fini(&ep->tagged);
		free(ep);
		return -FI_ENOMEM;
	}
	ep->domain = (struct glue_domain *)domain;
	ep->directed = info->caps & FI_DIRECTED_RECV;
	ep->notified = info->caps & FI_REMOTE_WRITE;
	ep->sends = info->caps & (FI_SEND | FI_READ | FI_WRITE);
	ep->receives = info->caps & (FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE);
	ep->tx_flags = info->tx_attr ? info->tx_attr->op_flags : 0;
	ep->rx_flags = info->rx_attr ? info->rx_attr->op_flags : 0;
	ep->min_multi_recv = ep->domain->set.eager;
	if (info->src_addr)
		diw_addr_from_sockaddr(&ep->local, info->src_addr);
	diw_list_init(&ep->waiting);
	diw_list_init(&ep->claimed);
	diw_list_init(&ep->held);
	diw_list_init(&ep->telling);
	ep->fid = (struct fid_ep){ .fid = { FI_CLASS_EP, ctx, &ep_fi_ops }, .ops = &ep_ops, .cm = &ep_cm_ops,
				   .msg = &diw_glue_ops_msg, .tagged = &diw_glue_ops_tagged,
				   .rma = &diw_glue_ops_rma, .atomic = &diw_glue_ops_atomic };
	glue_lock(ep->domain);
	diw_list_add_tail(&ep->domain->eps, &ep->link);
	ep->domain->users++;
	glue_unlock(ep->domain);
	*out = &ep->fid;
	return 0;
}
