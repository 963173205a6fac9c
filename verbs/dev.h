/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device: the engine that serves its objects, its transport (datagrams, streams and time), and the state that its
 * objects share.
 */
#ifndef DIW_VERBS_DEV_H
#define DIW_VERBS_DEV_H

#include <errno.h>

#include "base/list.h"
#include "ddp/stag.h"
#include "llp/dgram.h"
#include "llp/stream.h"
#include "verbs/arbiter.h"
#include "verbs/diw.h"
#include "verbs/engine/engine.h"
#include "verbs/stat.h"

_Static_assert(DIW_DGRAM_FDS <= DIW_MEMBER_FDS && DIW_DGRAM_FDS + 2 <= DIW_ENGINE_FIXED_FDS,
	       "a queue pair is a member; groups, connections and shared memory are fixed ones");

/* The source of datagrams and time: sockets and the monotonic clock, or the simulator. */
struct diw_transport {
	uint64_t (*now)(struct diw_transport *t);
	int (*open)(struct diw_transport *t, const struct diw_dgram_attr *attr, struct diw_dgram **d);
	int (*connect)(struct diw_transport *t, const struct diw_stream_attr *attr, struct diw_stream **s);
	int (*listen)(struct diw_transport *t, const struct diw_stream_attr *attr, struct diw_stream_listener **l);
};

/* Opens a device on another transport. It has no thread and no descriptors; the caller runs its steps. */
int diw_dev_open_transport(struct diw_transport *t, const struct diw_dev_info *info, struct diw_dev **dev);

#define DIW_DEV_EVENTS 256
#define DIW_DEV_OBJECTS 65536        /* the most queue pairs, completion queues, protection domains, shared queues */
#define DIW_DEV_WRS 65536u           /* the most work requests of a queue */
#define DIW_DEV_CQES (1u << 22)      /* the most completions of a completion queue */

struct diw_dev {
	struct diw_engine engine;    /* must be first */
	struct diw_transport *transport;
	struct diw_dev_info info;
	int npds, nqps, ncqs, nsrqs, nchannels;
	struct diw_list qps;
	struct diw_arbiter arbiter;
	struct diw_stag_table stags;

	struct diw_cm_engine *cm;    /* verbs/cm/channel.c; NULL until the first channel */
	struct diw_loopback *loopback;       /* verbs/loopback.c; NULL: without shared memory */
	struct diw_group_port *groups;       /* verbs/group.c; NULL while no queue pair is attached to a group */
	struct diw_mpa_pool *mpa_pool;       /* for RC queue pairs; NULL until the first one connects */
	struct diw_rdmap_snap_pool *snap_pool;       /* for RC queue pairs; NULL until the first one connects */
	struct diw_stat_dev stat;

	/* ---- Asynchronous events (verbs/event.c) ---- */
	struct diw_event events[DIW_DEV_EVENTS];
	uint32_t events_head, events_n;
	unsigned event_types;        /* those that are raised: a set of 1u << enum diw_event_type */
	int event_fd;                /* -1 in the simulator */
};

/* A step of the simulator, which holds no lock. Returns the next deadline. */
uint64_t diw_dev_step(struct diw_dev *dev, uint64_t now);

/* Whether there may be another object beside N of its kind: 0 or -ENOMEM. The lock is held. */
static inline int diw_dev_has_room(int n) { return n < DIW_DEV_OBJECTS ? 0 : -ENOMEM; }

/* ---- Asynchronous events; the lock is held (verbs/event.c) ---- */

static inline bool diw_dev_raises(const struct diw_dev *dev, enum diw_event_type type)
{
	return dev->event_types & 1u << type;
}
/* Queues EV, whether the device raises its type or not. */
void diw_dev_event(struct diw_dev *dev, const struct diw_event *ev);
/* OBJECT, a queue pair or an SRQ, is about to be destroyed. */
void diw_dev_forget_events(struct diw_dev *dev, const void *object);

#endif
