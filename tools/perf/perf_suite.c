/* SPDX-License-Identifier: BSD-2-Clause */
/* diw perf suite: runs the other commands of diw perf, each in a process of its own, and keeps their rows. */
#include "tools/perf/perf_suite.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/ident.h"
#include "tools/perf/perf.h"

#define SUITE_ARGS 40
#define QUICK_SECS "0.5"             /* of a case */
#define FULL_SECS "1"

enum suite_kind {
	TWO_ENDS,                    /* takes --local or --connect, and the seconds of a case */
	VERBS,                       /* the same, if there is a device of libibverbs */
	GROUP,                       /* is on this host, and takes the seconds of a case */
	ONE_END,                     /* is on this host, and takes the seconds of all rows */
};

/* The measurements, in the order in which they run. Several may have one file. FULL NULL: quick and full are the
 * same. */
static const struct suite_test {
	const char *name;
	enum suite_kind kind;
	const char *quick, *full;
} suite_tests[] = {
	{ "lat", TWO_ENDS, "lat --qp ud,rd,rc --op send,write,read --size 64,1k,16k,256k --against raw-udp,raw-tcp",
	  "lat --qp ud,rd,rc --op send,write,read --size 1:1m --against raw-udp,raw-tcp" },
	{ "bw", TWO_ENDS, "bw --qp ud,rd,rc --op send,write,read --size 1k,16k,64k,512k --against raw-udp-crc,raw-tcp",
	  "bw --qp ud,rd,rc --op send,write,read --size 64:4m --against raw-udp-crc,raw-tcp" },
	{ "rate", TWO_ENDS, "rate --qp ud,rd,rc --op send,write,read --size 64 --against raw-udp-crc,raw-tcp",
	  "rate --qp ud,rd,rc --op send,write,read --size 1:1k:x4 --against raw-udp-crc,raw-tcp" },
	{ "bibw", TWO_ENDS, "bibw --qp ud,rc --op send,write --size 64k --against raw-tcp",
	  "bibw --qp ud,rd,rc --op send,write --size 1k:1m:x4 --against raw-tcp" },
	{ "loss", TWO_ENDS, "bw --qp ud --op send,write --mulpdu 1452 --size 1k,64k,512k", NULL },
	{ "loss", TWO_ENDS, "bw --qp ud --op send,write --mulpdu 1452 --size 1k,64k,512k --impair loss=0.1%,seed=1",
	  NULL },
	{ "loss", TWO_ENDS, "bw --qp ud --op send,write --mulpdu 1452 --size 1k,64k,512k --impair loss=1%,seed=1",
	  NULL },
	{ "loss", TWO_ENDS, "bw --qp ud --op send,write --mulpdu 1452 --size 1k,64k,512k --impair loss=5%,seed=1",
	  NULL },
	{ "cpu", TWO_ENDS, "cpu --qp ud,rc --size 64k", "cpu --qp ud,rd,rc --size 64k,1m" },
	{ "sge", TWO_ENDS, "lat --qp ud,rc --size 4k --sge 1:8", "lat --qp ud,rc --size 256,4k,64k --sge 1:16" },
	{ "qps", TWO_ENDS, "lat --qp ud,rc --size 64 --qps 1:64:x8", "lat --qp ud,rc --size 64 --qps 1:64" },
	{ "outstanding", TWO_ENDS, "bw --qp rc --op write-imm --size 32k,1m --outstanding 1:16:x4",
	  "bw --qp rc --op write-imm --size 32k:8m:x4 --outstanding 1:32" },
	{ "reuse", TWO_ENDS, "bw --qp rc --op write --size 64k --reuse 25,50,100",
	  "bw --qp ud,rc --op write --size 1k,64k --reuse 10,25,50,75,100" },
	{ "streams", TWO_ENDS, "bw --qp ud,rc --size 64k --streams 1:4",
	  "bw --qp ud,rd,rc --size 4k,64k --streams 1:8" },
	{ "load", TWO_ENDS, "bw --qp ud,rc --size 64k --load 0,1,2",
	  "bw --qp ud,rd,rc --size 4k,64k --load 0,1,2,4,6" },
	{ "verbs_lat", VERBS, "lat --qp ud,rc --size 64,1k,4k --provider diw,verbs",
	  "lat --qp ud,rc --size 1:4k --provider diw,verbs" },
	{ "verbs_bw", VERBS, "bw --qp rc --op send,write,read --size 1k,64k,512k --provider diw,verbs",
	  "bw --qp rc --op send,write,read --size 64:4m --provider diw,verbs" },
	{ "group", GROUP, "group 239.255.70.1 --dev diw_lo --op send --size 1k,64k --receivers 1,2,4",
	  "group 239.255.70.1 --dev diw_lo --op send --size 1k:1m:x4 --receivers 1,2,3,4,8,16" },
	{ "setup", ONE_END, "setup", NULL },
	{ "mr", ONE_END, "mr", NULL },
	{ "post", ONE_END, "post", "post --qp ud,rc,rc-confirm --batch 1:64" },
};

