/* SPDX-License-Identifier: BSD-2-Clause */
/* The socket engine with peers that end, fork, never read, or are many. */
#include <sys/resource.h>

#include "tests/system/rsockets/rs_kit.h"

#define MANY 1000

/* A process that connects, reports that on the socket, and then sleeps, or writes for ever. */
static pid_t child_peer(uint16_t port, bool writes)
{
	static char block[65536];
	pid_t pid = fork();
	int fd;

	if (pid)
		return pid;
	fd = connected(AF_INET, port);
	send_to(fd, "here", 4, 0);
	while (writes && send_to(fd, block, sizeof block, 0) > 0)
		;
	for (;;)
		pause();
}

static int accept_child(int l)
{
	char buf[4];
	int fd = diw_rs_accept(l, NULL, NULL);

	if (fd < 0 || recv_from(fd, buf, 4, MSG_WAITALL) != 4)
		die("a child's connection", fd);
	return fd;
}

static void *kill_later(void *arg)
{
	usleep(50000);
	kill(*(pid_t *)arg, SIGKILL);
	return NULL;
}

static void test_death(void)
{
	static char block[100000];
	int l = listener(AF_INET, 4), fd;
	pid_t pid = child_peer(port_of(l), false);
	pthread_t t;
	char c;

	fd = accept_child(l);
	pthread_create(&t, NULL, kill_later, &pid);
	CHECK(recv_from(fd, &c, 1, 0) == -ECONNRESET, "the peer is killed: a read that waits ends with ECONNRESET");
	pthread_join(t, NULL);
	waitpid(pid, NULL, 0);
	CHECK(send_to(fd, &c, 1, MSG_NOSIGNAL) == -EPIPE, "then a write with EPIPE");
	CHECK(recv_from(fd, &c, 1, 0) == 0, "and a read is at the end");
	diw_rs_close(fd);

	pid = child_peer(port_of(l), false);
	fd = accept_child(l);
	while (send_to(fd, block, sizeof block, MSG_DONTWAIT) > 0)
		;
	pthread_create(&t, NULL, kill_later, &pid);
	CHECK(send_to(fd, block, sizeof block, MSG_NOSIGNAL) < 0, "a write that waits ends, too");
	pthread_join(t, NULL);
	waitpid(pid, NULL, 0);
	CHECK(polled(fd, POLLIN, SOON_MS) & POLLHUP, "poll says that it is over");
	diw_rs_close(fd);
	diw_rs_close(l);
}

/* Both ends of a connection are killed; the process that listened for one of them lives on. */
static void test_both_die(void)
{
	int to_parent[2], status;
	uint16_t port = 0;
	pid_t server, client;

	if (pipe(to_parent) < 0)
		die("pipe", -errno);
	server = fork();
	if (server == 0) {
		static char block[65536];
		int l = listener(AF_INET, 1), fd;

		port = port_of(l);
		(void)!write(to_parent[1], &port, sizeof port);
		fd = diw_rs_accept(l, NULL, NULL);
		(void)!write(to_parent[1], "x", 1);
		while (recv_from(fd, block, sizeof block, 0) > 0)
			;
		_exit(0);
	}
	(void)!read(to_parent[0], &port, sizeof port);
	client = child_peer(port, true);
	(void)!read(to_parent[0], &status, 1);
	usleep(20000);
	kill(server, SIGKILL);
	kill(client, SIGKILL);
	waitpid(server, &status, 0);
	CHECK(WIFSIGNALED(status), "both ends are killed while bytes flow");
	waitpid(client, &status, 0);
	CHECK(WIFSIGNALED(status), "... the other, too");
	close(to_parent[0]);
	close(to_parent[1]);
}

static void test_no_reader(void)
{
	static char block[100000];
	double begin;
	int mute[2], fd[2];

	pair(mute);
	pair(fd);
	while (send_to(mute[0], block, sizeof block, MSG_DONTWAIT) > 0)
		;
	CHECK(talk(fd[0], fd[1]), "a peer that never reads is nobody else's business");
	CHECK(send_to(mute[1], "other way", 9, 0) == 9 && recv_from(mute[0], block, 9, MSG_WAITALL) == 9,
	      "nor that of the other direction");
	begin = seconds();
	diw_rs_close(mute[0]);
	CHECK(seconds() - begin < 10, "close does not wait for it");
	CHECK(talk(fd[0], fd[1]), "and the others go on");
	diw_rs_close(mute[1]);
	close_both(fd);
}

