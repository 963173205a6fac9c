/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of RDMAP opcodes: for each, the queue and target of its messages, their greatest length, and flags. */
#include "rdmap/int.h"

/* RFC 5040 section 4.3, RFC 7306 section 4 and docs/ud-profile.md. Each type says which of these opcodes it takes. */
const struct diw_rdmap_op diw_rdmap_ops[16] = {
	[DIW_OP_WRITE] = { .tagged = true, .imm = true, .solicited = true, .target = DIW_TARGET_STAG,
			   .max = DIW_RDMAP_MAX_WRITE },
	[DIW_OP_READ_REQUEST] = { .target = DIW_TARGET_MESSAGE, .qn = DIW_QN_REQUEST },
	[DIW_OP_READ_RESPONSE] = { .tagged = true, .any_qkey = true, .target = DIW_TARGET_BUF },
	[DIW_OP_SEND] = { .imm = true, .group = true, .target = DIW_TARGET_RECV, .max = DIW_RDMAP_MAX_SEND },
	[DIW_OP_SEND_INV] = { .imm = true, .target = DIW_TARGET_RECV, .max = DIW_RDMAP_MAX_SEND },
	[DIW_OP_SEND_SE] = { .imm = true, .group = true, .target = DIW_TARGET_RECV, .max = DIW_RDMAP_MAX_SEND },
	[DIW_OP_SEND_SE_INV] = { .imm = true, .target = DIW_TARGET_RECV, .max = DIW_RDMAP_MAX_SEND },
	[DIW_OP_TERMINATE] = { .any_qkey = true, .target = DIW_TARGET_MESSAGE, .qn = DIW_QN_TERMINATE },
	[DIW_OP_IMMEDIATE] = { .target = DIW_TARGET_IMMEDIATE },
	[DIW_OP_IMMEDIATE_SE] = { .target = DIW_TARGET_IMMEDIATE },
	[DIW_OP_ATOMIC_REQUEST] = { .target = DIW_TARGET_MESSAGE, .qn = DIW_QN_REQUEST },
	[DIW_OP_ATOMIC_RESPONSE] = { .any_qkey = true, .target = DIW_TARGET_MESSAGE, .qn = DIW_QN_ATOMIC_RESPONSE },
	[DIW_OP_VALIDATION] = { .any_qkey = true, .target = DIW_TARGET_MESSAGE, .qn = DIW_QN_TERMINATE },
	[DIW_OP_FLOW] = { .any_qkey = true, .target = DIW_TARGET_MESSAGE, .qn = DIW_QN_TERMINATE },
	[DIW_OP_WRITE_RECORD] = { .tagged = true, .imm = true, .solicited = true, .group = true,
				  .target = DIW_TARGET_RECORD, .max = DIW_RDMAP_MAX_WRITE },
};
