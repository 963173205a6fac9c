/* SPDX-License-Identifier: BSD-2-Clause */
/* streams_load [MB]: much data through streams to itself, by every kind of end; each byte is checked. With SHORT in the
 * environment there is less data, and tests/preload/short.c cuts it everywhere. */
#include <pthread.h>
#include <sys/ioctl.h>
#include <time.h>

#include "streams_kit.h"

#define PIECE 70001u                     /* at most, of a call: more than an FPDU */

static bool is_short;

/* ---- One direction ---- */

struct way {
	int from, to;
	uint8_t seed;
	size_t all, sent, got;
	bool wrong, ended;
	bool stray[2];                       /* errno after a send, or a receive, that succeeded */
	uint64_t dice[2];                    /* random state of the sender, of the receiver */
	unsigned pause;                      /* us, for which the receiver sometimes pauses */
};

static size_t some(uint64_t *dice, size_t most)
{
	*dice = *dice * 6364136223846793005u + 1442695040888963407u;
	return 1 + (size_t)(*dice >> 33) % (*dice >> 60 ? most : 40);
}

/* What one call takes; -1 with errno. Behind the last, the direction is shut. */
static ssize_t push(struct way *w, int flags)
{
	uint8_t buf[PIECE];
	size_t n = some(&w->dice[0], sizeof buf);
	ssize_t rc;

	if (n > w->all - w->sent)
		n = w->all - w->sent;
	fill(buf, n, w->sent, w->seed);
	errno = 0;
	rc = send(w->from, buf, n, flags | MSG_NOSIGNAL);
	w->stray[0] |= rc >= 0 && errno;
	if (rc > 0)
		w->sent += (size_t)rc;
	if (w->sent == w->all)
		shutdown(w->from, SHUT_WR);
	return rc;
}

static ssize_t pull(struct way *w, int flags)
{
	uint8_t buf[PIECE];
	ssize_t rc;

	errno = 0;
	rc = recv(w->to, buf, some(&w->dice[1], sizeof buf), flags);
	w->stray[1] |= rc >= 0 && errno;
	if (rc > 0) {
		w->wrong |= !is_filled(buf, (size_t)rc, w->got, w->seed);
		w->got += (size_t)rc;
	}
	w->ended |= rc == 0;
	return rc;
}

static bool is_whole(const struct way *w)
{
	return w->ended && !w->wrong && !w->stray[0] && !w->stray[1] && w->sent == w->all && w->got == w->all;
}

static void ways(struct way w[2], struct ends e, size_t n)
{
	w[0] = (struct way){ .from = e.a, .to = e.b, .seed = 1, .all = n, .dice = { n, n + 3 } };
	w[1] = (struct way){ .from = e.b, .to = e.a, .seed = 2, .all = n + 1, .dice = { n + 7, n + 9 } };
}

/* ---- Both ends in one thread, which does not wait ---- */

static bool is_fatal(ssize_t rc)
{
	return rc < 0 && errno != EAGAIN;
}

/* False: there is no progress any more, or a call fails. */
static bool turn(struct way w[2])
{
	struct pollfd p[2] = { { .fd = w[0].from }, { .fd = w[1].from } };

	for (int i = 0; i < 2; i++) {
		p[i].events = (short)((w[i].sent < w[i].all ? POLLOUT : 0) | (w[!i].ended ? 0 : POLLIN));
		p[i].fd = p[i].events ? p[i].fd : -1;
	}
	if (poll(p, 2, LIMIT_MS) <= 0)
		return false;
	for (int i = 0; i < 2; i++) {
		if (p[i].events & POLLOUT && p[i].revents & (POLLOUT | POLLERR) && is_fatal(push(&w[i], 0)))
			return false;
		if (p[i].events & POLLIN && p[i].revents & (POLLIN | POLLHUP | POLLERR) && is_fatal(pull(&w[!i], 0)))
			return false;
	}
	return true;
}

