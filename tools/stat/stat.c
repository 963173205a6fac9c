/* SPDX-License-Identifier: BSD-2-Clause */
/* diw stat: live counters of running processes. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tools/stat/stat.h"

enum format { TABLE, JSON, PROMETHEUS };

/* Counters with their own lines; each other counter is listed by name if it is not 0. */
static const char *const told[] = {
	"tx_messages", "tx_payload", "tx_segments", "tx_datagrams", "tx_fpdus", "tx_bytes", "tx_bursts",
	"rx_messages", "rx_payload", "rx_segments", "rx_datagrams", "rx_fpdus", "rx_bytes", "rx_bursts",
	"record_opened", "record_complete", "record_closed_window", "record_closed_timeout", "record_evicted",
	"record_closed_dereg", "record_closed_epoch", "record_abandoned",
	"read_requests_tx", "read_requests_rx", "read_answered", "read_timeouts", "wakeups",
	"thread_receives",
	"sock_tx_framed", "sock_rx_framed", "sock_rx_plain",
};

static bool is_told(const char *name)
{
	for (size_t i = 0; i < TOOL_COUNT(told); i++)
		if (!strcmp(told[i], name))
			return true;
	return false;
}

/* A queue pair now, and SECONDS earlier if it existed. */
struct view {
	const struct diw_stat_copy *c, *old_c;
	const struct diw_stat_qp *qp, *old;
	double seconds;
};

static uint64_t view_get(const struct view *v, const char *name)
{
	return stat_get(v->c, v->qp, name);
}

static double rate(const struct view *v, const char *name)
{
	return (double)(view_get(v, name) - stat_get(v->old_c, v->old, name)) / v->seconds;
}

static void print_direction(const struct view *v, const char *dir, const char *verb)
{
	bool rc = v->qp->id.type == DIW_QP_RC;
	const char *const unit = rc ? "FPDUs" : "datagrams";
	const char *const what[] = { "messages", "payload", "segments", rc ? "fpdus" : "datagrams", "bytes" };
	char name[TOOL_COUNT(what)][24], a[24], b[24];

	for (size_t i = 0; i < TOOL_COUNT(what); i++)
		snprintf(name[i], sizeof name[i], "%s_%s", dir, what[i]);
	printf("    %-9s %" PRIu64 " messages of %s; %" PRIu64 " segments; %" PRIu64 " %s of %s, %.1f a burst\n",
	       verb, view_get(v, name[0]), fmt_bytes(view_get(v, name[1]), a), view_get(v, name[2]),
	       view_get(v, name[3]), unit, fmt_bytes(view_get(v, name[4]), b), stat_fill(v->c, v->qp, dir));
	if (v->old)
		printf("    %-9s %.0f messages/s, %.0f segments/s, %.0f %s/s, %.3f GB/s of payload\n", "",
		       rate(v, name[0]), rate(v, name[2]), rate(v, name[3]), unit, rate(v, name[1]) / 1e9);
}

static void print_records(const struct view *v)
{
	static const struct { const char *name, *why; } partial[] = {
		{ "record_closed_window", "window" }, { "record_closed_timeout", "timeout" },
		{ "record_evicted", "evicted" }, { "record_closed_dereg", "deregistered" },
		{ "record_closed_epoch", "epoch" }, { "record_abandoned", "abandoned" },
	};
	const char *between = ": ";
	uint64_t n = 0;

	for (size_t i = 0; i < TOOL_COUNT(partial); i++)
		n += view_get(v, partial[i].name);
	printf("    %-9s %" PRIu64 " open, %" PRIu64 " complete, %" PRIu64 " partial", "records",
	       view_get(v, "records_open"), view_get(v, "record_complete"), n);
	for (size_t i = 0; i < TOOL_COUNT(partial); i++)
		if (view_get(v, partial[i].name)) {
			printf("%s%" PRIu64 " %s", between, view_get(v, partial[i].name), partial[i].why);
			between = ", ";
		}
	putchar('\n');
}

static void print_others(const struct view *v)
{
	const char *between = "";
	int column = 0, width = tool_columns(stdout) - 14;

	printf("    %-9s ", "counted");
	for (uint32_t i = 0; i < v->c->head.ncounters; i++) {
		char one[DIW_STAT_NAME + 24];
		int len;

		if (!v->qp->values[i] || is_told(v->c->names[i]))
			continue;
		len = snprintf(one, sizeof one, "%s %" PRIu64, v->c->names[i], v->qp->values[i]);
		if (column && column + 2 + len > width) {
			between = ",\n              ";
			column = 0;
		}
		printf("%s%s", between, one);
		between = ", ";
		column += len + 2;
	}
	puts(column ? "" : "no drops, no errors");
}

