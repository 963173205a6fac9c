/* SPDX-License-Identifier: BSD-2-Clause */
/* diw cp and recv --group: what they print at the end of a transfer. */
#include <string.h>

#include "tools/cp/group_send.h"
#include "tools/cp/transfer.h"

static double gbps(uint64_t bytes, double sec)
{
	return sec > 0 ? (double)bytes / sec / 1e9 : 0;
}

static void send_report_json(const struct group_send *s, double sec, uint64_t wire)
{
	uint32_t done = members_in(&s->members, MEMBER_DONE);
	cJSON *o = cJSON_CreateObject(), *list, *row;
	char buf[DIW_ADDR_STRLEN], hex[65];

	xfer_hex(s->out.sha, hex);
	cJSON_AddStringToObject(o, "file", s->out.path);
	cJSON_AddStringToObject(o, "group", diw_addr_str(&s->to.addr, buf));
	cJSON_AddStringToObject(o, "name", s->name);
	json_add_count(o, "size", s->out.size);
	json_add_count(o, "block", s->block);
	json_add_count(o, "joined", s->members.n);
	json_add_count(o, "done", done);
	json_add_count(o, "passes", s->passes);
	json_add_count(o, "bytes_sent", s->sent);
	json_add_count(o, "bytes_sent_again", s->again);
	json_add_count(o, "tx_bytes", wire);
	json_add_count(o, "window_cuts", s->cwnd.cuts);
	json_add_count(o, "window_timeouts", s->cwnd.timeouts);
	json_add_count(o, "window", s->cwnd.window);
	json_add_number(o, "rtt_us", (double)s->rtt / 1e3);
	json_add_count(o, "marks", s->mark);
	json_add_count(o, "joins_refused", s->joins_refused);
	json_add_count(o, "wants_refused", s->wants_refused);
	json_add_count(o, "bad_messages", s->bad_messages);
	json_add_number(o, "seconds", sec);
	json_add_number(o, "GBps", gbps(s->out.size, sec));
	json_add_number(o, "GBps_aggregate", gbps(s->out.size * done, sec));
	cJSON_AddStringToObject(o, "sha256", hex);
	list = cJSON_AddArrayToObject(o, "receivers");
	for (uint32_t i = 0; i < s->members.n; i++) {
		const struct member *m = &s->members.m[i];

		row = cJSON_CreateObject();
		cJSON_AddStringToObject(row, "addr", diw_addr_str(&m->addr, buf));
		cJSON_AddStringToObject(row, "state", member_state_str(m->state));
		json_add_count(row, "bytes_asked_again", m->again);
		json_add_number(row, "seconds", (double)m->elapsed_ns / 1e9);
		cJSON_AddBoolToObject(row, "behind", m->behind);
		cJSON_AddStringToObject(row, "why", m->why);
		cJSON_AddItemToArray(list, row);
	}
	json_print(o);
}

static uint64_t send_counter(const struct group_send *s, const char *name)
{
	uint64_t v[512];
	int n = diw_qp_counters(s->port.ep.qp, v, 512);

	for (int i = 0; i < n && i < 512; i++)
		if (strcmp(diw_counter_name(i), name) == 0)
			return v[i];
	return 0;
}

int group_send_report(const struct group_send *s)
{
	double sec = (double)(s->ended_at - s->began_at) / 1e9;
	uint32_t done = members_in(&s->members, MEMBER_DONE);
	char buf[DIW_ADDR_STRLEN], a[24], b[24], hex[65];

	if (s->o->json) {
		send_report_json(s, sec, send_counter(s, "tx_bytes"));
	} else {
		xfer_hex(s->out.sha, hex);
		printf("%s: %s to %u receivers in %.3f s, %.3f GB/s each, %.3f GB/s together, %s sent again\n", s->name,
		       fmt_bytes(s->out.size, a), done, sec, gbps(s->out.size, sec), gbps(s->out.size * done, sec),
		       fmt_bytes(s->again, b));
		printf("SHA-256 %s matches at %u of %u\n", hex, done, s->members.n);
	}
	for (uint32_t i = 0; i < s->members.n; i++)
		if (s->members.m[i].state != MEMBER_DONE)
			tool_failed("%s: %s: %s", diw_addr_str(&s->members.m[i].addr, buf),
				    member_state_str(s->members.m[i].state), s->members.m[i].why);
	return done == s->members.n ? TOOL_OK : TOOL_FAILED;
}

void transfer_report(const struct transfer *t)
{
	double sec = (double)(t->had_at - t->began_at) / 1e9, gb = sec > 0 ? (double)t->size / sec / 1e9 : 0;
	char hex[65], from[DIW_ADDR_STRLEN], a[24], b[24];
	cJSON *o;

	xfer_hex(t->sha_got, hex);
	diw_addr_str(&t->peer.addr, from);
	if (!t->o->json) {
		printf("%s: %s from %s in %.3f s, %.3f GB/s, %s asked for again\n", t->in.name, fmt_bytes(t->size, a),
		       from, sec, gb, fmt_bytes(t->again, b));
		printf("SHA-256 %s %s\n", hex, t->sha_ok ? "matches" : "DIFFERS");
		if (t->why[0])
			tool_failed("%s: not saved: %s", t->in.name, t->why);
		fflush(stdout);
		return;
	}
	o = cJSON_CreateObject();
	cJSON_AddStringToObject(o, "from", from);
	cJSON_AddStringToObject(o, "name", t->in.name);
	json_add_count(o, "size", t->size);
	json_add_count(o, "bytes_came", t->got);
	json_add_count(o, "bytes_asked_again", t->again);
	json_add_number(o, "seconds", sec);
	json_add_number(o, "GBps", gb);
	json_add_count(o, "records_complete", t->complete_records);
	json_add_count(o, "records_partial", t->partial_records);
	cJSON_AddStringToObject(o, "sha256", hex);
	cJSON_AddBoolToObject(o, "sha256_ok", t->sha_ok);
	cJSON_AddBoolToObject(o, "saved", !t->why[0]);
	json_print(o);
	fflush(stdout);
}
