/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * diw perf --provider verbs: a rig over libibverbs, which is the system's, or with `diw run` this project's. It is
 * loaded when it is needed, so diw runs without it. Requests and completions are translated from and to those of diw.h,
 * so that the tests are the same code.
 *
 * A completion of libibverbs tells neither the MSN nor whether a message is solicited. So a UD message carries its
 * number as immediate data, and so does a credit, with the highest bit set. RC counts, and knows credits by length.
 */
#include <errno.h>

#include "tools/perf/perf_ibv.h"

#ifdef HAVE_IBV
#include <arpa/inet.h>
#include <dlfcn.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define IS_CREDIT 0x80000000u
#define INLINE_LEN 64
#define PSN 1
#define PORT 1

/* The functions of the library; those that verbs.h has inline need none. */
static struct {
	struct ibv_device **(*get_device_list)(int *n);
	void (*free_device_list)(struct ibv_device **list);
	const char *(*get_device_name)(struct ibv_device *dev);
	struct ibv_context *(*open_device)(struct ibv_device *dev);
	int (*close_device)(struct ibv_context *c);
	int (*query_port)(struct ibv_context *c, uint8_t port, struct ibv_port_attr *attr);
	int (*query_gid)(struct ibv_context *c, uint8_t port, int index, union ibv_gid *gid);
	struct ibv_pd *(*alloc_pd)(struct ibv_context *c);
	int (*dealloc_pd)(struct ibv_pd *pd);
	struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t len, int access);
	int (*dereg_mr)(struct ibv_mr *mr);
	struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *c);
	int (*destroy_comp_channel)(struct ibv_comp_channel *ch);
	struct ibv_cq *(*create_cq)(struct ibv_context *c, int n, void *ctx, struct ibv_comp_channel *ch, int vec);
	int (*destroy_cq)(struct ibv_cq *cq);
	int (*get_cq_event)(struct ibv_comp_channel *ch, struct ibv_cq **cq, void **ctx);
	void (*ack_cq_events)(struct ibv_cq *cq, unsigned n);
	struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
	int (*destroy_qp)(struct ibv_qp *qp);
	struct ibv_ah *(*create_ah)(struct ibv_pd *pd, struct ibv_ah_attr *attr);
	int (*destroy_ah)(struct ibv_ah *ah);
} lib;

static const struct { const char *name; void *at; } lib_names[] = {
#define F(name) { "ibv_" #name, &lib.name }
	F(get_device_list), F(free_device_list), F(get_device_name), F(open_device), F(close_device), F(query_port),
	F(query_gid), F(alloc_pd), F(dealloc_pd), F(reg_mr), F(dereg_mr), F(create_comp_channel),
	F(destroy_comp_channel), F(create_cq), F(destroy_cq), F(get_cq_event), F(ack_cq_events), F(create_qp),
	F(modify_qp), F(destroy_qp), F(create_ah), F(destroy_ah),
#undef F
};

static int lib_load(void)
{
	static void *handle;

	if (handle)
		return 0;
	handle = dlopen("libibverbs.so.1", RTLD_NOW);
	if (!handle)
		return tool_failed("--provider verbs: %s", dlerror());
	for (size_t i = 0; i < TOOL_COUNT(lib_names); i++) {
		*(void **)lib_names[i].at = dlsym(handle, lib_names[i].name);
		if (!*(void **)lib_names[i].at)
			return tool_failed("--provider verbs: %s is not in libibverbs.so.1", lib_names[i].name);
	}
	return 0;
}

static int verbs_failed(const char *what)
{
	return tool_failed("--provider verbs: %s: %s", what, strerror(errno));
}

/* ---- Opening ---- */

/* Finds the last GID that is the address: that of RoCE v2 follows that of v1. */
static bool device_has(struct ibv_rig *v, const struct diw_addr *local)
{
	union ibv_gid gid;

	v->gid_index = -1;
	memset(&v->port, 0, sizeof v->port);
	if (lib.query_port(v->ctx, PORT, &v->port))
		return false;
	for (int i = 0; i < v->port.gid_tbl_len && lib.query_gid(v->ctx, PORT, i, &gid) == 0; i++) {
		if (memcmp(gid.raw, local->ip, sizeof gid.raw) != 0)
			continue;
		v->gid_index = i;
		v->gid = gid;
	}
	return v->gid_index >= 0;
}

