/* SPDX-License-Identifier: BSD-2-Clause */
/* streams_copies: a process closes its descriptor of a connection while another process or another descriptor has
 * the connection. The connection continues there, also after the process has made many other connections. */
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "streams_kit.h"

#define OTHERS 300                           /* more than places of a first segment that cookies lead to */

static char stack[65536];

/* Answers a byte by the next one. */
static int hold(void *fd)
{
	char c = 0;

	if (recv(*(int *)fd, &c, 1, 0) != 1)
		return 1;
	c++;
	return send(*(int *)fd, &c, 1, 0) != 1;
}

/* ---- The other holder of the connection: a process, or the descriptor *FD ---- */

static pid_t by_fork(int *fd) { return fork() ?: (_exit(hold(fd)), 0); }
static pid_t by_Fork(int *fd) { return _Fork() ?: (_exit(hold(fd)), 0); }
static pid_t by_syscall(int *fd)
{
	return (pid_t)syscall(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L) ?: (_exit(hold(fd)), 0);
}
static pid_t by_clone(int *fd) { return clone(hold, stack + sizeof stack, SIGCHLD, fd); }

static pid_t by_system(int *fd)
{
	char command[100];

	snprintf(command, sizeof command, "{ dd bs=1 count=1 <&%d 2>&- | tr 3 4 >&%d; } &", *fd, *fd);
	return system(command) == 0 ? 0 : -1;
}

static pid_t by_dup(int *fd) { return (*fd = dup(*fd)) < 0 ? -1 : 0; }
static pid_t by_dup2(int *fd) { return (*fd = dup2(*fd, 700)) < 0 ? -1 : 0; }
static pid_t by_dup3(int *fd) { return (*fd = dup3(*fd, 701, O_CLOEXEC)) < 0 ? -1 : 0; }
static pid_t by_fcntl(int *fd) { return (*fd = fcntl(*fd, F_DUPFD, 702)) < 0 ? -1 : 0; }

/* A process that was there before, and gets it by SCM_RIGHTS. */
static int socket_of_passed;
static pid_t passed_to;

static pid_t by_passing(int *fd)
{
	union { struct cmsghdr h; char room[CMSG_SPACE(sizeof(int))]; } c = {
		.h = { CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
	struct msghdr m = { .msg_iov = &(struct iovec){ "", 1 }, .msg_iovlen = 1, .msg_control = &c,
			    .msg_controllen = sizeof c.room };

	memcpy(CMSG_DATA(&c.h), fd, sizeof *fd);
	return sendmsg(socket_of_passed, &m, 0) == 1 ? passed_to : -1;
}

static int await_passed(int from)
{
	union { struct cmsghdr h; char room[CMSG_SPACE(sizeof(int))]; } c;
	char byte;
	struct msghdr m = { .msg_iov = &(struct iovec){ &byte, 1 }, .msg_iovlen = 1, .msg_control = &c,
			    .msg_controllen = sizeof c.room };
	int fd;

	if (recvmsg(from, &m, 0) != 1)
		return 1;
	memcpy(&fd, CMSG_DATA(&c.h), sizeof fd);
	return hold(&fd);
}

static void make_receiver(void)
{
	int fd[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd) < 0)
		exit(1);
	socket_of_passed = fd[0];
	passed_to = fork();
	if (passed_to == 0)
		_exit(await_passed(fd[1]));
	close(fd[1]);
}

/* ---- The connection ---- */

static void make_others(void)
{
	struct sockaddr_in at;
	int listener = listening(&at), bad = 0;

	for (int i = 0; i < OTHERS; i++) {
		struct ends e = connected(listener, &at);

		bad += !talks(e);
		done(e);
	}
	close(listener);
	check("... other connections", bad == 0);
}

static void copied(const char *how, pid_t (*by)(int *fd), bool initiators)
{
	struct ends e = pair();
	int mine = initiators ? e.a : e.b, peer = initiators ? e.b : e.a, copy = mine, status = 0;
	pid_t child = by(&copy);
	char c = 0;

	check(how, child >= 0);
	close(mine);
	make_others();
	check("... is sent to", send(peer, "3", 1, MSG_NOSIGNAL) == 1);
	check("... receives", copy == mine || hold(&copy) == 0);
	check("... and answers", recv(peer, &c, 1, 0) == 1 && c == '4');
	check("... has ended", child <= 0 || (waitpid(child, &status, 0) == child && status == 0));
	if (copy != mine)
		close(copy);
	close(peer);
}

static const struct { const char *how; pid_t (*by)(int *fd); } ways[] = {
	{ "a child of fork()", by_fork }, { "a child of _Fork()", by_Fork },
	{ "a child of the system call", by_syscall }, { "a child of clone()", by_clone },
	{ "a child of system()", by_system }, { "dup()", by_dup }, { "dup2()", by_dup2 }, { "dup3()", by_dup3 },
	{ "F_DUPFD", by_fcntl },
};

int main(void)
{
	make_receiver();
	copied("a process that it is passed to", by_passing, true);
	make_receiver();
	copied("a process that it is passed to", by_passing, false);
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
		for (int initiators = 0; initiators < 2; initiators++)
			copied(ways[i].how, ways[i].by, initiators);
	puts("end");
	return failed > 0;
}
