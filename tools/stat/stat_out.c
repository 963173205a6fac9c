/* SPDX-License-Identifier: BSD-2-Clause */
/* Output for programs: JSON and the Prometheus text format. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sockets_preload/shm/sockcount.h"
#include "tools/stat/stat.h"

uint64_t stat_get(const struct diw_stat_copy *c, const struct diw_stat_qp *qp, const char *name)
{
	const uint64_t *v = diw_stat_value(c, qp, name);

	return v ? *v : 0;
}

const char *stat_type(const struct diw_stat_qp *qp)
{
	switch (qp->id.type) {
	case DIW_QP_UD: return "UD";
	case DIW_QP_UC: return "UC";
	case DIW_QP_RC: return "RC";
	case DIW_QP_RD: return "RD";
	case DIW_STAT_SOCKETS: return "sockets";
	default: return "unknown";
	}
}

double stat_fill(const struct diw_stat_copy *c, const struct diw_stat_qp *qp, const char *dir)
{
	char datagrams[16], bursts[16];
	uint64_t n;

	snprintf(datagrams, sizeof datagrams, "%s_%s", dir, qp && qp->id.type == DIW_QP_RC ? "fpdus" : "datagrams");
	snprintf(bursts, sizeof bursts, "%s_bursts", dir);
	n = stat_get(c, qp, bursts);
	return n ? (double)stat_get(c, qp, datagrams) / (double)n : 0;
}

/* ---- JSON ---- */

static void peers_json(cJSON *o, const struct diw_stat_qp *qp)
{
	cJSON *rows = cJSON_AddArrayToObject(o, "peers"), *row;
	char buf[DIW_ADDR_STRLEN];

	for (uint32_t i = 0; i < qp->npeers; i++) {
		const struct diw_stat_peer *p = &qp->peer[i];

		row = cJSON_CreateObject();
		cJSON_AddStringToObject(row, "address", diw_addr_str(&p->addr, buf));
		json_add_count(row, "window", p->window);
		json_add_count(row, "under_way", p->flight);
		json_add_null_number(row, "srtt_us", p->srtt_ns > 0, (double)p->srtt_ns / 1e3);
		json_add_count(row, "retransmits", p->retransmits);
		cJSON_AddItemToArray(rows, row);
	}
	json_add_count(o, "all_peers", qp->all_peers);
}

static void qp_json(const struct stat_proc *p, const struct diw_stat_qp *qp, double now)
{
	const struct diw_stat_copy *c = p->copy;
	cJSON *o = cJSON_CreateObject(), *part;
	char buf[DIW_ADDR_STRLEN];

	cJSON_AddNumberToObject(o, "time", now);
	cJSON_AddNumberToObject(o, "pid", p->pid);
	cJSON_AddNumberToObject(o, "uid", p->uid);
	cJSON_AddStringToObject(o, "program", c->head.program);
	cJSON_AddStringToObject(o, "device", qp->id.device);
	cJSON_AddNumberToObject(o, "qp", qp->id.num);
	cJSON_AddStringToObject(o, "type", stat_type(qp));
	cJSON_AddStringToObject(o, "local", diw_addr_str(&qp->id.local, buf));
	if (qp->id.peer.port)
		cJSON_AddStringToObject(o, "peer", diw_addr_str(&qp->id.peer, buf));
	cJSON_AddNumberToObject(o, "created", (double)qp->id.created_ns / 1e9);
	json_add_count(o, "hidden", c->head.hidden);
	json_add_number(o, "tx_fill", stat_fill(c, qp, "tx"));
	json_add_number(o, "rx_fill", stat_fill(c, qp, "rx"));
	part = cJSON_AddObjectToObject(o, "counters");
	for (uint32_t i = 0; i < c->head.nvalues; i++) {
		if (i == c->head.ncounters)
			part = cJSON_AddObjectToObject(o, "gauges");
		json_add_count(part, c->names[i], qp->values[i]);
	}
	if (qp->id.type == DIW_QP_RD)
		peers_json(o, qp);
	json_print(o);
}

void stat_print_json(const struct stat_list *list)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	for (size_t i = 0; i < list->n; i++)
		for (uint32_t k = 0; k < list->proc[i].copy->nqps; k++)
			qp_json(&list->proc[i], &list->proc[i].copy->qp[k],
				(double)ts.tv_sec + (double)ts.tv_nsec / 1e9);
}

