/* SPDX-License-Identifier: BSD-2-Clause */
/* The applications of connections: open, answer requests, poll, post receives, end. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mpa/int.h"
#include "tests/sim/rc.h"
#include "verbs/cm/int.h"
#include "verbs/qp.h"

#define GUARD 16u
#define SPARE 1000u                  /* bytes that a receive may hold beyond the limit */

static void ok(int err, const char *what)
{
	must(err == 0, "%s: %s", what, strerror(-err));
}

bool rc_alloc(uint32_t *used, uint32_t size, uint32_t len, struct rc_piece *p)
{
	uint32_t at = *used + GUARD + below(8);

	at = (at + 7) & ~7u;
	if (size < len + GUARD || at > size - len - GUARD)
		return false;
	*p = (struct rc_piece){ at, len };
	*used = at + len;
	return true;
}

static uint8_t *poison(uint32_t len)
{
	uint8_t *p = malloc(len);

	memset(p, RC_POISON, len);
	return p;
}

/* ---- Receives ---- */

static void open_rq(struct rc_rq *rq, struct diw_pd *pd, bool shared)
{
	uint32_t scale = 1u << below(18);

	rq->limit = below(3) ? 1 + below(scale) : below(2) ? 200000 : 0;
	rq->room = rq->limit + SPARE + 8 * GUARD;
	rq->mem = poison(RC_RECVS * rq->room);
	rq->next = 1;
	ok(diw_mr_reg(pd, rq->mem, RC_RECVS * rq->room, DIW_ACCESS_LOCAL_WRITE, &rq->mr), "diw_mr_reg");
	if (shared)
		ok(diw_srq_create(pd, RC_RECVS, 4, rq, &rq->srq), "diw_srq_create");
}

static void close_rq(struct rc_rq *rq)
{
	for (int i = 0; i < RC_RECVS; i++)
		if (rq->recvs[i].posted)
			rc_recv_untouched(rq, &rq->recvs[i]);
	if (rq->srq)
		ok(diw_srq_destroy(rq->srq), "diw_srq_destroy");
	ok(diw_mr_dereg(rq->mr), "diw_mr_dereg");
	free(rq->mem);
}

/* Makes several entries that hold at least the limit together; each receive has its own memory. */
static void lay_out(struct rc_rq *rq, struct rc_recv *r, struct diw_sge *sge)
{
	uint32_t at = (uint32_t)(r - rq->recvs) * rq->room, left = rq->limit;

	memset(rq->mem + at, RC_POISON, rq->room);
	left += chance(0.3) ? below(SPARE) : 0;
	r->len = left;
	r->npieces = 0;
	do {
		uint32_t part = r->npieces < 3 && chance(0.5) ? below(left + 1) : left;

		at += GUARD;
		r->piece[r->npieces] = (struct rc_piece){ at, part };
		sge[r->npieces++] = (struct diw_sge){ rq->mem + at, part, rq->mr->stag };
		at += part + GUARD;
		left -= part;
	} while (left);
}

void rc_post_recvs(struct rc_end *e, int n)
{
	struct rc_rq *rq = e->rq;

	for (int i = 0; i < RC_RECVS && n > 0 && (e->qp || rq->srq); i++) {
		struct rc_recv *r = &rq->recvs[i];
		struct diw_sge sge[4];
		struct diw_recv_wr wr = { .sge = sge };

		if (r->posted)
			continue;
		lay_out(rq, r, sge);
		r->posted = true;
		wr.wr_id = r->seq = ++rq->seq;
		wr.num_sge = r->npieces;
		ok(rq->srq ? diw_post_srq_recv(rq->srq, &wr, NULL) : diw_post_recv(e->qp, &wr, NULL), "diw_post_recv");
		n--;
	}
}

/* ---- Hosts ---- */

