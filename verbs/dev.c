/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/dev.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "llp/capture.h"
#include "verbs/ifaces.h"
#include "verbs/qp.h"

/* ---- fork: a child shares the sockets but not the threads, so its handles are dead ---- */

static unsigned generation;
static pthread_once_t atfork_once = PTHREAD_ONCE_INIT;

static void child_after_fork(void)
{
	generation++;
	diw_stat_forked();
	diw_capture_forked();
}

static void register_atfork(void)
{
	pthread_atfork(NULL, NULL, child_after_fork);
}

bool diw_dev_alive(const struct diw_dev *dev)
{
	return dev->fork_generation == generation;
}

/* ---- Lock ---- */

static void run_pending(struct diw_dev *dev)
{
	uint64_t now = diw_dev_forward(dev, diw_dev_now(dev));
	struct diw_list *l, *next;

	diw_list_for_each_safe(l, next, &dev->qps) {
		struct diw_qp *qp = diw_container(l, struct diw_qp, turn);

		if (qp->starved)
			diw_qp_serve(qp, now);
		else if (!diw_sq_empty(&qp->sq) || qp->state == DIW_QPS_ERROR)
			diw_qp_run(qp, now);
	}
}

int diw_dev_lock(struct diw_dev *dev)
{
	if (!diw_dev_alive(dev))
		return -ENODEV;
	pthread_mutex_lock(&dev->lock);
	return 0;
}

int diw_dev_lock_wait(struct diw_dev *dev, int64_t timeout_ns)
{
	if (timeout_ns)
		pthread_testcancel();
	return diw_dev_lock(dev);
}

void diw_dev_unlock(struct diw_dev *dev)
{
	for (;;) {
		if (!diw_list_empty(&dev->dirty))
			diw_channel_sync(dev);
		pthread_mutex_unlock(&dev->lock);
		/* Pairs with the poster's store of pending before its trylock: one of the two sees the other. */
		atomic_thread_fence(memory_order_seq_cst);
		if (!atomic_load(&dev->pending) || pthread_mutex_trylock(&dev->lock) != 0)
			return;
		atomic_store(&dev->pending, false);
		run_pending(dev);
	}
}

void diw_dev_nudge(struct diw_dev *dev)
{
	atomic_store(&dev->pending, true);
	if (pthread_mutex_trylock(&dev->lock) == 0)
		diw_dev_unlock(dev);
}

/* ---- Step ---- */

static void serve_all(struct diw_dev *dev, uint64_t now)
{
	struct diw_list *l, *next;

	diw_list_for_each_safe(l, next, &dev->qps)
		diw_qp_serve(diw_container(l, struct diw_qp, turn), now);
}

/* Those that the clock calls, or that have work left from their last turn. */
static void serve_due(struct diw_dev *dev, uint64_t now)
{
	struct diw_list *l, *next;
	uint64_t t = DIW_NEVER;

	if (now < dev->timer_at)
		return;
	diw_list_for_each_safe(l, next, &dev->qps) {
		struct diw_qp *qp = diw_container(l, struct diw_qp, turn);

		if (now >= qp->deadline || qp->starved)
			diw_qp_serve(qp, now);
		t = diw_min64(t, qp->deadline);
	}
	dev->timer_at = t;
}

uint64_t diw_dev_step_locked(struct diw_dev *dev, uint64_t now)
{
	struct diw_list *first = diw_list_first(&dev->qps);

	now = diw_dev_forward(dev, now);
	if (dev->epoll_on)
		diw_ready_serve(dev, now);
	else
		serve_all(dev, now);
	diw_group_serve(dev, now);
	diw_cm_serve(dev, now);                 /* what it starts and ends is due at once */
	serve_due(dev, now);
	if (dev->nqps > 1 && first) {           /* another queue pair begins the next step */
		diw_list_del(first);
		diw_list_add_tail(&dev->qps, first);
	}
	if (now >= dev->stat_at)
		diw_stat_refresh(dev);
	return diw_min64(dev->timer_at, diw_cm_deadline(dev));
}

uint64_t diw_dev_step(struct diw_dev *dev, uint64_t now)
{
	uint64_t t;

	if (diw_dev_lock(dev) < 0)
		return DIW_NEVER;
	t = diw_dev_step_locked(dev, now);
	diw_dev_unlock(dev);
	return t;
}