static void one_thread(const char *what, struct ends e, size_t n)
{
	struct way w[2];

	ways(w, e, n);
	nonblocking(e.a);
	nonblocking(e.b);
	while ((!w[0].ended || !w[1].ended) && turn(w))
		;
	check(what, is_whole(&w[0]) && is_whole(&w[1]));
	done(e);
}

/* ---- Threads that block ---- */

static void *sends(void *arg)
{
	struct way *w = arg;

	while (w->sent < w->all && push(w, 0) >= 0)
		;
	return NULL;
}

static void *receives(void *arg)
{
	struct way *w = arg;

	for (unsigned i = 0; !w->ended && pull(w, i % 5 == 4 ? MSG_WAITALL : 0) >= 0; i++)
		if (w->pause && i % 16 == 0)
			nanosleep(&(struct timespec){ .tv_nsec = w->pause * 1000l }, NULL);
	return NULL;
}

static void four_threads(const char *what, struct ends e, size_t n, unsigned pause)
{
	pthread_t t[4];
	struct way w[2], of[4];

	ways(w, e, n);
	for (int i = 0; i < 4; i++) {
		of[i] = w[i / 2];
		of[i].pause = pause;
		pthread_create(&t[i], NULL, i % 2 ? receives : sends, &of[i]);
	}
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	for (int i = 0; i < 2; i++) {
		of[2 * i].got = of[2 * i + 1].got;
		of[2 * i].ended = of[2 * i + 1].ended;
		of[2 * i].wrong = of[2 * i + 1].wrong;
	}
	check(what, is_whole(&of[0]) && is_whole(&of[2]));
	done(e);
}

/* ---- Little room ---- */

static struct ends tiny(void)
{
	struct sockaddr_in at;
	int listener = listening(&at), little = 8000;
	struct ends e;

	setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &little, sizeof little);
	setsockopt(listener, SOL_SOCKET, SO_SNDBUF, &little, sizeof little);
	e.a = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(e.a, SOL_SOCKET, SO_RCVBUF, &little, sizeof little);
	setsockopt(e.a, SOL_SOCKET, SO_SNDBUF, &little, sizeof little);
	if (connect(e.a, (void *)&at, sizeof at) < 0 || (e.b = accept(listener, NULL, NULL)) < 0)
		exit(1);
	check("ends with little room talk", talks(e));
	close(listener);
	return e;
}

/* ---- Ends ---- */

static void lingers(size_t n)
{
	struct ends e = pair();
	struct linger none = { .l_onoff = 1 };
	struct way w[2];
	ssize_t rc;

	ways(w, e, n);
	nonblocking(e.a);
	w[0].all++;                          /* the last byte is never sent */
	while (w[0].sent < n && (push(&w[0], 0) > 0 || !w[0].sent))
		;
	setsockopt(e.a, SOL_SOCKET, SO_LINGER, &none, sizeof none);
	check("bytes were sent", w[0].sent > 0 && ready(e.b, POLLIN));
	close(e.a);
	while ((rc = pull(&w[0], 0)) > 0)
		;
	check("an end that does not linger resets", rc < 0 && errno == ECONNRESET);
	check("... what came before is what was sent", !w[0].wrong && w[0].got <= w[0].sent);
	close(e.b);
}

/* ---- Many at one end ---- */

#define SENDERS 6
struct record { uint32_t who, seq; uint64_t sum; };
static uint32_t records;
static int shared;

static void *sends_records(void *arg)
{
	for (uint32_t i = 0; i < records; i++) {
		struct record r = { (uint32_t)(uintptr_t)arg, i, 0 };

		r.sum = (uint64_t)r.who << 32 ^ r.seq * 0x9e3779b97f4a7c15u;
		if (send(shared, &r, sizeof r, MSG_NOSIGNAL) != (ssize_t)sizeof r)
			return "failed";
	}
	return NULL;
}

