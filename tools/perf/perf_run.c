/* SPDX-License-Identifier: BSD-2-Clause */
/* diw perf: the client's end, which runs the cases of the plan in rounds (perf.h describes the messages). */
#include "tools/perf/perf.h"

#include <string.h>

#define WARM_NS (50 * DIW_MS)

struct client {
	const struct perf_plan *plan;
	struct perf_ctl ctl;
	struct rig *rig[PERF_SLOTS];
	uint64_t patience_ns;        /* of the present case */
	int failed;                  /* the status of a case without a figure; the others run */
};

/* Asks the server. Returns its answer, or NULL after printing the error. */
static cJSON *ask_server(struct client *c, cJSON *o, const char *what, int slot)
{
	cJSON *answer = NULL;
	const char *error;

	cJSON_AddStringToObject(o, "do", what);
	cJSON_AddNumberToObject(o, "slot", slot);
	if (ctl_send(&c->ctl, o) == 0)
		answer = ctl_recv(&c->ctl, (int64_t)c->patience_ns);
	if (!answer) {
		tool_failed(tool_stopped ? "interrupted" : "the server has gone");
		return NULL;
	}
	error = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(answer, "error"));
	if (!error)
		return answer;
	tool_failed("%s", error);
	cJSON_Delete(answer);
	return NULL;
}

static bool asked(struct client *c, cJSON *o, const char *what, int slot)
{
	cJSON *answer = ask_server(c, o, what, slot);

	cJSON_Delete(answer);
	return answer;
}

static int open_rigs(struct client *c, int slot, const struct perf_case *pc)
{
	int port = pc->qp == PERF_UC ? rig_free_port(&c->plan->side) : 0, rc = TOOL_FAILED;
	cJSON *o = cJSON_CreateObject(), *peer, *own;

	if (port < 0) {
		cJSON_Delete(o);
		return tool_failed("no port: %s", strerror(-port));
	}
	cJSON_AddItemToObject(o, "case", perf_case_json(pc));
	cJSON_AddNumberToObject(o, "port", port);
	peer = ask_server(c, o, "open", slot);
	if (!peer)
		return TOOL_FAILED;
	c->rig[slot] = rig_open(pc, &c->plan->side, (uint16_t)port, (uint16_t)ctl_number(peer, "port"));
	if (c->rig[slot]) {
		own = cJSON_CreateObject();
		rig_describe(c->rig[slot], own);
		if (asked(c, own, "peer", slot))
			rc = rig_connect(c->rig[slot], peer);
	}
	cJSON_Delete(peer);
	return rc;
}

static void close_rigs(struct client *c, int slot)
{
	if (!c->rig[slot])
		return;
	rig_close(c->rig[slot]);
	c->rig[slot] = NULL;
	asked(c, cJSON_CreateObject(), "close", slot);
}

/* F NULL: the round does not count. */
static int run_both(struct client *c, int slot, uint64_t ns, struct perf_figures *f)
{
	struct perf_part own, other;
	cJSON *o = cJSON_CreateObject();
	const char *error;
	int rc;

	cJSON_AddNumberToObject(o, "ns", (double)ns);
	if (!asked(c, o, "run", slot))
		return TOOL_FAILED;
	rc = rig_run(c->rig[slot], &c->ctl, ns, f ? &f->hist : NULL, &own);
	o = ctl_recv(&c->ctl, (int64_t)(2 * c->patience_ns + 3 * ns));
	if (!o)
		return rc ? rc : tool_failed(tool_stopped ? "interrupted" : "the server has gone");
	error = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "error"));
	if (error)
		rc = tool_failed("%s", error);
	ctl_get_part(o, &other);
	cJSON_Delete(o);
	if (!rc && f)
		perf_add_round(f, &own, &other);
	return rc;
}

/* Bare sockets are opened anew for every round: the last datagrams of a round may still be in flight when the next
 * begins. */
static int run_round(struct client *c, int slot, const struct perf_case *pc, uint64_t ns, struct perf_figures *f)
{
	int rc = 0;

	if (pc->qp >= PERF_RAW)
		close_rigs(c, slot);
	if (!c->rig[slot])
		rc = open_rigs(c, slot, pc);
	if (rc)
		return rc;
	if (f)
		rig_congestion(c->rig[slot], f->congestion);
	rc = run_both(c, slot, ns, f);
	if (f)
		f->llp = rig_llp(c->rig[slot]);
	return rc;
}

bool perf_has_qp(const struct perf_plan *p, enum perf_qp qp)
{
	for (int i = 0; i < p->nqps; i++)
		if (p->qps[i] == qp)
			return true;
	return false;
}

/* The rows that are measured together: a queue pair type over each lower layer, then the rows for comparison, which are
 * RC (for the other types) and the baselines. Returns their number; the first *NOWN are not for comparison. */
static int fill_rows(const struct perf_plan *p, const struct perf_case *pc, struct perf_row *row, int *nown)
{
	bool dgram = perf_is_dgram(pc->qp);
	int n = 0;

	for (int i = 0; i < (dgram ? p->nllps : 1); i++) {
		row[n].pc = *pc;
		row[n++].pc.llp = dgram ? p->llps[i] : DIW_LLP_DEFAULT;
	}
	*nown = n;
	if ((dgram || pc->qp == PERF_RC_CONFIRM) && perf_has_qp(p, PERF_RC)) {
		row[n].pc = *pc;
		row[n++].pc.qp = PERF_RC;
	}
	for (int i = 0; i < p->nagainst; i++) {
		row[n].pc = *pc;
		row[n++].pc.qp = p->against[i];
	}
	for (int i = 0; i < n; i++)
		for (int k = 0; k < PERF_PARAMS; k++)
			if (!perf_param_of(k, row[i].pc.qp))
				perf_set(&row[i].pc, k, 0);
	return n;
}

