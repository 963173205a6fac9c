/* SPDX-License-Identifier: BSD-2-Clause */
/* diw perf group: its options, and how the sender and its receivers connect. */
#include "tools/perf/perf_group.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/addr.h"

#define JOIN_MS 30000

bool group_is_multicast(const struct diw_addr *a)
{
	return diw_addr_is_multicast(a) && !(diw_addr_is_v4(a) && a->ip[12] == 0xff);
}

/* The kernel does not connect a socket to a broadcast address. */
const char *group_mode(const struct diw_addr *to)
{
	struct diw_addr own;

	return group_is_multicast(to) ? "group" : local_addr_for(to, &own) == -EACCES ? "broadcast" : "unicast";
}

int group_end_open(struct endpoint *e, const struct group_plan *p, const struct diw_addr *to, struct diw_qp_attr *attr)
{
	int rc = endpoint_open(e, p->dev, p->dev ? NULL : to, 4096, false);

	attr->dgram.any_addr = true;
	return rc ? rc : endpoint_qp(e, attr);
}

/* ---- Receivers on this host ---- */

/* Forks before the library has threads. A child ends with its control connection. */
static int run_here(const struct group_plan *p, int n)
{
	struct perf_ctl ctl[GROUP_RECEIVERS], own;
	pid_t pid[GROUP_RECEIVERS];
	int fd, i, rc = 0;

	for (i = 0; i < n; i++) {
		rc = perf_fork(&pid[i], &fd);
		if (rc)
			break;
		if (pid[i] == 0) {
			for (int k = 0; k < i; k++)
				ctl_close(&ctl[k]);
			ctl_init(&own, fd);
			_exit(group_sink_run(p, &own));
		}
		ctl_init(&ctl[i], fd);
	}
	if (!rc)
		rc = group_source_run(p, ctl, n);
	for (int k = 0; k < i; k++)
		ctl_close(&ctl[k]);
	for (int k = 0; k < i; k++)
		perf_join(pid[k]);
	return rc;
}

/* ---- Receivers on other hosts ---- */

