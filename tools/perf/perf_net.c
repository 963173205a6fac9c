/* SPDX-License-Identifier: BSD-2-Clause */
/* diw perf: how its two ends connect. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/addr.h"
#include "tools/perf/perf.h"

void perf_pin(int which)
{
	static cpu_set_t all;                /* of the first call */
	static bool known;
	cpu_set_t one;

	known = known || sched_getaffinity(0, sizeof all, &all) == 0;
	if (!known || CPU_COUNT(&all) < 2)
		return;
	CPU_ZERO(&one);
	if (which < 0)
		one = all;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &all) && which-- == 0)
			CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof one, &one);
}

int perf_fork(pid_t *pid, int *fd)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
		tool_failed("socketpair: %s", strerror(errno));
		return TOOL_FAILED;
	}
	fflush(stdout);
	*pid = fork();
	if (*pid < 0) {
		tool_failed("fork: %s", strerror(errno));
		close(pair[0]);
		close(pair[1]);
		return TOOL_FAILED;
	}
	*fd = pair[*pid == 0];
	close(pair[*pid > 0]);
	return 0;
}

int perf_join(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

int perf_local(struct perf_plan *p)
{
	struct perf_ctl ctl;
	int fd, rc, status;
	pid_t pid;

	rc = opt_host(p->bind ? p->bind : "127.0.0.1", 0, &p->side.local);
	if (rc)
		return rc;
	p->side.peer = p->side.local;
	rc = perf_fork(&pid, &fd);
	if (rc)
		return rc;
	p->side.client = pid > 0;
	perf_pin(pid > 0 ? 0 : 1);
	if (!pid) {
		signal(SIGINT, SIG_IGN);             /* the client ends the round, and then this process */
		signal(SIGTERM, SIG_IGN);
		ctl_init(&ctl, fd);
		perf_serve_client(&ctl, &p->side);
		_exit(TOOL_OK);
	}
	rc = p->run(p, fd);
	status = perf_join(pid);
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
		perf_pin(-1);                /* an earlier client may have asked for one core */
		ctl_init(&ctl, conn);
		if (sides_of(conn, &p->side) == 0)
			perf_serve_client(&ctl, &p->side);
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
		return p->run(p, fd);
	close(fd);
	return rc;
}