void rc_open_host(struct rc_host *h)
{
	struct diw_listen_attr attr = DIW_LISTEN_ATTR_INIT;
	struct diw_listener_info info;

	h->net = net_host_add(sim.net);
	ok(diw_pd_alloc(h->net->dev, &h->pd), "diw_pd_alloc");
	ok(diw_cm_create(h->net->dev, &h->cm), "diw_cm_create");
	attr.ctx = h;
	ok(diw_listen(h->cm, &attr, &h->listener), "diw_listen");
	ok(diw_listener_query(h->listener, &info), "diw_listener_query");
	h->addr = info.local;
	h->has_shared = chance(0.4);
	if (h->has_shared)
		open_rq(&h->shared, h->pd, true);
}

void rc_close_host(struct rc_host *h)
{
	struct diw_event ev;

	while (diw_event_get(h->net->dev, &ev, 0) == 0)
		;
	if (h->listener)
		ok(diw_listener_close(h->listener), "diw_listener_close");
	if (h->has_shared)
		close_rq(&h->shared);
	ok(diw_cm_destroy(h->cm), "diw_cm_destroy");
	ok(diw_pd_free(h->pd), "diw_pd_free");
	ok(diw_dev_close(h->net->dev), "diw_dev_close");
	h->net->dev = NULL;
}

/* ---- Ends ---- */

static void open_memory(struct rc_end *e)
{
	struct diw_mr_attr attr = { .length = RC_MEM, .use_iova = true, .iova = RC_IOVA,
		.access = DIW_ACCESS_LOCAL_WRITE | DIW_ACCESS_REMOTE_WRITE | DIW_ACCESS_REMOTE_READ |
			  DIW_ACCESS_MW_BIND };

	e->mem = poison(RC_MEM);
	e->shadow = poison(RC_MEM);
	e->source = malloc(RC_SOURCE);
	e->words = calloc(RC_WORDS, sizeof *e->words);
	for (uint32_t i = 0; i < RC_SOURCE; i++)
		e->source[i] = (uint8_t)(((i + (uint32_t)e->index) * 0x9e3779b1u) >> 24);
	attr.addr = e->mem;
	ok(diw_mr_reg_attr(e->host->pd, &attr, &e->mr), "diw_mr_reg_attr");
	attr = (struct diw_mr_attr){ .addr = e->source, .length = RC_SOURCE, .access = DIW_ACCESS_REMOTE_READ,
		.use_iova = true };
	ok(diw_mr_reg_attr(e->host->pd, &attr, &e->source_mr), "diw_mr_reg_attr");
	attr = (struct diw_mr_attr){ .addr = e->words, .length = RC_WORDS * sizeof *e->words, .use_iova = true,
		.access = DIW_ACCESS_LOCAL_WRITE | DIW_ACCESS_REMOTE_ATOMIC };
	ok(diw_mr_reg_attr(e->host->pd, &attr, &e->words_mr), "diw_mr_reg_attr");
}

static void choose_attr(struct rc_end *e)
{
	struct diw_qp_attr *a = &e->attr;

	*a = (struct diw_qp_attr)DIW_QP_ATTR_INIT;
	a->type = DIW_QP_RC;
	a->ctx = e;
	a->sq_depth = 1 + below(chance(0.3) ? 4 : 100);
	a->rq_depth = RC_RECVS;
	a->max_inline = below(DIW_MAX_INLINE + 1);
	a->sq_sig_all = false;
	a->rc.packed = chance(0.2);
	if (chance(0.5))
		a->mulpdu = 128 + below(chance(0.5) ? 2000 : 65535 - 128);
	if (!rc.attentive && chance(0.3)) {
		a->rc.rnr_timeout_ns = (int64_t)(below(50) * DIW_MS);
		e->conn->harmed = true;                 /* the time limit of its attempt may pass */
	}
	if (chance(0.15)) {
		a->rate_limit = 2000000 + below(200000000);
		a->rate_burst = 1 + below(100000);
	}
}

