/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds out which UDP offloads the kernel has: sends a super-buffer of three datagrams and a shorter one over loopback,
 * once. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/sys.h"
#include "llp/dgram.h"
#include "llp/udp.h"

#define SEG 100
#define PROBE_LEN (3 * SEG + 50)

static struct diw_udp_offload proved;

static int open_loopback(int family, struct sockaddr_storage *ss, socklen_t *len)
{
	struct diw_addr a = { .ip = { [15] = 1 } };
	int fd = diw_socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -1;
	if (family == AF_INET) {
		a.ip[10] = a.ip[11] = 0xff;
		a.ip[12] = 127;
	}
	*len = diw_addr_to_sockaddr(&a, ss);
	if (bind(fd, (struct sockaddr *)ss, *len) || getsockname(fd, (struct sockaddr *)ss, len)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Returns the length of the next datagram, 0: none. *SEG is the segment size that GRO reports. */
static int recv_datagram(int fd, int *seg)
{
	union { char buf[CMSG_SPACE(sizeof(int))]; struct cmsghdr align; } control;
	uint8_t data[2 * PROBE_LEN];
	struct iovec iov = { data, sizeof data };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
		.msg_controllen = sizeof control };
	struct pollfd p = { fd, POLLIN, 0 };
	ssize_t n;

	*seg = 0;
	if (poll(&p, 1, 100) != 1)
		return 0;
	n = recvmsg(fd, &m, 0);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); n > 0 && c; c = CMSG_NXTHDR(&m, c))
		if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO)
			memcpy(seg, CMSG_DATA(c), sizeof *seg);
	return n < 0 ? 0 : (int)n;
}

static bool probe_enable(int fd, int name, int value)
{
	return !setsockopt(fd, SOL_UDP, name, &value, sizeof value);
}

/* There is no usable loopback, as in a new network namespace: take the options as supported. If a path refuses
 * super-buffers, the sender notices it later. */
static void probe_believe(void)
{
	int fd = diw_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		fd = diw_socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	proved.gso = probe_enable(fd, UDP_SEGMENT, SEG);
	proved.gro = probe_enable(fd, UDP_GRO, 1);
	close(fd);
}

static void prove_on(int tx, int rx, const struct sockaddr_storage *to, socklen_t tolen)
{
	uint8_t data[PROBE_LEN] = { 0 };
	int seg;

	probe_enable(rx, UDP_GRO, 1);
	if (!probe_enable(tx, UDP_SEGMENT, SEG))
		return;
	if (sendto(tx, data, sizeof data, 0, (const void *)to, tolen) != PROBE_LEN) {
		if (errno != EIO && errno != EINVAL)
			probe_believe();
		return;
	}
	switch (recv_datagram(rx, &seg)) {
	case PROBE_LEN:
		proved.gso = proved.gro = seg == SEG;
		break;
	case SEG:
		proved.gso = true;
		break;
	case 0:
		probe_believe();
		break;
	}
}

static void restrict_by_env(void)
{
	enum { ALL, GSO, GRO, NONE };
	static const char *const words[] = { "all", "gso", "gro", "none", NULL };
	int word = diw_env_word("DIWARP_OFFLOAD", words, ALL, NONE);

	proved.gso &= word == ALL || word == GSO;
	proved.gro &= word == ALL || word == GRO;
}

static void probe_prove(void)
{
	struct sockaddr_storage rxaddr, txaddr;
	socklen_t rxlen, txlen;
	int rx = -1, tx = -1;

	for (int i = 0; i < 2 && (rx < 0 || tx < 0); i++) {
		int family = i ? AF_INET6 : AF_INET;

		if (rx >= 0)
			close(rx);
		if (tx >= 0)
			close(tx);
		rx = open_loopback(family, &rxaddr, &rxlen);
		tx = open_loopback(family, &txaddr, &txlen);
	}
	if (rx >= 0 && tx >= 0)
		prove_on(tx, rx, &rxaddr, rxlen);
	else
		probe_believe();
	if (rx >= 0)
		close(rx);
	if (tx >= 0)
		close(tx);
	restrict_by_env();
}

struct diw_udp_offload diw_udp_offload(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, probe_prove);
	return proved;
}
