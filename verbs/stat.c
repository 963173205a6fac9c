/* SPDX-License-Identifier: BSD-2-Clause */
/* The page of counters that a process shows to diw stat. */
#include "verbs/stat.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/env.h"
#include "base/rng.h"
#include "base/statpage.h"
#include "base/sys.h"
#include "verbs/qp.h"

/* This many queue pairs write their states before every sleep. With more, they write at intervals, so that going to
 * sleep stays cheap. */
#define STAT_FEW 16
#define REFRESH_NS (100 * DIW_MS)
#define UNFINISHED_NS (10 * DIW_S)       /* age at which a page without a lock counts as never finished */
#define SWEEP_MAX 256                    /* abandoned pages that a new one checks */

#define COUNTERS (sizeof(struct diw_counters) / sizeof(uint64_t))
#define VALUES (COUNTERS + sizeof(struct diw_gauges) / sizeof(uint64_t))
#define SLOTS_OFF ((sizeof(struct diw_stat_head) + VALUES * DIW_STAT_NAME + 4095) & ~(size_t)4095)
#define PAGE_SIZE_ALL (SLOTS_OFF + DIW_STAT_SLOTS * sizeof(struct diw_stat_slot))

static const char names[VALUES][DIW_STAT_NAME] = {
#define X(name, text) #name,
	DIW_COUNTERS(X) DIW_GAUGES(X)
#undef X
};

/* The process's page, from its first queue pair to its last. */
static struct {
	pthread_mutex_t lock;
	struct diw_stat_head *head;
	int fd;
	dev_t dev;                   /* of the file of FD */
	ino_t ino;
	uint32_t users, hidden;
	bool taken[DIW_STAT_SLOTS];
	char path[64];
} page = { .lock = PTHREAD_MUTEX_INITIALIZER };

static uint64_t ctime_ns(const struct stat *st)
{
	return (uint64_t)st->st_ctim.tv_sec * DIW_S + (uint64_t)st->st_ctim.tv_nsec;
}

/* ---- The page ---- */

/* Removes pages of dead processes of this user. Pages with this process's id are left: another copy of this library may
 * have them, whose locks would not be visible. */
static void pages_sweep(void)
{
	char own[32];
	const struct dirent *e;
	DIR *dir = opendir(DIW_STAT_DIR);
	int left = SWEEP_MAX;

	snprintf(own, sizeof own, DIW_STAT_PREFIX "%d.", (int)getpid());
	while (dir && left && (e = readdir(dir))) {
		struct stat st;
		uint64_t magic = 0;
		pid_t pid;
		int fd;

		if (strncmp(e->d_name, DIW_STAT_PREFIX, sizeof DIW_STAT_PREFIX - 1) != 0 ||
		    strncmp(e->d_name, own, strlen(own)) == 0)
			continue;
		left--;
		fd = openat(dirfd(dir), e->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		if (fd < 0)
			continue;
		/* A page without magic is unfinished: the interposer names the file before it locks it. */
		if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
		    !diw_stat_is_held(fd, &pid) && pread(fd, &magic, sizeof magic, 0) >= 0 &&
		    (magic == DIW_STAT_MAGIC ||
		     (magic == 0 && diw_clock_realtime_ns() > ctime_ns(&st) + UNFINISHED_NS)))
			unlinkat(dirfd(dir), e->d_name, 0);
		close(fd);
	}
	if (dir)
		closedir(dir);
}

/* A program may close all descriptors that it finds; the number may then be another file's. */
static bool page_is_open(void)
{
	struct stat st;

	return fstat(page.fd, &st) == 0 && st.st_dev == page.dev && st.st_ino == page.ino;
}

static void page_close_fd(void)
{
	if (page_is_open())
		close(page.fd);
}

/* tmpfs allocates memory when a page is touched, and raises SIGBUS if there is none. So the memory is allocated
 * first. */
static bool page_reserve(size_t off, size_t len)
{
	return page_is_open() && fallocate(page.fd, 0, (off_t)off, (off_t)len) == 0;
}

static void fill_head(struct diw_stat_head *h)
{
	h->version = DIW_STAT_VERSION;
	h->nvalues = VALUES;
	h->ncounters = COUNTERS;
	h->slots_off = SLOTS_OFF;
	h->slot_size = sizeof(struct diw_stat_slot);
	h->values_off = offsetof(struct diw_stat_slot, counters);
	h->peers_off = offsetof(struct diw_stat_slot, peers);
	h->peers = DIW_STAT_PEERS;
	h->slots = DIW_STAT_SLOTS;
	h->pid = (uint32_t)getpid();
	h->started_ns = diw_clock_realtime_ns();
	snprintf(h->program, sizeof h->program, "%.15s", program_invocation_short_name);
	memcpy(h + 1, names, sizeof names);
	atomic_store_explicit(&h->magic, DIW_STAT_MAGIC, memory_order_release);
}