static void open_end(struct rc_end *e, struct rc_host *h)
{
	uint32_t depth = 1 + below(chance(0.5) ? 4 : 200);

	e->host = h;
	open_memory(e);
	choose_attr(e);
	e->rq = h->has_shared && chance(0.6) ? &h->shared : &e->own;
	if (e->rq == &e->own)
		open_rq(&e->own, h->pd, false);
	e->attr.srq = e->rq->srq;
	ok(diw_cq_create(h->net->dev, depth, NULL, e, &e->scq), "diw_cq_create");
	e->rcq = e->scq;
	if (chance(0.7))
		ok(diw_cq_create(h->net->dev, 1 + below(depth), NULL, e, &e->rcq), "diw_cq_create");
	e->attr.send_cq = e->scq;
	e->attr.recv_cq = e->rcq;
	ok(diw_qp_create(h->pd, &e->attr, &e->qp), "diw_qp_create");
	rc_post_recvs(e, (int)below(RC_RECVS));
}

static void choose_conn_attr(struct rc_conn *c, int side)
{
	struct diw_conn_attr *a = &c->attr[side];

	*a = (struct diw_conn_attr)DIW_CONN_ATTR_INIT;
	a->crc = chance(0.5);
	a->markers = chance(0.4);
	a->plain = chance(0.15);
	a->ird = (uint16_t)(chance(0.5) ? 1 + below(3) : 1 + below(DIW_MAX_IRD));
	a->ord = (uint16_t)(chance(0.5) ? 1 + below(3) : 1 + below(DIW_MAX_IRD));
	a->rtr = side || chance(0.5) ? DIW_RTR_FPDU | DIW_RTR_WRITE | DIW_RTR_READ : below(8);
	a->connect.revision = chance(0.7) ? 2 : (uint8_t)below(3);
	a->keepalive_s = rc.calm || chance(0.7) ? 2 : 0;
	for (size_t i = 0; i < sizeof c->data[side]; i++)
		c->data[side][i] = (uint8_t)(i * 7 + (uint32_t)side + 1);
	c->data[side][0] = (uint8_t)c->index;
	a->data = c->data[side];
	a->data_len = 1 + below(sizeof c->data[side]);
}

/* Before RFC 6581 nothing was negotiated, so the limits of both ends are set. */
static void agree(struct rc_conn *c)
{
	struct diw_conn_attr *a = c->attr;

	c->rfc7306 = !a[0].plain && !a[1].plain;
	if (a[0].connect.revision == 2)
		return;
	a[0].ord = a[0].ord < a[1].ird ? a[0].ord : a[1].ird;
	a[1].ord = a[1].ord < a[0].ird ? a[1].ord : a[0].ird;
}

void rc_open(struct rc_host *from, struct rc_host *to)
{
	struct rc_conn *c = &rc.conn[rc.nconns];
	struct diw_addr dst = to->addr;
	int err;

	*c = (struct rc_conn){ .index = rc.nconns++ };
	for (int i = 0; i < 2; i++) {
		c->end[i].index = 2 * c->index + i;
		c->end[i].conn = c;
		c->end[i].peer = &c->end[!i];
		open_end(&c->end[i], i ? to : from);
		choose_conn_attr(c, i);
	}
	agree(c);
	if (!rc.calm && chance(0.05))
		dst.port ^= 0x100;                      /* no listener is there */
	if (!to->listener || dst.port != to->addr.port)
		c->harmed = true;
	err = diw_connect(c->end[0].qp, from->cm, &dst, &c->attr[0]);
	must(err == 0, "diw_connect: %s", strerror(-err));
	say("conn%d: revision %u, limits %u %u and %u %u, markers %d %d, CRC %d %d, RTR %u %u, MULPDU %u %u%s%s",
	    c->index, c->attr[0].connect.revision, c->attr[0].ird, c->attr[0].ord, c->attr[1].ird, c->attr[1].ord,
	    c->attr[0].markers, c->attr[1].markers, c->attr[0].crc, c->attr[1].crc, c->attr[0].rtr, c->attr[1].rtr,
	    c->end[0].attr.mulpdu, c->end[1].attr.mulpdu, c->end[0].attr.rc.packed ? ", packed" : "",
	    c->end[1].attr.rc.packed ? ", packed" : "");
}