/* ---- Prometheus ---- */

struct text { const char *name, *text; };
static const struct text texts[] = {
#define X(name, text) { #name, text },
	DIW_COUNTERS(X) DIW_GAUGES(X) DIW_SOCK_COUNTERS(X)
#undef X
};

static const char *text_of(const char *name)
{
	for (size_t i = 0; i < TOOL_COUNT(texts); i++)
		if (!strcmp(texts[i].name, name))
			return texts[i].text;
	return "counted by another version of diwarp";
}

static void label(const char *name, const char *value)
{
	printf("%s=\"", name);
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			putchar('\\');
		putchar(*value);
	}
	putchar('"');
}

static void sample(const struct stat_proc *p, const struct diw_stat_qp *qp, const char *metric, uint64_t value)
{
	char buf[DIW_ADDR_STRLEN];

	printf("%s{pid=\"%d\",qp=\"%u\",", metric, (int)p->pid, qp->id.num);
	label("device", qp->id.device);
	putchar(',');
	label("local", diw_addr_str(&qp->id.local, buf));
	if (qp->id.peer.port) {
		putchar(',');
		label("peer", diw_addr_str(&qp->id.peer, buf));
	}
	printf("} %llu\n", (unsigned long long)value);
}

static int name_index(const struct diw_stat_copy *c, const char *name, bool counter)
{
	for (uint32_t i = 0; i < c->head.nvalues; i++)
		if ((i < c->head.ncounters) == counter && !strcmp(c->names[i], name))
			return (int)i;
	return -1;
}

static bool said_before(const struct stat_list *list, size_t proc, uint32_t qp)
{
	const struct stat_proc *p = &list->proc[proc];
	const struct diw_stat_id *id = &p->copy->qp[qp].id;

	for (size_t i = proc + 1; i-- > 0 && list->proc[i].pid == p->pid;)
		for (uint32_t k = 0; k < (i == proc ? qp : list->proc[i].copy->nqps); k++) {
			const struct diw_stat_id *other = &list->proc[i].copy->qp[k].id;

			if (other->num == id->num && !strcmp(other->device, id->device) &&
			    !memcmp(&other->local, &id->local, sizeof id->local) &&
			    !memcmp(&other->peer, &id->peer, sizeof id->peer))
				return true;
		}
	return false;
}

/* A sample may occur only once, whatever a page contains. Compared once, not for every metric: a hostile page has tens
 * of thousands of queue pairs. */
static void drop_repeated(struct stat_list *list)
{
	for (size_t i = 0; i < list->n; i++) {
		struct diw_stat_copy *c = list->proc[i].copy;
		uint32_t nqps = c->nqps;

		c->nqps = 0;
		for (uint32_t k = 0; k < nqps; k++) {
			c->qp[c->nqps] = c->qp[k];
			if (!said_before(list, i, c->nqps))
				c->nqps++;
		}
	}
}

/* Prints all samples of a metric together, as the format requires. */
static void metric(const struct stat_list *list, size_t first, const char *name, bool counter)
{
	char full[DIW_STAT_NAME + 16];

	snprintf(full, sizeof full, "diwarp_%s%s", name, counter ? "_total" : "");
	printf("# HELP %s %s\n# TYPE %s %s\n", full, text_of(name), full, counter ? "counter" : "gauge");
	for (size_t i = first; i < list->n; i++) {
		const struct stat_proc *p = &list->proc[i];
		int at = name_index(p->copy, name, counter);

		for (uint32_t k = 0; at >= 0 && k < p->copy->nqps; k++)
			sample(p, &p->copy->qp[k], full, p->copy->qp[k].values[at]);
	}
}

/* Processes of several versions may have counters of their own: a name is printed with the first process that has
 * it. */
void stat_print_prometheus(struct stat_list *list)
{
	drop_repeated(list);
	for (size_t i = 0; i < list->n; i++) {
		const struct diw_stat_copy *c = list->proc[i].copy;

		for (uint32_t v = 0; v < c->head.nvalues; v++) {
			bool counter = v < c->head.ncounters, known = false;

			for (size_t k = 0; k < i && !known; k++)
				known = name_index(list->proc[k].copy, c->names[v], counter) >= 0;
			if (!known)
				metric(list, i, c->names[v], counter);
		}
	}
}