static int control_socket(const struct diw_addr *a, struct sockaddr_storage *ss, socklen_t *len)
{
	int fd, on = 1;

	*len = diw_addr_to_sockaddr(a, ss);
	fd = socket(ss->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		tool_failed("socket: %s", strerror(errno));
	else
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	return fd;
}

static int run_for_joiners(const struct group_plan *p, int n)
{
	struct perf_ctl ctl[GROUP_RECEIVERS];
	struct sockaddr_storage ss;
	struct diw_addr a;
	socklen_t len;
	int fd = -1, conn, i = 0, rc = opt_host(p->bind, p->port, &a);

	if (!rc) {
		fd = control_socket(&a, &ss, &len);
		if (fd < 0 || bind(fd, (struct sockaddr *)&ss, len) || listen(fd, GROUP_RECEIVERS))
			rc = tool_failed("%s TCP port %u: %s", p->bind, p->port, strerror(errno));
	}
	while (!rc && i < n) {
		struct pollfd pfd = { .fd = fd, .events = POLLIN };

		if (poll(&pfd, 1, JOIN_MS) <= 0 || tool_stopped)
			rc = tool_failed("%d of %d receivers have joined (diw perf group --join %s)", i, n, p->bind);
		else if ((conn = accept4(fd, NULL, NULL, SOCK_CLOEXEC)) >= 0)
			ctl_init(&ctl[i++], conn);
	}
	if (!rc)
		rc = group_source_run(p, ctl, n);
	while (i)
		ctl_close(&ctl[--i]);
	if (fd >= 0)
		close(fd);
	return rc;
}

static int join_sender(const struct group_plan *p)
{
	struct sockaddr_storage ss;
	struct perf_ctl ctl;
	struct diw_addr a;
	socklen_t len;
	int fd, rc = opt_host(p->host, p->port, &a);

	if (rc)
		return rc;
	fd = control_socket(&a, &ss, &len);
	if (fd < 0)
		return TOOL_FAILED;
	ctl_init(&ctl, fd);
	if (connect(fd, (struct sockaddr *)&ss, len))
		rc = tool_failed("%s port %u: %s (is 'diw perf group --bind %s' running there?)", p->host, p->port,
				 strerror(errno), p->host);
	else
		rc = group_sink_run(p, &ctl);
	ctl_close(&ctl);
	return rc;
}

/* ---- Options ---- */

static int group_option(struct group_plan *p, int opt, char **argv)
{
	switch (opt) {
	case 'r': return opt_list("--receivers", optarg, false, 1, GROUP_RECEIVERS, p->receivers, GROUP_RECEIVERS,
				  &p->nreceivers);
	case 's': return opt_list("--size", optarg, true, 1, DIW_MAX_SEND, p->sizes, PERF_VALUES, &p->nsizes);
	case 't': return opt_seconds("--secs", optarg, 0.05, 3600, &p->secs);
	case 'm': return opt_size("--mulpdu", optarg, TOOL_MIN_MULPDU, TOOL_MAX_MULPDU, &p->mulpdu);
	case 'P': return opt_port(optarg, &p->port);
	case 'o':
		p->op = strcmp(optarg, "write") ? PERF_SEND : PERF_WRITE;
		return p->op == PERF_WRITE || !strcmp(optarg, "send") ? 0 :
		       tool_usage("--op: '%s' is not send or write", optarg);
	case 'd': p->dev = optarg; return 0;
	case 'b': p->bind = optarg; return 0;
	case 'c': p->host = optarg; return 0;
	case 'I': p->impair = optarg; return 0;
	case 'j': p->json = true; return 0;
	default: return tool_bad_option(argv);
	}
}

static int group_set_address(struct group_plan *p, const char *address)
{
	int rc = opt_host(address, p->port, &p->to);
	const char *mode;

	if (rc)
		return rc;
	mode = group_mode(&p->to);
	if (!strcmp(mode, "group"))
		p->to.port = DIW_GROUP_PORT;
	for (int i = 0; i < p->nreceivers && !strcmp(mode, "unicast"); i++)
		if (p->receivers[i] > 1)
			return tool_usage("group: one receiver's address takes --receivers 1");
	return 0;
}

static int group_options_of(struct group_plan *p, int argc, char **argv)
{
	static const struct option opts[] = { { "receivers", required_argument, NULL, 'r' },
		{ "size", required_argument, NULL, 's' }, { "secs", required_argument, NULL, 't' },
		{ "mulpdu", required_argument, NULL, 'm' }, { "port", required_argument, NULL, 'P' },
		{ "op", required_argument, NULL, 'o' }, { "dev", required_argument, NULL, 'd' },
		{ "bind", required_argument, NULL, 'b' }, { "join", required_argument, NULL, 'c' },
		{ "impair", required_argument, NULL, 'I' }, { "json", no_argument, NULL, 'j' }, { 0 } };
	int opt, rc = 0;

	while (!rc && (opt = getopt_long(argc, argv, "", opts, NULL)) != -1)
		rc = group_option(p, opt, argv);
	if (!rc && argc - optind != (p->host ? 0 : 1))
		rc = tool_usage(p->host ? "--join takes no ADDRESS" : "group: one ADDRESS is needed");
	if (!rc && !p->host)
		rc = group_set_address(p, argv[optind]);
	return rc || !p->impair ? rc : endpoint_check_impair(p->impair);
}

int perf_group(int argc, char **argv)
{
	struct group_plan p = { .port = DIW_PORT, .receivers = { 1 }, .nreceivers = 1, .op = PERF_WRITE,
		.sizes = { 256u << 10 }, .nsizes = 1, .secs = 1 };
	double one;
	int rc = group_options_of(&p, argc, argv);

	if (rc)
		return rc;
	if (p.host)
		return join_sender(&p);
	p.one = &one;
	for (int i = 0; i < p.nsizes * p.nreceivers && !rc; i++) {
		int n = (int)p.receivers[i % p.nreceivers];

		p.size = p.sizes[i / p.nreceivers];
		one = i % p.nreceivers ? one : 0;
		rc = p.bind ? run_for_joiners(&p, n) : run_here(&p, n);
	}
	return rc;
}
