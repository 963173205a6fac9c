/* SPDX-License-Identifier: BSD-2-Clause */
/* diw perf report: rows of a measurement, and which of their keys tell what was measured. */
#include "tools/perf/perf_report.h"

#include <math.h>
#include <string.h>

cJSON *report_child(const cJSON *o, const char *key)
{
	return cJSON_GetObjectItemCaseSensitive(o, key);
}

double report_number(const cJSON *o, const char *key)
{
	const cJSON *v = report_child(o, key);

	return cJSON_IsNumber(v) ? v->valuedouble : NAN;
}

int report_keys(struct report_key keys[REPORT_KEYS])
{
	static const char *const before[] = { "test", "object", "act", "qp", "llp", "op" };
	static const char *const after[] = { "mode", "impair", "batch", "receivers" };
	int n = 0;

	for (size_t i = 0; i < TOOL_COUNT(before); i++, n++) {
		snprintf(keys[n].name, sizeof keys[n].name, "%s", before[i]);
		keys[n].bytes = false;
	}
	for (int i = 0; i < PERF_PARAMS; i++, n++) {
		perf_param_key(i, keys[n].name);
		keys[n].bytes = perf_params[i].bytes;
	}
	for (size_t i = 0; i < TOOL_COUNT(after); i++, n++) {
		snprintf(keys[n].name, sizeof keys[n].name, "%s", after[i]);
		keys[n].bytes = false;
	}
	return n;
}

const char *report_value(const cJSON *row, const struct report_key *key, char buf[REPORT_TEXT])
{
	const cJSON *v = report_child(row, key->name);
	char size[24];

	if (cJSON_IsString(v))
		snprintf(buf, REPORT_TEXT, "%s", v->valuestring);
	else if (cJSON_IsBool(v))
		snprintf(buf, REPORT_TEXT, "%s", cJSON_IsTrue(v) ? "yes" : "no");
	else if (cJSON_IsNumber(v) && key->bytes && fmod(v->valuedouble, 1024) == 0)
		snprintf(buf, REPORT_TEXT, "%s", fmt_bytes((uint64_t)v->valuedouble, size));
	else if (cJSON_IsNumber(v))
		snprintf(buf, REPORT_TEXT, key->bytes ? "%.0f B" : "%.10g", v->valuedouble);
	else
		snprintf(buf, REPORT_TEXT, "-");
	return buf;
}

/* A number that some rows do not have does not vary. */
static bool report_varies(const struct report_run *runs, int nruns, const struct report_key *key)
{
	char first[REPORT_TEXT] = "", value[REPORT_TEXT];
	const cJSON *row;

	for (int i = 0; i < nruns; i++) {
		cJSON_ArrayForEach(row, runs[i].rows) {
			report_value(row, key, value);
			if (!strcmp(value, "-") && strcmp(key->name, "impair") != 0)
				continue;
			if (!first[0])
				memcpy(first, value, sizeof first);
			else if (strcmp(first, value) != 0)
				return true;
		}
	}
	return false;
}

int report_varying(const struct report_run *runs, int nruns, struct report_key keys[REPORT_KEYS])
{
	struct report_key all[REPORT_KEYS];
	int n = 0, nall = report_keys(all);

	for (int i = 0; i < nall; i++)
		if (report_varies(runs, nruns, &all[i]))
			keys[n++] = all[i];
	return n;
}

bool report_same_case(const cJSON *a, const cJSON *b)
{
	struct report_key keys[REPORT_KEYS];
	char va[REPORT_TEXT], vb[REPORT_TEXT];
	int i = 0, n = report_keys(keys);

	while (i < n && !strcmp(report_value(a, &keys[i], va), report_value(b, &keys[i], vb)))
		i++;
	return i == n;
}

const cJSON *report_twin(const struct report_run *run, const struct report_run *of, const cJSON *row)
{
	const cJSON *other;
	int before = 0;

	cJSON_ArrayForEach(other, of->rows) {
		if (other == row)
			break;
		before += report_same_case(row, other);
	}
	cJSON_ArrayForEach(other, run->rows)
		if (report_same_case(row, other) && before-- == 0)
			return other;
	return NULL;
}

/* Of a test of single calls: the median of all calls. Of a group: the sum of its receivers. */
struct report_figure report_figure_of(const cJSON *row)
{
	const cJSON *stats = report_child(row, "stats"), *ci = report_child(stats, "ci95");
	const char *of = cJSON_GetStringValue(report_child(stats, "of"));
	struct report_figure f = { report_number(stats, "median"), NAN, NAN, "GB/s" };

	if (report_child(row, "GBps_aggregate"))
		return (struct report_figure){ report_number(row, "GBps_aggregate"), NAN, NAN, "GB/s" };
	if (!stats)
		return (struct report_figure){ report_number(row, "ns_p50"), NAN, NAN, "ns" };
	if (of && !strcmp(of, "lat_us_p50"))
		f.unit = "us";
	else if (of && !strcmp(of, "msgs_per_s"))
		f.unit = "messages/s";
	if (cJSON_GetArraySize(ci) == 2) {
		f.low = cJSON_GetNumberValue(cJSON_GetArrayItem(ci, 0));
		f.high = cJSON_GetNumberValue(cJSON_GetArrayItem(ci, 1));
	}
	return f;
}
