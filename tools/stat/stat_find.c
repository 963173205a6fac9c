/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds the counter pages in /dev/shm, where any process may create files. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tools/stat/stat.h"

#define UNFINISHED_S 10
#define MAX_PAGE (8u << 20)                          /* in bytes; a page of ours has two million */

static sigjmp_buf shrunk;

static void on_page_sigbus(int sig)
{
	siglongjmp(shrunk, sig);
}

/* The owner may truncate the file while it is read. */
static int copy_page(int fd, size_t size, struct diw_stat_copy **copy, const char **why)
{
	struct sigaction sa = { .sa_handler = on_page_sigbus }, before;
	void *p = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	int rc;

	*why = strerror(errno);
	if (p == MAP_FAILED)
		return -EINVAL;
	sigaction(SIGBUS, &sa, &before);
	if (sigsetjmp(shrunk, 1) == 0) {
		rc = diw_stat_copy(p, size, copy, why);
	} else {
		*why = "truncated";
		rc = -EINVAL;
	}
	sigaction(SIGBUS, &before, NULL);
	munmap(p, size);
	return rc;
}

/* 0: there is none. */
static uint64_t magic_of(int fd)
{
	uint64_t magic = 0;

	return pread(fd, &magic, sizeof magic, 0) == sizeof magic ? magic : 0;
}

/* Whether the page was never finished: a build that named pages too early made it. */
static bool page_is_abandoned(int fd, const struct stat *st)
{
	return magic_of(fd) == 0 && time(NULL) - st->st_ctime > UNFINISHED_S;
}

/* No process holds its lock, so its writer is dead. Root may remove pages of other users. */
static int tell_dead(struct stat_list *list, const char *file, const struct stat *st)
{
	list->faulty++;
	if (unlink(file) == 0)
		return tool_failed("%s: its process is dead; the page was removed", file);
	return tool_failed("%s: its process is dead; the page belongs to user %u", file, (unsigned)st->st_uid);
}

static int list_add(struct stat_list *list, const struct stat_proc *p)
{
	struct stat_proc *more = realloc(list->proc, (list->n + 1) * sizeof *more);

	if (!more) {
		diw_stat_copy_free(p->copy);
		return tool_failed("out of memory");
	}
	list->proc = more;
	list->proc[list->n++] = *p;
	return TOOL_OK;
}

/* The kernel says which process holds it; a file's name may contain any process id. */
static bool is_of_user(pid_t pid, uid_t uid)
{
	char file[32];
	struct stat st;

	snprintf(file, sizeof file, "/proc/%ld", (long)pid);
	return stat(file, &st) < 0 || st.st_uid == uid || st.st_uid == 0;
}

static int look_at_page(struct stat_list *list, int fd, const char *file, pid_t named, pid_t want)
{
	struct stat_proc p = { 0 };
	const char *why = "not a page of counters";
	struct stat st;
	bool held;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		list->faulty++;
		return tool_failed("%s: not a file", file);
	}
	if (st.st_uid != geteuid() && geteuid() != 0) {      /* only root reads pages of other users */
		list->denied++;
		return TOOL_OK;
	}
	held = diw_stat_is_held(fd, &p.pid);
	if (want && held && p.pid && p.pid != want)
		return TOOL_OK;
	if (want && (!held || !p.pid) && named != want)
		return TOOL_OK;
	if (held && magic_of(fd) == 0)               /* its process is creating it, and has no queue pair yet */
		return TOOL_OK;
	/* A process that ends regularly removes its page first. */
	if (!held && (magic_of(fd) == DIW_STAT_MAGIC || page_is_abandoned(fd, &st)))
		return fstat(fd, &st) == 0 && st.st_nlink == 0 ? TOOL_OK : tell_dead(list, file, &st);
	if (st.st_size > MAX_PAGE)
		why = "too large for a page of counters";
	if (st.st_size <= 0 || st.st_size > MAX_PAGE || copy_page(fd, (size_t)st.st_size, &p.copy, &why) < 0) {
		list->faulty++;
		return tool_failed("%s: %s", file, why);
	}
	if ((st.st_mode & 077) || st.st_nlink != 1 || (p.pid && !is_of_user(p.pid, st.st_uid))) {
		diw_stat_copy_free(p.copy);
		list->faulty++;
		return tool_failed("%s: not as diwarp makes it: wrong mode, a second link, or another user's process",
				   file);
	}
	if (!p.pid)                                  /* the process is in a PID namespace that is not visible here */
		p.pid = (pid_t)p.copy->head.pid;
	p.uid = st.st_uid;
	p.ino = st.st_ino;
	return list_add(list, &p);
}

static int look_at(struct stat_list *list, const char *name, pid_t want)
{
	char file[sizeof DIW_STAT_DIR + NAME_MAX + 2];
	pid_t named = (pid_t)strtol(name + sizeof DIW_STAT_PREFIX - 1, NULL, 10);
	int fd, rc;

	snprintf(file, sizeof file, "%s/%s", DIW_STAT_DIR, name);
	fd = open(file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0) {
		rc = errno;
		if (rc == ENOENT || (want && named != want))
			return TOOL_OK;
		list->denied += rc == EACCES;
		list->faulty += rc != EACCES;
		if (rc == EACCES && !want)
			return TOOL_OK;
		return rc == EACCES ? tool_failed("process %d belongs to another user: only that user and root may "
						  "read its counters", (int)want) :
				      tool_failed("%s: %s", file, rc == ELOOP ? "a symbolic link" : strerror(rc));
	}
	rc = look_at_page(list, fd, file, named, want);
	close(fd);
	return rc;
}

static bool is_page_name(const char *name)
{
	size_t n = sizeof DIW_STAT_PREFIX - 1;

	return strncmp(name, DIW_STAT_PREFIX, n) == 0 && !name[n + strspn(name + n, "0123456789abcdef.")];
}

static int by_pid(const void *a, const void *b)
{
	const struct stat_proc *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

int stat_find(struct stat_list *list, pid_t pid)
{
	const struct dirent *e;
	DIR *dir = opendir(DIW_STAT_DIR);
	int rc = TOOL_OK;

	memset(list, 0, sizeof *list);
	if (!dir)
		return tool_failed("%s: %s: no process can show its counters here", DIW_STAT_DIR, strerror(errno));
	while ((e = readdir(dir)))
		if (is_page_name(e->d_name) &&
		    look_at(list, e->d_name, pid) != TOOL_OK)
			rc = TOOL_FAILED;
	closedir(dir);
	if (list->n)
		qsort(list->proc, list->n, sizeof *list->proc, by_pid);
	return rc;
}

void stat_list_free(struct stat_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		diw_stat_copy_free(list->proc[i].copy);
	free(list->proc);
	memset(list, 0, sizeof *list);
}
