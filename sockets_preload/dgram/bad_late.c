/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams that the bad network delays or reorders. A thread sends them when they are due; it runs while there are
 * any. They are sent at once before the program closes or changes their socket, executes a program, ends, or makes a
 * call that requires a process of one thread. A forked child has none of them.
 */
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "sockets_preload/dgram/bad_wire.h"
#include "sockets_preload/dgram/frame.h"

#define LATE_STACK (256u << 10)
#define MOST_CONTROL 128u
#define RETRY (100 * DIW_US)                 /* the pause before a full socket is tried again */
#define ERRORS 64u
#define YIELDS 1000                          /* turns of a joined thread until the kernel has released it */

/* The origin of an entry of the line. */
struct origin {
	uint64_t cookie;                     /* the socket's: its descriptor may be another file's by now */
	int fd, flags;
	struct sockaddr_storage to;
	socklen_t to_len;
	uint8_t head;                        /* as in struct diw_bad_sent */
	uint32_t control_len;
	_Alignas(struct cmsghdr) uint8_t control[MOST_CONTROL];
};

static struct {
	struct origin *origins;              /* DIW_IMPAIR_ENTRIES of them; NULL: nothing is held back */
	enum { NONE, RUNS, ENDED } state;
	pthread_t thread;
	pid_t tid;                           /* of the thread, since it runs */
	pthread_cond_t due_changes;
	struct { int fd, error; uint64_t cookie; } errors[ERRORS];
} late;

static void cond_init(void)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&late.due_changes, &attr);
	pthread_condattr_destroy(&attr);
}

