/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams to many receivers. The content of a datagram shows whether it arrived as it was sent.
 * send ADDRESS PORT INTERFACE [OPTION...]     some each 2 ms, until there is a byte to read; INTERFACE "-": the route's
 *     index      the interface by its index, else by its address (IPv4)
 *     by=NAME    each datagram by that interface, in its control data
 *     connected  the socket, and send() then
 *     many       four at once, by sendmmsg()
 *     ttl0       not to leave the host
 * receive ADDRESS PORT INTERFACE COUNT [OPTION...]   exit status 0 if COUNT came, whole
 *     bound      to ADDRESS, else to any
 *     six        by a socket of IPv6 to a group of IPv4
 *     loose      it joins nothing
 *     settle     what comes in the first 300 ms is not looked at
 *     hand       gives the socket, after COUNT, to "hear" without the interposer
 * hear FD COUNT                               as receive with settle
 */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SIZE 1400
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static char **options;

static const char *option(const char *name)
{
	size_t n = strlen(name);

	for (char **o = options; *o; o++)
		if (!strncmp(*o, name, n) && (!(*o)[n] || (*o)[n - 1] == '='))
			return *o + n;
	return NULL;
}

static void must(bool is, const char *what)
{
	if (!is) {
		perror(what);
		exit(2);
	}
}

/* ---- Messages ---- */

static size_t fill(char *p, unsigned number)
{
	size_t n = 9 + number * 37 % (SIZE - 9);

	snprintf(p, 10, "%08u ", number);
	for (size_t i = 9; i < n; i++)
		p[i] = (char)(i * 7 + number);
	return n;
}

static bool is_whole(const char *p, size_t n)
{
	char want[SIZE];

	return n >= 9 && fill(want, (unsigned)strtoul(p, NULL, 10)) == n && !memcmp(p, want, n);
}

/* ---- Addresses ---- */

struct to { union { struct sockaddr sa; struct sockaddr_in v4; struct sockaddr_in6 v6; } u; socklen_t len; };

static struct to to(const char *address, const char *port, const char *interface)
{
	struct to t = { .u.v4 = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) },
			.len = sizeof t.u.v4 };

	if (inet_pton(AF_INET, address, &t.u.v4.sin_addr) == 1)
		return t;
	t.u.v6 = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)atoi(port)),
					.sin6_scope_id = if_nametoindex(interface) };
	must(inet_pton(AF_INET6, address, &t.u.v6.sin6_addr) == 1, address);
	t.len = sizeof t.u.v6;
	return t;
}

static bool is_group(const struct to *t)
{
	return t->u.sa.sa_family == AF_INET6 || IN_MULTICAST(ntohl(t->u.v4.sin_addr.s_addr));
}

static struct in_addr address_of(const char *interface)
{
	struct in_addr a = { .s_addr = htonl(INADDR_LOOPBACK) };

	must(!strcmp(interface, "lo") || inet_pton(AF_INET, getenv("ADDRESS_OF_VA"), &a) == 1, "ADDRESS_OF_VA");
	return a;
}

/* ---- Sending ---- */

static void set(int fd, int level, int name, const void *value, socklen_t len)
{
	must(setsockopt(fd, level, name, value, len) == 0, "setsockopt");
}

static void choose(int fd, int family, const char *interface)
{
	int index = (int)if_nametoindex(interface), zero = 0, one = 1;
	struct ip_mreqn by_index = { .imr_ifindex = index };
	struct in_addr by_address;

	set(fd, SOL_SOCKET, SO_BROADCAST, &one, sizeof one);
	if (option("ttl0"))
		set(fd, IPPROTO_IP, IP_MULTICAST_TTL, &zero, sizeof zero);
	if (!strcmp(interface, "-"))
		return;
	if (family == AF_INET6) {
		set(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, &index, sizeof index);
	} else if (option("index")) {
		set(fd, IPPROTO_IP, IP_MULTICAST_IF, &by_index, sizeof by_index);
	} else {
		by_address = address_of(interface);
		set(fd, IPPROTO_IP, IP_MULTICAST_IF, &by_address, sizeof by_address);
	}
}

struct out {
	char data[SIZE];
	struct iovec iov;
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct in_pktinfo))];
};

