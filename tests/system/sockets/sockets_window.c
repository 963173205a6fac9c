/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hostile user publishes false entries for other users (sockets_preload/shm/sockreg.h).
 * squat UID         occupies the place where UID would publish sockets
 * liar PORT         is bound to PORT; a process of "nobody" publishes that this socket is capable. Exit status 0 if the
 *                   datagrams that come are plain
 * tcpliar PORT      the same with a listener, which echoes its one connection
 * garbage PORT      is bound to PORT as "nobody", and publishes other garbage with each datagram
 * confined ADDRESS PORT   sends and receives with a filter that allows only system calls of programs with UDP sockets
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/rng.h"
#include "sockets_preload/shm/sockreg.h"

#define NOBODY 65534u
#define WANTED 400                       /* enough for the sender to ask the kernel several times */

static uint64_t option(int fd, int name)
{
	uint64_t v = 0;
	socklen_t len = sizeof v;

	return getsockopt(fd, SOL_SOCKET, name, &v, &len) == 0 ? v : 0;
}

static int bound(const char *port, int type)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				  .sin_port = htons((uint16_t)atoi(port)) };
	int fd = socket(AF_INET, type, 0);

	if (fd < 0 || bind(fd, (void *)&at, sizeof at) || (type == SOCK_STREAM && listen(fd, 5)))
		abort();
	return fd;
}

static struct diw_sock_entry shown(int fd, const char *port, int type)
{
	struct diw_sock_entry e = { .netns = option(fd, SO_NETNS_COOKIE), .cookie = option(fd, SO_COOKIE),
				    .key = { 1, 2 },
				    .flags = DIW_SOCK_NO_CRC | (type == SOCK_STREAM ? DIW_SOCK_STREAM : 0) };

	e.local.ip[10] = e.local.ip[11] = 0xff;
	e.local.ip[12] = 127;
	e.local.ip[15] = 1;
	e.local.port = (uint16_t)atoi(port);
	return e;
}

static struct diw_sockreg *window(uint32_t uid)
{
	struct diw_sockreg *reg = diw_sockwin_open(uid, true, NULL, NULL);

	if (!reg)
		abort();
	return reg;
}

static void show(struct diw_sockreg *reg, struct diw_sock_entry *e)
{
	struct diw_sock_entry *to = diw_sockreg_at(reg, e->local.port, 0);

	if (!diw_sockreg_back(reg, to))
		abort();
	while (pthread_mutex_trylock(&reg->owner[e->owner].life))
		e->owner++;
	e->owner_epoch = reg->owner[e->owner].epoch;
	memcpy((char *)to + sizeof to->seq, (char *)e + sizeof e->seq, sizeof *e - sizeof e->seq);
	atomic_store(&to->seq, 4 + DIW_SOCK_SHOWN);
}

/* stream.py's datagrams have a blank behind eight digits. */
static int hear_plain(int fd)
{
	char buf[2000];

	for (int i = 0; i < WANTED; i++)
		if (recv(fd, buf, sizeof buf, 0) < 9 || buf[8] != ' ')
			return 1;
	return 0;
}

/* tcp.py's hold begins so. */
static int answer_plain(int fd)
{
	char buf[100];
	int c = accept(fd, NULL, NULL);
	ssize_t n = recv(c, buf, sizeof buf, 0);
	int rc = n == 4 && !memcmp(buf, "held", 4) ? 0 : 1;

	for (; n > 0; n = recv(c, buf, sizeof buf, 0))
		if (send(c, buf, (size_t)n, MSG_NOSIGNAL) != n)
			return 1;
	return rc;
}

static int liar(const char *port, int type)
{
	int fd = bound(port, type), ready[2];
	struct diw_sock_entry e;
	pid_t pid;
	char c;
	int rc;

	if (pipe(ready))
		abort();
	pid = fork();
	if (pid == 0) {
		if (setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY))
			abort();
		e = shown(fd, port, type);
		show(window(NOBODY), &e);
		(void)!write(ready[1], "", 1);
		pause();
	}
	(void)!read(ready[0], &c, 1);
	rc = type == SOCK_STREAM ? answer_plain(fd) : hear_plain(fd);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return rc;
}

/* All but the header, so that it is looked at; and that, too. */
static void litter(struct diw_sockreg *reg, struct diw_rng *r)
{
	uint64_t *word = (uint64_t *)((char *)reg + sizeof *reg - sizeof reg->entry);
	size_t n = sizeof reg->entry / (sizeof *word);

	memset((void *)reg->backed, 0xff, sizeof reg->backed);
	for (size_t i = 0; i < n; i++)
		word[i] = diw_rng_next(r);
	reg->version = diw_rng_next(r) % 4 ? DIW_SOCKREG_VERSION : 9;
}

static int garbage(const char *port)
{
	struct diw_rng r = { 4791 };
	struct diw_sock_entry e;
	struct diw_sockreg *reg;
	char buf[2000];
	int fd;

	if (setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY))
		abort();
	fd = bound(port, SOCK_DGRAM);
	e = shown(fd, port, SOCK_DGRAM);
	reg = window(NOBODY);
	for (int i = 0; i < WANTED; i++) {
		litter(reg, &r);
		e.flags = (uint32_t)diw_rng_next(&r);
		e.key[0] = diw_rng_next(&r);
		e.owner = i % 2;
		if (i % 4)
			show(reg, &e);
		if (recv(fd, buf, sizeof buf, 0) < 0)
			return 1;
	}
	return 0;
}

/* As chronyd, which is killed for what it has not said. */
static int confined(const char *address, const char *port)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_shmget, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { sizeof filter / sizeof filter[0], filter };
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	char buf[100];

	inet_pton(AF_INET, address, &to.sin_addr);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0))
		return 2;
	if (sendto(fd, "x", 1, 0, (void *)&to, sizeof to) != 1)
		return 1;
	return recv(fd, buf, sizeof buf, MSG_DONTWAIT) < 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[1] : "";

	if (!strcmp(what, "squat"))
		return !window((uint32_t)atoi(argv[2]));
	if (!strcmp(what, "liar"))
		return liar(argv[2], SOCK_DGRAM);
	if (!strcmp(what, "tcpliar"))
		return liar(argv[2], SOCK_STREAM);
	if (!strcmp(what, "garbage"))
		return garbage(argv[2]);
	return argc > 3 && !strcmp(what, "confined") ? confined(argv[2], argv[3]) : 2;
}
