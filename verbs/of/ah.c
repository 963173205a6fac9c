/* SPDX-License-Identifier: BSD-2-Clause */
/* Address handles. A GID is an IP address, and a LID its last two bytes, so no address has to be resolved. */
#include <netinet/in.h>
#include <stdlib.h>

#include "base/addr.h"
#include "base/ident.h"
#include "base/wire.h"
#include "verbs/of/of.h"

#define LID_PERMISSIVE 0xffffu       /* InfiniBand: all ports; here it may be a broadcast address */

static int addr_from_lid(struct diw_addr *a, uint16_t dlid, const struct of_context *ctx)
{
	if (dlid == 0 || dlid == LID_PERMISSIVE || ctx->ngids == 0)
		return diw_fail(EINVAL, "an address by LID: dlid %#x", dlid);
	*a = ctx->gids[0];
	diw_put16(a->ip + DIW_LID_AT, dlid);
	return 0;
}

bool of_is_path(const struct ibv_ah_attr *attr, const struct of_context *ctx)
{
	return attr->port_num == OF_PORT && (!attr->is_global || attr->grh.sgid_index < ctx->ngids);
}

/* The source must be of the same IP version as the destination. */
static bool is_one_version(const struct diw_addr *dst, const struct ibv_ah_attr *attr, const struct of_context *ctx)
{
	return diw_addr_is_v4(dst) == diw_addr_is_v4(&ctx->gids[attr->grh.sgid_index]);
}

int of_addr_from_ah_attr(struct diw_addr *a, const struct ibv_ah_attr *attr, const struct of_context *ctx)
{
	if (!of_is_path(attr, ctx))
		return diw_fail(EINVAL, "an address: port_num %u, sgid_index %u: port %d and %d GIDs are there",
				attr->port_num, attr->grh.sgid_index, OF_PORT, ctx->ngids);
	if (!attr->is_global)
		return addr_from_lid(a, attr->dlid, ctx);
	of_addr_from_gid(a, &attr->grh.dgid, ctx);
	if (diw_addr_ip_is_zero(a))
		return diw_fail(EINVAL, "an address: the GID is zero");
	if (!is_one_version(a, attr, ctx))
		return diw_fail(EINVAL, "an address: dgid is of IPv%d, the GID of sgid_index %u is not",
				diw_addr_is_v4(a) ? 4 : 6, attr->grh.sgid_index);
	return 0;
}

bool of_is_group(const union ibv_gid *gid)
{
	const struct in6_addr *a = (const struct in6_addr *)(const void *)gid;

	return IN6_IS_ADDR_V4MAPPED(a) ? (gid->raw[12] & 0xf0) == 0xe0 : gid->raw[0] == 0xff;
}

/* UDP does not answer congestion marks, so its packets must not be marked as ECN-capable (RFC 3168 section 6.1.1): only
 * the DSCP of the traffic class is used. */
void of_dest_header(struct diw_dest *d, const struct ibv_global_route *r)
{
	d->tclass = r->traffic_class & 0xfc;
	d->hop_limit = r->hop_limit;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct of_context *ctx = of_context(pd->context);
	struct of_ah *h = calloc(1, sizeof *h);
	int rc = h ? of_addr_from_ah_attr(&h->dst.addr, attr, ctx) : ENOMEM;

	if (rc == 0 && atomic_fetch_add(&ctx->nahs, 1) >= OF_MAX_AH) {
		atomic_fetch_sub(&ctx->nahs, 1);
		rc = diw_fail(ENOMEM, "ibv_create_ah: %d exist: no more than the device's max_ah", OF_MAX_AH);
	}
	if (rc) {
		free(h);
		return of_null(rc);
	}
	h->ah.context = pd->context;
	h->ah.pd = pd;
	if (attr->is_global) {
		of_dest_header(&h->dst, &attr->grh);
		h->group = of_is_group(&attr->grh.dgid);
	}
	of_pd_hold(pd);
	return &h->ah;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	of_pd_drop(ah->pd);
	atomic_fetch_sub(&of_context(ah->context)->nahs, 1);
	free(ah);
	return 0;
}