/* Small messages are not divided, and keep their order within their thread. */
static void many_threads(uint32_t n)
{
	struct ends e = pair();
	pthread_t t[SENDERS];
	uint32_t next[SENDERS] = { 0 }, good = 0;
	struct record r;
	void *rc, *any = NULL;

	records = n;
	shared = e.a;
	for (uintptr_t i = 0; i < SENDERS; i++)
		pthread_create(&t[i], NULL, sends_records, (void *)i);
	for (uint32_t i = 0; i < SENDERS * n; i++) {
		if (recv(e.b, &r, sizeof r, MSG_WAITALL) != (ssize_t)sizeof r || r.who >= SENDERS)
			break;
		good += r.seq == next[r.who]++ && r.sum == ((uint64_t)r.who << 32 ^ r.seq * 0x9e3779b97f4a7c15u);
	}
	for (int i = 0; i < SENDERS; i++) {
		pthread_join(t[i], &rc);
		any = rc ? rc : any;
	}
	check("many threads send on one", !any && good == SENDERS * n);
	done(e);
}

static _Atomic uint64_t taken[256];

static void *counts(void *arg)
{
	uint8_t buf[999];
	ssize_t n;

	while ((n = recv(shared, buf, sizeof buf, 0)) > 0)
		for (ssize_t i = 0; i < n; i++)
			taken[buf[i]]++;
	return n < 0 ? "failed" : arg;
}

/* Together they receive every byte once. */
static void many_receivers(size_t n)
{
	struct ends e = pair();
	pthread_t t[SENDERS];
	uint64_t sent[256] = { 0 };
	void *rc, *any = NULL;
	struct way w[2];
	bool good = true;

	ways(w, e, n);
	for (size_t i = 0; i < n; i++)
		sent[byte_at(i, w[0].seed)]++;
	for (int i = 0; i < 256; i++)
		taken[i] = 0;
	shared = e.b;
	for (int i = 0; i < SENDERS; i++)
		pthread_create(&t[i], NULL, counts, NULL);
	sends(&w[0]);
	for (int i = 0; i < SENDERS; i++) {
		pthread_join(t[i], &rc);
		any = rc ? rc : any;
	}
	for (int i = 0; i < 256; i++)
		good &= taken[i] == sent[i];
	check("many threads receive from one", !any && good);
	done(e);
}

/* ---- Urgent bytes ---- */

/* The first byte that leaves, and others between; each when the bytes before it have been read. */
static void urgent(unsigned rounds)
{
	struct sockaddr_in at;
	int listener = listening(&at);
	bool good = true;

	for (unsigned i = 0; i < rounds && good; i++) {
		struct ends e = connected(listener, &at);
		char c = 0, buf[64] = "";
		size_t got = 8;
		ssize_t n = 0;

		good = send(e.a, "u", 1, MSG_OOB) == 1 && ready(e.b, POLLPRI) & POLLPRI &&
		       recv(e.b, &c, 1, MSG_OOB) == 1 && c == 'u' && send(e.a, "abcdefgh", 8, 0) == 8 &&
		       recv(e.b, buf, 8, MSG_WAITALL) == 8 && send(e.a, "ijV", 3, MSG_OOB) == 3 &&
		       send(e.a, "klmn", 4, 0) == 4;
		shutdown(e.a, SHUT_WR);
		while (good && (n = recv(e.b, buf + got, sizeof buf - got, 0)) > 0)
			got += (size_t)n;
		good = good && n == 0 && got == 14 && memcmp(buf, "abcdefghijklmn", 14) == 0;
		done(e);
	}
	check("urgent bytes", good);
	close(listener);
}

int main(int argc, char **argv)
{
	size_t n = (argc > 1 ? (size_t)atoi(argv[1]) : 4) << 20;

	is_short = getenv("SHORT") && *getenv("SHORT");
	if (is_short)
		n = 1 << 20;
	one_thread("both ends in one thread", pair(), n);
	if (!is_short)
		one_thread("... with little room", tiny(), n / 64);
	four_threads("ends that wait", pair(), n, 0);
	four_threads("... with little room", tiny(), n / 64, 0);
	four_threads("... slow ones", pair(), 2 * n, 300);
	lingers(n);
	if (!is_short)
		many_threads((uint32_t)n / 256);
	many_receivers(n);
	urgent(is_short ? 100 : 10);
	puts("end");
	return failed > 0;
}