/* The device of that name, or the one that has the address. InfiniBand's own GIDs are no IP addresses: there a named
 * device is addressed by its LID. */
static bool device_open(struct ibv_rig *v, const struct perf_side *side)
{
	struct ibv_device **list;
	bool found = false;
	int n = 0;

	list = lib.get_device_list(&n);
	for (int i = 0; list && i < n && !found; i++) {
		if (side->dev && strcmp(lib.get_device_name(list[i]), side->dev) != 0)
			continue;
		v->ctx = lib.open_device(list[i]);
		if (!v->ctx)
			continue;
		found = device_has(v, &side->local) ||
			(side->dev && v->port.link_layer == IBV_LINK_LAYER_INFINIBAND && v->port.lid);
		if (!found) {
			lib.close_device(v->ctx);
			v->ctx = NULL;
		}
	}
	if (list)
		lib.free_device_list(list);
	return found;
}

bool ibv_rig_has_device(const char *address)
{
	struct perf_side side = { .client = true };
	struct ibv_device **list;
	struct ibv_rig v = { 0 };
	int n = 0;

	if (lib_load() || (address && opt_host(address, 0, &side.local)))
		return false;
	if (address)
		return device_open(&v, &side) && lib.close_device(v.ctx) == 0;
	list = lib.get_device_list(&n);
	if (list)
		lib.free_device_list(list);
	return n > 0;
}

/* RC has librdmacm for devices that have no GID of the address. */
static int device_find(struct rig *r)
{
	char buf[DIW_ADDR_STRLEN];
	int rc = device_open(r->ibv, &r->side) ? 0 : r->pc.qp == PERF_RC ? ibv_link_open(r) : -1;

	return rc >= 0 ? rc : tool_failed("--provider verbs: no device%s%s with the address %s",
							  r->side.dev ? " " : "", r->side.dev ? r->side.dev : "",
							  diw_addr_ip_str(&r->side.local, buf));
}

static int make_queues(struct rig *r, uint32_t max_sge)
{
	bool ud = r->pc.qp == PERF_UD;
	struct ibv_rig *v = r->ibv;
	struct ibv_qp_init_attr init = { .qp_type = ud ? IBV_QPT_UD : IBV_QPT_RC,
		.cap = { .max_send_wr = RIG_SQ_DEPTH(r), .max_recv_wr = rig_recv_depth(r), .max_send_sge = max_sge,
			 .max_recv_sge = ud ? 2 : 1, .max_inline_data = INLINE_LEN } };

	v->pd = lib.alloc_pd(v->ctx);
	if (!v->pd)
		return verbs_failed("ibv_alloc_pd");
	if (r->pc.mode == PERF_EVENTS && !(v->channel = lib.create_comp_channel(v->ctx)))
		return verbs_failed("ibv_create_comp_channel");
	v->cq = lib.create_cq(v->ctx, (int)(init.cap.max_send_wr + init.cap.max_recv_wr), NULL, v->channel, 0);
	if (!v->cq)
		return verbs_failed("ibv_create_cq");
	init.send_cq = init.recv_cq = v->cq;
	v->init = init;
	v->grh_mr = lib.reg_mr(v->pd, v->grh, IBV_GRH_LEN, IBV_ACCESS_LOCAL_WRITE);
	if (!v->grh_mr)
		return verbs_failed("ibv_reg_mr");
	if (v->link)
		return 0;
	v->qp = lib.create_qp(v->pd, &v->init);
	if (!v->qp)
		return verbs_failed("ibv_create_qp");
	v->max_inline = v->init.cap.max_inline_data;
	return 0;
}

/* Receives may be posted from this state on. */
static int qp_init(struct rig *r)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = PORT, .qkey = TOOL_QKEY,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		(r->pc.qp == PERF_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);

	errno = lib.modify_qp(r->ibv->qp, &attr, mask);
	return errno ? verbs_failed("state INIT") : 0;
}