struct suite {
	bool full, shown;
	const char *dir, *host, *port, *secs, *rounds;
	char text[512];              /* the words of the command that runs */
	char *argv[SUITE_ARGS];
	int argc, at;
	FILE *file;
	uint64_t begin, rows, failures;
	cJSON *commands;
};

/* ---- The line of progress ---- */

static void suite_show(struct suite *s, uint64_t rows)
{
	int secs = (int)((diw_clock_ns() - s->begin) / DIW_S);

	s->shown = isatty(STDERR_FILENO);
	if (s->shown)
		fprintf(stderr, "\r[%2d/%2d] %d:%02d  %-12s %4llu rows\033[K", s->at + 1, (int)TOOL_COUNT(suite_tests),
			secs / 60, secs % 60, suite_tests[s->at].name, (unsigned long long)rows);
}

/* Where there is no terminal, a line for each command that has ended. */
static void suite_show_end(struct suite *s, uint64_t rows)
{
	suite_show(s, rows);
	if (!s->shown)
		fprintf(stderr, "[%2d/%2d] %-12s %4llu rows\n", s->at + 1, (int)TOOL_COUNT(suite_tests),
			suite_tests[s->at].name, (unsigned long long)rows);
}

/* ---- One command ---- */

static void suite_add(struct suite *s, const char *arg)
{
	s->argv[s->argc++] = (char *)arg;
	s->argv[s->argc] = NULL;
}

/* argv[0] is "perf", as for the command itself. */
static void suite_words(struct suite *s, const struct suite_test *t)
{
	char *save;

	s->argc = 0;
	suite_add(s, "perf");
	snprintf(s->text, sizeof s->text, "%s", s->full && t->full ? t->full : t->quick);
	for (char *w = strtok_r(s->text, " ", &save); w; w = strtok_r(NULL, " ", &save))
		suite_add(s, w);
	suite_add(s, "--json");
	suite_add(s, "--secs");
	suite_add(s, s->secs ? s->secs : t->kind == ONE_END ? "2" : s->full ? FULL_SECS : QUICK_SECS);
	if (t->kind == ONE_END || t->kind == GROUP)
		return;
	if (s->rounds)
		suite_add(s, "--rounds");
	if (s->rounds)
		suite_add(s, s->rounds);
	suite_add(s, s->host ? "--connect" : "--local");
	if (s->host)
		suite_add(s, s->host);
	if (s->host && s->port)
		suite_add(s, "--port");
	if (s->host && s->port)
		suite_add(s, s->port);
}

static cJSON *suite_words_json(const struct suite *s)
{
	cJSON *all = cJSON_CreateArray();

	for (int i = 0; i < s->argc; i++)
		cJSON_AddItemToArray(all, cJSON_CreateString(s->argv[i]));
	return all;
}

