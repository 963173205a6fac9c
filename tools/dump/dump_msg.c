/* SPDX-License-Identifier: BSD-2-Clause */
/* Follows messages and records across segments: the bytes that the capture saw arrive or leave, and the others. */
#include <stdlib.h>
#include <string.h>

#include "base/addr.h"
#include "base/list.h"
#include "base/range.h"
#include "tools/dump/dump.h"

#define OPEN 4096                    /* messages followed at a time; the one that was quiet longest ends for a new
				      * one */
#define QUIET DIW_S                  /* a message ends after this silence, in the capture's time */
#define LISTED 8                     /* lost ranges that a line lists */

struct msg {
	struct diw_list age, hash;
	struct dump_datagram dg;     /* of its first segment, without the data */
	uint64_t last_ns, base;      /* base: TO of its first byte */
	uint32_t stag, msn, length, segments, dropped;
	uint32_t unfollowed;         /* segments for which `got` had no room */
	uint16_t epoch;
	uint8_t opcode;
	bool told;                   /* complete and shown; kept to detect duplicates */
	struct diw_range_set got;
};

struct dump_msgs {
	bool json, faults_only;
	uint64_t shown, max;
	struct diw_arena arena;
	struct diw_pool pool;
	struct diw_range_pools ranges;
	struct diw_list age;         /* the message that was quiet longest is first */
	struct diw_list hash[OPEN];
};

/* ---- Showing ---- */

/* Writes the gaps between the ranges. Returns their number, at most one more than the ranges. */
static size_t holes_of(const struct msg *m, struct hole *h)
{
	uint64_t at = 0;
	size_t n = 0;

	for (uint32_t i = 0; i < m->got.n; at = m->got.v[i++].hi)
		if (m->got.v[i].lo > at)
			h[n++] = (struct hole){ at, m->got.v[i].lo - at };
	if (at < m->length)
		h[n++] = (struct hole){ at, m->length - at };
	return n;
}

static bool msg_is_tagged(const struct msg *m)
{
	return m->opcode == OP_WRITE || m->opcode == OP_READ_RESPONSE || m->opcode == OP_WRITE_RECORD;
}

static void show_text(const struct msg *m, const struct hole *h, size_t n)
{
	dump_print_head(&m->dg);
	printf(" %s msn %u epoch 0x%04x", dump_op_name(m->opcode), m->msn, m->epoch);
	if (msg_is_tagged(m))
		printf(" stag 0x%08x to 0x%016llx", m->stag, (unsigned long long)m->base);
	printf(": %u of %u bytes in %u segments, %.3f ms", m->got.bytes, m->length, m->segments,
	       (double)(m->last_ns - m->dg.ns) / 1e6);
	if (m->dropped)
		printf(", %u dropped", m->dropped);
	if (m->unfollowed)
		printf(", %u not followed (too many pieces)", m->unfollowed);
	putchar('\n');
	if (msg_is_tagged(m) && m->length)
		map_bar(stdout, m->length, h, n);
	if (!n)
		return;
	printf("  lost (offset+length):");
	for (size_t i = 0; i < n && i < LISTED; i++)
		printf(" %llu+%llu", (unsigned long long)h[i].off, (unsigned long long)h[i].len);
	if (n > LISTED)
		printf(" and %zu more", n - LISTED);
	putchar('\n');
}

static void show_json(const struct msg *m, const struct hole *h, size_t n)
{
	cJSON *o = dump_json(&m->dg, dump_op_name(m->opcode)), *list;

	json_add_count(o, "msn", m->msn);
	dump_json_hex(o, "epoch", m->epoch, 4);
	if (msg_is_tagged(m)) {
		dump_json_hex(o, "stag", m->stag, 8);
		dump_json_hex(o, "to", m->base, 16);
	}
	json_add_count(o, "length", m->length);
	json_add_count(o, "valid", m->got.bytes);
	json_add_count(o, "segments", m->segments);
	json_add_count(o, "dropped", m->dropped);
	json_add_count(o, "unfollowed", m->unfollowed);
	json_add_count(o, "duration_ns", m->last_ns - m->dg.ns);
	list = cJSON_AddArrayToObject(o, "lost");
	for (size_t i = 0; i < n; i++) {
		double pair[2] = { (double)h[i].off, (double)h[i].len };

		cJSON_AddItemToArray(list, cJSON_CreateDoubleArray(pair, 2));
	}
	json_print(o);
}