/* A round of each row that does not count: it touches the memory, and fills caches and TCP's window. Bare sockets are
 * new in each round. */
static int warm_up(struct client *c, const struct perf_row *row, int n, uint64_t ns)
{
	int rc = 0;

	for (int i = 0; i < n && !rc && !tool_stopped; i++)
		if (row[i].pc.qp < PERF_RAW)
			rc = run_round(c, i, &row[i].pc, ns < WARM_NS ? ns : WARM_NS, NULL);
	return rc;
}

static int run_rows(struct client *c, struct perf_row *row, int n)
{
	uint64_t ns = (uint64_t)(c->plan->secs * 1e9 / c->plan->rounds);
	int rc = warm_up(c, row, n, ns);

	for (int i = 0; i < (int)c->plan->rounds * n && !rc && !tool_stopped; i++)
		rc = run_round(c, i % n, &row[i % n].pc, ns, &row[i % n].f);
	for (int i = 0; i < n; i++)
		close_rigs(c, i);
	return rc;
}

static void free_rows(struct perf_row *row, int n)
{
	for (int i = 0; i < n; i++)
		hist_fini(&row[i].f.hist);
}

static int report_missing(const struct perf_row *row)
{
	const struct perf_case *pc = &row->pc;

	if (!row->f.rx_bytes && pc->qp != PERF_RD && !perf_is_rc(pc->qp))
		return tool_failed("%s %s of %llu B: nothing arrived", perf_qp_name[pc->qp], perf_op_name[pc->op],
				   (unsigned long long)pc->size);
	return tool_failed("no message of %llu bytes ended in a round; give more --secs", (unsigned long long)pc->size);
}

/* After a signal, the rows have the figures of the rounds until then. */
static int run_case(struct client *c, const struct perf_case *pc)
{
	const struct perf_plan *p = c->plan;
	struct perf_row row[PERF_SLOTS] = { { .f.rounds = 0 } };
	int nown, n = fill_rows(p, pc, row, &nown), measured = n - p->nagainst, rc = 0;

	c->patience_ns = perf_patience_ns(pc);
	for (int i = 0; i < n && !rc; i++)
		if (hist_init(&row[i].f.hist))
			rc = tool_failed("out of memory");
	if (!rc)
		rc = run_rows(c, row, n);
	for (int i = 0; i < n && (!rc || tool_stopped); i++) {
		int first = i < nown ? nown : measured;

		if (row[i].f.rounds)
			perf_print(p, &row[i], &row[first], i < measured ? n - first : 0);
	}
	/* Under loss a row may lack its figure: a long Send needs all of its segments. */
	for (int i = 0; i < measured && !rc && !tool_stopped && !p->side.impair; i++)
		if (!perf_has_figure(&row[i]))
			c->failed = report_missing(&row[i]);
	free_rows(row, n);
	return rc;
}

/* Atomics have one size. */
static int point_values(const struct perf_plan *p, const struct perf_case *pc, enum perf_param_id id)
{
	bool one = !p->list[id].n || (id == PERF_SIZE && pc->op >= PERF_FETCH_ADD);

	return one ? 1 : p->list[id].n;
}

static void set_point(const struct perf_plan *p, struct perf_case *pc, enum perf_param_id id, int at)
{
	perf_set(pc, id, id == PERF_SIZE && pc->op >= PERF_FETCH_ADD ? 8 : p->list[id].v[at]);
}

/* Runs a case for each combination of numbers; the first number of perf_params changes fastest. */
static int run_points(struct client *c, struct perf_case *pc)
{
	int at[PERF_PARAMS] = { 0 }, i, rc = 0;

	do {
		for (i = 0; i < PERF_PARAMS; i++)
			set_point(c->plan, pc, i, at[i]);
		if (pc->outstanding == PERF_BEST)
			pc->outstanding = perf_best_outstanding(pc->size);
		rc = run_case(c, pc);
		for (i = 0; i < PERF_PARAMS && ++at[i] == point_values(c->plan, pc, i); i++)
			at[i] = 0;
	} while (!rc && !tool_stopped && i < PERF_PARAMS);
	return rc;
}

int perf_run_cases(const struct perf_plan *p, int fd)
{
	bool beside = perf_has_qp(p, PERF_UD) || perf_has_qp(p, PERF_UC) || perf_has_qp(p, PERF_RD) ||
		      perf_has_qp(p, PERF_RC_CONFIRM);
	struct client c = { .plan = p };
	struct perf_case pc = p->base;
	int rc = 0;

	ctl_init(&c.ctl, fd);
	c.ctl.patient = true;
	perf_print_head(p);
	for (int q = 0; q < p->nqps && !rc && !tool_stopped; q++) {
		pc.qp = p->qps[q];
		if (pc.qp == PERF_RC && beside)
			continue;            /* it is in the rounds of the others */
		for (int o = 0; o < (pc.qp >= PERF_RAW ? 1 : p->nops) && !rc && !tool_stopped; o++) {
			pc.op = pc.qp >= PERF_RAW ? PERF_SEND : p->ops[o];
			rc = run_points(&c, &pc);
		}
	}
	ctl_close(&c.ctl);
	perf_print_end();
	return tool_stopped ? 128 + tool_signal : rc ? rc : c.failed;
}
