/* SPDX-License-Identifier: BSD-2-Clause */
/* sendmmsg() and recvmmsg() with more messages than one system call of the interposer takes. The calls succeed,
 * succeed in part, or fail: sockets.sh compares the output with and without the interposer. */
#include <fcntl.h>
#include <net/if.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

#include "tests/system/sockets/sockets_kit.h"

#define MOST 40
#define ROOM 3000

static struct mmsghdr mm[MOST];
static struct iovec iov[MOST][80];
static struct sockaddr_storage from[MOST];
static char control[MOST][64];
static uint8_t *const seen = in;

/* ---- What is sent and asked for, and what came of it ---- */

static void sizes(int n, const size_t *size)
{
	memset(mm, 0, sizeof mm);
	for (int i = 0; i < n; i++) {
		iov[i][0] = (struct iovec){ out + i, size[i] / 3 };
		iov[i][1] = (struct iovec){ out + i + size[i] / 3, size[i] - size[i] / 3 };
		mm[i].msg_hdr = (struct msghdr){ .msg_iov = iov[i], .msg_iovlen = 2 };
	}
}

static int many(int fd, int n, int flags)
{
	int rc = sendmmsg(fd, mm, (unsigned)n, flags);

	say("  sent %d of %d, %s:", rc, n, rc < 0 ? strerrorname_np(errno) : "ok");
	for (int i = 0; i < rc; i++)
		say(" %u", mm[i].msg_len);
	say("\n");
	return rc;
}

static void send_sizes(int fd, int n, const size_t *size)
{
	sizes(n, size);
	many(fd, n, 0);
}

static void send_n(int fd, int n)
{
	size_t size[MOST];

	for (int i = 0; i < n; i++)
		size[i] = (size_t)(i * 37);
	send_sizes(fd, n, size);
}

/* Every fourth message has no room for an address, every third none for control data, every fifth little for data. */
static void ask(int n)
{
	memset(mm, 0, sizeof mm);
	memset(from, 0, sizeof from);
	for (int i = 0; i < n; i++) {
		size_t room = i % 5 == 4 ? 50 : ROOM / 2;

		iov[i][0] = (struct iovec){ seen + i % 23 * ROOM, room / 4 };
		iov[i][1] = (struct iovec){ seen + i % 23 * ROOM + room / 4, room - room / 4 };
		mm[i].msg_hdr = (struct msghdr){ .msg_iov = iov[i], .msg_iovlen = 2,
						 .msg_name = i % 4 == 3 ? NULL : &from[i],
						 .msg_namelen = sizeof from[i],
						 .msg_control = i % 3 == 2 ? NULL : control[i],
						 .msg_controllen = i % 3 == 2 ? 0 : sizeof control[i] };
	}
}

static int receive(const char *what, int fd, int n, int flags, struct timespec *ts)
{
	int rc;

	ask(n);
	rc = recvmmsg(fd, mm, (unsigned)n, flags, ts);
	say("%s: %d of %d, %s\n", what, rc, n, rc < 0 ? strerrorname_np(errno) : "ok");
	for (int i = 0; i < n; i++) {
		const struct msghdr *h = &mm[i].msg_hdr;

		say("  %u, flags %x, from %u bytes of %d, control %zu, %d %d\n", mm[i].msg_len, h->msg_flags,
		    h->msg_namelen, from[i].ss_family, h->msg_controllen, h->msg_iov == iov[i], (int)h->msg_iovlen);
	}
	say("  data %08x\n", sum(in, sizeof in));
	memset(in, 0xa5, sizeof in);
	return rc;
}

/* ---- Whole ---- */

static void whole(int family, int connected)
{
	struct pair p = pair(family, connected);
	int on = 1;

	setsockopt(p.a, IPPROTO_IP, IP_RECVTTL, &on, sizeof on);
	connect(p.b, (void *)&p.addr_a, p.len);
	send_n(p.b, 40);
	receive("all", p.a, 40, 0, NULL);
	send_n(p.b, 20);
	receive("those that are there", p.a, 40, MSG_WAITFORONE, NULL);
	send_n(p.b, 17);
	receive("none is waited for", p.a, 40, MSG_DONTWAIT, NULL);
	receive("there is none", p.a, 40, MSG_DONTWAIT, NULL);
	send_n(p.b, 16);
	receive("their lengths", p.a, 16, MSG_TRUNC | MSG_WAITFORONE, NULL);
	send_n(p.b, 3);
	receive("a look", p.a, 3, MSG_PEEK, NULL);
	receive("... and another", p.a, 20, MSG_PEEK | MSG_DONTWAIT | MSG_TRUNC, NULL);
	receive("they are still there", p.a, 20, MSG_DONTWAIT, NULL);
	fcntl(p.a, F_SETFL, O_NONBLOCK);
	send_n(p.b, 33);
	receive("not blocking", p.a, 40, 0, NULL);
	done(&p);
}

