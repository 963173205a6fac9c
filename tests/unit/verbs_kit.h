/* SPDX-License-Identifier: BSD-2-Clause */
/* A device on lo with one protection domain, memory, and queue pairs that talk to each other. */
#ifndef DIW_TESTS_VERBS_KIT_H
#define DIW_TESTS_VERBS_KIT_H

#include "base/clock.h"
#include "verbs/diw.h"

#define KIT_SIZE (8u << 20)

struct kit {
	struct diw_dev *dev;
	struct diw_pd *pd;
	struct diw_mr *mr;           /* all of mem, every right */
	uint8_t *mem;
};

struct end {
	struct kit *k;
	struct diw_cq *scq, *rcq;
	struct diw_qp *qp;
	struct diw_addr addr;
};

void kit_open(struct kit *k, enum diw_progress progress);
void kit_close(struct kit *k);
/* Defaults with one receive entry, no rate limit. */
void end_attr(struct diw_qp_attr *attr);
/* ATTR NULL: end_attr(); its queues are filled in where they are NULL. */
void end_open(struct end *e, struct kit *k, const struct diw_qp_attr *attr, uint32_t cq_depth);
void end_close(struct end *e);
/* LEN bytes of the region from OFF; 0 or -errno. */
int end_send(struct end *from, const struct end *to, uint32_t off, uint32_t len, unsigned flags);
int end_write(struct end *from, const struct end *to, uint32_t off, uint32_t len, unsigned flags);
int end_read(struct end *from, const struct end *to, uint32_t off, uint32_t len);
int end_recv(struct end *e, uint32_t off, uint32_t len, uint64_t wr_id);
uint64_t end_counter(struct end *e, const char *name);
uint64_t cpu_ns(void);                           /* of this process */
void sleep_ms(unsigned ms);

#endif
