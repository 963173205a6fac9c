/* SPDX-License-Identifier: BSD-2-Clause */
/* diw_connect(): checks its arguments and begins an attempt to connect. */
#include "verbs/cm/int.h"

#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "verbs/attr_take.h"

static int attempt_begin(struct diw_qp *qp, struct diw_cm *cm, const struct diw_addr *dst,
			 const struct diw_conn_attr *a)
{
	struct diw_dev *dev = qp->dev;
	struct diw_stream_attr sa = { .local = a->connect.local, .peer = *dst, .self = a->connect.self };
	struct diw_stream *s;
	struct diw_cm_conn *c;
	int rc;

	diw_cm_stream_attr(&sa, a);
	rc = diw_cm_stream_connect(dev, &sa, &s);
	if (rc < 0)
		return rc;
	c = diw_cm_conn_new(dev->cm, s, DIW_CM_CONNECTING);
	if (!c) {
		s->ops->close(s, true);
		return -ENOMEM;
	}
	c->nego = calloc(1, sizeof *c->nego);
	rc = c->nego ? diw_cm_watch(dev->cm, &c->item, s->ops->fd(s), EPOLLOUT) : -ENOMEM;
	if (rc < 0) {
		diw_cm_conn_free(c);
		return rc;
	}
	diw_cm_ask(&c->nego->ask, a);
	c->nego->len = (uint32_t)diw_cm_request(c->nego->frame, &c->nego->ask, &c->nego->announced, a->data,
						a->data_len);
	diw_cm_conn_bind(c, cm);
	diw_cm_conn_own(c, qp, DIW_CM_CONNECTING);
	diw_cm_conn_begin(c, &sa, a);
	return 0;
}

int diw_connect(struct diw_qp *qp, struct diw_cm *cm, const struct diw_addr *dst, const struct diw_conn_attr *attr)
{
	char name[DIW_ADDR_STRLEN];
	struct diw_conn_attr a = DIW_CONN_ATTR_INIT;
	int rc = diw_attr_take("diw_connect", &a, sizeof a, attr);

	if (rc == 0)
		rc = diw_cm_attr_check(&a, a.connect.revision == 2);
	if (rc == 0)
		rc = diw_cm_qp_check("diw_connect", qp, cm->dev);
	if (rc == 0)
		rc = diw_engine_lock(&qp->dev->engine);
	if (rc < 0)
		return rc;
	rc = qp->state == DIW_QPS_IDLE ? attempt_begin(qp, cm, dst, &a) : -EISCONN;
	diw_engine_unlock(&qp->dev->engine);
	return rc < 0 ? diw_fail(rc, "diw_connect: %s, from state %s", diw_addr_str(dst, name),
				 diw_qp_state_str(qp->state)) : 0;
}