/* The child has a process group of its own, so that Ctrl-C comes only here, and once to the child. */
static pid_t suite_start(const struct suite *s, int out[2])
{
	pid_t pid;

	if (pipe(out))
		return -1;
	fflush(NULL);
	pid = fork();
	if (pid)
		return pid;
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	dup2(out[1], STDOUT_FILENO);
	close(out[0]);
	close(out[1]);
	optind = 0;                          /* glibc: getopt_long() begins anew */
	_exit(perf_command(s->argc, (char **)s->argv));
}

/* Copies the child's rows to the file, and a signal to the child. Returns how many rows there were. */
static uint64_t suite_copy(struct suite *s, FILE *from, pid_t pid)
{
	int signals = 0;
	uint64_t rows = 0;
	char *line = NULL;
	size_t room = 0;

	for (;;) {
		suite_show(s, rows);
		errno = 0;
		if (getline(&line, &room, from) > 0) {
			fputs(line, s->file);
			rows++;
		} else if (errno != EINTR) {
			break;
		}
		clearerr(from);
		if (tool_stopped > signals)
			kill(pid, SIGINT);
		signals = tool_stopped;
	}
	free(line);
	return rows;
}

/* Whether libibverbs has a device for this end. A process of its own loads that library, and its messages are
 * discarded. */
static bool suite_has_verbs(const struct suite *s)
{
	int status = 1;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid) {
		if (!freopen("/dev/null", "w", stderr))
			_exit(1);
		_exit(!ibv_rig_has_device(s->host ? NULL : "127.0.0.1"));
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status == 0;
}

/* Notes a command for machine.json; WHY: it was left out. */
static void suite_note(struct suite *s, const struct suite_test *t, uint64_t rows, int status, const char *why)
{
	cJSON *o = cJSON_CreateObject();

	suite_show_end(s, rows);
	cJSON_AddStringToObject(o, "name", t->name);
	cJSON_AddItemToObject(o, "command", suite_words_json(s));
	json_add_count(o, "rows", rows);
	cJSON_AddNumberToObject(o, "status", status);
	if (why)
		cJSON_AddStringToObject(o, "left_out", why);
	cJSON_AddItemToArray(s->commands, o);
	s->rows += rows;
	s->failures += status != 0 && !tool_stopped;
}

static int suite_run_one(struct suite *s, const struct suite_test *t)
{
	int out[2], status = 0;
	uint64_t rows;
	pid_t pid;
	FILE *from;

	pid = suite_start(s, out);
	if (pid < 0)
		return tool_failed("%s: %s", t->name, strerror(errno));
	close(out[1]);
	from = fdopen(out[0], "r");
	rows = from ? suite_copy(s, from, pid) : 0;
	if (from)
		fclose(from);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	suite_note(s, t, rows, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), NULL);
	if (status && s->host && !s->rows && !tool_stopped)
		return tool_failed("no row came from %s: the suite ends", s->host);
	return 0;
}

/* ---- All of them ---- */

static FILE *suite_create(const struct suite *s, const char *name, const char *suffix)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof path, "%s/%s%s", s->dir, name, suffix);
	f = fopen(path, "we");
	if (!f)
		tool_failed("%s: %s", path, strerror(errno));
	return f;
}

static int suite_close(FILE *f, const char *name)
{
	bool bad = ferror(f);

	return fclose(f) || bad ? tool_failed("%s: %s", name, strerror(errno)) : 0;
}

