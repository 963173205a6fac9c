/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening and closing a device, and the choice of its lower layer. */
#include "verbs/dev.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/env.h"
#include "base/log.h"
#include "base/sys.h"
#include "llp/capture.h"
#include "verbs/cm/cm.h"
#include "verbs/ifaces.h"
#include "verbs/loopback.h"
#include "verbs/qp.h"

static pthread_once_t atfork_once = PTHREAD_ONCE_INIT;

/* A child after fork(2) shares the sockets but has none of the threads, so the handles do not work there. */
static void child_after_fork(void)
{
	diw_engine_forked();
	diw_stat_forked();
	diw_capture_forked();
}

static void register_atfork(void)
{
	pthread_atfork(NULL, NULL, child_after_fork);
}

uint64_t diw_dev_step(struct diw_dev *dev, uint64_t now)
{
	uint64_t t;

	if (diw_engine_lock(&dev->engine) < 0)
		return DIW_NEVER;
	t = diw_engine_step(&dev->engine, now);
	diw_engine_unlock(&dev->engine);
	return t;
}

/* ---- Open and close ---- */

static uint64_t sockets_now(struct diw_transport *t)
{
	(void)t;
	return diw_clock_ns();
}

static int sockets_open(struct diw_transport *t, const struct diw_dgram_attr *attr, struct diw_dgram **d)
{
	(void)t;
	return diw_udp_open(attr, d);
}

static int uring_open(struct diw_transport *t, const struct diw_dgram_attr *attr, struct diw_dgram **d)
{
	int rc;

	(void)t;
	rc = diw_uring_open(attr, d);
	/* A ring needs locked memory, of which an ordinary user has little. Queue pairs for which it is not enough use
	 * sockets. */
	return rc == -ENOMEM ? diw_udp_open(attr, d) : rc;
}

static int tcp_connect(struct diw_transport *t, const struct diw_stream_attr *attr, struct diw_stream **s)
{
	(void)t;
	return diw_tcp_connect(attr, s);
}

static int tcp_listen(struct diw_transport *t, const struct diw_stream_attr *attr, struct diw_stream_listener **l)
{
	(void)t;
	return diw_tcp_listen(attr, l);
}

static struct diw_transport sockets = {
	.now = sockets_now, .open = sockets_open, .connect = tcp_connect, .listen = tcp_listen,
};
static struct diw_transport uring = {
	.now = sockets_now, .open = uring_open, .connect = tcp_connect, .listen = tcp_listen,
};

/* Falls back to sockets if io_uring is forbidden or the kernel is too old. */
static struct diw_transport *choose_llp(const struct diw_dev_attr *attr, struct diw_dev_info *info)
{
	static const char *const words[] = { "udp", "uring", NULL };
	enum diw_llp llp = attr ? attr->llp : DIW_LLP_DEFAULT;

	if (llp == DIW_LLP_DEFAULT)
		llp = diw_env_word("DIWARP_LLP", words, 0, 0) == 1 ? DIW_LLP_URING : DIW_LLP_UDP;
	if (llp != DIW_LLP_URING)
		return &sockets;
	info->llp_errno = -diw_uring_try();
	if (info->llp_errno) {
		diw_log(DIW_LOG_WARN, "diw_dev_open: no io_uring here (errno %d); udp is used",
			info->llp_errno);
		return &sockets;
	}
	info->llp = "uring";
	return &uring;
}

static void dev_free(struct diw_dev *dev)
{
	diw_engine_close_fd(&dev->engine, dev->event_fd);
	diw_cm_fini(dev);
	diw_group_fini(dev);
	diw_loopback_fini(dev);
	if (dev->mpa_pool)
		diw_mpa_pool_free(dev->mpa_pool);
	diw_rdmap_snap_pool_free(dev->snap_pool);
	diw_stag_fini(&dev->stags);
	diw_engine_fini(&dev->engine);
	free(dev);
}

static uint64_t transport_now(void *transport)
{
	struct diw_transport *t = transport;

	return t->now(t);
}

int diw_dev_open_transport(struct diw_transport *t, const struct diw_dev_info *info, struct diw_dev **out)
{
	struct diw_dev *dev = calloc(1, sizeof *dev);

	if (!dev)
		return -ENOMEM;
	pthread_once(&atfork_once, register_atfork);
	diw_engine_init(&dev->engine, transport_now, t);
	dev->transport = t;
	dev->info = *info;
	dev->event_types = UINT_MAX;
	dev->event_fd = -1;
	diw_list_init(&dev->qps);
	diw_arbiter_init(&dev->arbiter);
	if (diw_stag_init(&dev->stags) < 0) {
		dev_free(dev);
		return -ENOMEM;
	}
	*out = dev;
	return 0;
}