int ibv_rig_open(struct rig *r, uint32_t max_sge)
{
	int rc = lib_load();

	if (rc)
		return rc;
	r->ibv = calloc(1, sizeof *r->ibv);
	if (!r->ibv)
		return tool_failed("out of memory");
	if (r->pc.qp == PERF_RC && r->pc.op == PERF_SEND && perf_both_ways(r->pc.test) && r->pc.size == RIG_CREDIT_LEN)
		return tool_failed("--provider verbs: both ways, RC has no Sends of %u bytes, which credits have",
				   RIG_CREDIT_LEN);
	rc = device_find(r);
	if (!rc && r->pc.qp == PERF_UD && r->pc.size > 128u << r->ibv->port.active_mtu)
		rc = tool_failed("--provider verbs: a UD message has at most the port's MTU of %u bytes, not %llu",
				 128u << r->ibv->port.active_mtu, (unsigned long long)r->pc.size);
	if (!rc)
		rc = make_queues(r, max_sge);
	return rc || r->ibv->link ? rc : qp_init(r);
}

void ibv_rig_close(struct rig *r)
{
	struct ibv_rig *v = r->ibv;

	if (!v)
		return;
	if (v->ah)
		lib.destroy_ah(v->ah);
	if (v->grh_mr)
		lib.dereg_mr(v->grh_mr);
	if (v->cq)
		lib.destroy_cq(v->cq);
	if (v->channel)
		lib.destroy_comp_channel(v->channel);
	if (v->pd)
		lib.dealloc_pd(v->pd);
	if (v->link)
		ibv_link_close(v);
	if (v->ctx)
		lib.close_device(v->ctx);
	free(v);
	r->ibv = NULL;
}

void ibv_rig_end(struct rig *r)
{
	if (r->ibv && r->ibv->link)
		ibv_link_end(r);
	else if (r->ibv && r->ibv->qp)
		lib.destroy_qp(r->ibv->qp);
}

int ibv_rig_mem_alloc(struct rig *r, struct rig_mem *m, unsigned access)
{
	int flags = (access & DIW_ACCESS_LOCAL_WRITE ? IBV_ACCESS_LOCAL_WRITE : 0) |
		(access & DIW_ACCESS_REMOTE_WRITE ? IBV_ACCESS_REMOTE_WRITE : 0) |
		(access & DIW_ACCESS_REMOTE_READ ? IBV_ACCESS_REMOTE_READ : 0);

	m->mr = lib.reg_mr(r->ibv->pd, m->addr, m->len, flags);
	if (!m->mr)
		return verbs_failed("ibv_reg_mr");
	m->key = m->mr->lkey;
	m->remote_key = m->mr->rkey;
	m->to = (uintptr_t)m->addr;
	return 0;
}

void ibv_rig_mem_free(struct rig_mem *m)
{
	if (m->mr)
		lib.dereg_mr(m->mr);
	m->mr = NULL;
}

/* ---- Connecting ---- */

void ibv_rig_describe(const struct rig *r, cJSON *o)
{
	const struct ibv_rig *v = r->ibv;
	char gid[33];

	if (v->link)
		return;
	for (int i = 0; i < 16; i++)
		snprintf(gid + 2 * i, 3, "%02x", v->gid.raw[i]);
	cJSON_AddNumberToObject(o, "qpn", v->qp->qp_num);
	cJSON_AddNumberToObject(o, "lid", v->port.lid);
	cJSON_AddNumberToObject(o, "mtu", v->port.active_mtu);
	cJSON_AddStringToObject(o, "gid", v->gid_index < 0 ? "" : gid);
}

static void read_address(const struct ibv_rig *v, const cJSON *peer, struct ibv_ah_attr *ah)
{
	const char *gid = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(peer, "gid"));
	unsigned byte;

	*ah = (struct ibv_ah_attr){ .dlid = (uint16_t)ctl_number(peer, "lid"), .port_num = PORT,
		.is_global = gid && strlen(gid) == 32,
		.grh = { .sgid_index = (uint8_t)(v->gid_index < 0 ? 0 : v->gid_index), .hop_limit = 64 } };
	for (int i = 0; ah->is_global && i < 16; i++)
		if (sscanf(gid + 2 * i, "%2x", &byte) == 1)
			ah->grh.dgid.raw[i] = (uint8_t)byte;
}

