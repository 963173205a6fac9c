/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of RDMAP opcodes: which queue pair types have each, its queue, its limits and its flags. */
#include "rdmap/int.h"

/* RFC 5040 section 4.3, RFC 7306 section 4 and docs/ud-profile.md; each type says which of them it takes. */
const struct diw_rdmap_op diw_rdmap_ops[16] = {
	[DIW_OP_WRITE] = { .tagged = true, .imm = true, .solicited = true, .max = DIW_RDMAP_MAX_WRITE },
	[DIW_OP_READ_REQUEST] = { .qn = DIW_QN_REQUEST },
	[DIW_OP_READ_RESPONSE] = { .tagged = true, .any_qkey = true },
	[DIW_OP_SEND] = { .imm = true, .group = true, .max = DIW_RDMAP_MAX_SEND },
	[DIW_OP_SEND_INV] = { .imm = true },
	[DIW_OP_SEND_SE] = { .imm = true, .group = true, .max = DIW_RDMAP_MAX_SEND },
	[DIW_OP_SEND_SE_INV] = { .imm = true },
	[DIW_OP_TERMINATE] = { .qn = DIW_QN_TERMINATE, .any_qkey = true },
	[DIW_OP_ATOMIC_REQUEST] = { .qn = DIW_QN_REQUEST },
	[DIW_OP_ATOMIC_RESPONSE] = { .any_qkey = true, .qn = DIW_QN_ATOMIC_RESPONSE },
	[DIW_OP_VALIDATION] = { .qn = DIW_QN_TERMINATE, .any_qkey = true },
	[DIW_OP_FLOW] = { .qn = DIW_QN_TERMINATE, .any_qkey = true },
	[DIW_OP_WRITE_RECORD] = { .tagged = true, .imm = true, .solicited = true, .group = true,
				  .max = DIW_RDMAP_MAX_WRITE },
};
