/* SPDX-License-Identifier: BSD-2-Clause */
/* Two connected RC queue pairs on lo. */
#include "tests/unit/rc_kit.h"

#include <check.h>
#include <string.h>

#define ALL (DIW_ACCESS_LOCAL_WRITE | DIW_ACCESS_REMOTE_WRITE | DIW_ACCESS_REMOTE_READ | DIW_ACCESS_REMOTE_ATOMIC | \
	     DIW_ACCESS_MW_BIND)

void rc_attr(struct diw_qp_attr *attr)
{
	end_attr(attr);
	attr->type = DIW_QP_RC;
}

struct diw_cm_event cm_event(struct pair *p, enum diw_cm_event_type type)
{
	struct diw_cm_event ev;

	ck_assert_int_eq(diw_cm_get(p->cm, &ev, KIT_LIMIT), 0);
	if (ev.type != type)
		ck_abort_msg("%s (errno %d, fault %x), not %s", diw_cm_event_str(ev.type), ev.errnum, ev.fault,
			     diw_cm_event_str(type));
	return ev;
}

void pair_connect(struct pair *p, struct end *a, struct end *b, const struct diw_qp_attr *attr,
		  const struct diw_conn_attr *conn)
{
	struct diw_listener_info info;
	struct diw_qp_attr rc;
	struct diw_cm_event ev;

	rc_attr(&rc);
	end_open(a, &p->k, attr ? attr : &rc, 256);
	end_open(b, &p->k, attr ? attr : &rc, 256);
	ck_assert_int_eq(diw_listener_query(p->listener, &info), 0);
	ck_assert_int_eq(diw_connect(a->qp, p->cm, &info.local, conn), 0);
	ev = cm_event(p, DIW_CM_CONNECT_REQUEST);
	ck_assert_int_eq(diw_accept(ev.req, b->qp, conn), 0);
	cm_event(p, DIW_CM_ESTABLISHED);
	cm_event(p, DIW_CM_ESTABLISHED);
}

void pair_open(struct pair *p, const struct diw_qp_attr *attr, const struct diw_conn_attr *conn)
{
	struct diw_listen_attr listen = DIW_LISTEN_ATTR_INIT;

	memset(p, 0, sizeof *p);
	kit_open(&p->k, DIW_PROGRESS_THREAD);
	ck_assert_int_eq(diw_mr_reg(p->k.pd, p->k.mem, KIT_SIZE, ALL, &p->all), 0);
	ck_assert_int_eq(diw_cm_create(p->k.dev, &p->cm), 0);
	ck_assert_int_eq(diw_addr_parse("127.0.0.1", 0, &listen.local), 0);
	ck_assert_int_eq(diw_listen(p->cm, &listen, &p->listener), 0);
	pair_connect(p, &p->a, &p->b, attr, conn);
}

void pair_close(struct pair *p)
{
	end_close(&p->a);
	end_close(&p->b);
	ck_assert_int_eq(diw_listener_close(p->listener), 0);
	ck_assert_int_eq(diw_cm_destroy(p->cm), 0);
	ck_assert_int_eq(diw_mr_dereg(p->all), 0);
	kit_close(&p->k);
}

int rc_post(struct pair *p, struct end *e, struct diw_send_wr *wr, uint32_t off, uint32_t len)
{
	struct diw_sge sge = { p->k.mem + off, len, p->all->stag };

	wr->sge = &sge;
	wr->num_sge = 1;
	wr->flags |= DIW_SEND_SIGNALED;
	if (!wr->stag) {
		wr->stag = p->all->stag;
		wr->to += p->all->to;
	}
	return diw_post_send(e->qp, wr, NULL);
}

int rc_recv(struct pair *p, struct end *e, uint32_t off, uint32_t len, uint64_t wr_id)
{
	struct diw_sge sge = { p->k.mem + off, len, p->all->stag };
	struct diw_recv_wr wr = { .wr_id = wr_id, .sge = &sge, .num_sge = 1 };

	return diw_post_recv(e->qp, &wr, NULL);
}

struct diw_wc rc_wc(struct diw_cq *cq)
{
	struct diw_wc wc;

	ck_assert_int_eq(diw_cq_wait(cq, &wc, 1, KIT_LIMIT), 1);
	return wc;
}

enum diw_qp_state rc_state(struct end *e)
{
	struct diw_qp_info info;

	ck_assert_int_eq(diw_qp_query(e->qp, &info), 0);
	return info.state;
}