/* Beyond so many queue pairs a wake-up that turns out to be early is cheaper than a look at each before every sleep. */
#define FEW 64

uint64_t diw_dev_deadline(const struct diw_dev *dev, bool waiting)
{
	const struct diw_list *l;
	uint64_t t = diw_min64(diw_cm_deadline(dev), diw_group_deadline(dev));

	if (dev->nqps > FEW)
		return diw_min64(t, dev->timer_at);
	for (l = dev->qps.next; l != &dev->qps; l = l->next) {
		const struct diw_qp *qp = diw_container(l, struct diw_qp, turn);

		t = diw_min64(t, diw_qp_deadline(qp, waiting || qp->send_cq->armed));
	}
	return t;
}

/* ---- Asynchronous events ---- */

void diw_dev_event(struct diw_dev *dev, const struct diw_event *ev)
{
	uint64_t one = 1;

	if (dev->events_n == DIW_DEV_EVENTS) {
		uint32_t last = (dev->events_head + DIW_DEV_EVENTS - 1) % DIW_DEV_EVENTS;

		dev->events[last] = (struct diw_event){ .type = DIW_EVENT_OVERRUN };
		return;
	}
	dev->events[(dev->events_head + dev->events_n++) % DIW_DEV_EVENTS] = *ev;
	if (dev->event_fd >= 0 && dev->events_n == 1)
		(void)!write(dev->event_fd, &one, sizeof one);  /* an eventfd at 0 takes it */
	diw_dev_wake(dev, dev);
}

void diw_dev_forget_events(struct diw_dev *dev, const void *object)
{
	uint32_t n = dev->events_n, at = dev->events_head;
	uint64_t drained;

	for (dev->events_n = 0; n; n--, at = (at + 1) % DIW_DEV_EVENTS)
		if (dev->events[at].qp != object && dev->events[at].srq != object)
			dev->events[(dev->events_head + dev->events_n++) % DIW_DEV_EVENTS] = dev->events[at];
	if (dev->events_n == 0 && dev->event_fd >= 0)
		(void)!read(dev->event_fd, &drained, sizeof drained);
}

int diw_event_fd(struct diw_dev *dev)
{
	return diw_dev_alive(dev) ? dev->event_fd : -ENODEV;
}

static bool take_event(struct diw_dev *dev, struct diw_event *ev)
{
	uint64_t drained;

	if (dev->events_n == 0)
		return false;
	*ev = dev->events[dev->events_head];
	dev->events_head = (dev->events_head + 1) % DIW_DEV_EVENTS;
	if (--dev->events_n == 0 && dev->event_fd >= 0)
		(void)!read(dev->event_fd, &drained, sizeof drained);
	return true;
}

