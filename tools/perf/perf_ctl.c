/* SPDX-License-Identifier: BSD-2-Clause */
/* diw perf: the control connection between both ends, a JSON object a line. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/perf/perf.h"

void ctl_init(struct perf_ctl *c, int fd)
{
	c->fd = fd;
	c->len = 0;
	c->patient = false;
}

void ctl_close(struct perf_ctl *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

int ctl_send(struct perf_ctl *c, cJSON *o)
{
	char *text = cJSON_PrintUnformatted(o);
	size_t len = text ? strlen(text) : 0, off = 0;
	ssize_t n;
	int rc = text ? 0 : -ENOMEM;

	if (text)
		text[len++] = '\n';          /* replaces the terminating NUL */
	while (!rc && off < len) {
		n = send(c->fd, text + off, len - off, MSG_NOSIGNAL);
		if (n > 0)
			off += (size_t)n;
		else if (n < 0 && errno != EINTR)
			rc = -errno;
	}
	cJSON_free(text);
	cJSON_Delete(o);
	return rc;
}

/* Removes a line from the received text. */
static cJSON *take_line(struct perf_ctl *c)
{
	char *end = memchr(c->buf, '\n', c->len);
	size_t used;
	cJSON *o;

	if (!end)
		return NULL;
	used = (size_t)(end - c->buf) + 1;
	o = cJSON_ParseWithLength(c->buf, used);
	c->len -= used;
	memmove(c->buf, c->buf + used, c->len);
	return o ? o : cJSON_CreateObject();
}

cJSON *ctl_recv(struct perf_ctl *c, int64_t timeout_ns)
{
	struct pollfd p = { .fd = c->fd, .events = POLLIN };
	uint64_t end = diw_clock_ns() + (uint64_t)timeout_ns, now;
	cJSON *o;
	ssize_t n;

	while (!(o = take_line(c))) {
		now = diw_clock_ns();
		if (now >= end || c->len == sizeof c->buf || tool_stopped > c->patient)
			return NULL;
		if (poll(&p, 1, (int)((end - now) / DIW_MS) + 1) <= 0)
			continue;
		n = recv(c->fd, c->buf + c->len, sizeof c->buf - c->len, 0);
		if (n <= 0)
			return NULL;
		c->len += (size_t)n;
	}
	return o;
}

bool ctl_ready(struct perf_ctl *c)
{
	char byte;

	if (memchr(c->buf, '\n', c->len))
		return true;
	return recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || (errno != EAGAIN && errno != EINTR);
}

double ctl_number(const cJSON *o, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);

	return cJSON_IsNumber(v) ? v->valuedouble : 0;
}

static const struct { const char *key; size_t at; } part_fields[] = {
#define F(name) { #name, offsetof(struct perf_part, name) }
	F(tx_msgs), F(tx_bytes), F(rx_msgs), F(rx_bytes), F(m_msgs), F(m_bytes), F(m_ns), F(p50_ns),
	F(p99_ns), F(close_p99_ns), F(cpu_s), F(computed),
#undef F
};

void ctl_add_part(cJSON *o, const struct perf_part *p)
{
	for (size_t i = 0; i < TOOL_COUNT(part_fields); i++)
		cJSON_AddNumberToObject(o, part_fields[i].key, *(const double *)((const char *)p + part_fields[i].at));
}

void ctl_get_part(const cJSON *o, struct perf_part *p)
{
	for (size_t i = 0; i < TOOL_COUNT(part_fields); i++)
		*(double *)((char *)p + part_fields[i].at) = ctl_number(o, part_fields[i].key);
}