/* The kernel ends a program that exceeds its file size limit (SIGXFSZ). */
static bool size_is_allowed(void)
{
	struct rlimit l;

	return getrlimit(RLIMIT_FSIZE, &l) == 0 && l.rlim_cur >= PAGE_SIZE_ALL;
}

static bool stat_is_wanted(void)
{
	static const char *const words[] = { "on", "off", NULL };

	return diw_env_word("DIWARP_STAT", words, 0, 0) == 0;
}

/* Names the file when it is complete and locked. A process that ends before that leaves nothing behind. */
static bool page_name(void)
{
	char self[32];

	snprintf(self, sizeof self, "/proc/self/fd/%d", page.fd);
	snprintf(page.path, sizeof page.path, DIW_STAT_DIR "/" DIW_STAT_PREFIX "%d.%08x", (int)getpid(),
		 (unsigned)diw_random());
	return linkat(AT_FDCWD, self, AT_FDCWD, page.path, AT_SYMLINK_FOLLOW) == 0;
}

static bool page_open(void)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	void *p = MAP_FAILED;
	struct stat st;

	if (!stat_is_wanted() || !size_is_allowed())
		return false;
	pages_sweep();
	page.fd = diw_above_std(open(DIW_STAT_DIR, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
	if (page.fd < 0)
		return false;
	if (fstat(page.fd, &st) == 0) {
		page.dev = st.st_dev;
		page.ino = st.st_ino;
	}
	if (fchmod(page.fd, 0600) == 0 && fcntl(page.fd, F_SETLK, &l) == 0 &&
	    ftruncate(page.fd, (off_t)PAGE_SIZE_ALL) == 0 && page_reserve(0, SLOTS_OFF))
		p = mmap(NULL, PAGE_SIZE_ALL, PROT_READ | PROT_WRITE, MAP_SHARED, page.fd, 0);
	if (p != MAP_FAILED) {
		fill_head(p);
		if (page_name()) {
			page.head = p;
			return true;
		}
		munmap(p, PAGE_SIZE_ALL);
	}
	close(page.fd);
	return false;
}

static void page_close(void)
{
	unlink(page.path);
	munmap(page.head, PAGE_SIZE_ALL);
	page_close_fd();
	page.head = NULL;
}

/* A process may end without destroying its queue pairs. Its threads may still count, so the mapping stays. */
__attribute__((destructor)) static void page_at_exit(void)
{
	if (pthread_mutex_trylock(&page.lock))  /* another thread is at work; the next process removes a page that is
						 * left */
		return;
	if (page.head)
		unlink(page.path);
	pthread_mutex_unlock(&page.lock);
}

/* Inherited queue pairs point at the parent's page, so their counters move to memory of the child. (If there is none,
 * the parent's counters include what the child counts when it closes them.) */
void diw_stat_forked(void)
{
	if (page.head) {
		(void)mmap(page.head, PAGE_SIZE_ALL, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
		page_close_fd();
	}
	page.head = NULL;
	page.users = page.hidden = 0;
	memset(page.taken, 0, sizeof page.taken);
	pthread_mutex_init(&page.lock, NULL);   /* another thread may have held it at fork(2) */
}

/* ---- Slots of the page ---- */

static struct diw_stat_slot *page_slot(uint32_t i)
{
	return (struct diw_stat_slot *)((char *)page.head + SLOTS_OFF) + i;
}

static struct diw_stat_slot *slot_take(void)
{
	uint32_t i = 0;

	while (i < DIW_STAT_SLOTS && page.taken[i])
		i++;
	if (i == DIW_STAT_SLOTS ||
	    !page_reserve(SLOTS_OFF + i * sizeof(struct diw_stat_slot), sizeof(struct diw_stat_slot)))
		return NULL;
	page.taken[i] = true;
	if (i >= page.head->used)
		atomic_store_explicit(&page.head->used, i + 1, memory_order_release);
	return page_slot(i);
}

static struct diw_stat_slot *qp_take_slot(struct diw_qp *qp)
{
	struct diw_stat_slot *s = NULL;

	pthread_mutex_lock(&page.lock);
	if (page.head || page_open()) {
		page.users++;
		s = slot_take();
		page.hidden += !s;
		page.head->hidden = page.hidden;
		qp->counted = true;
	}
	pthread_mutex_unlock(&page.lock);
	return s;
}

int diw_stat_take(struct diw_qp *qp)
{
	struct diw_stat_slot *s = qp->dev->stat.shows ? qp_take_slot(qp) : NULL;

	if (!s) {
		qp->c = qp->own_c = calloc(1, sizeof *qp->own_c);
		return qp->c ? 0 : -ENOMEM;
	}
	memset(&s->counters, 0, sizeof s->counters);
	memset(&s->gauges, 0, sizeof s->gauges);
	s->peers.n = s->peers.all = 0;
	qp->stat = s;
	qp->c = &s->counters;
	return 0;
}

void diw_stat_show(struct diw_qp *qp, const struct diw_addr *peer)
{
	struct diw_stat_slot *s = qp->stat;

	if (!s || !qp->link)                    /* an RC queue pair is shown when it is connected */
		return;
	qp->shown = true;
	s->id.created_ns = diw_clock_realtime_ns();
	s->id.num = qp->link->local.port;
	s->id.type = qp->ops->type;
	s->id.local = qp->link->local;
	s->id.peer = peer ? *peer : (struct diw_addr){ 0 };
	memcpy(s->id.device, qp->dev->info.name, sizeof s->id.device);
	diw_stat_gauges(qp);
	qp->dev->stat.nshown++;
	atomic_fetch_add_explicit(&s->id.seq, 1, memory_order_release);
}

void diw_stat_hide(struct diw_qp *qp)
{
	qp->dev->stat.nshown -= qp->shown;
	if (qp->shown && qp->stat)
		atomic_fetch_add_explicit(&qp->stat->id.seq, 1, memory_order_release);
	qp->shown = false;
}

void diw_stat_give(struct diw_qp *qp)
{
	struct diw_stat_slot *s = qp->stat;

	free(qp->own_c);
	if (!qp->counted || !diw_engine_alive(&qp->dev->engine))
		return;
	pthread_mutex_lock(&page.lock);
	if (s) {
		if (s->id.seq % 2)
			atomic_fetch_add_explicit(&s->id.seq, 1, memory_order_release);
		page.taken[s - page_slot(0)] = false;
	} else {
		page.head->hidden = --page.hidden;
	}
	if (--page.users == 0)
		page_close();
	pthread_mutex_unlock(&page.lock);
	qp->stat = NULL;
	qp->counted = false;
}

/* ---- States ---- */

void diw_stat_gauges(struct diw_qp *qp)
{
	diw_qp_count_device(qp, &qp->stat->counters);
	qp->stat->gauges = diw_qp_gauges(qp);
}

static struct diw_dev *dev_of(const struct diw_member *m)
{
	return diw_container((struct diw_member *)m, struct diw_dev, stat.member);
}

static void peers_write(struct diw_stat_peers *p, const struct diw_link *l)
{
	uint64_t seq = atomic_fetch_add_explicit(&p->seq, 1, memory_order_acquire);   /* acquire: the rows are written
										       * after this store */

	p->n = l->ops->peers(l, p->row, DIW_STAT_PEERS, &p->all);
	atomic_store_explicit(&p->seq, seq + 2, memory_order_release);
}

static void states_write(struct diw_dev *dev)
{
	struct diw_list *l;

	dev->stat.ns = diw_engine_time(&dev->engine);
	dev->stat.at = dev->stat.ns + REFRESH_NS;
	if (dev->stat.nshown == 0)
		return;
	for (l = dev->qps.next; l != &dev->qps; l = l->next) {
		struct diw_qp *qp = diw_container(l, struct diw_qp, of_dev);

		if (!qp->stat)
			continue;
		diw_stat_gauges(qp);
		if (qp->link && qp->link->ops->peers)
			peers_write(&qp->stat->peers, qp->link);
	}
}

static bool states_are_old(const struct diw_dev *dev)
{
	return dev->stat.nshown && dev->stat.ns != diw_engine_time(&dev->engine);
}

static bool stat_serve(struct diw_member *m, uint64_t now)
{
	if (now >= dev_of(m)->stat.at)
		states_write(dev_of(m));
	return false;
}

static uint64_t stat_deadline(const struct diw_member *m, bool waiting)
{
	const struct diw_dev *dev = dev_of(m);

	(void)waiting;
	return dev->stat.nshown > STAT_FEW && states_are_old(dev) ? dev->stat.at : DIW_NEVER;
}

static void stat_rest(struct diw_member *m)
{
	struct diw_dev *dev = dev_of(m);

	if (dev->stat.nshown <= STAT_FEW && states_are_old(dev))
		states_write(dev);
}

static const struct diw_member_ops stat_ops = { .serve = stat_serve, .deadline = stat_deadline, .rest = stat_rest };

void diw_stat_init(struct diw_dev *dev)
{
	dev->stat.shows = true;
	dev->stat.member.ops = &stat_ops;
	diw_engine_add_fixed(&dev->engine, &dev->stat.member);
}
