/* SPDX-License-Identifier: BSD-2-Clause */
/* diw perf: the server's end, which does what the client asks for (perf.h describes the messages). */
#include "tools/perf/perf_qos.h"

#include <string.h>

static cJSON *problem(const char *text)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddStringToObject(o, "error", text);
	return o;
}

static cJSON *serve_open(struct rig **slot, const cJSON *o, const struct perf_side *side)
{
	struct perf_case pc;
	cJSON *answer;

	if (*slot)
		rig_close(*slot);
	*slot = NULL;
	if (perf_case_parse(cJSON_GetObjectItemCaseSensitive(o, "case"), &pc))
		return problem("the server does not know that case");
	*slot = rig_open(&pc, side, 0, (uint16_t)ctl_number(o, "port"));
	if (!*slot)
		return problem("the server cannot open its end (see its messages)");
	answer = cJSON_CreateObject();
	rig_describe(*slot, answer);
	return answer;
}

static cJSON *serve_run(struct rig *r, const cJSON *o, struct perf_ctl *ctl)
{
	struct perf_part part;
	double ns = ctl_number(o, "ns");
	cJSON *answer;

	if (!(ns >= 1e6 && ns <= 1e13) || ctl_send(ctl, cJSON_CreateObject()) ||
	    rig_run(r, ctl, (uint64_t)ns, NULL, &part))
		return problem("the server's end failed (see its messages)");
	answer = cJSON_CreateObject();
	ctl_add_part(answer, &part);
	return answer;
}

static cJSON *serve_one(struct rig **rig, const cJSON *o, struct perf_ctl *ctl, const struct perf_side *side)
{
	const char *what = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "do"));
	double slot = ctl_number(o, "slot");
	struct rig **r;

	if (!what || slot < 0 || slot >= PERF_SLOTS)
		return problem("the server does not understand");
	if (!strcmp(what, "qos"))
		return qos_serve(o, ctl, side);
	r = &rig[(int)slot];
	if (!strcmp(what, "open"))
		return serve_open(r, o, side);
	if (!*r)
		return problem("nothing is open");
	if (!strcmp(what, "run"))
		return serve_run(*r, o, ctl);
	if (!strcmp(what, "peer"))
		return rig_connect(*r, o) ? problem("the server cannot connect") : cJSON_CreateObject();
	if (strcmp(what, "close"))
		return problem("the server does not understand");
	rig_close(*r);
	*r = NULL;
	return cJSON_CreateObject();
}

void perf_serve_client(struct perf_ctl *ctl, const struct perf_side *side)
{
	struct rig *rig[PERF_SLOTS] = { NULL };
	cJSON *o;
	int rc = 0;

	while (!rc && (o = ctl_recv(ctl, 3600 * (int64_t)DIW_S))) {
		rc = ctl_send(ctl, serve_one(rig, o, ctl, side));
		cJSON_Delete(o);
	}
	for (int i = 0; i < PERF_SLOTS; i++)
		if (rig[i])
			rig_close(rig[i]);
}