enum diw_qp_state rc_state(struct rc_end *e)
{
	struct diw_qp_info info;

	if (!e->qp)
		return DIW_QPS_ERROR;
	ok(diw_qp_query(e->qp, &info), "diw_qp_query");
	return info.state;
}

/* Whether the queue needs a poll. An application that polls only after events makes no other progress for the
 * device. */
static bool told(struct diw_cq *cq)
{
	return !sim.net->strict || atomic_load(&cq->head) != atomic_load(&cq->tail);
}

int rc_poll(struct rc_end *e, int n)
{
	struct diw_wc wc[64];
	int got, all = 0;

	for (int i = 0; i < 2; i++) {
		struct diw_cq *cq = i ? e->rcq : e->scq;

		if (i && e->rcq == e->scq)
			break;
		if (!told(cq))
			continue;
		got = diw_cq_poll(cq, wc, n, 0);
		must(got >= 0 && got <= n, "diw_cq_poll: %d", got);
		for (int k = 0; k < got; k++)
			if (wc[k].opcode == DIW_WC_RECV || wc[k].opcode == DIW_WC_RECV_WRITE_IMM)
				rc_received(e, &wc[k]);
			else
				rc_sent(e, &wc[k]);
		all += got;
	}
	return all;
}

void rc_destroy(struct rc_end *e)
{
	say("end%d: is destroyed", e->index);
	e->destroyed = e->rq->torn = true;
	e->conn->harmed |= !e->over;
	ok(diw_qp_destroy(e->qp), "diw_qp_destroy");
	e->qp = NULL;
	while (rc_poll(e, 64))                  /* completions left in its queues stay there */
		;
}

void rc_disconnect(struct rc_end *e)
{
	int err = diw_disconnect(e->qp);

	say("end%d: disconnects: %s", e->index, strerror(-err));
	must(err == 0 || err == -ENOTCONN, "diw_disconnect: %s", strerror(-err));
	if (err < 0)
		return;
	e->disconnects = e->peer->hurt = true;
}

/* An attempt that is aborted ends without an event. */
void rc_abort(struct rc_end *e)
{
	enum diw_qp_state state = rc_state(e);

	say("end%d: aborts", e->index);
	e->conn->harmed = true;
	ok(diw_abort(e->qp), "diw_abort");
	e->over |= state == DIW_QPS_CONNECTING || state == DIW_QPS_IDLE;
	e->left = !e->up;
}

/* ---- Events ---- */

static struct rc_conn *conn_of(const struct diw_cm_event *ev)
{
	must(ev->data_len >= 1 && ev->data[0] < rc.nconns, "a request of nobody's");
	must(ev->data_len == rc.conn[ev->data[0]].attr[0].data_len &&
	     memcmp(ev->data, rc.conn[ev->data[0]].data[0], ev->data_len) == 0, "a request's private data");
	return &rc.conn[ev->data[0]];
}

static void request(const struct diw_cm_event *ev)
{
	struct rc_conn *c = conn_of(ev);
	int err;

	c->addr[0] = ev->peer;
	c->addr[1] = ev->local;
	if (!rc.calm && chance(0.05)) {
		c->harmed = true;
		if (chance(0.5)) {
			say("conn%d: is rejected", c->index);
			ok(diw_reject(ev->req, "no", 2), "diw_reject");
			return;
		}
		for (int i = 0; i < rc.nconns; i++)
			rc.conn[i].harmed = true;       /* the others are not served meanwhile */
		net_run(sim.net, below(12000) * DIW_MS);
	}
	err = c->end[1].qp ? diw_accept(ev->req, c->end[1].qp, &c->attr[1]) : -ECONNRESET;
	say("conn%d: accepts: %s", c->index, strerror(-err));
	if (err < 0) {
		must(!rc.calm && (err == -ECONNRESET || (err == -EISCONN && c->harmed)), "diw_accept: %s",
		     strerror(-err));
		c->harmed = true;
		ok(diw_reject(ev->req, NULL, 0), "diw_reject");
		return;
	}
	c->answered = true;
}

