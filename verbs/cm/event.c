/* SPDX-License-Identifier: BSD-2-Clause */
/* The queue of a channel. An event is a list node of its connection, so the queue has no limit, and posting an event
 * cannot fail. */
#include "base/eventfd.h"
#include "verbs/cm/int.h"

void diw_cm_post(struct diw_cm_conn *c, enum diw_cm_event_type type)
{
	struct diw_cm *cm = c->cm;

	diw_eventfd_set(cm->fd);
	c->event = (uint8_t)type;
	diw_list_add_tail(&cm->events, &c->note);
	diw_engine_wake(&cm->dev->engine, cm);
}

void diw_cm_unpost(struct diw_cm_conn *c)
{
	if (diw_list_empty(&c->note))
		return;
	diw_list_del(&c->note);
	if (diw_list_empty(&c->cm->events) && diw_engine_alive(&c->cm->dev->engine))
		diw_eventfd_clear(c->cm->fd);
}