/* ---- In part ---- */

static void in_part(void)
{
	static const size_t large[] = { 10, 1536, 1537, 9000, 65480, 65508, 20 }, wrong[] = { 65508, 10, 20 };
	static const size_t few[] = { 100, 100, 100 };
	struct pair p = pair(AF_INET, 1);

	send_sizes(p.b, 7, large);
	receive("before one that is too large", p.a, 40, MSG_DONTWAIT, NULL);
	send_sizes(p.b, 3, wrong);
	receive("behind one that is too large", p.a, 40, MSG_DONTWAIT, NULL);
	sizes(3, few);
	mm[1].msg_hdr.msg_iov = NULL;
	many(p.b, 3, 0);
	receive("before one that is nowhere", p.a, 40, MSG_DONTWAIT, NULL);
	sizes(3, few);
	mm[0].msg_hdr.msg_iov = NULL;
	many(p.b, 3, 0);
	sizes(3, few);
	for (int i = 0; i < 80; i++)
		iov[1][i] = (struct iovec){ out + i, 1 };
	mm[1].msg_hdr.msg_iovlen = 80;
	many(p.b, 3, 0);
	receive("one of many pieces", p.a, 40, MSG_DONTWAIT, NULL);
	send_n(p.b, 2);
	ask(3);
	mm[1].msg_hdr.msg_iov = NULL;
	say("nowhere to put the second: %d\n", recvmmsg(p.a, mm, 3, MSG_DONTWAIT, NULL));
	say("%d\n", recvmmsg(p.a, mm + 1, 2, MSG_DONTWAIT, NULL));
	close(p.a);
	p.a = -1;
	say("no descriptor: %d %d\n", sendmmsg(9999, mm, 2, 0), recvmmsg(9999, mm, 2, 0, NULL));
	done(&p);
}

/* Only the message itself fits the path, or not even that. */
static void path(void)
{
	static const size_t size[] = { 100, 1340, 100, 1372, 1373, 100 };
	struct pair p = pair(AF_INET, 1);
	int want = IP_PMTUDISC_DO;
	struct ifreq r = { .ifr_name = "lo", .ifr_mtu = 1400 };

	say("MTU: %d\n", ioctl(p.a, SIOCSIFMTU, &r));
	setsockopt(p.b, IPPROTO_IP, IP_MTU_DISCOVER, &want, sizeof want);
	send_sizes(p.b, 6, size);
	receive("as far as they fit", p.a, 40, MSG_DONTWAIT, NULL);
	send_sizes(p.b, 2, size + 4);
	send_sizes(p.b, 2, size + 1);
	receive("the first not in a frame", p.a, 40, MSG_DONTWAIT, NULL);
	r.ifr_mtu = 65536;
	say("MTU: %d\n", ioctl(p.a, SIOCSIFMTU, &r));
	done(&p);
}

/* ---- Waiting ---- */

static int other = -1;

static void on_alarm(int sig)
{
	struct mmsghdr m[2] = { 0 };
	char buf[2][100];
	struct iovec v[2] = { { buf[0], 100 }, { buf[1], 100 } };

	(void)sig;
	if (other < 0)
		return;
	for (int i = 0; i < 2; i++)
		m[i].msg_hdr = (struct msghdr){ .msg_iov = &v[i], .msg_iovlen = 1 };
	say("in a handler: %d\n", recvmmsg(other, m, 2, MSG_DONTWAIT, NULL));
	other = -1;
}

static void waiting(void)
{
	struct pair p = pair(AF_INET, 1), q = pair(AF_INET, 1);
	struct timespec no_time = { 0 }, bad = { .tv_nsec = -1 };
	struct timeval tv = { .tv_usec = 30000 };
	struct sigaction sa = { .sa_handler = on_alarm };

	send_n(p.b, 5);
	receive("no time for more than one", p.a, 20, 0, &no_time);
	receive("a time that is none", p.a, 20, 0, &bad);
	receive("the others", p.a, 20, MSG_DONTWAIT, NULL);
	setsockopt(p.a, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
	send_n(p.b, 18);
	receive("until a timeout", p.a, 40, 0, NULL);
	sigaction(SIGALRM, &sa, NULL);
	send_n(q.b, 2);
	other = q.a;
	tv.tv_usec = 0;
	setsockopt(p.a, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
	send_n(p.b, 18);
	alarm_in(30, 30);
	receive("until a signal", p.a, 40, 0, NULL);
	alarm_in(0, 0);
	done(&p);
	done(&q);
}

int main(void)
{
	begin();
	for (int i = 0; i < 4; i++)
		whole(i / 2 ? AF_INET6 : AF_INET, i % 2);
	in_part();
	path();
	waiting();
	say("end\n");
	return 0;
}
