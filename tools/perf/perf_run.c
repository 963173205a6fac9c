/* SPDX-License-Identifier: BSD-2-Clause */
/* The two ends of diw perf: how they connect, and run cases (perf.h describes the messages). */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/addr.h"
#include "tools/perf/perf.h"

/* ---- The server ---- */

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
	if (ctl_get_case(cJSON_GetObjectItemCaseSensitive(o, "case"), &pc))
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

	if (!(ns >= 1e6 && ns <= 1e13) || ctl_send(ctl, cJSON_CreateObject()) || rig_run(r, ctl, (uint64_t)ns, &part))
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

static void serve_client(struct perf_ctl *ctl, const struct perf_side *side)
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

/* ---- The client ---- */

struct client {
	const struct perf_plan *plan;
	struct perf_ctl ctl;
	struct rig *rig[PERF_SLOTS];
};

/* Asks the server. Returns its answer, or NULL after printing the error. */
static cJSON *ask_server(struct client *c, cJSON *o, const char *what, int slot)
{
	cJSON *answer = NULL;
	const char *error;

	cJSON_AddStringToObject(o, "do", what);
	cJSON_AddNumberToObject(o, "slot", slot);
	if (ctl_send(&c->ctl, o) == 0)
		answer = ctl_recv(&c->ctl, (int64_t)PERF_PATIENCE_NS);
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
	cJSON_AddItemToObject(o, "case", ctl_case(pc));
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

static int run_both(struct client *c, int slot, uint64_t ns, struct perf_figures *f)
{
	struct perf_part own, other;
	cJSON *o = cJSON_CreateObject();
	const char *error;
	int rc;

	cJSON_AddNumberToObject(o, "ns", (double)ns);
	if (!asked(c, o, "run", slot))
		return TOOL_FAILED;
	rc = rig_run(c->rig[slot], &c->ctl, ns, &own);
	o = ctl_recv(&c->ctl, (int64_t)(2 * PERF_PATIENCE_NS + 3 * ns));
	if (!o)
		return rc ? rc : tool_failed(tool_stopped ? "interrupted" : "the server has gone");
	error = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "error"));
	if (error)
		rc = tool_failed("%s", error);
	ctl_get_part(o, &other);
	cJSON_Delete(o);
	if (!rc)
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
	f->llp = rig_llp(c->rig[slot]);
	rig_congestion(c->rig[slot], f->congestion);
	return run_both(c, slot, ns, f);
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
	return n;
}

static int run_case(struct client *c, const struct perf_case *pc)
{
	const struct perf_plan *p = c->plan;
	uint64_t ns = (uint64_t)(p->secs * 1e9 / PERF_ROUNDS);
	struct perf_row row[PERF_SLOTS] = { { .f.rounds = 0 } };
	int nown, n = fill_rows(p, pc, row, &nown), measured = n - p->nagainst, rc = 0;

	for (int i = 0; i < PERF_ROUNDS * n && !rc; i++)
		rc = run_round(c, i % n, &row[i % n].pc, ns, &row[i % n].f);
	for (int i = 0; i < n; i++)
		close_rigs(c, i);
	if (rc)
		return rc;
	for (int i = 0; i < n; i++) {
		int first = i < nown ? nown : measured;

		perf_print(&row[i], &row[first], i < measured ? n - first : 0, p->json);
	}
	for (int i = 0; i < measured && !rc; i++)
		if (!row[i].f.rx_bytes)
			rc = tool_failed("%s %s of %llu B: nothing arrived", perf_qp_name[row[i].pc.qp],
					 perf_op_name[pc->op], (unsigned long long)pc->size);
	return rc;
}

/* Atomics have one size; bare sockets have no operation. */
static int run_op(struct client *c, struct perf_case *pc, enum perf_op op)
{
	bool atomic = op >= PERF_FETCH_ADD;
	int rc = 0;

	pc->op = op;
	for (int s = 0; s < (atomic ? 1 : c->plan->nsizes) && !rc; s++) {
		pc->size = atomic ? 8 : c->plan->sizes[s];
		rc = run_case(c, pc);
	}
	return rc;
}

static int run_cases(const struct perf_plan *p, int fd)
{
	bool beside = perf_has_qp(p, PERF_UD) || perf_has_qp(p, PERF_UC) || perf_has_qp(p, PERF_RD) ||
		      perf_has_qp(p, PERF_RC_CONFIRM);
	struct client c = { .plan = p };
	struct perf_case pc = p->base;
	int rc = 0;

	ctl_init(&c.ctl, fd);
	for (int q = 0; q < p->nqps && !rc; q++) {
		pc.qp = p->qps[q];
		if (pc.qp == PERF_RC && beside)
			continue;            /* it is in the rounds of the others */
		for (int o = 0; o < (pc.qp >= PERF_RAW ? 1 : p->nops) && !rc; o++)
			rc = run_op(&c, &pc, pc.qp >= PERF_RAW ? PERF_SEND : p->ops[o]);
	}
	ctl_close(&c.ctl);
	return rc;
}