/* Reads both addresses of the header: IPv6 in the whole 40 bytes, or IPv4 in the last 20 (RoCE v2, Annex A17.4.5.2). */
static bool read_header(const uint8_t *h, union ibv_gid *src, union ibv_gid *dst, struct ibv_global_route *r)
{
	if (h[0] >> 4 == 6) {
		uint32_t word = diw_get32(h);

		memcpy(src->raw, h + 8, 16);
		memcpy(dst->raw, h + 24, 16);
		r->flow_label = word & 0xfffff;
		r->traffic_class = (uint8_t)(word >> 20);
		return true;
	}
	if (h[20] >> 4 != 4)
		return false;
	for (union ibv_gid *g = src; g; g = g == src ? dst : NULL) {
		memset(g, 0, sizeof *g);
		g->raw[10] = g->raw[11] = 0xff;
		memcpy(g->raw + 12, h + (g == src ? 32 : 36), 4);
	}
	r->traffic_class = h[21];
	return true;
}

static int gid_index(const struct of_context *ctx, const union ibv_gid *gid)
{
	for (int i = 0; i < ctx->ngids; i++)
		if (memcmp(ctx->gids[i].ip, gid->raw, sizeof gid->raw) == 0)
			return i;
	return -1;
}

/* The index of the GID from which to answer. A datagram to a group is answered from the first of our addresses of the
 * right kind. */
static int answer_index(const struct of_context *ctx, const union ibv_gid *src, const union ibv_gid *dst)
{
	struct diw_addr a;

	if (!of_is_group(dst))
		return gid_index(ctx, dst);
	memcpy(a.ip, src->raw, sizeof a.ip);
	for (int i = 0; i < ctx->ngids; i++)
		if (diw_addr_is_v4(&ctx->gids[i]) == diw_addr_is_v4(&a))
			return i;
	return -1;
}

int ibv_init_ah_from_wc(struct ibv_context *c, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh,
			struct ibv_ah_attr *attr)
{
	union ibv_gid dst;
	int index = -1;

	memset(attr, 0, sizeof *attr);
	attr->dlid = wc->slid;
	attr->sl = wc->sl;
	attr->src_path_bits = wc->dlid_path_bits;
	attr->port_num = port;
	if (port == OF_PORT && !(wc->wc_flags & IBV_WC_GRH))
		return 0;
	attr->is_global = 1;
	attr->grh.hop_limit = 0xff;
	if (port == OF_PORT && read_header((const uint8_t *)grh, &attr->grh.dgid, &dst, &attr->grh))
		index = answer_index(of_context(c), &attr->grh.dgid, &dst);
	if (index < 0) {
		errno = diw_fail(EINVAL, "ibv_init_ah_from_wc: port %u, or the header is of no message to this device",
				 port);
		return -1;
	}
	attr->grh.sgid_index = (uint8_t)index;
	return 0;
}

struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port)
{
	struct ibv_ah_attr attr;

	return ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr) ? NULL : ibv_create_ah(pd, &attr);
}

/* Sending through the kernel's sockets needs no Ethernet address: the kernel has its own neighbour table. */
int ibv_resolve_eth_l2_from_gid(struct ibv_context *c, struct ibv_ah_attr *attr, uint8_t mac[ETHERNET_LL_SIZE],
				uint16_t *vid)
{
	(void)c, (void)attr, (void)mac, (void)vid;
	return EOPNOTSUPP;
}

/* ---- Groups: they have GIDs. LIDs would be assigned by a subnet manager, which does not exist here ---- */

static int group_of(struct diw_addr *a, const struct ibv_qp *qp, const union ibv_gid *gid)
{
	if (!gid || !of_is_group(gid) || qp->qp_type != IBV_QPT_UD)
		return diw_fail(EINVAL, "ibv_attach_mcast, ibv_detach_mcast: %s", qp->qp_type != IBV_QPT_UD ?
				"the queue pair is not of UD" : "the GID is no group's");
	of_addr_from_gid(a, gid, of_context(qp->context));
	return 0;
}

int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	struct diw_addr group;
	int rc = group_of(&group, qp, gid);

	(void)lid;
	return of_result(rc ? rc : -diw_qp_attach(of_qp(qp)->diw, &group));
}

int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	struct diw_addr group;
	int rc = group_of(&group, qp, gid);

	(void)lid;
	return of_result(rc ? rc : -diw_qp_detach(of_qp(qp)->diw, &group));
}
