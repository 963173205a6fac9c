/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records the counters of programs that end: opens every counter page (base/statpage.h) that appears, and at SIGTERM
 * prints one line of JSON for each queue pair that was ever shown there. `diw stat` shows only running programs; a page
 * stays readable while it is open. A slot that was used again shows its last queue pair.
 */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/statpage.h"
#include "verbs/diw.h"

#define MAX_PAGES 1024

static int pages[MAX_PAGES];
static int npages;

static void keep(const char *name)
{
	char path[sizeof DIW_STAT_DIR + NAME_MAX + 1];

	if (strncmp(name, DIW_STAT_PREFIX, sizeof DIW_STAT_PREFIX - 1) != 0 || npages == MAX_PAGES)
		return;
	snprintf(path, sizeof path, DIW_STAT_DIR "/%s", name);
	pages[npages] = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	npages += pages[npages] >= 0;
}

static void read_events(int fd)
{
	_Alignas(struct inotify_event) char buf[65536];
	ssize_t n = read(fd, buf, sizeof buf);

	for (const char *p = buf; p < buf + n;) {
		const struct inotify_event *e = (const struct inotify_event *)(const void *)p;

		if (e->len)
			keep(e->name);
		p += sizeof *e + e->len;
	}
}

static const char *type_name(uint32_t type)
{
	return type == DIW_QP_RC ? "RC" : type == DIW_QP_RD ? "RD" : type == DIW_QP_UC ? "UC" : "UD";
}

static void print_slot(const struct diw_stat_head *h, const struct diw_stat_slot *s)
{
	printf("{\"pid\": %u, \"program\": \"%s\", \"type\": \"%s\"", h->pid, h->program, type_name(s->id.type));
#define X(name, text) printf(", \"" #name "\": %llu", (unsigned long long)s->counters.name);
	DIW_COUNTERS(X)
#undef X
	puts("}");
}

/* Only pages of this build, whose layout is known. */
static void print_page(int fd)
{
	const struct diw_stat_head *h;
	struct stat st;

	if (fstat(fd, &st) < 0 || (size_t)st.st_size < sizeof *h)
		return;
	h = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (h == MAP_FAILED)
		return;
	for (uint32_t i = 0; h->magic == DIW_STAT_MAGIC && h->slot_size == sizeof(struct diw_stat_slot) &&
	     i < h->used; i++) {
		const struct diw_stat_slot *s =
			(const struct diw_stat_slot *)(const void *)((const char *)h + h->slots_off) + i;

		if (s->id.created_ns)
			print_slot(h, s);
	}
	munmap((void *)(uintptr_t)h, (size_t)st.st_size);
}

int main(void)
{
	struct pollfd fds[2] = { { .events = POLLIN }, { .events = POLLIN } };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fds[0].fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	fds[1].fd = signalfd(-1, &set, SFD_CLOEXEC);
	if (inotify_add_watch(fds[0].fd, DIW_STAT_DIR, IN_CREATE) < 0 || fds[1].fd < 0) {
		perror("pages");
		return 1;
	}
	/* A program may end within a millisecond. Real-time priority (root) lets this one see its page before that on a
	 * busy machine. */
	sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){ .sched_priority = 1 });
	puts("ready");
	fflush(stdout);
	do {
		if (poll(fds, 2, -1) > 0 && fds[0].revents)
			read_events(fds[0].fd);
	} while (!fds[1].revents);
	for (int i = 0; i < npages; i++)
		print_page(pages[i]);
	return 0;
}
