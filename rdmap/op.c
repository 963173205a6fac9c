/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmap/rdmap.h"

/* RFC 5040 section 4.3 with a column a queue pair type (docs/ud-profile.md). */
const struct diw_rdmap_op diw_rdmap_ops[16] = {
	[DIW_OP_WRITE] = { .types = DIW_TYPE_UC, .tagged = true, .imm = true, .solicited = true },
	[DIW_OP_READ_REQUEST] = { .types = DIW_TYPE_UD, .qn = 1 },
	[DIW_OP_READ_RESPONSE] = { .types = DIW_TYPE_UD, .tagged = true, .any_qkey = true },
	[DIW_OP_SEND] = { .types = DIW_TYPE_UD | DIW_TYPE_UC, .imm = true },
	[DIW_OP_SEND_SE] = { .types = DIW_TYPE_UD | DIW_TYPE_UC, .imm = true },
	[DIW_OP_TERMINATE] = { .types = DIW_TYPE_UD, .qn = 2, .any_qkey = true },
	[DIW_OP_WRITE_RECORD] = { .types = DIW_TYPE_UD, .tagged = true, .imm = true, .solicited = true },
};
