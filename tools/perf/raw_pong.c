/* SPDX-License-Identifier: BSD-2-Clause */
/* Code for bare sockets of both kinds: their address, a ping-pong, and the measured part of a run. */
#include <errno.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tools/perf/raw_end.h"

static double thread_cpu(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

int raw_bound(int fd, bool failed, struct diw_addr *bound)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof ss;
	int err;

	if (failed || getsockname(fd, (struct sockaddr *)&ss, &len)) {
		err = -errno;
		close(fd);
		return err;
	}
	diw_addr_from_sockaddr(bound, (struct sockaddr *)&ss);
	return fd;
}

bool raw_stopped(const struct raw_attr *a)
{
	return a->stop && *a->stop;
}

void raw_span_begin(struct raw_span *s, struct raw_result *r, uint64_t now)
{
	s->begun = true;
	s->begin_ns = s->last_ns = now;
	s->begin_cpu = thread_cpu();
	r->bytes = 0;
	r->calls = 0;
	r->crc_errors = 0;
}

void raw_span_end(const struct raw_span *s, struct raw_result *r)
{
	r->elapsed_ns = s->last_ns - s->begin_ns;
	r->cpu_s = thread_cpu() - s->begin_cpu;
}

void raw_pong_sender(const struct raw_pong *p)
{
	const struct raw_attr *a = p->a;
	struct raw_result *r = p->r;
	struct raw_span s = { .begun = false };
	uint64_t start = diw_clock_ns(), t0 = start, t1, number = 0;
	enum raw_came came = RAW_MESSAGE;

	while (came != RAW_END && !raw_stopped(a)) {
		if (!s.begun && t0 - start >= a->warmup_ns)
			raw_span_begin(&s, r, t0);
		if (s.begun && (t0 - s.begin_ns >= a->duration_ns || (a->max_msgs && r->msgs >= a->max_msgs)))
			break;
		p->ops->send(p->end, number++);
		came = p->ops->receive(p->end);
		t1 = diw_clock_ns();
		if (came == RAW_MESSAGE && s.begun) {
			if (r->lat_n < a->lat_max && a->lat)
				a->lat[r->lat_n++] = (uint32_t)((t1 - t0) / 2);
			r->msgs++;
			s.last_ns = t1;
		}
		r->lost += came == RAW_NOTHING && s.begun;
		t0 = t1;
	}
	if (s.begun)
		raw_span_end(&s, r);
	r->bytes = r->bytes_all = r->bytes_sent = r->msgs * a->size;
}

void raw_pong_receiver(const struct raw_pong *p)
{
	uint64_t number = 0, quiet_since = diw_clock_ns();
	struct raw_span s;
	enum raw_came came;

	raw_span_begin(&s, p->r, quiet_since);
	while (!raw_stopped(p->a)) {
		came = p->ops->receive(p->end);
		if (came == RAW_END)
			break;
		if (came == RAW_NOTHING) {
			if (diw_clock_ns() - quiet_since > (number ? RAW_SILENCE : RAW_SILENCE_FIRST))
				break;
			continue;
		}
		p->ops->send(p->end, number++);
		if (number % 64 == 1 || !p->a->spinning)
			quiet_since = diw_clock_ns();
	}
	s.last_ns = diw_clock_ns();
	raw_span_end(&s, p->r);
	p->r->msgs = number;
	p->r->bytes = p->r->bytes_all = number * p->a->size;
}
