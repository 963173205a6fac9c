/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A link between two network namespaces. Packets go from a TUN interface of this one to a TUN interface of another one,
 * and back: at a rate, through a queue that drops packets for which it has no room, with a delay, and with random loss
 * of packets. It treats all protocols alike: the kernel cuts super-buffers into packets before they come here.
 *
 *   delaybox PID NAME_HERE NAME_THERE MBIT QUEUE_MS DELAY_MS LOSS_PERCENT SEED
 *
 * PID is a process in the other namespace, DELAY_MS the delay in one direction. At SIGTERM it prints its counters and
 * ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"

#define MTU_MAX 2048u
#define RING 65536u                  /* packets under way in each direction */

struct pkt { uint64_t at; uint32_t len; uint8_t data[MTU_MAX]; };

struct way {
	int in, out;
	uint64_t busy_until, packets, lost, dropped, queue_max;
	uint32_t head, tail;
	struct pkt *ring;
};

static double octet_ns;
static uint64_t queue_ns, delay_ns;
static double loss;
static struct diw_rng rng;
static volatile sig_atomic_t ended;

static void on_term(int sig)
{
	(void)sig;
	ended = 1;
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static int tun_open(const char *name)
{
	struct ifreq ifr = { .ifr_flags = IFF_TUN | IFF_NO_PI };
	int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		fail("/dev/net/tun");
	snprintf(ifr.ifr_name, sizeof ifr.ifr_name, "%s", name);
	if (ioctl(fd, TUNSETIFF, &ifr))
		fail("TUNSETIFF");
	return fd;
}

/* Opens an interface in the namespace of process PID. */
static int tun_open_there(const char *pid, const char *name)
{
	char path[64];
	int here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), there, fd;

	snprintf(path, sizeof path, "/proc/%s/ns/net", pid);
	there = open(path, O_RDONLY | O_CLOEXEC);
	if (here < 0 || there < 0 || setns(there, CLONE_NEWNET))
		fail(path);
	fd = tun_open(name);
	if (setns(here, CLONE_NEWNET))
		fail("setns");
	close(here);
	close(there);
	return fd;
}

/* A packet came at NOW: computes when it has passed queue and link, or drops it. */
static void way_take(struct way *w, uint32_t len, uint64_t now)
{
	uint64_t begin = w->busy_until > now ? w->busy_until : now;

	w->packets++;
	if (diw_rng_chance(&rng, loss)) {
		w->lost++;
	} else if (begin - now > queue_ns || w->tail - w->head == RING - 1) {
		w->dropped++;
	} else {
		w->queue_max = begin - now > w->queue_max ? begin - now : w->queue_max;
		w->busy_until = begin + (uint64_t)(len * octet_ns);
		w->ring[w->tail % RING].at = w->busy_until + delay_ns;
		w->ring[w->tail++ % RING].len = len;
	}
}

static void way_receive(struct way *w, uint64_t now)
{
	ssize_t n;

	while ((n = read(w->in, w->ring[w->tail % RING].data, MTU_MAX)) > 0)
		way_take(w, (uint32_t)n, now);
}

/* Returns when the next packet is due. */
static uint64_t way_deliver(struct way *w, uint64_t now)
{
	for (; w->head != w->tail; w->head++) {
		struct pkt *p = &w->ring[w->head % RING];

		if (p->at > now)
			return p->at;
		if (write(w->out, p->data, p->len) < 0 && errno != EAGAIN && errno != EIO && errno != EINVAL)
			fail("write");
	}
	return DIW_NEVER;
}

static void way_print(const char *name, const struct way *w)
{
	printf("{\"way\":\"%s\",\"packets\":%llu,\"lost\":%llu,\"dropped\":%llu,\"queue_max_ms\":%.1f}\n", name,
	       (unsigned long long)w->packets, (unsigned long long)w->lost, (unsigned long long)w->dropped,
	       (double)w->queue_max / 1e6);
}

int main(int argc, char **argv)
{
	static struct way there, back;

	if (argc != 9) {
		fprintf(stderr, "usage: delaybox PID HERE THERE MBIT QUEUE_MS DELAY_MS LOSS_PERCENT SEED\n");
		return 2;
	}
	there.in = back.out = tun_open(argv[2]);
	there.out = back.in = tun_open_there(argv[1], argv[3]);
	octet_ns = 8e3 / atof(argv[4]);
	queue_ns = (uint64_t)(atof(argv[5]) * 1e6);
	delay_ns = (uint64_t)(atof(argv[6]) * 1e6);
	loss = atof(argv[7]) / 100;
	rng.state = (uint64_t)atoll(argv[8]);
	there.ring = calloc(RING, sizeof *there.ring);
	back.ring = calloc(RING, sizeof *back.ring);
	if (!there.ring || !back.ring)
		fail("calloc");
	signal(SIGTERM, on_term);
	while (!ended) {
		struct pollfd p[2] = { { .fd = there.in, .events = POLLIN }, { .fd = back.in, .events = POLLIN } };
		uint64_t now = diw_clock_ns(), a, b, wait;
		struct timespec ts;

		way_receive(&there, now);
		way_receive(&back, now);
		now = diw_clock_ns();
		a = way_deliver(&there, now);
		b = way_deliver(&back, now);
		wait = (a < b ? a : b) == DIW_NEVER ? DIW_S : (a < b ? a : b) - now;
		ts = (struct timespec){ .tv_sec = (time_t)(wait / DIW_S), .tv_nsec = (long)(wait % DIW_S) };
		ppoll(p, 2, &ts, NULL);
	}
	way_print("there", &there);
	way_print("back", &back);
	return 0;
}
