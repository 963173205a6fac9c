/* SPDX-License-Identifier: BSD-2-Clause */
/* RDMAP's opcodes: RFC 5040 section 4.3, RFC 7306 section 4 and docs/ud-profile.md section 4. */
#ifndef DIW_WIRE_RDMAP_H
#define DIW_WIRE_RDMAP_H

enum diw_rdmap_opcode {
	DIW_OP_WRITE = 0x0,
	DIW_OP_READ_REQUEST = 0x1,
	DIW_OP_READ_RESPONSE = 0x2,
	DIW_OP_SEND = 0x3,
	DIW_OP_SEND_INV = 0x4,
	DIW_OP_SEND_SE = 0x5,
	DIW_OP_SEND_SE_INV = 0x6,
	DIW_OP_TERMINATE = 0x7,
	DIW_OP_IMMEDIATE = 0x8,      /* this and the next three: RFC 7306 */
	DIW_OP_IMMEDIATE_SE = 0x9,
	DIW_OP_ATOMIC_REQUEST = 0xa,
	DIW_OP_ATOMIC_RESPONSE = 0xb,
	DIW_OP_WRITE_RECORD = 0xc,   /* this and the next two: the datagram profile */
	DIW_OP_FLOW = 0xd,
	DIW_OP_VALIDATION = 0xe,
};

#endif
