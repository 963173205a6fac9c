/* SPDX-License-Identifier: BSD-2-Clause */
/* A device on lo with one protection domain, memory, and queue pairs that talk to each other. */
#ifndef DIW_TESTS_VERBS_KIT_H
#define DIW_TESTS_VERBS_KIT_H

#include "base/clock.h"
#include "verbs/diw_provider.h"

#define KIT_SIZE (8u << 20)
/* For what must come: a busy machine may take long over it, and only who fails waits to the end. */
#define KIT_LIMIT_MS 30000
#define KIT_LIMIT (KIT_LIMIT_MS * (int64_t)DIW_MS)

/* Waits for what others bring about. */
#define KIT_UNTIL(cond) \
	do { \
		for (int ms_ = 0; ms_ < KIT_LIMIT_MS && !(cond); ms_++) \
			sleep_ms(1); \
		ck_assert(cond); \
	} while (0)

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
/* A kit with two ends like these. */
void kit_open_ends(struct kit *k, struct end *a, struct end *b);
void kit_close_ends(struct kit *k, struct end *a, struct end *b);
/* LEN bytes of the region from OFF; 0 or -errno. */
int end_send(struct end *from, const struct end *to, uint32_t off, uint32_t len, unsigned flags);
int end_write(struct end *from, const struct end *to, uint32_t off, uint32_t len, unsigned flags);
int end_read(struct end *from, const struct end *to, uint32_t off, uint32_t len);
int end_recv(struct end *e, uint32_t off, uint32_t len, uint64_t wr_id);
uint64_t end_counter(struct end *e, const char *name);
void end_until(struct end *e, const char *counter, uint64_t n);         /* it comes to N, and no further */
/* What was posted to it has been sent: who posts and finds the device busy leaves that to the other thread. */
void end_sent(struct end *e);
/* How often the device wakes in so long, at the fewest of some tries: other things may still be going on. */
uint64_t end_wakeups(struct end *e, unsigned ms);
uint64_t cpu_ns(void);                           /* of this process */
void sleep_ms(unsigned ms);

#endif