static void test_fork(void)
{
	int l = listener(AF_INET, 4), fd = connected(AF_INET, port_of(l)), other = diw_rs_accept(l, NULL, NULL), status;
	pid_t pid = fork();
	char c;

	if (pid == 0) {
		int own[2];
		bool good = send_to(fd, "x", 1, 0) == -ENODEV && recv_from(fd, &c, 1, 0) == -ENODEV &&
			    diw_rs_accept(l, NULL, NULL) == -ENODEV && diw_rs_close(fd) == 0 &&
			    diw_rs_close(other) == 0 && diw_rs_close(l) == 0;

		pair(own);
		good = good && talk(own[0], own[1]);
		close_both(own);
		exit(good ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0,
	      "a child has no use of what it inherits, may close it, and has sockets of its own");
	CHECK(talk(fd, other), "the parent's connection goes on");
	diw_rs_close(fd);
	diw_rs_close(other);
	fd = connected(AF_INET, port_of(l));
	other = diw_rs_accept(l, NULL, NULL);
	CHECK(other >= 0 && talk(fd, other), "and it still listens");
	diw_rs_close(fd);
	diw_rs_close(other);
	diw_rs_close(l);
}

/* Data of a process that exits arrives, and then the end of the stream. */
static void test_exit(void)
{
	static char block[300000];
	int l = listener(AF_INET, 1), fd;
	uint16_t port = port_of(l);
	ssize_t n, got = 0;
	pid_t pid = fork();

	if (pid == 0) {
		fd = connected(AF_INET, port);
		send_to(fd, block, sizeof block, 0);
		exit(0);
	}
	fd = diw_rs_accept(l, NULL, NULL);
	while ((n = recv_from(fd, block, 1000, 0)) > 0)
		got += n;
	CHECK(n == 0 && got == sizeof block, "a process that exits has not lost what it wrote");
	waitpid(pid, NULL, 0);
	diw_rs_close(fd);
	diw_rs_close(l);
}

static void test_sigpipe(void)
{
	int fd[2], status;
	pid_t pid = fork();

	if (pid == 0) {
		signal(SIGPIPE, SIG_DFL);
		pair(fd);
		diw_rs_shutdown(fd[0], SHUT_WR);
		send_to(fd[0], "x", 1, 0);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE, "without MSG_NOSIGNAL a broken pipe is a signal");
}

/* More peers connect than the backlog holds: they wait for accept(). */
static void test_backlog(void)
{
	int l = listener(AF_INET, 2), fd[40], other, made = 0;
	struct pollfd p[40];

	for (int i = 0; i < 40; i++) {
		fd[i] = diw_rs_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		try_connect(fd[i], AF_INET, port_of(l));
		p[i] = (struct pollfd){ .fd = fd[i], .events = POLLOUT };
	}
	for (int i = 0; i < 40; i++) {
		other = diw_rs_accept(l, NULL, NULL);
		made += other >= 0;
		diw_rs_close(other);
	}
	CHECK(made == 40, "40 connect at once where the backlog is 2, and none is refused");
	for (int i = 0; i < 40; i++)
		made -= polled(fd[i], POLLOUT, SOON_MS) & POLLERR ? 0 : 1;
	CHECK(made == 0 && diw_rs_poll(p, 40, 0) == 40, "each learns that it is connected");
	for (int i = 0; i < 40; i++)
		diw_rs_close(fd[i]);
	for (int i = 0; i < 6; i++) {
		fd[i] = diw_rs_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		try_connect(fd[i], AF_INET, port_of(l));
	}
	diw_rs_close(l);
	CHECK(polled(fd[5], POLLOUT | POLLIN, SOON_MS) != 0,
	      "who still waits when nobody listens any more hears of it");
	for (int i = 0; i < 6; i++)
		diw_rs_close(fd[i]);
}

static bool all_talk(int (*fd)[2], int n)
{
	bool good = true;

	for (int i = 0; i < n; i++)
		good &= send_to(fd[i][0], &i, sizeof i, 0) == sizeof i;
	for (int i = 0; i < n; i++) {
		int got = -1;

		good &= recv_from(fd[i][1], &got, sizeof got, MSG_WAITALL) == sizeof got && got == i;
	}
	return good;
}

static void test_many(void)
{
	static int fd[MANY][2];
	static struct pollfd p[MANY];
	int before = open_files(), l = listener(AF_INET, 64), n, ready = 0;
	uint16_t port = port_of(l);

	for (n = 0; n < MANY; n++) {
		fd[n][0] = connected(AF_INET, port);
		fd[n][1] = diw_rs_accept(l, NULL, NULL);
		if (fd[n][1] < 0)
			break;
		p[n] = (struct pollfd){ .fd = fd[n][1], .events = POLLIN };
	}
	CHECK(n == MANY, "%d connections at a time", n);
	CHECK(all_talk(fd, n), "each has its own bytes");
	CHECK(diw_rs_poll(p, (nfds_t)n, 0) == 0, "poll over all of them");
	send_to(fd[n / 2][0], "x", 1, 0);
	ready = diw_rs_poll(p, (nfds_t)n, SOON_MS);
	CHECK(ready == 1 && p[n / 2].revents == POLLIN, "finds the one that has something");
	for (int i = 0; i < n; i++)
		close_both(fd[i]);
	diw_rs_close(l);
	for (double until = seconds() + 30; open_files() > before + 16 && seconds() < until;)
		usleep(10000);
	CHECK(open_files() <= before + 16, "and no descriptor stays");
}

int main(void)
{
	struct rlimit files;

	signal(SIGPIPE, SIG_IGN);
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	test_death();
	test_both_die();
	test_no_reader();
	test_fork();
	test_exit();
	test_sigpipe();
	test_backlog();
	if (files.rlim_max >= 7 * MANY)
		test_many();
	else
		printf("SKIP: rs_peers: fewer than %d descriptors\n", 7 * MANY);
	return failures > 0;
}