static void msg_show(struct dump_msgs *ms, const struct msg *m)
{
	static struct hole holes[DIW_RANGE_MAX + 1];
	size_t n = holes_of(m, holes);

	if ((ms->faults_only && !n && !m->dropped) || ms->shown == ms->max)
		return;
	ms->shown++;
	if (ms->json)
		show_json(m, holes, n);
	else
		show_text(m, holes, n);
}

static void msg_end(struct dump_msgs *ms, struct msg *m)
{
	if (!m->told)
		msg_show(ms, m);
	diw_list_del(&m->age);
	diw_list_del(&m->hash);
	diw_range_fini(&m->got, &ms->ranges);
	diw_pool_put(&ms->pool, m);
}

static struct msg *oldest(struct dump_msgs *ms)
{
	return diw_list_empty(&ms->age) ? NULL : diw_container(ms->age.next, struct msg, age);
}

void dump_msgs_end(struct dump_msgs *ms)
{
	for (struct msg *m = oldest(ms); m; m = oldest(ms))
		msg_end(ms, m);
}

/* ---- Following ---- */

/* A segment that contradicts its message belongs to another one. */
static bool belongs(const struct msg *m, const struct dump_seg *s)
{
	return m->msn == s->msn && m->epoch == s->epoch && m->opcode == s->opcode && m->length == s->length &&
	       m->stag == s->stag && m->base == s->to - (s->tagged ? s->mo : 0) && m->dg.dir == s->dg->dir &&
	       diw_addr_eq(&m->dg.src, &s->dg->src) && diw_addr_eq(&m->dg.dst, &s->dg->dst);
}

static struct msg *msg_find(struct dump_msgs *ms, const struct dump_seg *s)
{
	struct diw_list *head = &ms->hash[(diw_addr_hash(&s->dg->src, 0) ^ s->msn) % OPEN], *l;
	struct msg *m;

	for (l = head->next; l != head; l = l->next) {
		m = diw_container(l, struct msg, hash);
		if (belongs(m, s))
			return m;
	}
	if (ms->pool.used == OPEN)
		msg_end(ms, oldest(ms));
	m = diw_pool_get(&ms->pool);
	*m = (struct msg){ .dg = *s->dg, .stag = s->stag, .msn = s->msn, .length = s->length, .epoch = s->epoch,
			   .opcode = s->opcode, .base = s->to - (s->tagged ? s->mo : 0) };
	diw_range_init(&m->got);
	diw_list_init(&m->age);
	diw_list_add_tail(head, &m->hash);
	return m;
}

void dump_msgs_add(struct dump_msgs *ms, const struct dump_seg *s)
{
	struct msg *m = oldest(ms);

	for (; m && m->last_ns + QUIET < s->dg->ns; m = oldest(ms))
		msg_end(ms, m);
	if (!s->hdr_len || !s->crc_good || s->fault)
		return;
	m = msg_find(ms, s);
	if (m->last_ns < s->dg->ns)             /* a merged capture need not be in order */
		m->last_ns = s->dg->ns;
	diw_list_del(&m->age);
	diw_list_add_tail(&ms->age, &m->age);
	m->segments++;
	if (*s->dg->dropped)
		m->dropped++;
	else if (s->n && diw_range_add(&m->got, &ms->ranges, s->mo, s->mo + s->n) < 0)
		m->unfollowed++;
	if (!m->told && m->got.bytes == m->length && (m->length || !*s->dg->dropped)) {
		msg_show(ms, m);
		m->told = true;
	}
}

struct dump_msgs *dump_msgs_new(bool json, bool faults_only, uint64_t max)
{
	struct dump_msgs *ms = calloc(1, sizeof *ms);

	if (!ms)
		return NULL;
	ms->json = json;
	ms->faults_only = faults_only;
	ms->max = max;
	if (diw_arena_init(&ms->arena, diw_pool_bytes(sizeof(struct msg), OPEN) + diw_range_pools_bytes(OPEN)) < 0) {
		free(ms);
		return NULL;
	}
	diw_pool_init(&ms->pool, &ms->arena, sizeof(struct msg), OPEN);
	diw_range_pools_init(&ms->ranges, &ms->arena, OPEN);
	diw_list_init(&ms->age);
	for (int i = 0; i < OPEN; i++)
		diw_list_init(&ms->hash[i]);
	return ms;
}

uint64_t dump_msgs_shown(const struct dump_msgs *ms)
{
	return ms->shown;
}

void dump_msgs_free(struct dump_msgs *ms)
{
	if (ms)
		diw_arena_fini(&ms->arena);
	free(ms);
}