/* ---- Connecting ---- */

/* Pins the thread to the WHICH-th core that this process may use; with a single core it does nothing. */
static void pin(int which)
{
	cpu_set_t all, one;

	if (sched_getaffinity(0, sizeof all, &all) || CPU_COUNT(&all) < 2)
		return;
	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &all) && which-- == 0)
			CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof one, &one);
}

int perf_local(struct perf_plan *p)
{
	struct perf_ctl ctl;
	int fd[2], rc, status;
	pid_t pid;

	rc = opt_host(p->bind ? p->bind : "127.0.0.1", 0, &p->side.local);
	if (rc)
		return rc;
	p->side.peer = p->side.local;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd))
		return tool_failed("socketpair: %s", strerror(errno));
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		return tool_failed("fork: %s", strerror(errno));
	p->side.client = pid > 0;
	close(fd[pid > 0]);
	pin(pid > 0 ? 0 : 1);
	if (!pid) {
		ctl_init(&ctl, fd[1]);
		serve_client(&ctl, &p->side);
		_exit(TOOL_OK);
	}
	rc = run_cases(p, fd[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!rc && WIFSIGNALED(status))
		rc = tool_failed("the server's process ended: %s", strsignal(WTERMSIG(status)));
	return rc;
}

/* Both ends measure between the addresses of their control connection. */
static int sides_of(int fd, struct perf_side *side)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof ss;
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	if (getsockname(fd, (struct sockaddr *)&ss, &len))
		return -errno;
	diw_addr_from_sockaddr(&side->local, (struct sockaddr *)&ss);
	len = sizeof ss;
	if (getpeername(fd, (struct sockaddr *)&ss, &len))
		return -errno;
	diw_addr_from_sockaddr(&side->peer, (struct sockaddr *)&ss);
	side->local.port = side->peer.port = 0;
	return 0;
}

static int listen_at(const struct perf_plan *p)
{
	struct diw_addr a = { .port = p->port };
	struct sockaddr_storage ss;
	socklen_t len;
	int fd, on = 1, off = 0, rc;

	if (p->bind && opt_host(p->bind, p->port, &a))
		return -1;
	len = diw_addr_to_sockaddr(&a, &ss);         /* no address: IPv6's wildcard, which accepts IPv4, too */
	fd = socket(ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		tool_failed("socket: %s", strerror(errno));
		return -1;
	}
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (ss.ss_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
	rc = bind(fd, (struct sockaddr *)&ss, len);
	if (!rc)
		rc = listen(fd, 4);
	if (!rc)
		return fd;
	tool_failed("TCP port %u: %s", p->port, strerror(errno));
	close(fd);
	return -1;
}

int perf_server(struct perf_plan *p)
{
	int fd = listen_at(p), conn;
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	struct perf_ctl ctl;

	if (fd < 0)
		return TOOL_FAILED;
	fprintf(stderr, "diw perf: serving on TCP port %u\n", p->port);
	while (!tool_stopped) {
		if (poll(&pfd, 1, 1000) <= 0)
			continue;
		conn = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
		if (conn < 0)
			continue;
		ctl_init(&ctl, conn);
		if (sides_of(conn, &p->side) == 0)
			serve_client(&ctl, &p->side);
		ctl_close(&ctl);
	}
	close(fd);
	return TOOL_OK;
}

int perf_connect(struct perf_plan *p)
{
	struct sockaddr_storage ss;
	struct diw_addr to, from;
	socklen_t len;
	int fd, rc;

	rc = opt_host(p->host, p->port, &to);
	if (!rc && p->bind)
		rc = opt_host(p->bind, 0, &from);
	if (rc)
		return rc;
	len = diw_addr_to_sockaddr(&to, &ss);
	fd = socket(ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return tool_failed("socket: %s", strerror(errno));
	if (p->bind) {
		struct sockaddr_storage fs;
		socklen_t flen = diw_addr_to_sockaddr(&from, &fs);

		if (bind(fd, (struct sockaddr *)&fs, flen))
			rc = tool_failed("--bind %s: %s", p->bind, strerror(errno));
	}
	if (!rc && connect(fd, (struct sockaddr *)&ss, len))
		rc = tool_failed("%s port %u: %s (is 'diw perf --server' running there?)", p->host, p->port,
				 strerror(errno));
	if (!rc && sides_of(fd, &p->side))
		rc = tool_failed("%s: no address of the connection", p->host);
	p->side.client = true;
	if (!rc)
		return run_cases(p, fd);
	close(fd);
	return rc;
}
