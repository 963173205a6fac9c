/* SPDX-License-Identifier: BSD-2-Clause */
/* What a figure depends on beside the program: the processor, its caches, the kernel, its mitigations, other work. */
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

/* ---- Other work ---- */

#define SPIN_NS (50 * DIW_MS)
#define GAP_NS (2 * DIW_US)          /* a read of the clock takes a hundredth of it */

/* The processors' time since boot, in ticks: all of it, and what the hypervisor gave to other machines (proc(5)). */
struct ticks { double all, steal; };

static struct { bool known; double spin_ns, lost_ns, longest_ns; int gaps; struct ticks begin; } noise;

static struct ticks read_ticks(void)
{
	struct ticks t = { 0, 0 };
	char line[512], *p;

	if (!file_line("/proc", "stat", line, sizeof line) || strncmp(line, "cpu ", 4) != 0)
		return t;
	p = line + 4;
	for (int i = 0; i < 8; i++) {        /* user nice system idle iowait irq softirq steal */
		double v = strtod(p, &p);

		t.all += v;
		t.steal = v;
	}
	return t;
}

void machine_measure(void)
{
	uint64_t begin = diw_clock_ns(), before = begin, now = begin;

	if (noise.known)
		return;
	noise.known = true;
	noise.begin = read_ticks();
	for (; now - begin < SPIN_NS; before = now) {
		now = diw_clock_ns();
		if (now - before < GAP_NS)
			continue;
		noise.gaps++;
		noise.lost_ns += (double)(now - before);
		if ((double)(now - before) > noise.longest_ns)
			noise.longest_ns = (double)(now - before);
	}
	noise.spin_ns = (double)(now - begin);       /* the last gap makes it longer */
}

static void add_noise(cJSON *o)
{
	cJSON *n = cJSON_AddObjectToObject(o, "noise");
	struct ticks now;
	char load[64];
	bool known;

	machine_measure();
	now = read_ticks();
	json_add_number(n, "spin_ms", noise.spin_ns / 1e6);
	json_add_count(n, "gaps", (uint64_t)noise.gaps);
	json_add_number(n, "lost", noise.lost_ns / noise.spin_ns);
	json_add_number(n, "longest_us", noise.longest_ns / 1e3);
	json_add_null_number(n, "steal", now.all > noise.begin.all,
			     (now.steal - noise.begin.steal) / (now.all - noise.begin.all));
	known = file_line("/proc", "loadavg", load, sizeof load);
	json_add_null_number(n, "load", known, known ? strtod(load, NULL) : 0);
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
	add_noise(o);
	return o;
}

/* ---- For a person ---- */

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
	fputs(*comma ? "" : "unknown", stdout);
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

static void print_all_mitigations(const cJSON *machine)
{
	const cJSON *all = cJSON_GetObjectItemCaseSensitive(machine, "mitigations");
	int n = print_mitigations(all, "Mitigation", "");

	n += print_mitigations(all, "Vulnerable", n ? "; vulnerable: " : "vulnerable: ");
	fputs(n ? "" : "none", stdout);
}

static void print_noise(const cJSON *machine)
{
	const cJSON *n = cJSON_GetObjectItemCaseSensitive(machine, "noise");

	printf("%.1f %% of %.0f ms of a core taken by other work, at most %.0f us at a time; load %.1f",
	       100 * number_of(n, "lost"), number_of(n, "spin_ms"), number_of(n, "longest_us"), number_of(n, "load"));
}

void machine_print(void)
{
	cJSON *o = machine_json();

	printf("%-18s %s", "processor", string_of(o, "cpu"));
	if (!cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(o, "model")))
		printf(" (family %.0f, model %.0f)", number_of(o, "family"), number_of(o, "model"));
	printf(", %.0f online\n%-18s ", number_of(o, "cpus"), "caches");
	print_caches(o);
	printf("\n%-18s %s\n%-18s ", "kernel", string_of(o, "kernel"), "mitigations");
	print_all_mitigations(o);
	printf("\n%-18s ", "noise");
	print_noise(o);
	putchar('\n');
	cJSON_Delete(o);
}

void machine_print_line(void)
{
	cJSON *o = machine_json();

	printf("# %s, %.0f processors, ", string_of(o, "cpu"), number_of(o, "cpus"));
	print_caches(o);
	printf(", CRC by %s, %s\n# mitigations: ", string_of(o, "crc_engine"), string_of(o, "kernel"));
	print_all_mitigations(o);
	fputs("\n# noise: ", stdout);
	print_noise(o);
	putchar('\n');
	cJSON_Delete(o);
}