bool diw_bad_late_init(const struct diw_impair_dir *tx)
{
	void *p;

	if (!tx->delay && !(tx->reorder > 0))
		return true;
	p = mmap(NULL, DIW_IMPAIR_ENTRIES * sizeof *late.origins, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return false;
	late.origins = p;
	cond_init();
	return true;
}

void diw_bad_late_forked(void)
{
	late.state = NONE;
	if (late.origins)
		cond_init();
}

bool diw_bad_late_cannot(const struct msghdr *msg)
{
	return late.origins && (diw_denied || (msg->msg_control && msg->msg_controllen > MOST_CONTROL));
}

/* ---- Origins ---- */

static struct origin *origin_of(const struct diw_impair_entry *e)
{
	return &late.origins[e - diw_bad_wire.tx.entry];
}

bool diw_bad_late_is_new(const struct diw_impair_entry *e, uint32_t head)
{
	const struct diw_impair_line *l = &diw_bad_wire.tx;
	uint32_t at = (uint32_t)(e - l->entry);

	return (at + DIW_IMPAIR_ENTRIES - head) % DIW_IMPAIR_ENTRIES <
	       (l->entry_head + DIW_IMPAIR_ENTRIES - head) % DIW_IMPAIR_ENTRIES;
}

void diw_bad_late_note(const struct diw_bad_sent *s, uint32_t head)
{
	const struct diw_impair_line *l = &diw_bad_wire.tx;
	struct origin o = { .fd = s->fd, .flags = s->flags, .head = s->head };

	if (!late.origins || head == l->entry_head)
		return;
	o.cookie = diw_sock_option64(s->fd, SO_COOKIE);
	o.to_len = sizeof o.to;
	if (!s->msg->msg_name && getpeername(s->fd, (struct sockaddr *)&o.to, &o.to_len) < 0)
		o.to_len = 0;
	if (s->msg->msg_name) {
		o.to_len = s->msg->msg_namelen < sizeof o.to ? s->msg->msg_namelen : sizeof o.to;
		memcpy(&o.to, s->msg->msg_name, o.to_len);
	}
	if (s->msg->msg_control) {
		o.control_len = (uint32_t)s->msg->msg_controllen;
		memcpy(o.control, s->msg->msg_control, o.control_len);
	}
	for (uint32_t i = head; i != l->entry_head; i = (i + 1) % DIW_IMPAIR_ENTRIES)
		late.origins[i] = o;
}

/* ---- Sending ---- */

static void keep_error(const struct origin *o, int error)
{
	unsigned at = (unsigned)o->fd % ERRORS;

	late.errors[at].fd = o->fd;
	late.errors[at].cookie = o->cookie;
	late.errors[at].error = error;
}

int diw_bad_late_error(int fd)
{
	unsigned at = (unsigned)fd % ERRORS;
	int error = late.errors[at].error;

	if (!error || late.errors[at].fd != fd || late.errors[at].cookie != diw_sock_option64(fd, SO_COOKIE))
		return 0;
	late.errors[at].error = 0;
	return error;
}

static ssize_t send_from(const struct origin *o, const struct diw_impair_entry *e, struct iovec data)
{
	struct origin copy = *o;
	struct msghdr m = { .msg_name = copy.to_len ? &copy.to : NULL, .msg_namelen = copy.to_len, .msg_iov = &data,
			    .msg_iovlen = 1, .msg_control = copy.control_len ? copy.control : NULL,
			    .msg_controllen = copy.control_len };
	struct diw_dgram_burst b = { .peer = e->peer, .iov = &data, .len = (uint32_t)data.iov_len,
				     .seg = (uint32_t)data.iov_len };
	ssize_t rc = real.sendmsg(o->fd, &m, o->flags | MSG_DONTWAIT);

	if (rc >= 0)
		diw_bad_wire_capture(o->fd, &b);
	return rc;
}

/* Sends an entry that is due. A frame that is too large for the path is sent without its header and CRC, as outside
 * this file. An error of the socket that the program has not seen yet is kept for its next call. */
bool diw_bad_late_send(const struct diw_impair_entry *e)
{
	const struct origin *o = origin_of(e);
	struct iovec whole = { e->data, e->len };
	struct iovec bare = { e->data + o->head, e->len - o->head - DIW_SEAL_LEN };

	if (diw_sock_option64(o->fd, SO_COOKIE) != o->cookie)
		return true;
	if (send_from(o, e, whole) >= 0)
		return true;
	if (errno == EAGAIN || errno == ENOBUFS)
		return false;
	if (errno == EMSGSIZE && o->head) {
		diw_count(DIW_C_sock_plain_size);
		send_from(o, e, bare);
		return true;
	}
	keep_error(o, errno);
	send_from(o, e, whole);
	return true;
}

/* Sends the entries that are due. If a socket is full, returns the time of the next attempt. */
static uint64_t late_send_due(uint64_t now)
{
	struct diw_impair_line *l = &diw_bad_wire.tx;
	int done = 0, all;

	diw_impair_line_release(l, now);
	all = l->nrun;
	while (done < all && diw_bad_late_send(l->run[done].e))
		done++;
	diw_impair_line_end(l, NULL, done, now);
	return done < all ? now + RETRY : 0;
}

static void *late_run(void *arg)
{
	struct diw_impair_line *l = &diw_bad_wire.tx;
	uint64_t next;

	(void)arg;
	pthread_mutex_lock(&diw_bad_wire.lock);      /* all signals of the thread are blocked */
	late.tid = gettid();
	while ((next = diw_impair_line_deadline(l)) != DIW_NEVER) {
		uint64_t now = diw_clock_ns(), until = next <= now ? late_send_due(now) : next;
		struct timespec ts = { (time_t)(until / DIW_S), (long)(until % DIW_S) };

		if (until)
			pthread_cond_timedwait(&late.due_changes, &diw_bad_wire.lock, &ts);
	}
	if (late.state == RUNS && pthread_equal(late.thread, pthread_self()))
		late.state = ENDED;
	pthread_mutex_unlock(&diw_bad_wire.lock);
	return NULL;
}

/* ---- Sending all at once ---- */

static void run_drain(void)
{
	struct diw_impair_line *l = &diw_bad_wire.tx;

	for (int i = 0; i < l->nrun; i++) {
		const struct diw_impair_entry *e = l->run[i].e;
		struct pollfd p = { .fd = origin_of(e)->fd, .events = POLLOUT };

		if (diw_bad_late_send(e))
			continue;
		real.ppoll(&p, 1, &(struct timespec){ .tv_nsec = 10 * (long)DIW_MS }, NULL);
		if (!diw_bad_late_send(e))
			diw_bad_wire.c.impair_lost++;
	}
	diw_impair_line_end(l, NULL, l->nrun, 0);
}

/* Sends the entries of LIST whose descriptor is one from FIRST to LAST. Returns how many. */
static int list_send(struct diw_list *list, unsigned first, unsigned last)
{
	struct diw_impair_line *l = &diw_bad_wire.tx;
	struct diw_list *pos, *tmp;
	int n = 0;

	diw_list_for_each_safe(pos, tmp, list) {
		struct diw_impair_entry *e = diw_container(pos, struct diw_impair_entry, node);
		unsigned fd = (unsigned)origin_of(e)->fd;

		if (fd < first || fd > last)
			continue;
		diw_list_del(&e->node);
		l->run[l->nrun++] = (struct diw_impair_item){ e, { 0, 0 }, e->len };
		n++;
		if (l->nrun == DIW_IMPAIR_RUN)
			run_drain();
	}
	run_drain();
	return n;
}

static void late_send_range(unsigned first, unsigned last)
{
	struct diw_impair_line *l = &diw_bad_wire.tx;

	list_send(&l->delayed, first, last);
	l->nheld -= list_send(&l->held, first, last);
	diw_bad_wire_count();
}

void diw_bad_late_start(void)
{
	pthread_attr_t attr;
	int error;

	if (!late.origins || diw_impair_line_deadline(&diw_bad_wire.tx) == DIW_NEVER)
		return;
	if (late.state == RUNS) {
		pthread_cond_signal(&late.due_changes);
		return;
	}
	if (late.state == ENDED)
		pthread_join(late.thread, NULL);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, LATE_STACK);
	error = pthread_create(&late.thread, &attr, late_run, NULL);
	if (error == EINVAL)                 /* some libraries need a larger stack for each thread */
		error = pthread_create(&late.thread, NULL, late_run, NULL);
	pthread_attr_destroy(&attr);
	late.state = error ? NONE : RUNS;
	if (error)
		late_send_range(0, UINT_MAX);
}