/* Prints the counters of an interposed program (diw run --sockets), which cover all its sockets. */
static void print_sockets(const struct view *v)
{
	puts("  sockets");
	printf("    %-9s %" PRIu64 " messages in frames sent, %" PRIu64 " received; %" PRIu64 " received plain\n",
	       "messages", view_get(v, "sock_tx_framed"), view_get(v, "sock_rx_framed"), view_get(v, "sock_rx_plain"));
	if (v->old)
		printf("    %-9s %.0f/s in frames sent, %.0f/s received\n", "", rate(v, "sock_tx_framed"),
		       rate(v, "sock_rx_framed"));
	print_others(v);
}

static void print_peers(const struct diw_stat_qp *qp)
{
	char buf[DIW_ADDR_STRLEN];

	for (uint32_t i = 0; i < qp->npeers; i++) {
		const struct diw_stat_peer *p = &qp->peer[i];

		printf("    %-9s %s: window %u, %u under way, round trip ", "peer", diw_addr_str(&p->addr, buf),
		       p->window, p->flight);
		if (p->srtt_ns)
			printf("%.1f us", (double)p->srtt_ns / 1e3);
		else
			printf("not known");
		printf(", %" PRIu64 " sent again\n", p->retransmits);
	}
	if (qp->all_peers > qp->npeers)
		printf("    %-9s and %u more\n", "peer", qp->all_peers - qp->npeers);
}

static void print_qp(const struct view *v)
{
	char buf[DIW_ADDR_STRLEN];

	if (v->qp->id.type == DIW_STAT_SOCKETS) {
		print_sockets(v);
		return;
	}
	printf("  %s", diw_addr_str(&v->qp->id.local, buf));
	if (v->qp->id.peer.port)
		printf(" to %s", diw_addr_str(&v->qp->id.peer, buf));
	printf("  %s on %s\n", stat_type(v->qp), v->qp->id.device);
	print_direction(v, "tx", "sent");
	print_direction(v, "rx", "received");
	if (v->qp->id.type != DIW_QP_RC)
		print_records(v);
	printf("    %-9s %" PRIu64 " open, %" PRIu64 " asked for, %" PRIu64 " timeouts; %" PRIu64 " came, %" PRIu64
	       " answered\n", "reads", view_get(v, "reads_open"), view_get(v, "read_requests_tx"),
	       view_get(v, "read_timeouts"), view_get(v, "read_requests_rx"), view_get(v, "read_answered"));
	printf("    %-9s %" PRIu64 " sends waiting, %" PRIu64 " receives posted, %" PRIu64 " sources, %" PRIu64
	       " in reassembly, %s of their state\n", "now", view_get(v, "sq_pending"), view_get(v, "rq_posted"),
	       view_get(v, "sources"), view_get(v, "reasm_open"), fmt_bytes(view_get(v, "memory"), buf));
	printf("    %-9s %" PRIu64 "; the progress thread received %" PRIu64 " times\n", "wake-ups",
	       view_get(v, "wakeups"), view_get(v, "thread_receives"));
	print_peers(v->qp);
	print_others(v);
}

/* A slot with an unchanged sequence is still the same queue pair. */
static void find_old(struct view *v, const struct stat_proc *p, const struct stat_list *before)
{
	for (size_t i = 0; i < before->n; i++) {
		const struct stat_proc *o = &before->proc[i];

		if (o->ino != p->ino)
			continue;
		for (uint32_t k = 0; k < o->copy->nqps; k++)
			if (o->copy->qp[k].slot == v->qp->slot && o->copy->qp[k].id.seq == v->qp->id.seq) {
				v->old_c = o->copy;
				v->old = &o->copy->qp[k];
			}
	}
}

/* Sockets have a page of their own, in which they are counted together. */
static void print_size(const struct diw_stat_copy *c)
{
	if (c->nqps && c->qp[0].id.type == DIW_STAT_SOCKETS)
		printf("interposed");
	else
		printf("%u queue pair%s", c->nqps, c->nqps == 1 ? "" : "s");
}

static void print_processes(const struct stat_list *list, const struct stat_list *before, double seconds)
{
	for (size_t i = 0; i < list->n; i++) {
		const struct stat_proc *p = &list->proc[i];

		printf("process %d (%s) of user %u: ", (int)p->pid, p->copy->head.program, (unsigned)p->uid);
		print_size(p->copy);
		if (p->copy->head.hidden)
			printf(", and %u more that found no room to be shown", p->copy->head.hidden);
		putchar('\n');
		for (uint32_t k = 0; k < p->copy->nqps; k++) {
			struct view v = { .c = p->copy, .qp = &p->copy->qp[k], .seconds = seconds };

			find_old(&v, p, before);
			print_qp(&v);
		}
	}
}

