/* SPDX-License-Identifier: BSD-2-Clause */
/* What a figure depends on beside the program: the processor, its caches, the kernel and its mitigations. */
#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/crc.h"
#include "tools/tool.h"

#define CACHES "/sys/devices/system/cpu/cpu0/cache"
#define VULNERABILITIES "/sys/devices/system/cpu/vulnerabilities"
#define MAX_CACHES 8

/* The first line of a file, without its end. False: there is none. */
static bool file_line(const char *dir, const char *name, char *line, size_t size)
{
	char path[300];
	FILE *f;
	bool got;

	snprintf(path, sizeof path, "%s/%s", dir, name);
	f = fopen(path, "re");
	if (!f)
		return false;
	got = fgets(line, (int)size, f);
	fclose(f);
	if (got)
		line[strcspn(line, "\n")] = '\0';
	return got;
}

/* The first value of KEY in /proc/cpuinfo, or "". */
static void cpuinfo_value(const char *key, char *value, size_t size)
{
	char line[4096];
	FILE *f = fopen("/proc/cpuinfo", "re");
	size_t n = strlen(key);

	value[0] = '\0';
	while (f && !value[0] && fgets(line, sizeof line, f)) {
		char *colon = strchr(line, ':');

		if (!colon || strncmp(line, key, n) != 0 || !isspace((unsigned char)line[n]))
			continue;
		line[strcspn(line, "\n")] = '\0';
		snprintf(value, size, "%s", colon[1] == ' ' ? colon + 2 : colon + 1);
	}
	if (f)
		fclose(f);
}

static void add_caches(cJSON *o)
{
	char dir[sizeof CACHES + 24], level[8], type[32], size[32], key[24];

	for (int i = 0; i < MAX_CACHES; i++) {
		snprintf(dir, sizeof dir, CACHES "/index%d", i);
		if (!file_line(dir, "level", level, sizeof level) || !file_line(dir, "type", type, sizeof type) ||
		    !file_line(dir, "size", size, sizeof size) || !strcmp(type, "Instruction"))
			continue;
		snprintf(key, sizeof key, "L%.2s%s", level, !strcmp(type, "Data") ? "d" : "");
		json_add_count(o, key, strtoull(size, NULL, 10) << (strchr(size, 'M') ? 20 : 10));
	}
}

/* Those that the kernel knows and the processor has, each with what the kernel does against it. */
static void add_mitigations(cJSON *o)
{
	cJSON *all = cJSON_AddObjectToObject(o, "mitigations");
	DIR *d = opendir(VULNERABILITIES);
	const struct dirent *e;
	char state[200];

	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.' && file_line(VULNERABILITIES, e->d_name, state, sizeof state) &&
		    strcmp(state, "Not affected") != 0)
			cJSON_AddStringToObject(all, e->d_name, state);
	if (d)
		closedir(d);
}

cJSON *machine_json(void)
{
	cJSON *o = cJSON_CreateObject();
	char value[256];
	struct utsname u;

	uname(&u);
	cpuinfo_value("model name", value, sizeof value);
	cJSON_AddStringToObject(o, "cpu", value[0] ? value : u.machine);
	cpuinfo_value("cpu family", value, sizeof value);
	json_add_null_number(o, "family", value[0], strtod(value, NULL));
	cpuinfo_value("model", value, sizeof value);
	json_add_null_number(o, "model", value[0], strtod(value, NULL));
	json_add_count(o, "cpus", (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
	add_caches(o);
	cJSON_AddStringToObject(o, "crc_engine", diw_crc_engine());
	snprintf(value, sizeof value, "%s %s", u.sysname, u.release);
	cJSON_AddStringToObject(o, "kernel", value);
	add_mitigations(o);
	return o;
}

static void print_caches(const cJSON *machine)
{
	const char *comma = "";
	const cJSON *i;
	char size[24];

	cJSON_ArrayForEach(i, machine) {
		if (i->string[0] != 'L')
			continue;
		printf("%s%s %s", comma, i->string, fmt_bytes((uint64_t)i->valuedouble, size));
		comma = ", ";
	}
	puts(*comma ? "" : "unknown");
}

/* The names of those whose state begins with WORD, behind BEFORE; how many. */
static int print_mitigations(const cJSON *all, const char *word, const char *before)
{
	const cJSON *i;
	int n = 0;

	cJSON_ArrayForEach(i, all)
		if (!strncmp(cJSON_GetStringValue(i), word, strlen(word)))
			printf("%s%s", n++ ? ", " : before, i->string);
	return n;
}

static double number_of(const cJSON *o, const char *key)
{
	return cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(o, key));
}

static const char *string_of(const cJSON *o, const char *key)
{
	return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, key));
}

void machine_print(void)
{
	cJSON *o = machine_json(), *all = cJSON_GetObjectItemCaseSensitive(o, "mitigations");
	int n;

	printf("%-18s %s", "processor", string_of(o, "cpu"));
	if (!cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(o, "model")))
		printf(" (family %.0f, model %.0f)", number_of(o, "family"), number_of(o, "model"));
	printf(", %.0f online\n%-18s ", number_of(o, "cpus"), "caches");
	print_caches(o);
	printf("%-18s %s\n%-18s ", "kernel", string_of(o, "kernel"), "mitigations");
	n = print_mitigations(all, "Mitigation", "");
	n += print_mitigations(all, "Vulnerable", n ? "; vulnerable: " : "vulnerable: ");
	puts(n ? "" : "none");
	cJSON_Delete(o);
}

void machine_print_line(void)
{
	cJSON *o = machine_json();

	printf("# %s, %.0f processors, CRC by %s, %s\n", string_of(o, "cpu"), number_of(o, "cpus"),
	       string_of(o, "crc_engine"), string_of(o, "kernel"));
	cJSON_Delete(o);
}
