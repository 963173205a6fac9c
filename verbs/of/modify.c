/* SPDX-License-Identifier: BSD-2-Clause */
/* Required and optional attributes of state changes: InfiniBand Architecture Specification, volume 1, table "QP state
 * transition properties", as listed by ibv_modify_qp(3). */
#include <errno.h>

#include "verbs/of/of.h"

#define MODIFY_COMMON (IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MIG_STATE)
#define STATES 7

enum { UD, UC, RC, TYPES };
struct transition {
	bool valid;
	int need[TYPES], may[TYPES];
};

#define INIT_CONNECTED (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define INIT_UD (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY)
#define RTR_UC (IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define RTR_RC (RTR_UC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTR_MAY (IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX)
#define RTS_RC (IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC)
#define RTS_MAY { IBV_QP_CUR_STATE | IBV_QP_QKEY, IBV_QP_CUR_STATE | MODIFY_COMMON, \
		  IBV_QP_CUR_STATE | MODIFY_COMMON | IBV_QP_MIN_RNR_TIMER }
#define SQD_UC (IBV_QP_AV | MODIFY_COMMON | IBV_QP_PKEY_INDEX)
#define SQD_RC (IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | MODIFY_COMMON | \
		IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_PKEY_INDEX | IBV_QP_MIN_RNR_TIMER)
#define NOTIFY IBV_QP_EN_SQD_ASYNC_NOTIFY
#define ANY { .valid = true }

static const struct transition table[STATES][STATES] = {
	[IBV_QPS_RESET] = {
		[IBV_QPS_RESET] = ANY,
		[IBV_QPS_INIT] = { true, { INIT_UD, INIT_CONNECTED, INIT_CONNECTED }, { 0 } },
	},
	[IBV_QPS_INIT] = {
		[IBV_QPS_RESET] = ANY, [IBV_QPS_ERR] = ANY,
		[IBV_QPS_INIT] = { true, { 0 }, { INIT_UD, INIT_CONNECTED, INIT_CONNECTED } },
		[IBV_QPS_RTR] = { true, { 0, RTR_UC, RTR_RC }, { IBV_QP_PKEY_INDEX | IBV_QP_QKEY, RTR_MAY, RTR_MAY } },
	},
	[IBV_QPS_RTR] = {
		[IBV_QPS_RESET] = ANY, [IBV_QPS_ERR] = ANY,
		[IBV_QPS_RTS] = { true, { IBV_QP_SQ_PSN, IBV_QP_SQ_PSN, RTS_RC }, RTS_MAY },
	},
	[IBV_QPS_RTS] = {
		[IBV_QPS_RESET] = ANY, [IBV_QPS_ERR] = ANY,
		[IBV_QPS_RTS] = { true, { 0 }, RTS_MAY },
		[IBV_QPS_SQD] = { true, { 0 }, { NOTIFY, NOTIFY, NOTIFY } },
	},
	[IBV_QPS_SQD] = {
		[IBV_QPS_RESET] = ANY, [IBV_QPS_ERR] = ANY,
		[IBV_QPS_RTS] = { true, { 0 }, RTS_MAY },
		[IBV_QPS_SQD] = { true, { 0 }, { IBV_QP_PKEY_INDEX | IBV_QP_QKEY, SQD_UC, SQD_RC } },
	},
	[IBV_QPS_SQE] = {
		[IBV_QPS_RESET] = ANY, [IBV_QPS_ERR] = ANY,
		[IBV_QPS_RTS] = { true, { 0 },
				  { IBV_QP_CUR_STATE | IBV_QP_QKEY, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS } },
	},
	[IBV_QPS_ERR] = {
		[IBV_QPS_RESET] = ANY, [IBV_QPS_ERR] = ANY,
	},
};

int of_modify_check(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
	int t = type == IBV_QPT_UD || type == IBV_QPT_DRIVER ? UD : type == IBV_QPT_UC ? UC : RC;
	const struct transition *x;

	if ((unsigned)from >= STATES || (unsigned)to >= STATES)
		return diw_fail(EINVAL, "ibv_modify_qp: state %d", (int)to);
	x = &table[from][to];
	if (!x->valid)
		return diw_fail(EINVAL, "ibv_modify_qp: the state cannot change from %d to %d", (int)from, (int)to);
	if (x->need[t] & ~mask)
		return diw_fail(EINVAL, "ibv_modify_qp: from state %d to %d: attributes %#x are missing", (int)from,
				(int)to, x->need[t] & ~mask);
	if (mask & ~(x->need[t] | x->may[t] | IBV_QP_STATE))
		return diw_fail(EINVAL, "ibv_modify_qp: from state %d to %d: attributes %#x are not allowed", (int)from,
				(int)to, mask & ~(x->need[t] | x->may[t] | IBV_QP_STATE));
	return 0;
}
