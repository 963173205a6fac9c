/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/perf_rig.h"

void meter_init(struct meter *m, uint64_t ns)
{
	*m = (struct meter){ .ns = ns, .warm_ns = ns / 10 < 20 * DIW_MS ? ns / 10 : 20 * DIW_MS,
		.cpu0 = perf_cpu_now() };
}

void meter_batch(struct meter *m, uint64_t now, uint64_t msgs, uint64_t bytes)
{
	m->msgs += (double)msgs;
	m->bytes += (double)bytes;
	if (m->over)
		return;
	if (m->begin) {
		m->m_msgs += (double)msgs;
		m->m_bytes += (double)bytes;
		m->end = now;
		m->over = now - m->begin >= m->ns;
	} else if (!m->first && msgs + bytes) {
		m->first = now;
	} else if (m->first && now - m->first >= m->warm_ns) {
		m->begin = m->end = now;
		m->cpu0 = perf_cpu_now();
	}
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
	p->cpu_s = m->cpu_s;
}
