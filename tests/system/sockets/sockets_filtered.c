/* SPDX-License-Identifier: BSD-2-Clause */
/* sockets_filtered: a filter of system calls (seccomp) kills the program for every system call that the program
 * itself does not make. Without an argument the program installs the filter and executes itself; with "itself" it
 * installs the filter and continues. */
#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DENY(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), \
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)

static void install(struct sock_filter *filter, size_t n)
{
	struct sock_fprog prog = { (unsigned short)n, filter };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog)) {
		perror("SKIP: seccomp");
		exit(2);
	}
}

/* What opens a registry, and what finds other users. */
static void confine_files(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
#ifdef SYS_mkdir
		DENY(mkdir), DENY(unlink),
#endif
		DENY(mkdirat), DENY(unlinkat), DENY(flock), DENY(fallocate), DENY(ftruncate), DENY(shmget), DENY(shmat),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	install(filter, sizeof filter / sizeof filter[0]);
}

static void confine(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		DENY(prctl), DENY(madvise), DENY(getsockopt), DENY(getpeername), DENY(recvmsg), DENY(tkill),
		DENY(ppoll), DENY(sched_yield), DENY(clock_nanosleep), DENY(memfd_create), DENY(rt_sigtimedwait),
		DENY(fcntl), DENY(clone), DENY(clone3), DENY(wait4), DENY(pipe2), DENY(ioctl),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	confine_files();
	install(filter, sizeof filter / sizeof filter[0]);
}

static int failed(const char *what)
{
	perror(what);
	return 1;
}

/* Two sockets of TYPE that talk, by the calls of a simple program. */
static int talk(int type)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof at;
	int a = socket(AF_INET, type, 0), b = socket(AF_INET, type, 0), c = a;
	char text[8] = "";

	if (bind(a, (void *)&at, len) < 0 || getsockname(a, (void *)&at, &len) < 0)
		return failed("bind");
	if (type == SOCK_STREAM && listen(a, 1) < 0)
		return failed("listen");
	if (connect(b, (void *)&at, len) < 0 || (type == SOCK_STREAM && (c = accept(a, NULL, NULL)) < 0))
		return failed("connect");
	for (int i = 0; i < 3; i++)
		if (send(b, "text", 4, 0) != 4 || recv(c, text, sizeof text, 0) != 4 || memcmp(text, "text", 4) != 0)
			return failed("text");
	close(a);
	close(b);
	return 0;
}

int main(int argc, char **argv)
{
	char *again[] = { argv[0], "confined", NULL };
	static const char good[] = "works\n";

	if (argc < 2) {
		confine();
		execv("/proc/self/exe", again);
		return failed("exec");
	}
	if (!strcmp(argv[1], "itself"))
		confine_files();
	if (talk(SOCK_DGRAM) || talk(SOCK_STREAM) || write(STDOUT_FILENO, good, sizeof good - 1) < 0)
		return 1;
	return 0;
}
