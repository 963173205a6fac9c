/* SPDX-License-Identifier: BSD-2-Clause */
/* diw perf: counts messages and bytes between the warm-up and the end of a round. */
#include "tools/perf/perf_rig.h"

#define STALLED 10u                          /* intervals; messages that have not come by then are not waited for */

void meter_init(struct meter *m, uint64_t ns)
{
	*m = (struct meter){ .ns = ns, .warm_ns = ns / 10 < 20 * DIW_MS ? ns / 10 : 20 * DIW_MS,
		.cpu0 = perf_cpu_now() };
}

/* The interval ends with a batch, too: over a slow link the first batch may take longer than the interval. */
void meter_batch(struct meter *m, uint64_t now, uint64_t msgs, uint64_t bytes)
{
	bool any = msgs + bytes > 0;

	m->msgs += (double)msgs;
	m->bytes += (double)bytes;
	if (m->over)
		return;
	if (!m->first) {
		m->first = any ? now : 0;
		return;
	}
	if (m->begin && any) {
		m->m_msgs += (double)msgs;
		m->m_bytes += (double)bytes;
		m->end = now;
	} else if (any && now - m->first >= m->warm_ns) {
		m->begin = m->end = now;
		m->cpu0 = perf_cpu_now();
	}
	m->over = (m->end > m->begin && now - m->begin >= m->ns) || now - m->first >= STALLED * m->ns;
}

void meter_stop(struct meter *m)
{
	m->over = true;
	m->cpu_s = perf_cpu_now() - m->cpu0;
}

void meter_part(const struct meter *m, struct perf_part *p)
{
	p->rx_msgs = m->msgs;
	p->rx_bytes = m->bytes;
	p->m_msgs = m->m_msgs;
	p->m_bytes = m->m_bytes;
	p->m_ns = (double)(m->end - m->begin);
	p->m_begin = (double)m->begin;
	p->cpu_s = m->cpu_s;
}