static void put(struct out *o, struct msghdr *m, const struct to *t, unsigned number)
{
	struct in_pktinfo by = { .ipi_ifindex = (int)if_nametoindex(option("by=") ? option("by=") : "-") };
	struct cmsghdr *c = (void *)o->control;

	o->iov = (struct iovec){ o->data, fill(o->data, number) };
	*m = (struct msghdr){ .msg_iov = &o->iov, .msg_iovlen = 1 };
	if (!option("connected")) {
		m->msg_name = (void *)&t->u;
		m->msg_namelen = t->len;
	}
	if (!by.ipi_ifindex)
		return;
	*c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof by), .cmsg_level = IPPROTO_IP, .cmsg_type = IP_PKTINFO };
	memcpy(CMSG_DATA(c), &by, sizeof by);
	m->msg_control = o->control;
	m->msg_controllen = sizeof o->control;
}

static void send_all(int fd, const struct to *t)
{
	static struct out out[4];
	struct pollfd end = { .events = POLLIN };
	struct mmsghdr m[COUNT(out)];
	unsigned number = 0;

	while (poll(&end, 1, 2) == 0) {
		for (unsigned i = 0; i < COUNT(out); i++)
			put(&out[i], &m[i].msg_hdr, t, number++);
		if (option("many")) {
			must(sendmmsg(fd, m, COUNT(out), 0) == COUNT(out), "sendmmsg");
			for (unsigned i = 0; i < COUNT(out); i++)
				must(m[i].msg_len == out[i].iov.iov_len, "sendmmsg's length");
			continue;
		}
		for (unsigned i = 0; i < COUNT(out); i++)
			must(sendmsg(fd, &m[i].msg_hdr, 0) == (ssize_t)out[i].iov.iov_len, "sendmsg");
	}
	must(read(0, out[0].data, 1) == 1, "read");
}

static int sender(char **arg)
{
	struct to t = to(arg[0], arg[1], arg[2]);
	int fd = socket(t.u.sa.sa_family, SOCK_DGRAM, 0);

	must(fd >= 0, "socket");
	choose(fd, t.u.sa.sa_family, arg[2]);
	must(!option("connected") || connect(fd, &t.u.sa, t.len) == 0, "connect");
	send_all(fd, &t);
	return 0;
}

/* ---- Receiving ---- */

static int hear(int fd, unsigned n, bool settle)
{
	static char buf[65536];
	ssize_t got;

	if (settle) {
		usleep(300000);
		while (recv(fd, buf, sizeof buf, MSG_DONTWAIT) >= 0)
			;
	}
	while (n--) {
		got = recv(fd, buf, sizeof buf, 0);
		if (got < 0 || !is_whole(buf, (size_t)got)) {
			printf("%zd bytes that were not sent so\n", got);
			return 1;
		}
	}
	return 0;
}

static void join(int fd, const struct to *t, unsigned index)
{
	struct group_req r = { .gr_interface = index };
	bool six = t->u.sa.sa_family == AF_INET6;

	memcpy(&r.gr_group, &t->u, t->len);
	must(setsockopt(fd, six ? IPPROTO_IPV6 : IPPROTO_IP, MCAST_JOIN_GROUP, &r, sizeof r) == 0, "join");
}

static int receiver(char **arg)
{
	struct to t = to(arg[0], arg[1], arg[2]), at = t;
	unsigned n = (unsigned)atoi(arg[3]);
	int fd, one = 1;
	char number[12];

	if (option("six") || (t.u.sa.sa_family == AF_INET6 && !option("bound")))
		at = to("::", arg[1], "-");
	else if (!option("bound"))
		at.u.v4.sin_addr.s_addr = 0;
	fd = socket(at.u.sa.sa_family, SOCK_DGRAM, 0);
	must(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0, "socket");
	must(bind(fd, &at.u.sa, at.len) == 0, "bind");
	if (!option("loose") && is_group(&t))
		join(fd, &t, if_nametoindex(arg[2]));
	if (hear(fd, n, option("settle")))
		return 1;
	if (!option("hand"))
		return 0;
	unsetenv("LD_PRELOAD");
	snprintf(number, sizeof number, "%d", fd);
	execl("/proc/self/exe", "sockets_group", "hear", number, arg[3], (char *)NULL);
	return 2;
}

int main(int argc, char **argv)
{
	options = argv + argc;
	if (argc == 4 && !strcmp(argv[1], "hear"))
		return hear(atoi(argv[2]), (unsigned)atoi(argv[3]), true);
	if (argc >= 5 && !strcmp(argv[1], "send")) {
		options = argv + 5;
		return sender(argv + 2);
	}
	if (argc >= 6 && !strcmp(argv[1], "receive")) {
		options = argv + 6;
		return receiver(argv + 2);
	}
	fprintf(stderr, "usage: sockets_group send|receive|hear ...\n");
	return 2;
}
