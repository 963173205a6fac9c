/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two ends of an RC connection run one exchange (exchange.c): our end (peer.c, by diw.h) and the kernel's siw
 * (siw_peer.c, by libibverbs and librdmacm). rping.c runs rping's protocol on our end. plan.c reads the options of all
 * three programs.
 */
#ifndef TESTS_INTEROP_EXCHANGE_H
#define TESTS_INTEROP_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PATIENCE_MS 30000            /* for actions of the other end; software emulation is slow */
#define SLOTS 4u                     /* receives that are kept posted */
#define VICTIM_BYTES 4096u           /* size of a second region, which the other end invalidates */
#define DISCOVERY_BYTES 12u          /* our end's capabilities of RFC 7306 behind its private data (docs/rc-wire.md) */

struct plan {
	const char *addr;            /* to connect to; NULL: listen */
	const char *local;           /* to listen at */
	uint16_t port;
	uint32_t size;               /* of the largest message */
	unsigned reads;              /* outstanding at a time */
	unsigned count;              /* rounds of rping */
	uint32_t data, peer_data;    /* bytes of private data: sent, expected */
	bool reject;                 /* the responder refuses the connection */
	bool discovery;              /* the initiator is ours and has RFC 7306 */
	const char *end;             /* disconnect, abort, stale: how the connection ends */
	bool ends;                   /* this end ends it */
	unsigned pause_ms;           /* of the initiator, between its connection and its first message */
	bool quiet;                  /* nothing may arrive in that time */
	bool responder_first;        /* it sends its first message before it has received one */
	/* ---- Our end only ---- */
	bool crc;
	uint8_t revision;
	const char *rtr;             /* letters out of w, r, f */
};
extern struct plan plan;
int plan_options(int argc, char **argv);

/* The memory of an end: BYTES in one region, for everything but invalidation. */
struct memory {
	uint8_t *base, *victim;
	uint64_t to, victim_to;
	uint32_t stag, victim_stag;
};

struct got {
	size_t at;                   /* in the memory */
	uint32_t len, slot;
	bool solicited, invalidated; /* only if the end's completions report it */
	uint32_t inv_stag;
};

enum { HOW_SOLICITED = 1, HOW_INVALIDATE = 2 };

/* Whether the end's completions report that a message was solicited, and which STag it invalidated. */
extern const bool end_tells;

/* The calls of an end. They return 0, or -1 after printing the error on standard error. */

/* Connects or accepts; SLOTS receives of SLOT_LEN from SLOT_AT on are posted before. 1: refused, as the plan says. */
int end_meet(struct memory *m, size_t bytes, size_t slot_at, uint32_t slot_len);
/* -1: nothing has come; only after a wait it prints that on standard error. */
int end_recv(struct got *g, bool wait);
int end_repost(uint32_t slot);
/* These post; end_done() waits until N posted requests are complete. */
int end_send(size_t at, uint32_t len, unsigned how, uint32_t inv_stag);
int end_write(size_t at, uint32_t len, uint32_t stag, uint64_t to);
int end_read(size_t at, uint32_t len, uint32_t stag, uint64_t to);
int end_done(unsigned n);
/* Arms one event for the next solicited receive; for any, if the end's completions do not report that. */
int end_arm(void);
int end_event(void);
int end_disconnect(void);
int end_abort(void);
/* Waits until the connection has ended, and prints a line "end: ..." with the reason. */
int end_gone(void);
void end_close(void);

int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The bytes that both ends send, without a period that could divide the length of a segment. */
uint8_t byte_of(bool of_initiator, size_t at);
/* Private data of the initiator or the responder. */
void data_fill(uint8_t *p, uint32_t len, bool initiator);
int data_check(const uint8_t *data, uint32_t len);

#endif
