/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmap/int.h"

/* RFC 5040 section 4.3 and RFC 7306 section 4 with a column a queue pair type (docs/ud-profile.md). */
const struct diw_rdmap_op diw_rdmap_ops[16] = {
	[DIW_OP_WRITE] = { .types = DIW_TYPE_UC | DIW_TYPE_RC, .tagged = true, .imm = true, .solicited = true,
			   .max = DIW_RDMAP_MAX_WRITE },
	[DIW_OP_READ_REQUEST] = { .types = DIW_TYPE_UD | DIW_TYPE_RC, .qn = 1 },
	[DIW_OP_READ_RESPONSE] = { .types = DIW_TYPE_UD | DIW_TYPE_RC, .tagged = true, .any_qkey = true },
	[DIW_OP_SEND] = { .types = DIW_TYPE_UD | DIW_TYPE_UC | DIW_TYPE_RC, .imm = true, .max = DIW_RDMAP_MAX_SEND },
	[DIW_OP_SEND_INV] = { .types = DIW_TYPE_RC, .imm = true },
	[DIW_OP_SEND_SE] = { .types = DIW_TYPE_UD | DIW_TYPE_UC | DIW_TYPE_RC, .imm = true, .max = DIW_RDMAP_MAX_SEND },
	[DIW_OP_SEND_SE_INV] = { .types = DIW_TYPE_RC, .imm = true },
	[DIW_OP_TERMINATE] = { .types = DIW_TYPE_UD | DIW_TYPE_RC, .qn = 2, .any_qkey = true },
	[DIW_OP_IMMEDIATE] = { .types = DIW_TYPE_RC },
	[DIW_OP_IMMEDIATE_SE] = { .types = DIW_TYPE_RC },
	[DIW_OP_ATOMIC_REQUEST] = { .types = DIW_TYPE_RC, .qn = 1 },
	[DIW_OP_ATOMIC_RESPONSE] = { .types = DIW_TYPE_RC, .qn = 3 },
	[DIW_OP_VALIDATION] = { .types = DIW_TYPE_UD | DIW_TYPE_UC, .qn = 2, .any_qkey = true },
	[DIW_OP_FLOW] = { .types = DIW_TYPE_UC, .qn = 2, .any_qkey = true },
	[DIW_OP_WRITE_RECORD] = { .types = DIW_TYPE_UD, .tagged = true, .imm = true, .solicited = true,
				  .max = DIW_RDMAP_MAX_WRITE },
};
