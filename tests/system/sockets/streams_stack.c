/* SPDX-License-Identifier: BSD-2-Clause */
/* streams_stack: calls on sockets from threads that have as small a stack as there may be. Each call runs in a thread
 * of its own, with a stack whose bytes tell afterwards how much of it was used. */
#include "streams_kit.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/wait.h>

#define ROOM (256u << 10)
#define MOST 8192                        /* a smallest stack also holds variables of threads and a signal's frame */
#define PAINT 0xa5

static struct sockaddr_in at;
static int listener, file, udp[2], pipes[2];
static struct ends e;
static uint8_t buf[100000], seen[100000];

static size_t used(const uint8_t *stack)
{
	size_t i = 0;

	while (i < ROOM && stack[i] == PAINT)
		i++;
	return ROOM - i;
}

static size_t of_nothing;

static void *nothing(void *arg)
{
	return arg;
}

/* The bytes of stack that CALL takes. */
static size_t depth(void *(*call)(void *))
{
	uint8_t *stack = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attr;
	pthread_t t;
	void *good;
	size_t n;

	memset(stack, PAINT, ROOM);
	pthread_attr_init(&attr);
	if (pthread_attr_setstack(&attr, stack, ROOM) || pthread_create(&t, &attr, call, &at))
		exit(1);
	pthread_join(t, &good);
	n = used(stack);
	munmap(stack, ROOM);
	return good ? n : ROOM;
}

static void little(const char *what, void *(*call)(void *))
{
	size_t n = depth(call) - of_nothing;

	check(what, n < MOST);
	if (n >= MOST)
		printf("    %zu bytes\n", n);
	if (getenv("STACK_TELL"))
		printf("    %zu bytes of stack, and %zu: %s\n", n, of_nothing, what);
}

static void *good(bool is)
{
	return is ? &at : NULL;
}

static void *listens(void *arg)
{
	(void)arg;
	listener = listening(&at);
	return good(listener >= 0);
}

static void *connects(void *arg)
{
	(void)arg;
	e = connected(listener, &at);
	return good(poll((struct pollfd[2]){ { e.a, POLLIN, 0 }, { e.b, POLLIN, 0 } }, 2, 0) == 0);
}

static void *talk(void *arg)
{
	(void)arg;
	return good(talks(e));
}

static void *moves_much(void *arg)
{
	struct iovec iov[2] = { { buf, 20000 }, { buf + 20000, 20000 } };
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = 2 };

	(void)arg;
	return good(sendmsg(e.a, &m, 0) == 40000 && recv(e.b, seen, 1000, MSG_PEEK) > 0 &&
		    recv(e.b, seen, 40000, MSG_WAITALL) == 40000 && !memcmp(buf, seen, 40000));
}

static void *moves_many(void *arg)
{
	struct iovec iov[2] = { { seen, 5 }, { seen + 5, 5 } };
	struct mmsghdr m[2] = { { .msg_hdr = { .msg_iov = iov, .msg_iovlen = 2 } },
				{ .msg_hdr = { .msg_iov = iov, .msg_iovlen = 2 } } };

	(void)arg;
	return good(sendmmsg(e.a, m, 2, 0) == 2 && ready(e.b, POLLIN) &&
		    recvmmsg(e.b, m, 2, MSG_WAITALL, NULL) == 2);
}

static void *moves_a_file(void *arg)
{
	off_t from = 0;

	(void)arg;
	return good(sendfile(e.a, file, &from, 60000) == 60000 && recv(e.b, seen, 60000, MSG_WAITALL) == 60000);
}

static void *splices(void *arg)
{
	int n = 0;

	(void)arg;
	return good(write(pipes[1], buf, 5000) == 5000 && splice(pipes[0], NULL, e.a, NULL, 5000, 0) == 5000 &&
		    ready(e.b, POLLIN) && ioctl(e.b, FIONREAD, &n) == 0 &&
		    splice(e.b, NULL, pipes[1], NULL, 5000, 0) > 0 && read(pipes[0], seen, 5000) > 0);
}

static void *discards(void *arg)
{
	(void)arg;
	return good(recv(e.b, seen, 5000, MSG_DONTWAIT | MSG_TRUNC) != 0 && send(e.a, buf, 100, 0) == 100 &&
		    recv(e.b, NULL, 100, MSG_TRUNC) > 0);
}