/* ---- Calls before which everything is sent ---- */

void diw_bad_net_flush(unsigned first, unsigned last)
{
	int saved = errno;

	if (DIW_LIKELY(!late.origins))
		return;
	diw_bad_wire_lock();
	late_send_range(first, last);
	if (late.state == RUNS)
		pthread_cond_signal(&late.due_changes);
	diw_bad_wire_unlock();
	errno = saved;
}

/* The kernel counts a joined thread until it has released it, a moment later: unshare(2) would fail with EINVAL. */
static void late_await_release(void)
{
	for (int i = 0; i < YIELDS && real.syscall(SYS_tgkill, getpid(), late.tid, 0) == 0; i++)
		sched_yield();
}

void diw_bad_net_settle(void)
{
	int saved = errno, cancel;
	bool joins;

	if (DIW_LIKELY(!late.origins))
		return;
	diw_bad_net_flush(0, UINT_MAX);
	diw_bad_wire_lock();
	joins = late.state != NONE;
	late.state = NONE;
	diw_bad_wire_unlock();
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	if (joins) {
		pthread_join(late.thread, NULL);
		late_await_release();
	}
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
}

DIW_API void _exit(int status)
{
	diw_preload_init();
	diw_bad_net_flush(0, UINT_MAX);
	real._exit(status);
	__builtin_unreachable();
}

DIW_API void _Exit(int status)
{
	_exit(status);
}

/* These two require a process of one thread for some of their flags. */
DIW_API int unshare(int flags)
{
	diw_preload_init();
	diw_bad_net_settle();
	if (flags & CLONE_FILES && !*real.__libc_single_threaded)
		diw_sock_part();
	return real.unshare(flags);
}

DIW_API int setns(int fd, int type)
{
	diw_preload_init();
	diw_bad_net_settle();
	return real.setns(fd, type);
}
