/* SPDX-License-Identifier: BSD-2-Clause */
/* RC connections of ping, listen, cp and recv: one that is asked for, or those that a listener accepts. */
#ifndef DIW_TOOLS_RC_H
#define DIW_TOOLS_RC_H

#include "tools/tool.h"
#include "verbs/diw_cm.h"

#define RC_CONNS 16u                 /* of one listener at a time; further ones are refused */

#define OPT_QP_SERVED (1u << DIW_QP_UD | 1u << DIW_QP_RD)    /* beside RC, which a server always takes */
#define OPT_QP_ALL (OPT_QP_SERVED | 1u << DIW_QP_RC)
/* The value of --qp, one of TYPES (bits 1 << DIW_QP_UD, ...). 0 or TOOL_USAGE. */
int opt_qp(const char *text, unsigned types, enum diw_qp_type *type);
const char *opt_qp_name(enum diw_qp_type type);      /* as --qp has it */

/* Connects the queue pair of E to DST and waits for it. Errors are printed; TOOL_OK or TOOL_FAILED. */
int rc_connect(struct endpoint *e, const struct diw_addr *dst, const char *host, const char *who, struct diw_cm **cm);
/* Ends the connection when all that was posted is sent, waits a second for the peer, destroys queue pair and CM. */
void rc_disconnect(struct endpoint *e, struct diw_cm *cm);

/* One connection of a listener; its receives are its own, so that no peer takes another's. */
struct rc_conn { struct inbox in; struct diw_addr peer; bool used; };

struct rc_server {
	struct endpoint *ep;         /* whose device, protection domain and completion queue serve */
	struct diw_cm *cm;
	struct diw_listener *listener;
	uint32_t slots, slot_size, sq_depth, max_inline;
	void (*gone)(void *ctx, struct rc_conn *conn);       /* called before it goes; may be NULL */
	void *ctx;
	uint64_t accepted;
	struct rc_conn conn[RC_CONNS];
};

/* Listens on TCP port PORT of every address; the fields before `gone` are the caller's. When another program has the
 * port, that is said and nothing is served: 0. Else TOOL_FAILED. */
int rc_serve(struct rc_server *s, uint16_t port);
/* Takes new connections and lets ended ones go. */
int rc_serve_step(struct rc_server *s);
void rc_serve_end(struct rc_server *s);
/* Whose queue pair it is, or NULL. */
struct rc_conn *rc_conn_of(struct rc_server *s, const struct diw_qp *qp);

#endif
