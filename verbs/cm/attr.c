/* SPDX-License-Identifier: BSD-2-Clause */
/* Attributes of connections: their checks, and their use for the negotiation and TCP. */
#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "verbs/attr_take.h"
#include "verbs/cm/int.h"

/* Only RC has streams, and a stream is served by the engine of its device. */
int diw_cm_qp_check(const char *call, const struct diw_qp *qp, const struct diw_dev *dev)
{
	if (qp->ops->type != DIW_QP_RC)
		return diw_fail(-EINVAL, "%s: the queue pair is not RC", call);
	return qp->dev == dev ? 0 : diw_fail(-EINVAL, "%s: the queue pair is of another device", call);
}

/* An enum diw_crc, or -EINVAL: the variable has another value. */
static int crc_wanted(const struct diw_conn_attr *a)
{
	const char *env = a->crc == DIW_CRC_AUTO ? getenv("DIWARP_CRC") : NULL;

	if (!env || !*env || !strcmp(env, "auto"))
		return a->crc;
	return !strcmp(env, "on") ? DIW_CRC_ON : !strcmp(env, "off") ? DIW_CRC_OFF : -EINVAL;
}

int diw_cm_attr_check(const struct diw_conn_attr *a, bool enhanced)
{
	const unsigned kinds = DIW_RTR_FPDU | DIW_RTR_WRITE | DIW_RTR_READ;
	const uint32_t most = DIW_MAX_PRIVATE - (enhanced ? 4u : 0u);

	if (a->ird > DIW_MAX_IRD || a->ord > DIW_MAX_IRD)
		return diw_fail(-EINVAL, "connecting: ird %u, ord %u: more than %d", a->ird, a->ord, DIW_MAX_IRD);
	if (a->rtr & ~kinds)
		return diw_fail(-EINVAL, "connecting: rtr %#x: %#x is unknown", a->rtr, a->rtr & ~kinds);
	if (a->crc > DIW_CRC_AUTO)
		return diw_fail(-EINVAL, "connecting: crc %u: more than %d", a->crc, DIW_CRC_AUTO);
	if (crc_wanted(a) < 0)
		return diw_fail(-EINVAL, "connecting: DIWARP_CRC=%s: not on, off or auto", getenv("DIWARP_CRC"));
	if (a->timeout_ns <= 0)
		return diw_fail(-EINVAL, "connecting: timeout_ns %lld: not positive", (long long)a->timeout_ns);
	if (a->dscp > 63)
		return diw_fail(-EINVAL, "connecting: dscp %u: more than 63", a->dscp);
	if (a->connect.revision > 2)
		return diw_fail(-EINVAL, "connecting: connect.revision %u: more than 2", a->connect.revision);
	if (a->data_len && !a->data)
		return diw_fail(-EINVAL, "connecting: %u bytes of private data at NULL", a->data_len);
	if (a->data_len > most)
		return diw_fail(-EMSGSIZE, "connecting: %u bytes of private data: more than %u", a->data_len, most);
	return diw_attr_check_reserved("connecting", "connect", a->connect.reserved);
}

void diw_cm_ask(struct diw_cm_ask *ask, const struct diw_conn_attr *a)
{
	int crc = crc_wanted(a);                /* checked */

	*ask = (struct diw_cm_ask){
		.crc = crc != DIW_CRC_OFF, .auto_crc = crc == DIW_CRC_AUTO, .markers = a->markers,
		.plain = a->plain, .rtr = (uint8_t)a->rtr, .revision = a->connect.revision, .ird = a->ird,
		.ord = a->ord,
	};
}

/* Keepalive is sent after k seconds of silence, and twice more after k seconds each. The connection is given up after 3
 * k, also while data is in flight. */
void diw_cm_stream_attr(struct diw_stream_attr *sa, const struct diw_conn_attr *a)
{
	unsigned k = a->keepalive_s < 1u << 15 ? a->keepalive_s : (1u << 15) - 1;       /* the kernel's maximum */

	sa->keepalive = k != 0;
	sa->keepalive_idle = sa->keepalive_interval = k;
	sa->keepalive_count = 2;
	sa->user_timeout_ms = 3000 * k;
	sa->tos = (unsigned)a->dscp << 2;
	memcpy(sa->congestion, a->congestion, sizeof sa->congestion);
	sa->congestion[sizeof sa->congestion - 1] = '\0';
}
