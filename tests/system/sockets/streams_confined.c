/* SPDX-License-Identifier: BSD-2-Clause */
/* streams_confined: a server with the structure of sshd. It gives a connection, greeted or not, to a child. The
 * child forbids itself all system calls except read(), write(), poll() and calls that do not concern sockets. Then
 * the parent continues with the connection. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES 3000000u
#define ALLOW(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static struct sockaddr_in at = { .sin_family = AF_INET };
static uint8_t buf[40000];

static void confine(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(read), ALLOW(write), ALLOW(ppoll), ALLOW(clock_nanosleep), ALLOW(clock_gettime), ALLOW(gettid),
		ALLOW(getpid), ALLOW(futex), ALLOW(shutdown), ALLOW(close), ALLOW(exit_group), ALLOW(brk),
		ALLOW(munmap),
#ifdef SYS_poll
		ALLOW(poll),
#endif
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog prog = { sizeof filter / sizeof filter[0], filter };

	setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 0 });
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog))
		exit(2);
}

static ssize_t again(ssize_t (*call)(int, void *, size_t), int fd, void *p, size_t n, short events)
{
	struct pollfd ready = { .fd = fd, .events = events };
	ssize_t rc = call(fd, p, n);

	while (rc < 0 && poll(&ready, 1, 60000) == 1)
		rc = call(fd, p, n);
	return rc;
}

static ssize_t writes(int fd, void *p, size_t n) { return write(fd, p, n); }
static void say(int fd, size_t n, uint32_t *seed)
{
	for (size_t some, done = 0; done < n; done += some) {
		some = n - done < sizeof buf ? n - done : sizeof buf;
		for (size_t i = 0; i < some; i++)
			buf[i] = (uint8_t)((*seed = *seed * 1664525 + 1013904223) >> 24);
		for (size_t i = 0; i < some;) {
			ssize_t rc = again(writes, fd, buf + i, some - i, POLLOUT);

			if (rc <= 0)
				exit(3);
			i += (size_t)rc;
		}
	}
}

static ssize_t reads(int fd, void *p, size_t n) { return read(fd, p, n); }
static void hear(int fd, size_t n, uint32_t *seed)
{
	while (n) {
		ssize_t rc = again(reads, fd, buf, n < sizeof buf ? n / 3 + 1 : sizeof buf, POLLIN);

		if (rc <= 0 || (size_t)rc > n)
			exit(4);
		for (ssize_t i = 0; i < rc; i++)
			if (buf[i] != (uint8_t)((*seed = *seed * 1664525 + 1013904223) >> 24))
				exit(5);
		n -= (size_t)rc;
	}
}

static void serve(int fd, uint32_t *in, uint32_t *out, const char *who)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		confine();
		hear(fd, BYTES, in);
		say(fd, BYTES, out);
		hear(fd, 1, in);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	printf("%s: the child ended with %d\n", who, WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status));
	for (size_t n = BYTES + 1; n--;)
		*in = *in * 1664525 + 1013904223;
	for (size_t n = BYTES; n--;)
		*out = *out * 1664525 + 1013904223;
}

/* GREETS: both have sent before the child is there. */
static void connects(int l, bool greets, bool blocks)
{
	uint32_t in = 1, out = 2;
	pid_t pid = fork();
	int fd;

	if (pid == 0) {
		fd = socket(AF_INET, SOCK_STREAM, 0);
		if (connect(fd, (void *)&at, sizeof at) < 0)
			_exit(6);
		if (greets) {
			say(fd, 100, &in);
			hear(fd, 100, &out);
		}
		say(fd, BYTES, &in);
		hear(fd, BYTES, &out);
		say(fd, 1 + 100000, &in);
		hear(fd, 100000, &out);
		exit(0);
	}
	fd = accept(l, NULL, NULL);
	if (!blocks)
		fcntl(fd, F_SETFL, O_NONBLOCK);
	if (greets) {
		hear(fd, 100, &in);
		say(fd, 100, &out);
	}
	serve(fd, &in, &out, greets ? "greeted" : "new");
	hear(fd, 100000, &in);
	say(fd, 100000, &out);
	close(fd);
	waitpid(pid, &fd, 0);
	printf("the client ended with %d\n", WIFSIGNALED(fd) ? -WTERMSIG(fd) : WEXITSTATUS(fd));
}

int main(void)
{
	socklen_t len = sizeof at;
	int l = socket(AF_INET, SOCK_STREAM, 0);

	setvbuf(stdout, NULL, _IONBF, 0);
	signal(SIGPIPE, SIG_IGN);
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(l, (void *)&at, len) < 0 || listen(l, 10) < 0 || getsockname(l, (void *)&at, &len) < 0)
		return 1;
	for (int i = 0; i < 4; i++)
		connects(l, i / 2 == 0, i % 2 == 0);
	return 0;
}
