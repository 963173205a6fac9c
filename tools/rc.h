/* SPDX-License-Identifier: BSD-2-Clause */
/* RC connections of ping, listen, cp and recv, at the initiator and at the listener. */
#ifndef DIW_TOOLS_RC_H
#define DIW_TOOLS_RC_H

#include "tools/tool.h"
#include "verbs/diw_cm.h"

#define RC_CONNS 16u                 /* of a listener at a time; more are refused */

#define OPT_QP_SERVED (1u << DIW_QP_UD | 1u << DIW_QP_RD)    /* beside RC, which a server always accepts */
#define OPT_QP_ALL (OPT_QP_SERVED | 1u << DIW_QP_RC)
/* Reads the value of --qp, one of TYPES (bits 1 << DIW_QP_UD, ...). 0 or TOOL_USAGE. */
int opt_qp(const char *text, unsigned types, enum diw_qp_type *type);
const char *opt_qp_name(enum diw_qp_type type);      /* the name used with --qp */

/* Connects the queue pair of E to DST, and waits until it is connected. Prints errors; TOOL_OK or TOOL_FAILED. */
int rc_connect(struct endpoint *e, const struct diw_addr *dst, const char *host, const char *who, struct diw_cm **cm);
/* Ends the connection when all posted requests are sent, waits a second for the peer, destroys queue pair and CM. */
void rc_disconnect(struct endpoint *e, struct diw_cm *cm);

/* A connection of a listener. It has its own receives, so that no peer can use up those of another. */
struct rc_conn { struct inbox in; struct diw_addr peer; bool used; };

struct rc_server {
	struct endpoint *ep;         /* its device, protection domain and completion queue are used */
	struct diw_cm *cm;
	struct diw_listener *listener;
	uint32_t slots, slot_size, sq_depth, max_inline;
	void (*gone)(void *ctx, struct rc_conn *conn);       /* called before a connection is freed; may be NULL */
	void *ctx;
	uint64_t accepted;
	struct rc_conn conn[RC_CONNS];
};

/* Listens on TCP port PORT of every address. The caller has set the fields before `gone`. If another program has the
 * port, prints that and returns 0 without a listener. Otherwise TOOL_FAILED on an error. */
int rc_serve(struct rc_server *s, uint16_t port);
/* Accepts new connections, and frees ended ones. */
int rc_serve_step(struct rc_server *s);
void rc_serve_end(struct rc_server *s);
/* The connection of a queue pair, or NULL. */
struct rc_conn *rc_conn_of(struct rc_server *s, const struct diw_qp *qp);

#endif