static void established(struct rc_end *e, const struct diw_cm_event *ev)
{
	struct rc_conn *c = e->conn;

	must(!e->up && !e->over, "end%d: established again", e->index);
	must(ev->rfc7306 == c->rfc7306, "end%d: RFC 7306: %d", e->index, ev->rfc7306);
	e->up = true;
	if (e->index % 2 == 0)
		must(ev->data_len == c->attr[1].data_len && memcmp(ev->data, c->data[1], ev->data_len) == 0,
		     "end%d: the reply's private data", e->index);
}

static void ended(struct rc_end *e, const struct diw_cm_event *ev)
{
	must(!e->over, "end%d: ends twice", e->index);
	must(e->up == (ev->type == DIW_CM_DISCONNECTED), "end%d: %s", e->index, diw_cm_event_str(ev->type));
	must(e->conn->harmed || (ev->errnum == 0 && ev->type == DIW_CM_DISCONNECTED),
	     "end%d: %s, %s, fault %04x, for no reason", e->index, diw_cm_event_str(ev->type), strerror(ev->errnum),
	     ev->fault);
	e->over = true;
	e->errnum = ev->errnum;
	e->fault = ev->fault;
}

void rc_events(struct rc_host *h)
{
	struct diw_cm_event ev;
	struct diw_event async;

	while ((!sim.net->strict || !diw_list_empty(&h->cm->events)) && diw_cm_get(h->cm, &ev, 0) == 0) {
		say("%s%d: %s, %s, fault %04x", ev.ctx == h ? "host" : "end",
		    ev.ctx == h ? 0 : ((struct rc_end *)ev.ctx)->index,
		    diw_cm_event_str(ev.type), strerror(ev.errnum), ev.fault);
		if (ev.type == DIW_CM_CONNECT_REQUEST)
			request(&ev);
		else if (ev.type == DIW_CM_ESTABLISHED)
			established(ev.ctx, &ev);
		else
			ended(ev.ctx, &ev);
	}
	while ((!sim.net->strict || h->net->dev->events_n) && diw_event_get(h->net->dev, &async, 0) == 0)
		;
}

/* ---- The end ---- */

void rc_window_free(struct rc_end *e)
{
	if (e->window.mw)
		ok(diw_mw_free(e->window.mw), "diw_mw_free");
	e->window.mw = NULL;
}

static void close_end(struct rc_end *e)
{
	for (uint32_t i = 0; i < e->nmsgs; i++)
		if (e->msgs[i].mr)
			ok(diw_mr_dereg(e->msgs[i].mr), "diw_mr_dereg");
	rc_window_free(e);
	if (e->qp)
		ok(diw_qp_destroy(e->qp), "diw_qp_destroy");
	e->qp = NULL;
	ok(diw_mr_dereg(e->mr), "diw_mr_dereg");
	ok(diw_mr_dereg(e->source_mr), "diw_mr_dereg");
	ok(diw_mr_dereg(e->words_mr), "diw_mr_dereg");
	if (e->rcq != e->scq)
		ok(diw_cq_destroy(e->rcq), "diw_cq_destroy");
	ok(diw_cq_destroy(e->scq), "diw_cq_destroy");
	if (e->rq == &e->own)
		close_rq(&e->own);
	free(e->shadow);
	free(e->source);
	free(e->words);
	free(e->mem);
	e->mem = NULL;
}

void rc_close(struct rc_conn *c)
{
	rc_account(&c->end[0]);
	rc_account(&c->end[1]);
	close_end(&c->end[0]);
	close_end(&c->end[1]);
}