int diw_event_get(struct diw_dev *dev, struct diw_event *ev, int64_t timeout_ns)
{
	struct diw_waiter w;
	uint64_t until;
	bool got;
	int rc = diw_dev_lock_wait(dev, timeout_ns);

	if (rc < 0)
		return rc;
	until = diw_until(diw_dev_now(dev), timeout_ns);
	diw_waiter_init(dev, &w, dev);
	for (;;) {
		uint64_t now = diw_dev_now(dev);

		diw_dev_step_locked(dev, now);
		got = take_event(dev, ev);
		if (got || now >= until)
			break;
		diw_dev_sleep(dev, &w, until);
	}
	diw_waiter_fini(dev, &w);
	diw_dev_unlock(dev);
	return got ? 0 : -EAGAIN;
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
	/* A ring is locked memory, of which an ordinary user has little: the queue pairs beyond it are on sockets. */
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

/* Where io_uring is forbidden, or the kernel too old, there are still the sockets. */
static struct diw_transport *choose_llp(const struct diw_dev_attr *attr, struct diw_dev_info *info)
{
	enum diw_llp llp = attr ? attr->llp : DIW_LLP_DEFAULT;
	const char *env = getenv("DIWARP_LLP");

	if (llp == DIW_LLP_DEFAULT && env && *env) {
		if (strcmp(env, "udp") != 0 && strcmp(env, "uring") != 0)
			diw_log(DIW_LOG_TELL, "DIWARP_LLP=%s: neither udp nor uring; udp it is", env);
		llp = strcmp(env, "uring") == 0 ? DIW_LLP_URING : DIW_LLP_UDP;
	}
	if (llp != DIW_LLP_URING)
		return &sockets;
	info->llp_errno = -diw_uring_try();
	if (info->llp_errno) {
		diw_log(DIW_LOG_WARN, "diw_dev_open: no io_uring here (errno %d): socket calls do the work",
			info->llp_errno);
		return &sockets;
	}
	info->llp = "uring";
	return &uring;
}

static void dev_free(struct diw_dev *dev)
{
	int fds[] = { dev->epfd, dev->kick_fd, dev->thread_fd, dev->event_fd };

	for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	diw_cm_fini(dev);
	diw_group_fini(dev);
	if (dev->mpa_pool)
		diw_mpa_pool_free(dev->mpa_pool);
	diw_rdmap_snap_pool_free(dev->snap_pool);
	diw_stag_fini(&dev->stags);
	sem_destroy(&dev->thread_sem);
	free(dev);
}

int diw_dev_open_transport(struct diw_transport *t, const struct diw_dev_info *info, struct diw_dev **out)
{
	struct diw_dev *dev = calloc(1, sizeof *dev);

	if (!dev)
		return -ENOMEM;
	pthread_once(&atfork_once, register_atfork);
	pthread_mutex_init(&dev->lock, NULL);
	pthread_mutex_init(&dev->thread_lock, NULL);
	pthread_cond_init(&dev->all_awake, NULL);
	sem_init(&dev->thread_sem, 0, 0);
	dev->fork_generation = generation;
	dev->transport = t;
	dev->info = *info;
	dev->stat_at = DIW_NEVER;
	dev->epfd = dev->kick_fd = dev->thread_fd = dev->event_fd = -1;
	diw_list_init(&dev->qps);
	diw_list_init(&dev->dirty);
	diw_list_init(&dev->waiters);
	if (diw_stag_init(&dev->stags) < 0) {
		dev_free(dev);
		return -ENOMEM;
	}
	*out = dev;
	return 0;
}

static int open_descriptors(struct diw_dev *dev)
{
	dev->epfd = epoll_create1(EPOLL_CLOEXEC);
	dev->kick_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	dev->thread_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	dev->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	return dev->epfd < 0 || dev->kick_fd < 0 || dev->thread_fd < 0 || dev->event_fd < 0 ? -EMFILE : 0;
}

static bool wants_thread(const struct diw_dev_attr *attr)
{
	const char *env = getenv("DIWARP_PROGRESS");

	if (attr && attr->progress != DIW_PROGRESS_DEFAULT)
		return attr->progress == DIW_PROGRESS_THREAD;
	if (env && strcmp(env, "inline") != 0 && strcmp(env, "thread") != 0)
		diw_log(DIW_LOG_TELL, "DIWARP_PROGRESS=%s: neither thread nor inline; a thread it is", env);
	return !env || strcmp(env, "inline") != 0;
}

int diw_dev_open(const char *name, const struct diw_dev_attr *attr, struct diw_dev **out)
{
	struct diw_dev_info info;
	struct diw_dev *dev;
	int rc = diw_iface_find(name, &info);

	if (rc < 0)
		return diw_fail(rc, "diw_dev_open: \"%s\": no such interface", name ? name : "");
	info.progress_thread = wants_thread(attr);
	rc = diw_dev_open_transport(choose_llp(attr, &info), &info, &dev);
	if (rc < 0)
		return rc;
	dev->shows = true;
	dev->stat_at = 0;
	rc = open_descriptors(dev);
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
	if (!diw_dev_alive(dev))
		return -ENODEV;
	*info = dev->info;
	return 0;
}

int diw_dev_close(struct diw_dev *dev)
{
	bool busy;

	if (diw_dev_lock(dev) < 0) {
		dev_free(dev);
		return 0;
	}
	busy = dev->npds || dev->nqps || dev->ncqs || dev->nchannels;
	diw_dev_unlock(dev);
	if (busy)
		return diw_fail(-EBUSY,
				"diw_dev_close: %d protection domains, %d queue pairs, %d completion queues and %d "
				"channels of it are there", dev->npds, dev->nqps, dev->ncqs, dev->nchannels);
	pthread_cond_destroy(&dev->all_awake);
	pthread_mutex_destroy(&dev->lock);
	pthread_mutex_destroy(&dev->thread_lock);
	dev_free(dev);
	return 0;
}
