/* SPDX-License-Identifier: BSD-2-Clause */
/* streams_kept: the interposer keeps a sock_diag socket for its questions (sockets_preload/ask.c). Whatever the program
 * does to its descriptor, later streams are framed, and a file that gets its number receives none of the questions. */
#include <dlfcn.h>
#include <limits.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "sockets_preload/shm/streamreg.h"
#include "streams_kit.h"

#define HIGH 900

static struct diw_streamreg *reg;

static int option(int fd, int name)
{
	int value = -1;
	socklen_t len = sizeof value;

	return getsockopt(fd, SOL_SOCKET, name, &value, &len) == 0 ? value : -1;
}

/* Its number; -1: there is none. */
static int kept(void)
{
	for (int fd = HIGH; fd < 4096; fd++)
		if (option(fd, SO_DOMAIN) == AF_NETLINK && option(fd, SO_PROTOCOL) == NETLINK_SOCK_DIAG)
			return fd;
	return -1;
}

static bool is_framed(int fd)
{
	struct diw_sock_stream *st;
	uint64_t cookie = 0;
	socklen_t len = sizeof cookie;

	getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len);
	st = diw_streamreg_find(reg, cookie);
	return st && atomic_load(&st->tx.state) == DIW_STREAM_FRAMED;
}

/* Connections within the process are asked about when they begin. */
static bool frames(void)
{
	struct ends e = pair();
	bool is = is_framed(e.a) && is_framed(e.b);

	done(e);
	return is;
}

static bool is_whole(int fd, const char *text)
{
	char buf[64] = "";

	return pread(fd, buf, sizeof buf - 1, 0) == (ssize_t)strlen(text) && strcmp(buf, text) == 0;
}

static int file_of(const char *text)
{
	char path[] = "/tmp/streams_kept.XXXXXX";
	int fd = mkstemp(path);

	unlink(path);
	check("a file", fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	return fd;
}

/* A close() that is interposed does not close it: EBADF, as before. */
static void closed_by(const char *how, int (*closes)(int))
{
	int fd = kept();

	check("a question leaves a socket", fd >= HIGH);
	check(how, (closes(fd) == 0 || errno == EBADF) && option(fd, SO_DOMAIN) != AF_NETLINK);
	check("... and streams are framed", frames() && frames());
}

static int (*libc_close)(int);
static int (*libc_dup2)(int, int);

static int closes_unseen(int fd) { return libc_close(fd); }

static int closes_all(int fd)
{
	(void)fd;
	closefrom(HIGH);
	return 0;
}

/* DUP2 gives its number to a file. */
static void replaced_by(const char *how, int (*dups)(int, int))
{
	int file = file_of("the program's"), fd = kept(), copy = dups(file, fd);

	check(how, fd >= HIGH && copy == fd);
	check("... and streams are framed", frames() && frames());
	check("... the file is as it was", is_whole(copy, "the program's") && is_whole(file, "the program's"));
	close(copy);
	close(file);
}

static void forked(void)
{
	int fd = kept(), status = 1;
	pid_t child = fork();

	if (child == 0) {
		failed = 0;
		check("... and streams of the child are framed", frames() && frames());
		_exit(failed);
	}
	check("a child", waitpid(child, &status, 0) == child && status == 0);
	check("... leaves the parent's socket", kept() == fd);
	check("... and streams are framed", frames());
}

static bool is_up(void)
{
	struct ifreq r = { .ifr_name = "lo" };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	bool up;

	up = fd >= 0 && ioctl(fd, SIOCGIFFLAGS, &r) == 0;
	r.ifr_flags |= IFF_UP;
	up = up && ioctl(fd, SIOCSIFFLAGS, &r) == 0;
	close(fd);
	return up;
}

/* Without the right to open another one it is not visible. */
static void moved(void)
{
	int here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	bool has = here >= 0 && unshare(CLONE_NEWNET) == 0;

	check("in a network namespace of its own streams are framed", !has || (is_up() && frames() && frames()));
	check("... and back again", !has || (setns(here, CLONE_NEWNET) == 0 && frames()));
	close(here);
}

int main(void)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY);
	char path[PATH_MAX];
	const char *why;

	*(void **)&libc_close = dlsym(libc, "close");
	*(void **)&libc_dup2 = dlsym(libc, "dup2");
	done(pair());
	reg = diw_streamreg_open(false, path, sizeof path, &why);
	if (!reg || !libc_close || !libc_dup2)
		return 1;
	check("streams are framed", frames());
	closed_by("close()", close);
	closed_by("a close() that is not seen", closes_unseen);
	closed_by("closefrom()", closes_all);
	replaced_by("dup2()", dup2);
	replaced_by("a dup2() that is not seen", libc_dup2);
	forked();
	moved();
	puts("end");
	return failed > 0;
}
