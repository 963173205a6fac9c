/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls of sockets.c on sockets that several processes, threads and descriptors share. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/system/sockets/sockets_kit.h"

/* ---- One socket, many holders ---- */

static void report(const char *what, int status)
{
	say("%s: exit %d\n", what, WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
}

static int child_receives(struct pair *p, const char *self)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		char fd[12], *argv[] = { (char *)self, "receive", fd, NULL };

		if (!self)
			_exit(recv(p->a, in, BIG, 0) == 99 ? 0 : 1);
		snprintf(fd, sizeof fd, "%d", p->a);
		execv(self, argv);
		_exit(3);
	}
	waitpid(pid, &status, 0);
	return status;
}

static void pass(struct pair *p)
{
	union { struct cmsghdr c; char room[CMSG_SPACE(sizeof(int))]; } u = { 0 };
	char byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &u, .msg_controllen = sizeof u };
	int two[2], fd;

	if (socketpair(AF_UNIX, SOCK_DGRAM, 0, two))
		abort();
	u.c = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
	told("pass with a length of 0", sendmsg(two[0], &m, 0));
	u.c.cmsg_len = 1u << 30;
	told("pass with a large length", sendmsg(two[0], &m, 0));
	u.c.cmsg_len = CMSG_LEN(sizeof fd);
	memcpy(CMSG_DATA(&u.c), &p->a, sizeof fd);
	told("pass", sendmsg(two[0], &m, 0));
	give(p, 640);
	close(p->a);
	told("passed", recvmsg(two[1], &m, 0));
	memcpy(&fd, CMSG_DATA(&u.c), sizeof fd);
	told("by the passed descriptor", recv(fd, in, BIG, MSG_DONTWAIT));
	give(p, 641);
	told("and more", recv(fd, in, BIG, MSG_DONTWAIT));
	p->a = fd;
	close(two[0]);
	close(two[1]);
}

static void holders(const char *self)
{
	struct pair p = pair(AF_INET, 0);
	int other, pipes[2];

	give(&p, 99);
	report("forked", child_receives(&p, NULL));
	give(&p, 99);
	report("executed", child_receives(&p, self));
	give(&p, 321);
	told("after the children", recv(p.a, in, BIG, MSG_DONTWAIT));
	other = dup(p.a);
	give(&p, 11);
	close(p.a);
	told("duplicated", recv(other, in, BIG, MSG_DONTWAIT));
	give(&p, 12);
	told("  and more", recv(other, in, BIG, MSG_DONTWAIT));
	p.a = dup2(other, 200);
	close(other);
	give(&p, 13);
	told("dup2", recv(p.a, in, BIG, MSG_DONTWAIT));
	pass(&p);
	if (pipe(pipes))
		abort();
	other = p.a;
	p.a = fcntl(p.a, F_DUPFD, 300);
	dup2(pipes[0], other);
	told("pipe", write(pipes[1], out, 7));
	told("where a socket was", read(other, in, BIG));
	give(&p, 14);
	told("the socket elsewhere", recv(p.a, in, BIG, MSG_DONTWAIT));
	close_range(300, 400, 0);
	close_range(401, ~0u, CLOSE_RANGE_UNSHARE);
	told("closed", recv(p.a, in, BIG, MSG_DONTWAIT));
	told("to a closed one", sendto(p.b, out, 5, 0, (void *)&p.addr_a, p.len));
	close(pipes[0]);
	close(pipes[1]);
	done(&p);
}

static void vforked(void)
{
	struct pair p = pair(AF_INET, 0);
	pid_t pid = vfork();
	int status;

	if (pid == 0) {                         /* NOLINTBEGIN(clang-analyzer-unix.Vfork): these calls are tested */
		close(p.a);
		dup2(p.b, 0);
		/* NOLINTEND(clang-analyzer-unix.Vfork) */
		_exit(0);
	}
	waitpid(pid, &status, 0);
	give(&p, 55);
	told("after vfork", recv(p.a, in, BIG, MSG_DONTWAIT));
	done(&p);
}

/* ---- Threads ---- */

static _Atomic pid_t waiter;

static void *blocked(void *arg)
{
	struct pair *p = arg;

	waiter = gettid();
	return (void *)recv(p->a, in, BIG, 0);
}

/* Until it is within the system call. */
static void wait_for_waiter(void)
{
	char path[64], line[16];
	FILE *f;

	for (int i = 0; i < 30000; i++) {
		snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)waiter);
		f = waiter ? fopen(path, "r") : NULL;
		if (f && fgets(line, sizeof line, f) && (atoi(line) == SYS_recvfrom || atoi(line) == SYS_recvmsg))
			i = 30000;
		if (f)
			fclose(f);
		usleep(1000);
	}
	waiter = 0;
}

static void threads(void)
{
	struct pair p = pair(AF_INET, 0);
	pthread_t t;
	void *rc;
	int fd = p.a, other = dup(p.a);

	pthread_create(&t, NULL, blocked, &p);
	wait_for_waiter();
	close(fd);
	give(&p, 444);
	pthread_join(t, &rc);
	told("closed while another thread waits", (ssize_t)rc);
	p.a = other;
	pthread_create(&t, NULL, blocked, &p);
	wait_for_waiter();
	pthread_cancel(t);
	pthread_join(t, &rc);
	say("cancelled: %d\n", rc == PTHREAD_CANCELED);
	give(&p, 20);
	told("and received by another", recv(p.a, in, BIG, MSG_DONTWAIT));
	done(&p);
}

/* ---- At the end of a thread ---- */

static struct pair last;

/* Calls of a destructor, behind those of the libraries that were loaded before. */
static void ends(void *arg)
{
	(void)arg;
	give(&last, 700);
	told("in a destructor", recv(last.a, in, BIG, MSG_DONTWAIT));
}

static void *receives_and_ends(void *key)
{
	pthread_setspecific(*(pthread_key_t *)key, key);
	give(&last, 701);
	told("in a thread", recv(last.a, in, BIG, MSG_DONTWAIT));
	return NULL;
}

static void destructors(void)
{
	pthread_key_t key;
	pthread_t t;

	last = pair(AF_INET, 0);
	if (pthread_key_create(&key, ends) || pthread_create(&t, NULL, receives_and_ends, &key))
		abort();
	pthread_join(t, NULL);
	pthread_key_delete(key);
	done(&last);
}

static jmp_buf away;

static void on_alarm_leave(int sig)
{
	siglongjmp(away, sig);
}

static void left_by_longjmp(void)
{
	struct pair p = pair(AF_INET, 0);

	signal(SIGALRM, on_alarm_leave);
	if (!sigsetjmp(away, 1)) {
		alarm_in(20, 0);
		recv(p.a, in, BIG, 0);
	}
	for (int i = 0; i < 3; i++) {
		give(&p, 1200);
		told("after longjmp", recv(p.a, in, BIG, MSG_DONTWAIT));
	}
	signal(SIGALRM, SIG_DFL);
	done(&p);
}

static int receive(int fd)
{
	return recv(fd, in, BIG, 0) == 99 ? 0 : 1;
}

int main(int argc, char **argv)
{
	if (argc == 3)
		return receive(atoi(argv[2]));
	begin();
	holders(argv[0]);
	vforked();
	threads();
	left_by_longjmp();
	destructors();
	say("end\n");
	return 0;
}