int ibv_rig_connect(struct rig *r, const cJSON *peer)
{
	struct ibv_rig *v = r->ibv;
	enum ibv_mtu mtu = (enum ibv_mtu)ctl_number(peer, "mtu");
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR, .dest_qp_num = (uint32_t)ctl_number(peer, "qpn"),
		.path_mtu = mtu < v->port.active_mtu && mtu >= IBV_MTU_256 ? mtu : v->port.active_mtu, .rq_psn = PSN,
		.max_dest_rd_atomic = RIG_READS, .min_rnr_timer = 12 };
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS, .sq_psn = PSN, .timeout = 14, .retry_cnt = 7,
		.rnr_retry = 7, .max_rd_atomic = RIG_READS };
	int more_rtr = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
		IBV_QP_MIN_RNR_TIMER;
	int more_rts = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	bool ud = r->pc.qp == PERF_UD;

	if (v->link)
		return r->side.client ? ibv_link_connect(r) : 0;
	read_address(v, peer, &rtr.ah_attr);
	v->peer_qpn = rtr.dest_qp_num;
	if (ud && !(v->ah = lib.create_ah(v->pd, &rtr.ah_attr)))
		return verbs_failed("ibv_create_ah");
	errno = lib.modify_qp(v->qp, &rtr, IBV_QP_STATE | (ud ? 0 : more_rtr));
	if (!errno)
		errno = lib.modify_qp(v->qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN | (ud ? 0 : more_rts));
	return errno ? verbs_failed("state RTR or RTS") : 0;
}

int ibv_rig_establish(struct rig *r)
{
	return r->ibv->link ? ibv_link_establish(r) : 0;
}

/* ---- Posting ---- */

static enum ibv_wr_opcode opcode_of(const struct rig *r, const struct diw_send_wr *wr)
{
	if (wr->opcode == DIW_WR_SEND)
		return r->pc.qp == PERF_UD ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
	if (wr->opcode == DIW_WR_READ)
		return IBV_WR_RDMA_READ;
	return wr->flags & DIW_SEND_IMM ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
}

/* Translates a request; SGE has room for its entries. A credit has a completion, which gives its place back. */
static void translate(struct rig *r, const struct diw_send_wr *wr, struct ibv_send_wr *to, struct ibv_sge *sge)
{
	struct ibv_rig *v = r->ibv;
	bool credit = wr->flags & DIW_SEND_SOLICITED, small = false;
	uint32_t len = 0;

	for (int i = 0; i < wr->num_sge; i++) {
		sge[i] = (struct ibv_sge){ (uintptr_t)wr->sge[i].addr, wr->sge[i].length, wr->sge[i].stag };
		len += wr->sge[i].length;
	}
	small = wr->flags & DIW_SEND_INLINE && len <= v->max_inline;
	*to = (struct ibv_send_wr){ .wr_id = wr->wr_id, .sg_list = sge, .num_sge = wr->num_sge,
		.opcode = opcode_of(r, wr),
		.imm_data = htonl((v->seq++ & ~IS_CREDIT) | (credit ? IS_CREDIT : 0)),
		.send_flags = (credit || wr->flags & DIW_SEND_SIGNALED ? IBV_SEND_SIGNALED : 0) |
			(small ? IBV_SEND_INLINE : 0) };
	if (r->pc.qp == PERF_UD) {
		to->wr.ud.ah = v->ah;
		to->wr.ud.remote_qpn = v->peer_qpn;
		to->wr.ud.remote_qkey = TOOL_QKEY;
	} else {
		to->wr.rdma.remote_addr = wr->to;
		to->wr.rdma.rkey = wr->stag;
	}
}

