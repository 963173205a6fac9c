/* SPDX-License-Identifier: BSD-2-Clause */
/* A device on lo with one protection domain, memory, and queue pairs that communicate. */
#ifndef DIW_TESTS_VERBS_KIT_H
#define DIW_TESTS_VERBS_KIT_H

#include "base/clock.h"
#include "verbs/diw_provider.h"

#define KIT_SIZE (8u << 20)
/* For events that must come: a busy machine may need long, and only a failing test waits to the end. */
#define KIT_LIMIT_MS 30000
#define KIT_LIMIT (KIT_LIMIT_MS * (int64_t)DIW_MS)

/* Waits for a condition that another thread brings about. */
#define KIT_UNTIL(cond) \
	do { \
		for (int ms_ = 0; ms_ < KIT_LIMIT_MS && !(cond); ms_++) \
			sleep_ms(1); \
		ck_assert(cond); \
	} while (0)

struct kit {
	struct diw_dev *dev;
	struct diw_pd *pd;
	struct diw_mr *mr;           /* all of mem, with every right */
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
void kit_fill(struct kit *k);            /* its memory, with octets that differ */
/* Defaults with one receive entry, no rate limit. */
void end_attr(struct diw_qp_attr *attr);
/* ATTR NULL: end_attr(). Queues that are NULL are created. */
void end_open(struct end *e, struct kit *k, const struct diw_qp_attr *attr, uint32_t cq_depth);
void end_close(struct end *e);
/* Opens a kit with two such ends. */
void kit_open_ends(struct kit *k, struct end *a, struct end *b);
void kit_close_ends(struct kit *k, struct end *a, struct end *b);
/* LEN bytes of the region from OFF; 0 or -errno. */
int end_send(struct end *from, const struct end *to, uint32_t off, uint32_t len, unsigned flags);
int end_write(struct end *from, const struct end *to, uint32_t off, uint32_t len, unsigned flags);
int end_read(struct end *from, const struct end *to, uint32_t off, uint32_t len);
int end_recv(struct end *e, uint32_t off, uint32_t len, uint64_t wr_id);
uint64_t end_counter(struct end *e, const char *name);
void end_until(struct end *e, const char *counter, uint64_t n);         /* waits until the counter is N, and fails if it
									 * goes beyond */
/* Waits until posted requests have been sent: a thread that finds the device busy leaves them to the other thread. */
void end_sent(struct end *e);
/* The number of wake-ups of the device in that time: the least of some tries, since other events may still come. */
uint64_t end_wakeups(struct end *e, unsigned ms);
uint64_t cpu_ns(void);                           /* of this process */
void sleep_ms(unsigned ms);

#endif