static int suite_write_machine(struct suite *s, time_t when)
{
	cJSON *o = cJSON_CreateObject();
	FILE *f = suite_create(s, "machine", ".json");
	char text[64], *all;
	int rc;

	strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", gmtime(&when));
	cJSON_AddStringToObject(o, "suite", s->full ? "full" : "quick");
	cJSON_AddStringToObject(o, "version", DIW_VERSION);
	cJSON_AddStringToObject(o, "begin", text);
	json_add_count(o, "seconds", (diw_clock_ns() - s->begin) / DIW_S);
	cJSON_AddItemToObject(o, "other_end", s->host ? cJSON_CreateString(s->host) : cJSON_CreateNull());
	cJSON_AddItemToObject(o, "machine", machine_json());
	cJSON_AddItemToObject(o, "commands", s->commands);
	s->commands = NULL;
	all = cJSON_Print(o);
	cJSON_Delete(o);
	if (f && all)
		fprintf(f, "%s\n", all);
	cJSON_free(all);
	rc = f ? suite_close(f, "machine.json") : TOOL_FAILED;
	return rc;
}

static int suite_run(struct suite *s)
{
	time_t when = time(NULL);
	int n = TOOL_COUNT(suite_tests), rc = 0, wrote;

	if (mkdir(s->dir, 0777) && errno != EEXIST)
		return tool_failed("%s: %s", s->dir, strerror(errno));
	s->begin = diw_clock_ns();
	s->commands = cJSON_CreateArray();
	for (s->at = 0; s->at < n && !rc && !tool_stopped; s->at++) {
		const struct suite_test *t = &suite_tests[s->at];

		suite_words(s, t);
		if (t->kind == VERBS && !suite_has_verbs(s)) {
			suite_note(s, t, 0, 0, "no device of libibverbs for this end");
			continue;
		}
		if (!s->file)
			s->file = suite_create(s, t->name, ".jsonl");
		rc = s->file ? suite_run_one(s, t) : TOOL_FAILED;
		if (s->file && (rc || tool_stopped || s->at + 1 == n || strcmp(t->name, t[1].name) != 0)) {
			wrote = suite_close(s->file, t->name);
			rc = rc ? rc : wrote;
			s->file = NULL;
		}
	}
	if (s->shown)
		fputc('\n', stderr);
	wrote = suite_write_machine(s, when);
	if (s->rows)
		fprintf(stderr, "%llu rows are in %s; 'diw perf report %s' makes a page of them\n",
			(unsigned long long)s->rows, s->dir, s->dir);
	if (tool_stopped)
		return 128 + tool_signal;
	if (!rc && s->failures)
		rc = tool_failed("%llu commands failed: see the status of \"commands\" in %s/machine.json",
				 (unsigned long long)s->failures, s->dir);
	return rc ? rc : wrote;
}

int perf_suite(int argc, char **argv)
{
	static const struct option opts[] = { { "output", required_argument, NULL, 'o' },
		{ "connect", required_argument, NULL, 'c' }, { "port", required_argument, NULL, 'P' },
		{ "secs", required_argument, NULL, 't' },
		{ "rounds", required_argument, NULL, 'r' }, { 0 } };
	struct suite s = { .full = false };
	uint16_t port;
	uint64_t rounds;
	double secs;
	int opt, rc = 0;

	while (!rc && (opt = getopt_long(argc, argv, "o:", opts, NULL)) != -1) {
		switch (opt) {
		case 'o': s.dir = optarg; break;
		case 'c': s.host = optarg; break;
		case 'P': s.port = optarg; rc = opt_port(optarg, &port); break;
		case 't': s.secs = optarg; rc = opt_seconds("--secs", optarg, 0.05, 3600, &secs); break;
		case 'r': s.rounds = optarg; rc = opt_number("--rounds", optarg, 1, PERF_MAX_ROUNDS, &rounds); break;
		default: rc = tool_bad_option(argv);
		}
	}
	if (rc)
		return rc;
	if (argc - optind > 1)
		return tool_usage("suite: one of quick and full");
	if (optind < argc && strcmp(argv[optind], "quick") != 0 && strcmp(argv[optind], "full") != 0)
		return tool_usage("suite: '%s' is not quick or full", argv[optind]);
	s.full = optind < argc && !strcmp(argv[optind], "full");
	return s.dir && s.dir[0] ? suite_run(&s) : tool_usage("suite: -o DIR is %s", s.dir ? "empty" : "missing");
}