int ibv_rig_post(struct rig *r, uint32_t n)
{
	struct ibv_send_wr wr[RIG_RING], *bad = NULL;
	struct ibv_rig *v = r->ibv;
	uint32_t posted = n;
	int rc;

	for (uint32_t i = 0; i < n; i++) {
		translate(r, &r->wr[r->at + i], &wr[i], &v->sge[i * DIW_MAX_SGE]);
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
	}
	rc = ibv_post_send(v->qp, wr, &bad);
	if (rc && bad) {
		posted = (uint32_t)(bad - wr);
		v->seq -= n - posted;
	}
	return rc && rc != ENOMEM ? -rc : (int)posted;
}

int ibv_rig_send(struct rig *r, const struct diw_send_wr *wr)
{
	struct ibv_send_wr one, *bad;
	struct ibv_sge sge[DIW_MAX_SGE];
	int rc;

	translate(r, wr, &one, sge);
	rc = ibv_post_send(r->ibv->qp, &one, &bad);
	r->ibv->seq -= rc != 0;
	return -rc;
}

static int post_recvs(struct ibv_rig *v, struct ibv_recv_wr *wr, int n)
{
	struct ibv_recv_wr *bad;

	for (int i = 0; i < n; i++)
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
	return n ? -ibv_post_recv(v->qp, wr, &bad) : 0;
}

/* The header of a UD message goes to memory of its own, so that the message has its place as without it. */
int ibv_rig_recv(struct rig *r, const struct diw_recv_wr *list)
{
	struct ibv_recv_wr wr[PERF_BATCH];
	struct ibv_sge sge[PERF_BATCH][2];
	struct ibv_rig *v = r->ibv;
	bool ud = r->pc.qp == PERF_UD;
	int n = 0, rc = 0;

	if (!v->qp)
		return 0;                    /* the link posts all receives as it connects */
	for (; list && !rc; list = list->next) {
		sge[n][0] = (struct ibv_sge){ (uintptr_t)v->grh, IBV_GRH_LEN, v->grh_mr->lkey };
		sge[n][1] = (struct ibv_sge){ (uintptr_t)list->sge->addr, list->sge->length, list->sge->stag };
		wr[n] = (struct ibv_recv_wr){ .wr_id = list->wr_id, .sg_list = &sge[n][ud ? 0 : 1],
			.num_sge = ud ? 2 : 1 };
		if (++n == PERF_BATCH || !list->next) {
			rc = post_recvs(v, wr, n);
			n = 0;
		}
	}
	return rc;
}

/* ---- Completions ---- */

static uint8_t wc_opcode_of(enum ibv_wc_opcode opcode)
{
	switch (opcode) {
	case IBV_WC_RECV: return DIW_WC_RECV;
	case IBV_WC_RECV_RDMA_WITH_IMM: return DIW_WC_RECV_WRITE_IMM;
	case IBV_WC_RDMA_WRITE: return DIW_WC_WRITE;
	case IBV_WC_RDMA_READ: return DIW_WC_READ;
	default: return DIW_WC_SEND;
	}
}

/* RC: iWARP has no immediate data, so the length tells credits from the messages that come here. */
static bool wc_is_credit(const struct rig *r, uint32_t number, uint32_t len)
{
	bool messages = r->pc.op == PERF_SEND && (!r->side.client || perf_both_ways(r->pc.test));

	if (r->pc.qp == PERF_UD)
		return number & IS_CREDIT;
	return r->pc.test != PERF_LAT && (!messages || (len == RIG_CREDIT_LEN && r->pc.size != RIG_CREDIT_LEN));
}

