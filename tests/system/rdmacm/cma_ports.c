/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ports of RDMA_PS_TCP beside those of TCP: a program that serves both on one number, and peers of the other
 * personality, which are this program again. cma_ports PORT connects to PORT by librdmacm, cma_ports PORT rs by an
 * rsocket.
 */
#include <rdma/rsocket.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "tests/system/rdmacm/cma_kit.h"

static struct rdma_event_channel *srv, *cli;
static const socklen_t in_len = sizeof(struct sockaddr_in);

static uint16_t port_in(const void *sa)
{
	return ntohs(((const struct sockaddr_in *)sa)->sin_port);
}

static int tcp_server(uint16_t *port)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
	struct sockaddr_in in;
	socklen_t len = in_len;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(fd, lo(*port), in_len) || listen(fd, 8) || getsockname(fd, (struct sockaddr *)&in, &len)) {
		close(fd);
		return -1;
	}
	*port = port_in(&in);
	return fd;
}

static struct rdma_cm_id *rdma_server(uint16_t port)
{
	struct rdma_cm_id *id;

	rdma_create_id(srv, &id, NULL, RDMA_PS_TCP);
	if (rdma_bind_addr(id, lo(port)) == 0 && rdma_listen(id, 8) == 0)
		return id;
	rdma_destroy_id(id);
	return NULL;
}

static int rs_server(uint16_t port)
{
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);

	if (rbind(fd, lo(port), in_len) == 0 && rlisten(fd, 8) == 0)
		return fd;
	rclose(fd);
	return -1;
}

/* ---- One number for both ---- */

static bool tcp_client(int server, uint16_t port)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), got = -1;
	bool good = connect(fd, lo(port), in_len) == 0 && (got = accept(server, NULL, NULL)) >= 0;

	close(fd);
	close(got);
	return good;
}

static bool no_client(int server)
{
	struct pollfd p = { .fd = server, .events = POLLIN };

	return poll(&p, 1, 50) == 0;
}

/* All calls that return a port of either end; FROM: the port to which the initiator is bound, or 0. */
static bool ports_are(struct rdma_cm_id *a, struct rdma_cm_id *b, uint16_t port, uint16_t from)
{
	uint16_t src = ntohs(rdma_get_src_port(a));

	return src && (!from || src == from) && ntohs(rdma_get_dst_port(a)) == port &&
	       port_in(rdma_get_local_addr(a)) == src && port_in(rdma_get_peer_addr(a)) == port &&
	       ntohs(rdma_get_src_port(b)) == port && ntohs(rdma_get_dst_port(b)) == src &&
	       port_in(rdma_get_local_addr(b)) == port && port_in(rdma_get_peer_addr(b)) == src;
}

static struct rdma_cm_id *bound_asker(uint16_t from, uint16_t port)
{
	struct sockaddr_in src = *(struct sockaddr_in *)lo(from);
	struct rdma_cm_id *id;

