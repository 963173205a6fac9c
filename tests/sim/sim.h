/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The simulator: the whole stack of several devices on virtual time, over a network that loses, duplicates, delays and
 * damages datagrams as a seed decides. The ledger knows of every message what was sent and where its octets may be
 * placed. Each completion and each octet of memory is checked against it.
 *
 *   SIM_SEEDS=N  seeds 0 .. N-1 of the random mixes (default 300)
 *   SIM_SEED=K   only seed K, with a transcript; rcK: of the mix of RC (tests/sim/rc.h); rdK: of RD; gK: of groups
 */
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H

#include <check.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/net/net.h"

#define SIM_MAX_EPS 10
#define SIM_MAX_MSGS 512
#define SIM_MAX_SLOTS 512
#define SIM_MAX_RECVS 64
#define SIM_MAX_HELD 64
#define SIM_REGION (1u << 20)
#define SIM_SEND_MEM (2u << 20)
#define SIM_GUARD 64u
#define SIM_QKEY 0x51c0ffeeu

enum msg_kind { MSG_SEND, MSG_RECORD, MSG_READ, MSG_WRITE };

/* A message that an application posted. */
struct msg {
	uint32_t id;
	enum msg_kind kind;
	struct ep *from, *to;
	uint32_t from_life, to_life;     /* the incarnations of both ends */
	uint32_t length, imm;
	bool has_imm, signaled, posted;
	bool spoiled;                /* it may be refused: it has a wrong STag, or an end was destroyed */
	struct slot *slot;           /* where it is placed: in the target's region, or the reader's */
	uint64_t source_off;         /* Read: offset in the target's source region */
	int send_wcs, recv_wcs;      /* completions seen; of a record, those with END */
	uint8_t *declared;           /* chunk mode: whether an octet was declared valid */
};

/* A piece of memory to which one message at a time may be written. All of it except the message's octets is poison. */
struct slot {
	uint8_t *mem;
	uint32_t cap, gen;
	struct msg *msg;             /* the message that may be written to it */
	uint8_t *frozen;             /* a copy from when its region was deregistered */
};

struct recv_slot {
	uint8_t *mem;
	uint32_t gen;
	bool posted;
};

/* A queue pair and the memory of its application. */
struct ep {
	int index;
	struct net_host *host;
	struct diw_qp_attr attr;
	struct diw_addr addr;
	struct diw_pd *pd;
	struct diw_cq *scq, *rcq;
	struct diw_qp *qp;           /* NULL: destroyed for good */
	struct ep *peer;             /* UC */
	uint32_t life, mtu_payload;
	struct diw_mr *target_mr, *send_mr, *source_mr, *recv_mr;
	uint32_t stale_stag;         /* of a deregistered region */
	uint8_t *target, *send, *source, *recv;
	uint32_t target_used, send_used;
	struct slot slots[SIM_MAX_SLOTS];
	int nslots;
	uint32_t recv_size;
	struct recv_slot recvs[SIM_MAX_RECVS];
	int nrecvs;
	struct diw_wc held[SIM_MAX_HELD];      /* with maps that are released later */
	int nheld;
};

struct sim {
	uint64_t seed;
	bool streams;                /* the seed is for the RC mix */
	bool groups;                 /* the seed is for the mix of groups */
	bool verbose, clean;         /* clean: nothing is lost, so everything must arrive */
	bool may_dup;                /* some part of the network duplicates datagrams */
	bool plain;                  /* no random immediates, flags or reuse of memory: for exact scenarios */
	struct diw_rng rng;
	struct net *net;
	struct ep eps[SIM_MAX_EPS];
	int neps;
	struct msg msgs[SIM_MAX_MSGS];
	uint32_t nmsgs;
	uint32_t delivered[4], partial;
};

extern struct sim sim;

uint32_t below(uint32_t n);                      /* 0 .. n - 1 */
bool chance(double p);
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void sim_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
#define must(cond, ...) do { if (!(cond)) sim_fail(__VA_ARGS__); } while (0)