static void wc_read(const struct rig *r, const struct ibv_wc *from, struct diw_wc *wc)
{
	bool imm = from->wc_flags & IBV_WC_WITH_IMM;
	uint32_t number = imm ? ntohl(from->imm_data) : 0;

	*wc = (struct diw_wc){ .wr_id = from->wr_id, .qp_num = from->qp_num, .byte_len = from->byte_len,
		.opcode = wc_opcode_of(from->opcode), .msn = number & ~IS_CREDIT,
		.status = from->status == IBV_WC_SUCCESS ? DIW_WC_SUCCESS :
			  from->status == IBV_WC_WR_FLUSH_ERR ? DIW_WC_FLUSHED : DIW_WC_LOC_QP_OP_ERR };
	if (wc->opcode == DIW_WC_RECV && wc_is_credit(r, number, from->byte_len)) {
		wc->flags = DIW_WC_SOLICITED;
		wc->msn = r->pc.qp == PERF_UD ? wc->msn : ++r->ibv->credits;
	}
	if (wc->opcode == DIW_WC_RECV && r->pc.qp == PERF_UD)
		wc->byte_len -= IBV_GRH_LEN;
	if (wc->opcode == DIW_WC_READ || wc->opcode == DIW_WC_RECV_WRITE_IMM)
		wc->byte_len = (uint32_t)r->pc.size;         /* providers differ in whether they tell it */
	wc->msg_len = wc->byte_len;
}

static int poll_once(struct rig *r, struct diw_wc *wc, int n)
{
	struct ibv_wc got[PERF_BATCH];
	int have = ibv_poll_cq(r->ibv->cq, n < (int)PERF_BATCH ? n : (int)PERF_BATCH, got);

	for (int i = 0; i < have; i++)
		wc_read(r, &got[i], &wc[i]);
	return have < 0 ? -EIO : have;
}

static int sleep_once(struct ibv_rig *v, int64_t timeout_ns)
{
	struct pollfd p = { .fd = v->channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *ctx;

	if (poll(&p, 1, (int)(timeout_ns / (int64_t)DIW_MS) + 1) <= 0)
		return 0;
	if (lib.get_cq_event(v->channel, &cq, &ctx))
		return -errno;
	lib.ack_cq_events(cq, 1);
	return 0;
}

int ibv_rig_take(struct rig *r, struct diw_wc *wc, int n, int64_t timeout_ns)
{
	uint64_t end = timeout_ns > 0 ? diw_clock_ns() + (uint64_t)timeout_ns : 0;
	int have, rc;

	if (r->pc.mode != PERF_EVENTS) {
		while (!(have = poll_once(r, wc, n)) && end && diw_clock_ns() < end)
			;
		return have;
	}
	have = poll_once(r, wc, n);
	if (have || !end)
		return have;
	rc = -ibv_req_notify_cq(r->ibv->cq, 0);
	have = rc ? rc : poll_once(r, wc, n);        /* what came before the queue was armed raises no event */
	if (have)
		return have;
	rc = sleep_once(r->ibv, timeout_ns);
	return rc ? rc : poll_once(r, wc, n);
}

#else

bool ibv_rig_has_device(const char *address) { (void)address; return false; }
static int no_verbs(void)
{
	return tool_failed("--provider verbs: diw was built without the headers of libibverbs");
}

int ibv_rig_open(struct rig *r, uint32_t max_sge) { (void)r; (void)max_sge; return no_verbs(); }
void ibv_rig_describe(const struct rig *r, cJSON *o) { (void)r; (void)o; }
int ibv_rig_connect(struct rig *r, const cJSON *peer) { (void)r; (void)peer; return no_verbs(); }
int ibv_rig_establish(struct rig *r) { (void)r; return no_verbs(); }
int ibv_rig_mem_alloc(struct rig *r, struct rig_mem *m, unsigned access)
{
	(void)r; (void)m; (void)access;
	return no_verbs();
}
void ibv_rig_mem_free(struct rig_mem *m) { (void)m; }
int ibv_rig_take(struct rig *r, struct diw_wc *wc, int n, int64_t timeout_ns)
{
	(void)r; (void)wc; (void)n; (void)timeout_ns;
	return -EOPNOTSUPP;
}
int ibv_rig_post(struct rig *r, uint32_t n) { (void)r; (void)n; return -EOPNOTSUPP; }
int ibv_rig_send(struct rig *r, const struct diw_send_wr *wr) { (void)r; (void)wr; return -EOPNOTSUPP; }
int ibv_rig_recv(struct rig *r, const struct diw_recv_wr *list) { (void)r; (void)list; return -EOPNOTSUPP; }
void ibv_rig_end(struct rig *r) { (void)r; }
void ibv_rig_close(struct rig *r) { (void)r; }

#endif
