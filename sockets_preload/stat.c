/* SPDX-License-Identifier: BSD-2-Clause */
/* The process's counters, in a page that `diw stat` reads (base/statpage.h). */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/rng.h"
#include "base/statpage.h"
#include "sockets_preload/dgram/bad_net.h"
#include "sockets_preload/preload.h"

struct slot {
	struct diw_stat_id id;
	_Alignas(64) _Atomic uint64_t counter[DIW_SOCK_NCOUNTERS];
};
#define SLOT_OFF ((sizeof(struct diw_stat_head) + DIW_SOCK_NCOUNTERS * DIW_STAT_NAME + 63) & ~(size_t)63)
#define PAGE_BYTES ((SLOT_OFF + sizeof(struct slot) + 4095) & ~(size_t)4095)

static const char names[DIW_SOCK_NCOUNTERS][DIW_STAT_NAME] = {
#define X(name, text) #name,
	DIW_SOCK_COUNTERS(X)
#undef X
};

/* The counters until there is a page, and without a page. */
static _Atomic uint64_t unseen[DIW_SOCK_NCOUNTERS];
_Atomic uint64_t *_Atomic diw_sock_count = unseen;

static struct {
	_Atomic int tried;
	_Atomic int fd;
	dev_t dev;
	ino_t ino;
	char path[64];
} page = { .fd = -1 };

/* Earlier counts are copied to the page; magic is written last. */
static void page_fill(struct diw_stat_head *h)
{
	struct slot *s = (struct slot *)((char *)h + SLOT_OFF);

	h->version = DIW_STAT_VERSION;
	h->nvalues = h->ncounters = DIW_SOCK_NCOUNTERS;
	h->slots_off = SLOT_OFF;
	h->slot_size = sizeof *s;
	h->values_off = offsetof(struct slot, counter);
	h->slots = 1;
	h->used = 1;
	h->pid = (uint32_t)getpid();
	h->started_ns = diw_clock_realtime_ns();
	snprintf(h->program, sizeof h->program, "%.15s", program_invocation_short_name);
	memcpy(h + 1, names, sizeof names);
	s->id.created_ns = h->started_ns;
	s->id.type = DIW_STAT_SOCKETS;
	memcpy(s->id.device, "sockets", sizeof "sockets");
	atomic_store_explicit(&s->id.seq, 1, memory_order_release);
	for (int i = 0; i < DIW_SOCK_NCOUNTERS; i++)
		atomic_store_explicit(&s->counter[i], atomic_load_explicit(&unseen[i], memory_order_relaxed),
				      memory_order_relaxed);
	atomic_store_explicit(&diw_sock_count, s->counter, memory_order_release);
	atomic_store_explicit(&h->magic, DIW_STAT_MAGIC, memory_order_release);
}

static bool is_allowed(void)
{
	const char *env = getenv("DIWARP_STAT");
	struct rlimit l;

	return !(diw_denied & DIW_DENIED_OPENING) && (!env || strcmp(env, "off") != 0) &&
	       getrlimit(RLIMIT_FSIZE, &l) == 0 && l.rlim_cur >= PAGE_BYTES;
}

int diw_raise_fd(int fd)
{
	int high = real.fcntl(fd, F_DUPFD_CLOEXEC, DIW_HIGH_FD);

	if (high < 0)
		return fd;
	real.close(fd);
	return high;
}

void diw_sock_stat_open(void)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	void *p = MAP_FAILED;
	struct stat st;
	int fd;

	if (atomic_exchange(&page.tried, 1) || !is_allowed())
		return;
	snprintf(page.path, sizeof page.path, DIW_STAT_DIR "/" DIW_STAT_PREFIX "%d.%08x", (int)getpid(),
		 (unsigned)diw_random());
	fd = open(page.path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	fd = diw_raise_fd(fd);
	if (fstat(fd, &st) == 0 && real.fcntl(fd, F_SETLK, &l) == 0 && fallocate(fd, 0, 0, (off_t)PAGE_BYTES) == 0)
		p = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED) {
		unlink(page.path);
		page.path[0] = '\0';
		real.close(fd);
		return;
	}
	page.dev = st.st_dev;
	page.ino = st.st_ino;
	atomic_store(&page.fd, fd);
	page_fill(p);
}

/* If the program closed our descriptor by a call that is not interposed, the number may be another file's. */
bool diw_sock_stat_is(int fd)
{
	struct stat st;

	if (DIW_LIKELY(fd < 0 || fd != atomic_load_explicit(&page.fd, memory_order_relaxed)))
		return false;
	if (fstat(fd, &st) == 0 && st.st_dev == page.dev && st.st_ino == page.ino)
		return true;
	atomic_store(&page.fd, -1);
	return false;
}

int diw_sock_stat_fd(void)
{
	int fd = atomic_load_explicit(&page.fd, memory_order_relaxed);

	return diw_sock_stat_is(fd) ? fd : -1;
}

/* A record lock ends when any descriptor of its file is closed, so it is taken again. */
void diw_sock_stat_move(void)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int fd = atomic_load(&page.fd), other = real.fcntl(fd, F_DUPFD_CLOEXEC, fd + 1);

	atomic_store(&page.fd, other);
	real.close(fd);
	if (other >= 0)
		real.fcntl(other, F_SETLK, &l);
}

/* The parent's page stays the parent's, and mapped: the fork may be in a signal handler, in the middle of a count. */
void diw_sock_stat_forked(void)
{
	int fd = diw_sock_stat_fd();

	atomic_store(&diw_sock_count, unseen);
	for (int i = 0; i < DIW_SOCK_NCOUNTERS; i++)
		atomic_store_explicit(&unseen[i], 0, memory_order_relaxed);
	page.path[0] = '\0';
	atomic_store(&page.fd, -1);
	if (fd >= 0)
		real.close(fd);
	atomic_store(&page.tried, 0);
}

/* Logs the counts, for a reader after the page is gone. */
static void log_counts(void)
{
	const _Atomic uint64_t *c = atomic_load(&diw_sock_count);
	char text[400] = "";
	size_t n = 0;

	for (int i = 0; i < DIW_SOCK_NCOUNTERS && n < sizeof text; i++)
		if (c[i])
			n += (size_t)snprintf(text + n, sizeof text - n, " %s=%llu", names[i],
					      (unsigned long long)c[i]);
	if (n)
		diw_log(DIW_LOG_INFO, "counted%s", text);
}

__attribute__((destructor)) static void stat_at_exit(void)
{
	diw_bad_net_flush(0, UINT_MAX);
	log_counts();
	if (page.path[0] && !(diw_denied & DIW_DENIED_FILES))
		unlink(page.path);
}