static void *waits(void *arg)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int ep = epoll_create1(0);
	fd_set set;

	(void)arg;
	FD_ZERO(&set);
	FD_SET(e.b, &set);
	return good(epoll_ctl(ep, EPOLL_CTL_ADD, e.b, &ev) == 0 && epoll_wait(ep, &ev, 1, 0) >= 0 &&
		    select(e.b + 1, &set, NULL, NULL, &(struct timeval){ 0 }) >= 0 && close(ep) == 0);
}

static void *makes_datagrams(void *arg)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof to;

	(void)arg;
	udp[0] = socket(AF_INET, SOCK_DGRAM, 0);
	udp[1] = socket(AF_INET, SOCK_DGRAM, 0);
	return good(bind(udp[1], (void *)&to, len) == 0 && getsockname(udp[1], (void *)&to, &len) == 0 &&
		    connect(udp[0], (void *)&to, len) == 0 && recv(udp[1], seen, 10, MSG_DONTWAIT) < 0);
}

static void *moves_datagrams(void *arg)
{
	struct iovec iov[2] = { { seen, 500 }, { seen + 500, 500 } };
	struct mmsghdr m[2] = { { .msg_hdr = { .msg_iov = iov, .msg_iovlen = 2 } },
				{ .msg_hdr = { .msg_iov = iov, .msg_iovlen = 2 } } };

	(void)arg;
	return good(send(udp[0], buf, 40000, 0) == 40000 && recv(udp[1], seen, sizeof seen, 0) == 40000 &&
		    sendmmsg(udp[0], m, 2, 0) == 2 && recvmmsg(udp[1], m, 2, 0, NULL) == 2);
}

static void *sends_to_a_group(void *arg)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(5999) };
	struct sockaddr_in6 to6 = { .sin6_family = AF_INET6, .sin6_port = htons(5999) };
	int s = socket(AF_INET, SOCK_DGRAM, 0), s6 = socket(AF_INET6, SOCK_DGRAM, 0);

	(void)arg;
	inet_pton(AF_INET, "239.1.2.3", &to.sin_addr);
	inet_pton(AF_INET6, "fd00::1", &to6.sin6_addr);
	sendto(s, buf, 100, 0, (void *)&to, sizeof to);
	sendto(s6, buf, 100, 0, (void *)&to6, sizeof to6);
	return good(close(s) == 0 && close(s6) == 0);
}

static void *prints(void *arg)
{
	(void)arg;
	return good(write(e.a, "x\n", 2) == 2 && recv(e.b, seen, 2, MSG_WAITALL) == 2);
}

static void *executes(void *arg)
{
	char *argv[] = { "true", NULL };
	int status = 1;
	pid_t child;

	(void)arg;
	child = vfork();
	if (child == 0) {
		execvp("true", argv);
		_exit(1);
	}
	return good(waitpid(child, &status, 0) == child && status == 0);
}

static void *closes(void *arg)
{
	(void)arg;
	close(udp[0]);
	close(udp[1]);
	done(e);
	return good(close(listener) == 0);
}

int main(void)
{
	static char path[] = "/tmp/diw-stack-XXXXXX";

	file = mkstemp(path);
	unlink(path);
	if (file < 0 || write(file, buf, sizeof buf) != (ssize_t)sizeof buf || pipe(pipes) < 0)
		return 1;
	for (size_t i = 0; i < sizeof buf; i++)
		buf[i] = (uint8_t)i;
	of_nothing = depth(nothing);
	little("a listener", listens);
	close(listener);
	listens(NULL);                   /* the registry forgets what a thread showed that has ended */
	little("a connection", connects);
	little("a little", talk);
	little("much", moves_much);
	little("several messages", moves_many);
	little("a file", moves_a_file);
	little("a pipe", splices);
	little("what is not wanted", discards);
	little("a wait", waits);
	little("sockets of datagrams", makes_datagrams);
	little("datagrams", moves_datagrams);
	little("a group", sends_to_a_group);
	little("a line", prints);
	little("a program", executes);
	little("the end", closes);
	return failed != 0;
}