/* Explains why nothing was found. */
static int explain(pid_t pid, const struct stat_list *list)
{
	char proc[32];
	struct stat st;

	if (list->faulty || (pid && list->denied))
		return TOOL_FAILED;                  /* it was printed already */
	if (!pid && list->denied)
		return tool_failed("no process of yours shows counters; pages of other users: %d", list->denied);
	if (!pid)
		return tool_failed("no process shows counters");
	snprintf(proc, sizeof proc, "/proc/%d", (int)pid);
	if (kill(pid, 0) < 0 && errno == ESRCH)
		return tool_failed("there is no process %d", (int)pid);
	if (stat(proc, &st) == 0 && st.st_uid != geteuid() && geteuid() != 0)
		return tool_failed("process %d belongs to user %u: only that user and root may read its "
				   "counters", (int)pid, (unsigned)st.st_uid);
	return tool_failed("process %d shows no counters: no queue pair, DIWARP_STAT=off, or it found no room in %s",
			   (int)pid, DIW_STAT_DIR);
}

static int show_once(pid_t pid, enum format format, struct stat_list *before, double seconds)
{
	struct stat_list list;
	int rc = stat_find(&list, pid);

	if (format == JSON)
		stat_print_json(&list);
	else if (format == PROMETHEUS)
		stat_print_prometheus(&list);
	else
		print_processes(&list, before, seconds);
	if (list.n == 0 && (pid || format == TABLE))
		rc = explain(pid, &list);
	fflush(stdout);
	stat_list_free(before);
	*before = list;
	return rc;
}

static int watch_process(pid_t pid, enum format format, double every)
{
	struct stat_list before = { 0 };
	uint64_t last = diw_clock_ns(), now;
	int rc = TOOL_OK;

	while (!tool_stopped) {
		struct timespec ts = { (time_t)every, (long)((every - (double)(time_t)every) * 1e9) };

		if (format == TABLE && isatty(STDOUT_FILENO))
			fputs("\033[H\033[J", stdout);
		now = diw_clock_ns();
		rc = show_once(pid, format, &before, (double)(now - last) / 1e9);
		last = now;
		if (ferror(stdout) || (pid && before.n == 0))
			break;
		nanosleep(&ts, NULL);
		if (format == TABLE && !tool_stopped)
			putchar('\n');
	}
	stat_list_free(&before);
	return tool_stopped ? TOOL_OK : rc;
}

static int choose_format(enum format *format, enum format wanted)
{
	if (*format != TABLE && *format != wanted)
		return tool_usage("--json and --prometheus: one of them only");
	*format = wanted;
	return 0;
}

static bool is_number(const char *s)
{
	return s && *s >= '0' && *s <= '9';
}

static int stat_run(int argc, char **argv)
{
	static const struct option opts[] = { { "watch", optional_argument, NULL, 'w' },
		{ "json", no_argument, NULL, 'j' }, { "prometheus", no_argument, NULL, 'p' }, { 0 } };
	struct stat_list before = { 0 };
	enum format format = TABLE;
	uint64_t pid = 0;
	double every = 0;
	int opt, rc = 0;

	while (!rc && (opt = getopt_long(argc, argv, "-", opts, NULL)) != -1) {
		switch (opt) {
		case 'w':
			if (!optarg && is_number(argv[optind]))
				optarg = argv[optind++];
			every = 1;
			if (optarg)
				rc = opt_seconds("--watch", optarg, 0.01, 86400, &every);
			break;
		case 'j': rc = choose_format(&format, JSON); break;
		case 'p': rc = choose_format(&format, PROMETHEUS); break;
		case 1:
			rc = pid ? tool_usage("one PID only") : opt_number("PID", optarg, 1, INT32_MAX, &pid);
			break;
		default: rc = tool_bad_option(argv);
		}
	}
	if (!rc && every && format == PROMETHEUS)
		rc = tool_usage("--prometheus cannot be combined with --watch: the scraper repeats the request");
	if (rc)
		return rc;
	if (every)
		return watch_process((pid_t)pid, format, every);
	rc = show_once((pid_t)pid, format, &before, 0);
	stat_list_free(&before);
	return rc;
}

const struct tool_cmd cmd_stat = {
	.name = "stat", .run = stat_run, .args = "[PID] [--watch [SECS]] [--json | --prometheus]",
	.brief = "Shows counters of running processes that use diwarp: those of this user, or for root all",
	.help = "      --watch [SECS]  repeats every SECS seconds (default 1), with rates; a PID stands before it\n"
		"      --json          one JSON object a queue pair\n"
		"      --prometheus    the text format that Prometheus scrapes\n"
		"Exit status 1 when there is nothing to show, or a page is damaged or of a dead process.\n",
};