void sim_begin(uint64_t seed);
/* Called when everything must have ended: completions drained, state expired. Closes all, and checks that nothing is
 * left. */
void sim_end(void);
/* Polls everything, reposts receives, and lets time pass until nothing is on its way. */
void sim_drain(void);

/* ---- ledger.c ---- */

uint8_t msg_octet(const struct msg *m, uint32_t off);
uint8_t source_octet(const struct ep *ep, uint64_t off);
struct msg *msg_new(enum msg_kind kind, struct ep *from, struct ep *to, uint32_t length);
/* A slot for LENGTH octets in the ep's region, poisoned; NULL: no room. */
struct slot *slot_take(struct ep *ep, uint32_t length);
void slot_done(struct slot *s);                  /* the application has the data: the slot is poisoned again */
void slots_freeze(struct ep *ep);                /* its region has been deregistered */
/* Checks all memory: octets that no message in flight may write are unchanged; the others have their old value or the
 * message's. */
void memory_check(struct ep *ep);
/* Poisons a receive that is not posted. */
void recv_poison(struct ep *ep, struct recv_slot *r);
void recv_untouched(struct ep *ep, const struct recv_slot *r);
void wc_recv(struct ep *ep, const struct diw_wc *wc);
void wc_send(struct ep *ep, const struct diw_wc *wc);
void records_check(struct ep *ep);               /* maps of open records */

/* ---- ep.c ---- */

struct ep *ep_open(struct net_host *host, const struct diw_qp_attr *attr, uint32_t cq_depth, uint32_t nrecvs,
		   uint32_t recv_size);
/* ep_open sets Q_Key and queues in the attributes. */
void ep_kill(struct ep *ep);
void ep_restart(struct ep *ep);                  /* the same port in another process */
void ep_dereg(struct ep *ep);                    /* and registers the same memory again */
int ep_poll(struct ep *ep, int n);
void ep_post_recvs(struct ep *ep, int n);
void ep_release(struct ep *ep, int n);
void ep_close(struct ep *ep);
bool ep_quiet(struct ep *ep);

void post_send(struct ep *from, struct ep *to, uint32_t length);
void post_record(struct ep *from, struct ep *to, uint32_t length);
void post_read(struct ep *from, struct ep *to, uint32_t length, int64_t timeout_ns);
void post_read_at(struct ep *from, struct ep *to, uint32_t length, uint64_t off, int64_t timeout_ns);
void post_write(struct ep *from, uint32_t length);

/* ---- Scenarios (pair.c) ---- */

/* Two hosts, 20 us apart, with a queue pair each. MULPDU 1032 cuts Write-Records into segments of 1000 octets. NULL:
 * default attributes. */
void pair_begin(struct ep **a, struct ep **b, const struct diw_qp_attr *attr);
void pair_attr(struct diw_qp_attr *attr);
/* The next receive completion, checked by the ledger. Runs the clock until it has come, at most for LIMIT. */
bool pair_wc(struct ep *ep, struct diw_wc *wc, struct diw_range *ranges, uint64_t limit);
uint64_t counter(struct ep *ep, const char *name);
/* The last datagram that the network saw (tap), to be sent again. */
struct seen { struct diw_addr src, dst; uint8_t data[2048]; uint32_t len; };
extern struct seen seen[8192];
extern int nseen;
void watch(void);
void replay(const struct seen *s);
uint32_t seen_mo(const uint8_t *data);           /* of a tagged segment */
bool is_record(const uint8_t *data);
bool is_last(const uint8_t *data);

Suite *suite_mix(int first, int last);
Suite *suite_records(void);
Suite *suite_stack(void);
Suite *suite_uc(void);
Suite *suite_arbiter(void);                   /* arbiter.c */
Suite *suite_group(int first, int last);       /* group.c */

#endif
