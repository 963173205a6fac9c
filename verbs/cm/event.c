/* SPDX-License-Identifier: BSD-2-Clause */
/* The queue of a channel. An event is a list node of its connection, so the queue has no limit, and posting an event
 * cannot fail. */
#include <unistd.h>

#include "verbs/cm/int.h"

void diw_cm_post(struct diw_cm_conn *c, enum diw_cm_event_type type)
{
	struct diw_cm *cm = c->cm;
	uint64_t one = 1;

	if (diw_list_empty(&cm->events))
		(void)!write(cm->fd, &one, sizeof one);         /* cannot fail: the eventfd is at 0 */
	c->event = (uint8_t)type;
	diw_list_add_tail(&cm->events, &c->note);
	diw_engine_wake(&cm->dev->engine, cm);
}

void diw_cm_unpost(struct diw_cm_conn *c)
{
	uint64_t drained;

	if (diw_list_empty(&c->note))
		return;
	diw_list_del(&c->note);
	if (diw_list_empty(&c->cm->events) && diw_engine_alive(&c->cm->dev->engine))
		(void)!read(c->cm->fd, &drained, sizeof drained);
}
