/* SPDX-License-Identifier: BSD-2-Clause */
/* streams_full: no slot is left, since each is taken by what may be a socket of a process that lives: connections are
 * plain then, and lose nothing; and framed again when those are no more. */
#include <limits.h>
#include <time.h>

#include "base/streamreg.h"
#include "streams_kit.h"

#define NOBODYS 0xffffffff00000000u      /* from here on, no cookie is a socket's */

static struct diw_streamreg *reg;

static void take_all(void)
{
	for (size_t i = 0; i < sizeof reg->backed / sizeof reg->backed[0]; i++)
		atomic_store(&reg->backed[i], UINT64_MAX);
	for (uint32_t i = 0; i < DIW_STREAMREG_SLOTS; i++) {
		struct diw_sock_stream *st = &reg->slot[i];
		uint64_t is = 0;

		atomic_store(&st->user, (uint32_t)getpid());
		if (!atomic_compare_exchange_strong(&st->cookie, &is, NOBODYS + i) && is == 1)
			atomic_compare_exchange_strong(&st->cookie, &is, NOBODYS + i);
	}
}

static void give_back(uint64_t netns)
{
	for (uint32_t i = 0; i < DIW_STREAMREG_SLOTS; i++) {
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

static bool is_framed(int fd)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof cookie;

	getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len);
	for (uint32_t i = 0; i < DIW_STREAMREG_WINDOW; i++)
		if (atomic_load(&diw_streamreg_at(reg, cookie, i)->cookie) == cookie)
			return atomic_load(&diw_streamreg_at(reg, cookie, i)->tx.state) == DIW_STREAM_FRAMED;
	return false;
}

int main(void)
{
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
		check("no slot is left: they are plain", !is_framed(e.a) && !is_framed(e.b));
		check("... and talk on", talks(e) && talks(e));
		done(e);
	}
	give_back(netns);
	nanosleep(&(struct timespec){ .tv_nsec = 300000000 }, NULL);
	e = pair();
	check("they are framed again when those are no more", is_framed(e.a) && is_framed(e.b));
	done(e);
	puts("end");
	return failed > 0;
}
