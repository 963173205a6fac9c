/* SPDX-License-Identifier: BSD-2-Clause */
/* A device on lo with a channel of connection management, a listener and RC queue pairs. Peers are made by hand over
 * plain sockets; their frames are written as hexadecimal text: flags, revision, length, private data. */
#ifndef DIW_TESTS_CM_KIT_H
#define DIW_TESTS_CM_KIT_H

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "tests/unit/verbs_kit.h"

struct cmkit {
	struct kit k;
	struct diw_cm *cm;
	struct diw_listener *listener;
	struct diw_addr addr;        /* the listener's */
};

/* ATTR NULL: the defaults. The address is always the loopback's. */
void cm_open(struct cmkit *m, enum diw_progress progress, const struct diw_listen_attr *attr);
void cm_close(struct cmkit *m);
void rc_open(struct end *e, struct cmkit *m);
/* No markers, no CRC, no capabilities of RFC 7306, IRD and ORD 128. */
void plain_attr(struct diw_conn_attr *a);
/* The next event must be of that type. */
void cm_expect(struct diw_cm *cm, struct diw_cm_event *ev, enum diw_cm_event_type type);
void cm_expect_none(struct diw_cm *cm, unsigned ms);
/* Steps, without an event, until COND. */
#define cm_until(cm, cond) \
	do { \
		for (int ms_ = 0; ms_ < KIT_LIMIT_MS && !(cond); ms_++) \
			cm_expect_none(cm, 1); \
		ck_assert(cond); \
	} while (0)
struct diw_listener_info listener_info(struct cmkit *m);
/* Steps until a counter or a number of the listener is V. */
#define listener_wait(m, field, v) \
	do { \
		for (int ms_ = 0; ms_ < KIT_LIMIT_MS && listener_info(m).field != (v); ms_++) \
			sleep_ms(1); \
		ck_assert_uint_eq(listener_info(m).field, v); \
	} while (0)

int dial(const struct diw_addr *to);
int raw_listen(struct diw_addr *at, int backlog);
int raw_accept(int lfd);
void raw_reset(int fd);                          /* close with RST */
void raw_send(int fd, const void *p, size_t len);
/* Writes "MPA ID Req Frame", or the reply's key, and HEX. Returns the length. */
size_t frame(uint8_t *p, bool reply, const char *hex);
void send_frame(int fd, bool reply, const char *hex);
/* Exactly this frame has come, and nothing behind it yet. */
void expect_frame(int fd, bool reply, const char *hex);
int readable(int fd, int ms);         /* the result of poll(2) */
/* The peer ends the stream, in any way, without sending anything before. */
void expect_closed(int fd);

#endif
