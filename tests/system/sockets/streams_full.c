/* SPDX-License-Identifier: BSD-2-Clause */
/* streams_full [fixed]: no slot of the registry's first segment is free, because each may belong to a socket of a
 * living process. New connections get slots of the next segment. With "fixed" there is no next segment: the
 * connections are plain and lose nothing. When the owners of the first segment's slots are gone, these slots are
 * used again. */
#include <limits.h>
#include <time.h>

#include "sockets_preload/shm/streamreg.h"
#include "streams_kit.h"

#define NOBODYS 0xffffffff00000000u      /* from here on, no cookie is a socket's */

static struct diw_streamreg *reg;

static void take_all(void)
{
	for (uint32_t i = 0; i < DIW_STREAMREG_FIRST; i++) {
		struct diw_sock_stream *st = diw_streamreg_back(reg, i);
		uint64_t is = 0;

		if (!st)
			exit(1);
		atomic_store(&st->user, (uint32_t)getpid());
		if (!atomic_compare_exchange_strong(&st->cookie, &is, NOBODYS + i) && is == 1)
			atomic_compare_exchange_strong(&st->cookie, &is, NOBODYS + i);
	}
}

static void give_back(uint64_t netns)
{
	for (uint32_t i = 0; i < DIW_STREAMREG_FIRST; i++) {
		reg->slot[i].netns = netns;
		atomic_store(&reg->slot[i].user, 0);
	}
}

static uint64_t netns_of(int fd)
{
	uint64_t netns = 0;
	socklen_t len = sizeof netns;

	getsockopt(fd, SOL_SOCKET, 71 /* SO_NETNS_COOKIE */, &netns, &len);
	return netns;
}

static struct diw_sock_stream *slot(int fd)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof cookie;

	getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len);
	return diw_streamreg_find(reg, cookie);
}

static bool is_framed(int fd)
{
	return slot(fd) && atomic_load(&slot(fd)->tx.state) == DIW_STREAM_FRAMED;
}

static bool is_in_first(int fd)
{
	return slot(fd) >= reg->slot && slot(fd) < reg->slot + DIW_STREAMREG_FIRST;
}

/* One slot of the first segment is free, the Ith that FD's may be. */
static void leave(int fd, uint32_t i)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof cookie;

	getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len);
	atomic_store(&reg->slot[diw_streamreg_at(cookie, 0, i)].cookie, 1);
}

/* The last slot of an initiator, and the one behind it. */
static void meet_the_edge(bool fixed)
{
	for (uint32_t i = DIW_STREAMREG_INITIATOR - 1; i <= DIW_STREAMREG_INITIATOR; i++) {
		struct sockaddr_in at;
		int listener = listening(&at);
		struct ends e = { .a = socket(AF_INET, SOCK_STREAM, 0) };
		bool mine = i < DIW_STREAMREG_INITIATOR;

		leave(e.a, i);
		check("one slot is left", connect(e.a, (void *)&at, sizeof at) == 0 &&
		      (e.b = accept(listener, NULL, NULL)) >= 0 && talks(e) && talks(e));
		check(mine ? "... the last for an initiator" : "... behind the last for an initiator",
		      fixed ? !is_framed(e.a) && !is_framed(e.b) :
			      is_framed(e.a) && is_framed(e.b) && is_in_first(e.a) == mine);
		close(listener);
		take_all();
		done(e);
		take_all();
	}
}

int main(int argc, char **argv)
{
	bool fixed = argc > 1 && !strcmp(argv[1], "fixed");
	char path[PATH_MAX];
	const char *why;
	struct ends e = pair();
	uint64_t netns = netns_of(e.a);

	reg = diw_streamreg_open(false, path, sizeof path, &why);
	if (!reg)
		return 1;
	check("a stream is framed", is_framed(e.a) && is_framed(e.b));
	done(e);
	take_all();
	for (int i = 0; i < 20; i++) {
		e = pair();
		if (fixed)
			check("no slot is left: they are plain", !is_framed(e.a) && !is_framed(e.b));
		else
			check("the first segment is full: they are framed", is_framed(e.a) && is_framed(e.b) &&
			      !is_in_first(e.a) && !is_in_first(e.b));
		check("... and talk on", talks(e) && talks(e));
		done(e);
	}
	meet_the_edge(fixed);
	give_back(netns);
	nanosleep(&(struct timespec){ .tv_nsec = 300000000 }, NULL);
	e = pair();
	check("they are framed again when those are no more", is_framed(e.a) && is_framed(e.b) && is_in_first(e.a));
	done(e);
	puts("end");
	return failed > 0;
}