	if (!from)
		return asker(cli, RDMA_PS_TCP, port);
	if (rdma_create_id(cli, &id, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(id, (struct sockaddr *)&src, lo(port), SOON_MS) ||
	    !comes(cli, RDMA_CM_EVENT_ADDR_RESOLVED) || rdma_resolve_route(id, SOON_MS) ||
	    !comes(cli, RDMA_CM_EVENT_ROUTE_RESOLVED) || !make_qp(id))
		return NULL;
	return id;
}

static bool rdma_client(struct rdma_cm_id *l, uint16_t port, uint16_t from)
{
	struct rdma_cm_id *a = bound_asker(from, port), *b;
	struct rdma_cm_event *ev;
	bool good;

	if (!a || rdma_connect(a, NULL) || !(ev = expect(srv, RDMA_CM_EVENT_CONNECT_REQUEST)))
		return false;
	b = ev->id;
	good = ev->listen_id == l && port_in(rdma_get_local_addr(b)) == port && make_qp(b) &&
	       rdma_accept(b, NULL) == 0 && rdma_ack_cm_event(ev) == 0 && comes(cli, RDMA_CM_EVENT_ESTABLISHED) &&
	       comes(srv, RDMA_CM_EVENT_ESTABLISHED) && ports_are(a, b, port, from);
	good &= rdma_disconnect(a) == 0 && comes(cli, RDMA_CM_EVENT_DISCONNECTED) &&
		comes(srv, RDMA_CM_EVENT_DISCONNECTED);
	return destroy(a) == 0 && destroy(b) == 0 && good;
}

static bool rs_client(int server, uint16_t port)
{
	struct sockaddr_in in[4];
	socklen_t len[4] = { in_len, in_len, in_len, in_len };
	int fd = rsocket(AF_INET, SOCK_STREAM, 0), got = -1;
	char byte = 0;
	bool good = rconnect(fd, lo(port), in_len) == 0 && (got = raccept(server, NULL, NULL)) >= 0 &&
		    rgetsockname(fd, (struct sockaddr *)&in[0], &len[0]) == 0 &&
		    rgetpeername(fd, (struct sockaddr *)&in[1], &len[1]) == 0 &&
		    rgetsockname(got, (struct sockaddr *)&in[2], &len[2]) == 0 &&
		    rgetpeername(got, (struct sockaddr *)&in[3], &len[3]) == 0 &&
		    port_in(&in[1]) == port && port_in(&in[2]) == port && port_in(&in[0]) == port_in(&in[3]) &&
		    rwrite(fd, "x", 1) == 1 && rread(got, &byte, 1) == 1 && byte == 'x';

	rclose(fd);
	rclose(got);
	return good;
}

/* Ports that TCP uses: in personality ca they are free for RDMA. */
static void beside_tcp(void)
{
	uint16_t port = 0, other = 0, from = 0;
	int tcp = tcp_server(&port), two = tcp_server(&other), spare = tcp_server(&from), rs;
	struct rdma_cm_id *l = rdma_server(port);

	close(spare);
	if (diw_port_is_rnic()) {
		CHECK(!l && errno == EADDRINUSE, "an RNIC's port is a TCP port");
		CHECK(rs_server(port) == -1 && errno == EADDRINUSE, "... an rsocket's, too");
		close(tcp);
		close(two);
		return;
	}
	rs = rs_server(other);
	CHECK(l && ntohs(rdma_get_src_port(l)) == port, "one port for TCP and RDMA");
	CHECK(tcp_client(tcp, port) && rdma_client(l, port, 0), "... and each has its client");
	CHECK(rdma_client(l, port, from), "... from a port of its own choice, too");
	CHECK(rs >= 0 && tcp_client(two, other) && rs_client(rs, other), "and for TCP and rsockets");
	CHECK(no_client(tcp) && no_client(two), "TCP's has nobody else's");
	CHECK(!rdma_server(port) && errno == EADDRINUSE, "two listeners are one too many");
	CHECK(rs_server(port) == -1 && errno == EADDRINUSE, "... also of the two kinds");
	CHECK(rdma_destroy_id(l) == 0 && (l = rdma_server(port)), "a port is free again");
	CHECK(rdma_destroy_id(l) == 0 && rclose(rs) == 0, "they go");
	close(tcp);
	close(two);
}

/* TCP binds later: its port is free. */
static void before_tcp(void)
{
	struct rdma_cm_id *l, *any;
	uint16_t port, again;
	int tcp;

	rdma_create_id(srv, &any, NULL, RDMA_PS_TCP);
	CHECK(rdma_bind_addr(any, lo(0)) == 0 && (port = ntohs(rdma_get_src_port(any))) &&
	      rdma_listen(any, 8) == 0 && ntohs(rdma_get_src_port(any)) == port, "a port that the system chooses");
	tcp = tcp_server(&port);
	CHECK((tcp >= 0) == !diw_port_is_rnic(), "is TCP's to have, unless an RNIC has it");
	close(tcp);
	CHECK(rdma_client(any, port, 0), "... and a client finds it");
	l = listener(srv, RDMA_PS_TCP, &again);
	CHECK(again != port, "the next is another");
	CHECK(rdma_destroy_id(l) == 0 && rdma_destroy_id(any) == 0, "both go");
}

/* ---- The other personality ---- */

/* This program as a client of PORT. */
static pid_t foreigner(uint16_t port, const char *kind)
{
	pid_t pid;
	char arg[8];

	snprintf(arg, sizeof arg, "%u", port);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		setenv("DIWARP_PERSONALITY", diw_port_is_rnic() ? "ca" : "rnic", 1);
		execl("/proc/self/exe", "cma_ports", arg, kind, NULL);
		_exit(127);
	}
	return pid;
}

