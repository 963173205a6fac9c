/* SPDX-License-Identifier: BSD-2-Clause */
/* Code for the ends of bare UDP (raw_udp.c) and bare TCP (raw_tcp.c). */
#ifndef DIW_TOOLS_RAW_END_H
#define DIW_TOOLS_RAW_END_H

#include "base/clock.h"
#include "tools/perf/raw.h"

#define RAW_TIMEOUT (100 * DIW_MS)   /* of one wait; sockets use it as SO_RCVTIMEO */
#define RAW_SILENCE (2 * DIW_S)
#define RAW_SILENCE_FIRST (10 * DIW_S)

/* The measured part of a run. */
struct raw_span {
	bool begun;
	uint64_t begin_ns, last_ns;
	double begin_cpu;
};
void raw_span_begin(struct raw_span *s, struct raw_result *r, uint64_t now);
void raw_span_end(const struct raw_span *s, struct raw_result *r);
bool raw_stopped(const struct raw_attr *a);

/* A wait that spins. True: nothing has come for RAW_TIMEOUT, or the run is over. */
struct raw_spin { uint64_t since; uint32_t spins; };
static inline bool raw_spins_out(struct raw_spin *s, const struct raw_attr *a)
{
	if (++s->spins % 64)
		return false;
	if (!s->since)
		s->since = diw_clock_ns();
	return raw_stopped(a) || diw_clock_ns() - s->since > RAW_TIMEOUT;
}

/* Returns FD, with its address in BOUND. If a call before has FAILED, or this one does, closes it and returns
 * -errno. */
int raw_bound(int fd, bool failed, struct diw_addr *bound);

/* One end of a ping-pong. */
enum raw_came { RAW_NOTHING, RAW_MESSAGE, RAW_END };
struct raw_pong_ops {
	void (*send)(void *end, uint64_t number);
	/* A whole message; nothing for RAW_TIMEOUT; or the other end has ended. */
	enum raw_came (*receive)(void *end);
};
struct raw_pong {
	const struct raw_pong_ops *ops;
	void *end;
	const struct raw_attr *a;
	struct raw_result *r;
};
void raw_pong_sender(const struct raw_pong *p);
void raw_pong_receiver(const struct raw_pong *p);

#endif
