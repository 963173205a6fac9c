/* SPDX-License-Identifier: BSD-2-Clause */
/* streams_storm COUNT KILLED: makes COUNT connections to itself and closes each after a message and its answer, so
 * most are in TIME_WAIT. Then it starts processes that are killed with their connections, KILLED in all. Then it
 * makes a few more connections. Each connection must deliver its message in both directions, and the last
 * connections must use FPDUs. */
#include <limits.h>
#include <signal.h>
#include <sys/wait.h>

#include "sockets_preload/shm/streamreg.h"
#include "streams_kit.h"

#define LISTENERS 8                      /* each has ports of its own for those that connect */
#define VICTIMS 50u                      /* connections of a process that is killed */

static int listener[LISTENERS];
static struct sockaddr_in at[LISTENERS];

static struct ends one(unsigned i)
{
	struct ends e = { .a = socket(AF_INET, SOCK_STREAM, 0) };

	if (connect(e.a, (const void *)&at[i % LISTENERS], sizeof at[0]) < 0 ||
	    (e.b = accept(listener[i % LISTENERS], NULL, NULL)) < 0) {
		perror("connect");
		exit(1);
	}
	return e;
}

static bool is_framed(struct diw_streamreg *reg, int fd)
{
	struct diw_sock_stream *st;
	uint64_t cookie = 0;
	socklen_t len = sizeof cookie;

	getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len);
	st = diw_streamreg_find(reg, cookie);
	return st && atomic_load(&st->tx.state) == DIW_STREAM_FRAMED;
}

/* How many slots are taken. */
static unsigned taken(const struct diw_streamreg *reg)
{
	struct diw_sock_stream *st;
	unsigned n = 0;

	for (uint32_t i = 0; i < DIW_STREAMREG_SLOTS; i++)
		n += diw_streamreg_used(reg, i, &st) > 1;
	return n;
}

static void victim(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (!talks(one(i)))
			_exit(1);
	kill(getpid(), SIGKILL);
}

static unsigned kill_some(unsigned all)
{
	unsigned good = 0;

	for (unsigned i = 0; i < all; i += VICTIMS) {
		pid_t child = fork();
		int status;

		if (child == 0)
			victim(VICTIMS);
		waitpid(child, &status, 0);
		good += WIFSIGNALED(status);
	}
	return good;
}

int main(int argc, char **argv)
{
	unsigned count = argc > 2 ? (unsigned)atoi(argv[1]) : 0, killed = count ? (unsigned)atoi(argv[2]) : 0, good = 0;
	char path[PATH_MAX];
	const char *why;
	struct diw_streamreg *reg;
	bool framed = true;

	for (int i = 0; i < LISTENERS; i++)
		listener[i] = listening(&at[i]);
	for (unsigned i = 0; i < count; i++) {
		struct ends e = one(i);

		good += talks(e);
		done(e);
	}
	reg = diw_streamreg_open(false, path, sizeof path, &why);
	if (!reg)
		return 1;
	check("each connection had its message", good == count);
	check("their slots are free", taken(reg) < 100);
	check("processes are killed", kill_some(killed) == (killed + VICTIMS - 1) / VICTIMS);
	for (unsigned i = 0; i < 1000; i++) {
		struct ends e = one(i);

		framed = talks(e) && is_framed(reg, e.a) && is_framed(reg, e.b) && framed;
		done(e);
	}
	check("connections are framed then", framed);
	puts("end");
	return failed > 0;
}
