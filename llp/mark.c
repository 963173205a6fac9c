/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether the listener at an address of this host is this library's. A listener binds a second socket, its mark: a Unix
 * datagram socket whose abstract name contains the TCP address. The kernel keeps such names apart by network namespace
 * and frees a name with its socket, so a mark is there as long as its listener. A program that forwards connections to
 * another host has no mark.
 *
 * The owner of a mark is not checked: any user of the host may bind the name of an address where a program forwards.
 * That loses CRC-32C only if the stream comes to the responder from its own host, too, by a second forwarder there. TCP
 * then still protects the data from damage on the way. From users CRC-32C protects nothing, since it has no key.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/sys.h"
#include "llp/stream.h"

#define MARK_LEN 96

/* Names the listener at A. ANY replaces the address of a wildcard: '4', '6', or '*' for both families. */
static socklen_t mark_name(struct sockaddr_un *un, const struct diw_addr *a, char any)
{
	char ip[DIW_ADDR_IP_STRLEN] = { any };

	if (!any)
		diw_addr_ip_str(a, ip);
	*un = (struct sockaddr_un){ .sun_family = AF_UNIX };
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   (size_t)snprintf(un->sun_path + 1, MARK_LEN, "diwarp-mpa %s%%%u %u", ip, any ? 0 : a->scope,
					    a->port));
}

int diw_mark_open(const struct diw_addr *listener, char any)
{
	struct sockaddr_un un;
	socklen_t len = mark_name(&un, listener, any);
	int fd = diw_socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && bind(fd, (struct sockaddr *)&un, len)) {
		close(fd);
		return -1;
	}
	return fd;
}

bool diw_mark_is_there(const struct diw_addr *listener)
{
	const char any[] = { 0, diw_addr_is_v4(listener) ? '4' : '6', '*' };
	int fd = diw_socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool found = false;

	for (size_t i = 0; fd >= 0 && i < sizeof any && !found; i++) {
		struct sockaddr_un un;
		socklen_t len = mark_name(&un, listener, any[i]);

		found = connect(fd, (struct sockaddr *)&un, len) == 0;
	}
	if (fd >= 0)
		close(fd);
	return found;
}
