/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device: the engine that serves its objects, the source of datagrams, streams and time, and what its objects share.
 */
#ifndef DIW_VERBS_DEV_H
#define DIW_VERBS_DEV_H

#include "base/list.h"
#include "ddp/stag.h"
#include "llp/dgram.h"
#include "llp/stream.h"
#include "verbs/diw.h"
#include "verbs/engine/engine.h"
#include "verbs/stat.h"

_Static_assert(DIW_DGRAM_FDS <= DIW_MEMBER_FDS && DIW_DGRAM_FDS + 1 <= DIW_ENGINE_FIXED_FDS,
	       "a queue pair is a member; groups and connections are fixed ones");

/* Where datagrams and time come from: sockets and the monotonic clock, or the simulator. */
struct diw_transport {
	uint64_t (*now)(struct diw_transport *t);
	int (*open)(struct diw_transport *t, const struct diw_dgram_attr *attr, struct diw_dgram **d);
	int (*connect)(struct diw_transport *t, const struct diw_stream_attr *attr, struct diw_stream **s);
	int (*listen)(struct diw_transport *t, const struct diw_stream_attr *attr, struct diw_stream_listener **l);
};

/* A device on another transport: no thread, no descriptors; the caller steps it. */
int diw_dev_open_transport(struct diw_transport *t, const struct diw_dev_info *info, struct diw_dev **dev);

#define DIW_DEV_EVENTS 256

struct diw_dev {
	struct diw_engine engine;    /* first */
	struct diw_transport *transport;
	struct diw_dev_info info;
	int npds, nqps, ncqs, nchannels;
	struct diw_list qps;
	struct diw_stag_table stags;

	struct diw_cm_engine *cm;    /* verbs/cm/channel.c; NULL until the first channel */
	struct diw_group_port *groups;       /* verbs/group.c; NULL while no queue pair is attached to any */
	struct diw_mpa_pool *mpa_pool;       /* of its RC queue pairs; NULL until the first is connected */
	struct diw_rdmap_snap_pool *snap_pool;       /* the same */
	struct diw_stat_dev stat;

	/* Asynchronous events (verbs/event.c). */
	struct diw_event events[DIW_DEV_EVENTS];
	uint32_t events_head, events_n;
	int event_fd;                /* -1 in the simulator */
};

/* A step for the simulator, which holds no lock. Returns the next deadline. */
uint64_t diw_dev_step(struct diw_dev *dev, uint64_t now);

/* ---- Asynchronous events; the lock is held (verbs/event.c) ---- */

void diw_dev_event(struct diw_dev *dev, const struct diw_event *ev);
/* OBJECT, a queue pair or an SRQ, is about to go. */
void diw_dev_forget_events(struct diw_dev *dev, const void *object);

#endif