static bool ends_well(pid_t pid)
{
	int status;

	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void *hang_up(void *arg)
{
	int server = (int)(intptr_t)arg, fd;

	while ((fd = accept(server, NULL, NULL)) >= 0)
		close(fd);
	return NULL;
}

static bool serve_rdma(uint16_t port)
{
	struct rdma_cm_event *ev = expect(srv, RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_cm_id *b = ev ? ev->id : NULL;
	bool good = b && ntohs(rdma_get_src_port(b)) == port && make_qp(b) && rdma_accept(b, NULL) == 0 &&
		    rdma_ack_cm_event(ev) == 0 && comes(srv, RDMA_CM_EVENT_ESTABLISHED) &&
		    comes(srv, RDMA_CM_EVENT_DISCONNECTED);

	return b && destroy(b) == 0 && good;
}

static bool serve_rs(int server)
{
	int fd = raccept(server, NULL, NULL);
	char byte;
	bool good = rread(fd, &byte, 1) == 1 && rread(fd, &byte, 1) == 0;

	rclose(fd);
	return good;
}

/* The client's first attempt finds no listener, then a TCP server that closes the connection. */
static void for_foreigners(bool beside)
{
	uint16_t port = 0;
	int tcp = tcp_server(&port), rs;
	struct rdma_cm_id *l;
	pthread_t t;
	pid_t pid;

	if (beside)
		pthread_create(&t, NULL, hang_up, (void *)(intptr_t)tcp);
	else
		close(tcp);
	l = rdma_server(port);
	pid = foreigner(port, NULL);
	CHECK(l && serve_rdma(port) && ends_well(pid) && rdma_destroy_id(l) == 0,
	      beside ? "... beside TCP" : "a client of the other personality");
	rs = rs_server(port);
	pid = foreigner(port, "rs");
	CHECK(rs >= 0 && serve_rs(rs) && ends_well(pid), "... and its rsocket");
	rclose(rs);
	if (beside) {
		shutdown(tcp, SHUT_RDWR);
		pthread_join(t, NULL);
		close(tcp);
	}
}

static int rdma_connect_to(uint16_t port)
{
	struct rdma_cm_id *a = asker(cli, RDMA_PS_TCP, port);

	return rdma_connect(a, NULL) == 0 && comes(cli, RDMA_CM_EVENT_ESTABLISHED) &&
	       ntohs(rdma_get_dst_port(a)) == port && rdma_disconnect(a) == 0 &&
	       comes(cli, RDMA_CM_EVENT_DISCONNECTED) && destroy(a) == 0 ? 0 : 1;
}

static int rs_connect_to(uint16_t port)
{
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);

	return rconnect(fd, lo(port), in_len) == 0 && rwrite(fd, "x", 1) == 1 && rclose(fd) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
	srv = rdma_create_event_channel();
	cli = rdma_create_event_channel();
	if (argc > 1)
		return (argc > 2 ? rs_connect_to : rdma_connect_to)((uint16_t)atoi(argv[1]));
	beside_tcp();
	before_tcp();
	for_foreigners(false);
	if (!diw_port_is_rnic())
		for_foreigners(true);
	return failed;
}