static int open_descriptors(struct diw_dev *dev)
{
	dev->event_fd = diw_above_std(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
	if (dev->event_fd < 0)
		return -EMFILE;
	return diw_engine_open(&dev->engine, dev->info.progress_thread, dev->info.progress_spins);
}

static enum diw_progress progress_by_env(void)
{
	static const char *const words[] = { "thread", "spin", "inline", NULL };
	static const enum diw_progress progress[] = { DIW_PROGRESS_THREAD, DIW_PROGRESS_SPIN, DIW_PROGRESS_INLINE };

	return progress[diw_env_word("DIWARP_PROGRESS", words, 0, 0)];
}

/* A program that asks for a thread needs work to be done while it makes no calls. A thread that spins does that, too.
 */
static void choose_progress(const struct diw_dev_attr *attr, struct diw_dev_info *info)
{
	enum diw_progress asked = attr ? attr->progress : DIW_PROGRESS_DEFAULT, env = progress_by_env();

	if (asked == DIW_PROGRESS_DEFAULT || (asked == DIW_PROGRESS_THREAD && env == DIW_PROGRESS_SPIN))
		asked = env;
	info->progress_thread = asked != DIW_PROGRESS_INLINE;
	info->progress_spins = asked == DIW_PROGRESS_SPIN;
}

static int dev_attr_check(const struct diw_dev_attr *a)
{
	if (a && (unsigned)a->progress > DIW_PROGRESS_SPIN)
		return diw_fail(-EINVAL, "diw_dev_open: progress %d: not of enum diw_progress", (int)a->progress);
	if (a && (unsigned)a->llp > DIW_LLP_URING)
		return diw_fail(-EINVAL, "diw_dev_open: llp %d: not of enum diw_llp", (int)a->llp);
	return 0;
}

int diw_dev_open(const char *name, const struct diw_dev_attr *attr, struct diw_dev **out)
{
	struct diw_dev_info info;
	struct diw_dev *dev;
	int rc = dev_attr_check(attr);

	if (rc < 0)
		return rc;
	rc = diw_iface_find(name, &info);
	if (rc < 0)
		return diw_fail(rc, "diw_dev_open: \"%s\": no such interface", name ? name : "");
	choose_progress(attr, &info);
	rc = diw_dev_open_transport(choose_llp(attr, &info), &info, &dev);
	if (rc < 0)
		return rc;
	diw_stat_init(dev);
	rc = open_descriptors(dev);
	if (rc == 0)
		rc = diw_loopback_init(dev);
	if (rc < 0) {
		dev_free(dev);
		return diw_fail(rc, "diw_dev_open: \"%s\": descriptors", info.name);
	}
	diw_log(DIW_LOG_DEBUG, "diw_dev_open: %s over %s", info.name, info.llp);
	*out = dev;
	return 0;
}

int diw_dev_open_route(const struct diw_addr *dst, const struct diw_dev_attr *attr, struct diw_dev **dev)
{
	char name[sizeof ((struct diw_dev_info *)0)->name], text[DIW_ADDR_STRLEN];
	int rc = diw_iface_route(dst, name);

	if (rc < 0)
		return diw_fail(rc, "diw_dev_open_route: to %s", diw_addr_str(dst, text));
	return diw_dev_open(name, attr, dev);
}

int diw_dev_query(struct diw_dev *dev, struct diw_dev_info *info)
{
	if (!diw_engine_alive(&dev->engine))
		return -ENODEV;
	*info = dev->info;
	return 0;
}

int diw_dev_set_arbiter(struct diw_dev *dev, enum diw_arbiter_mode mode)
{
	struct diw_engine *e = &dev->engine;
	int rc = mode == DIW_ARBITER_WEIGHTED || mode == DIW_ARBITER_BLOCKING ? diw_engine_lock(e) :
		 diw_fail(-EINVAL, "diw_dev_set_arbiter: mode %d: not DIW_ARBITER_WEIGHTED or DIW_ARBITER_BLOCKING",
			  (int)mode);

	if (rc < 0)
		return rc;
	diw_arbiter_set_mode(dev, mode, diw_engine_time(e));
	diw_engine_unlock(e);
	return 0;
}

bool diw_dev_has_fds(struct diw_dev *dev)
{
	return diw_engine_has_fds(&dev->engine);
}

int diw_dev_close(struct diw_dev *dev)
{
	bool busy;

	if (diw_engine_lock(&dev->engine) < 0) {
		dev_free(dev);
		return 0;
	}
	busy = dev->npds || dev->nqps || dev->ncqs || dev->nchannels;
	diw_engine_unlock(&dev->engine);
	if (busy)
		return diw_fail(-EBUSY,
				"diw_dev_close: %d protection domains, %d queue pairs, %d completion queues and %d "
				"channels of it are there", dev->npds, dev->nqps, dev->ncqs, dev->nchannels);
	dev_free(dev);
	return 0;
}
