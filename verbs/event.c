/* SPDX-License-Identifier: BSD-2-Clause */
/* Asynchronous events of a device: a ring, and a descriptor that is readable while the ring holds any. */
#include <errno.h>

#include "base/eventfd.h"
#include "base/log.h"
#include "verbs/dev.h"
#include "verbs/diw_provider.h"

void diw_dev_event(struct diw_dev *dev, const struct diw_event *ev)
{
	if (dev->events_n == DIW_DEV_EVENTS) {
		uint32_t last = (dev->events_head + DIW_DEV_EVENTS - 1) % DIW_DEV_EVENTS;

		if (diw_dev_raises(dev, DIW_EVENT_OVERRUN))
			dev->events[last] = (struct diw_event){ .type = DIW_EVENT_OVERRUN };
		return;
	}
	dev->events[(dev->events_head + dev->events_n++) % DIW_DEV_EVENTS] = *ev;
	diw_eventfd_set(dev->event_fd);
	diw_engine_wake(&dev->engine, dev);
}

void diw_dev_forget_events(struct diw_dev *dev, const void *object)
{
	uint32_t n = dev->events_n, at = dev->events_head;

	for (dev->events_n = 0; n; n--, at = (at + 1) % DIW_DEV_EVENTS)
		if (dev->events[at].qp != object && dev->events[at].srq != object)
			dev->events[(dev->events_head + dev->events_n++) % DIW_DEV_EVENTS] = dev->events[at];
	if (dev->events_n == 0)
		diw_eventfd_clear(dev->event_fd);
}

int diw_dev_set_events(struct diw_dev *dev, unsigned types)
{
	const unsigned known = (2u << DIW_EVENT_SQ_DRAINED) - 1;
	int rc = types & ~known ? diw_fail(-EINVAL, "diw_dev_set_events: types %#x: %#x are unknown", types,
					   types & ~known) : diw_engine_lock(&dev->engine);

	if (rc < 0)
		return rc;
	dev->event_types = types;
	diw_engine_unlock(&dev->engine);
	return 0;
}

int diw_event_fd(struct diw_dev *dev)
{
	return diw_engine_alive(&dev->engine) ? dev->event_fd : -ENODEV;
}

static bool dev_take_event(struct diw_dev *dev, struct diw_event *ev)
{
	if (dev->events_n == 0)
		return false;
	*ev = dev->events[dev->events_head];
	dev->events_head = (dev->events_head + 1) % DIW_DEV_EVENTS;
	if (--dev->events_n == 0)
		diw_eventfd_clear(dev->event_fd);
	return true;
}

int diw_event_get(struct diw_dev *dev, struct diw_event *ev, int64_t timeout_ns)
{
	struct diw_waiter w;
	uint64_t until;
	bool got;
	int rc = diw_engine_lock_wait(&dev->engine, timeout_ns);

	if (rc < 0)
		return rc;
	until = diw_until(diw_engine_now(&dev->engine), timeout_ns);
	diw_waiter_init(&dev->engine, &w, dev);
	for (;;) {
		uint64_t now = diw_engine_now(&dev->engine);

		diw_engine_step(&dev->engine, now);
		got = dev_take_event(dev, ev);
		if (got || now >= until)
			break;
		diw_engine_sleep(&dev->engine, &w, until);
	}
	diw_waiter_fini(&dev->engine, &w);
	diw_engine_unlock(&dev->engine);
	return got ? 0 : -EAGAIN;
}
