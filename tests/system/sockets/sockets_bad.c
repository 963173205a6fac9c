/* SPDX-License-Identifier: BSD-2-Clause */
/* Frames that are damaged, cut short, or forged with a valid key. Runs under the interposer; datagrams that must leave
 * unchanged are sent with a flag that the kernel ignores here. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crc.h"
#include "base/wire.h"
#include "sockets_preload/shm/sockreg.h"
#include "wire/hdr.h"

#define UDP_SEGMENT 103
#define UDP_GRO 104
#define HEAD (entry.flags & DIW_SOCK_WRITE_RECORD ? 36 : 32)
#define EXTRA (HEAD + 4)

static struct sockaddr_in to = { .sin_family = AF_INET };
static struct diw_sock_entry entry;
static int a, b, failed;
static uint8_t in[2000], frame[2000];
static uint64_t to_offset;               /* of a Write-Record, in the region */

static void check(const char *what, int good)
{
	printf("%s - %s\n", good ? "ok" : "not ok", what);
	fflush(stdout);
	failed |= !good;
}

static size_t make(uint64_t key, size_t n, int good_crc)
{
	bool write = entry.flags & DIW_SOCK_WRITE_RECORD;
	struct diw_ddp_hdr h = { .last = true, .imm_valid = true, .opcode = write ? 12 : 3, .length = (uint32_t)n,
				 .tagged = write, .stag = entry.stag, .to = to_offset,
				 .qkey = (uint32_t)(key >> 32), .imm = (uint32_t)key };

	diw_ddp_hdr_encode(frame, &h);
	memset(frame + HEAD, 'f', n);
	diw_put32le(frame + HEAD + n, diw_crc32(0, frame, HEAD + n) ^ (good_crc ? 0 : 1));
	return n + EXTRA;
}

static void put_by(int fd, size_t n)
{
	if (sendto(fd, frame, n, MSG_ZEROCOPY, (void *)&to, sizeof to) != (ssize_t)n)
		abort();
}

static void put(size_t n)
{
	put_by(b, n);
}

static void put_plain(size_t n)
{
	memset(frame, 'p', n);
	put(n);
}

static ssize_t got(int flags)
{
	return recv(a, in, sizeof in, flags);
}

static void *later(void *arg)
{
	(void)arg;
	usleep(50000);
	put(make(entry.key[0], 30, 1));
	return NULL;
}

static void damaged(void)
{
	struct timeval tv = { .tv_usec = 200000 }, none = { 0 };
	uint64_t begin;
	pthread_t t;
	int n = -1;

	put(make(entry.key[0], 50, 1));
	check("a good frame", got(0) == 50 && in[0] == 'f' && in[49] == 'f');
	put(make(entry.key[0], 50, 0));
	check("a damaged one is not there", got(MSG_DONTWAIT) == -1 && errno == EAGAIN);
	put(make(entry.key[0], 50, 0));
	put_plain(20);
	check("... what follows it is", got(0) == 20 && in[0] == 'p');
	put(make(entry.key[0], 50, 0));
	put_plain(21);
	check("... also for who peeks", got(MSG_PEEK) == 21 && got(MSG_DONTWAIT) == 21);
	put(make(entry.key[0], 50, 0));
	check("FIONREAD does not count it", ioctl(a, FIONREAD, &n) == 0 && n == 0);
	put(make(entry.key[0], 50, 0));
	setsockopt(a, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
	begin = diw_clock_ns();
	check("a timeout goes on", got(0) == -1 && errno == EAGAIN && diw_clock_ns() - begin >= 190 * DIW_MS);
	setsockopt(a, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none);
	put(make(entry.key[0], 50, 0));
	pthread_create(&t, NULL, later, NULL);
	check("who waits goes on waiting", got(0) == 30);
	pthread_join(t, NULL);
}

static in_port_t port_of(int fd)
{
	struct sockaddr_in in4;
	socklen_t len = sizeof in4;

	return getsockname(fd, (void *)&in4, &len) ? 0 : in4.sin_port;
}

/* Five that one call receives: the datagrams behind a damaged one move to its place, with their control data. */
static void among_many(void)
{
	char data[5][100], control[5][64];
	struct sockaddr_in from[5] = { 0 };
	struct mmsghdr m[5] = { 0 };
	struct iovec iov[5];
	int on = 1, n, other = socket(AF_INET, SOCK_DGRAM, 0);

	setsockopt(a, IPPROTO_IP, IP_RECVTTL, &on, sizeof on);
	for (int i = 0; i < 5; i++) {
		iov[i] = (struct iovec){ data[i], sizeof data[i] };
		m[i].msg_hdr = (struct msghdr){ .msg_name = &from[i], .msg_namelen = sizeof from[i], .msg_iov = &iov[i],
			.msg_iovlen = 1, .msg_control = control[i], .msg_controllen = i == 3 ? 0 : sizeof control[i] };
		if (i == 2)
			put_plain(20);
		else
			put_by(i % 3 ? b : other, make(entry.key[0], (size_t)(30 + i), i % 3 != 0));
	}
	close(other);
	n = recvmmsg(a, m, 5, MSG_WAITFORONE, NULL);
	check("those of many that are whole", n == 3 && m[0].msg_len == 31 && m[1].msg_len == 20 && m[2].msg_len == 34);
	check("... as they are", data[0][30] == 'f' && data[1][0] == 'p' && data[2][33] == 'f');
	for (int i = 0; i < 3; i++)
		check("... with what came with them", from[i].sin_family == AF_INET && from[i].sin_port == port_of(b) &&
		      m[i].msg_hdr.msg_namelen == sizeof from[i] && CMSG_FIRSTHDR(&m[i].msg_hdr) &&
		      CMSG_FIRSTHDR(&m[i].msg_hdr)->cmsg_type == IP_TTL);
	put(make(entry.key[0], 50, 0));
	check("of many there is none", recvmmsg(a, m, 5, MSG_DONTWAIT, NULL) == -1 && errno == EAGAIN);
	put(make(entry.key[0], 50, 0));
	put_plain(20);
	for (int i = 0; i < 2; i++)
		m[i].msg_hdr.msg_controllen = sizeof control[i];
	n = recvmmsg(a, m, 2, MSG_PEEK, NULL);
	check("a look at many", n == 2 && m[0].msg_len == 20 && m[1].msg_len == 20 && got(MSG_DONTWAIT) == 20);
	on = 0;
	setsockopt(a, IPPROTO_IP, IP_RECVTTL, &on, sizeof on);
}

/* ---- Buffers that the kernel has put together ---- */

/* F: a good frame, B: a damaged one, P: plain, of 100 bytes with the frame; small letters: of 60. */
static void put_together(const char *kinds)
{
	union { struct cmsghdr c; char room[CMSG_SPACE(sizeof(uint16_t))]; } u = { 0 };
	uint16_t size = 100;
	uint8_t all[1000];
	struct iovec iov = { all, 0 };
	struct msghdr m = { .msg_name = &to, .msg_namelen = sizeof to, .msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = &u, .msg_controllen = sizeof u };

	u.c = (struct cmsghdr){ CMSG_LEN(sizeof size), IPPROTO_UDP, UDP_SEGMENT };
	memcpy(CMSG_DATA(&u.c), &size, sizeof size);
	for (const char *k = kinds; *k; k++) {
		size_t n = *k >= 'a' ? 60 : 100;

		make(entry.key[0], n - EXTRA, (*k | 32) == 'f');
		if ((*k | 32) == 'p')
			memset(frame, 'p', n);
		memcpy(all + iov.iov_len, frame, n);
		iov.iov_len += n;
	}
	if (sendmsg(b, &m, MSG_ZEROCOPY) != (ssize_t)iov.iov_len)
		abort();
}

/* As TEXT says: the bytes, their origin, and the size of each message if there are several. */
static bool gives(const char *text, int flags, size_t control_room)
{
	char control[64], seen[100];
	struct iovec iov = { in, sizeof in };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = control_room };
	ssize_t n = recvmsg(a, &m, flags | MSG_DONTWAIT);
	int size = 0, at = 0;

	for (struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
		if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO)
			memcpy(&size, CMSG_DATA(c), sizeof size);
	for (ssize_t i = 0; i < n; i++)
		if (i == n - 1 || in[i] != in[i + 1])
			at += snprintf(seen + at, sizeof seen - (size_t)at, "%zd%c ", i + 1, in[i]);
	snprintf(seen + at, sizeof seen - (size_t)at, "%d", n < 0 ? -errno : size);
	if (strcmp(seen, text))
		printf("    seen: %s, not %s\n", seen, text);
	return strcmp(seen, text) == 0;
}

static void together(void)
{
	const bool w = HEAD == 36;
	/* All have the size of the first, and the last may be shorter: no call can return others. */
	const struct { const char *kinds, *gives; } rows[] = {
		{ "FFFf", w ? "200f 60" : "216f 64" },
		{ "FBFf", w ? "140f 60" : "152f 64" },
		{ "FFb", w ? "120f 60" : "128f 64" },
		{ "BBf", w ? "20f 0" : "24f 0" },
		{ "BF", w ? "60f 0" : "64f 0" },
		{ "PPp", "260p 100" },
		{ "PBp", "160p 100" },
		{ "FFp", w ? "120f 180p 60" : "128f 188p 64" },
		{ "Pf", w ? "100p 120f 100" : "100p 124f 100" },
		{ "FPF", w ? "120f 60" : "128f 64" },
		{ "PFP", w ? "100p 160f 100" : "100p 164f 100" },
		{ "BB", "-11" },
	};
	int on = 1, off = 0, n = -1;

	setsockopt(a, IPPROTO_UDP, UDP_GRO, &on, sizeof on);
	got(MSG_DONTWAIT);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		char what[40];

		put_together(rows[i].kinds);
		snprintf(what, sizeof what, "put together: %s", rows[i].kinds);
		check(what, gives(rows[i].gives, 0, 64));
		put_together(rows[i].kinds);
		check("... at a look", gives(rows[i].gives, MSG_PEEK, 64));
		gives(rows[i].gives, 0, 64);
	}
	put_together("BB");
	put_together("PPp");
	check("behind what is damaged", gives("260p 100", 0, 64));
	put_together("BB");
	put_together("FB");
	check("FIONREAD", ioctl(a, FIONREAD, &n) == 0 && n == 100 - EXTRA);
	check("without control data", gives(w ? "60f 0" : "64f 0", 0, 0));
	setsockopt(a, IPPROTO_UDP, UDP_GRO, &off, sizeof off);
	put_together("FBFf");
	check("one by one", gives(w ? "60f 0" : "64f 0", 0, 64) && gives(w ? "60f 0" : "64f 0", 0, 64) &&
	      gives(w ? "20f 0" : "24f 0", 0, 64) && gives("-11", 0, 64));
}

static void cut(void)
{
	size_t whole = make(entry.key[0], 100, 1), n;
	int seen = 0;

	for (n = EXTRA; n < whole; n++) {
		put(n);
		seen += got(MSG_DONTWAIT) >= 0;
	}
	check("no frame that was cut short is delivered", seen == 0);
	put(20);
	check("less than a header is no frame", got(MSG_DONTWAIT) == 20);
	for (n = 0; n < HEAD; n++) {
		make(entry.key[0], 100, 1);
		frame[n] ^= 0x80;
		diw_put32le(frame + HEAD + 100, diw_crc32(0, frame, HEAD + 100));
		put(whole);
		seen += got(MSG_DONTWAIT) > (ssize_t)whole;
	}
	check("no header, however wrong, delivers more than came", seen == 0);
	put(make(entry.key[0] ^ 1, 100, 1));
	check("with a key that is nobody's it is a payload", got(MSG_DONTWAIT) == (ssize_t)whole && in[0] == frame[0]);
}

static void without_crc(void)
{
	put(make(entry.key[1], 60, 0));
	check("with the other key the CRC is not looked at", got(MSG_DONTWAIT) == 60 && in[59] == 'f');
	put(make(entry.key[1], 60, 0) - 1);
	check("... but the length is", got(MSG_DONTWAIT) == -1 && errno == EAGAIN);
}

/* A Write-Record outside the region that the socket advertises is dropped. */
static void elsewhere(void)
{
	static const uint64_t outside[] = { 65536 - 99, 65536, 1ull << 32, UINT64_MAX - 50, UINT64_MAX };
	uint32_t stag = entry.stag;
	int seen = 0;

	to_offset = 65536 - 100;
	put(make(entry.key[0], 100, 1));
	check("to the end of the region", got(MSG_DONTWAIT) == 100);
	for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
		to_offset = outside[i];
		put(make(entry.key[0], 100, 1));
		seen += got(MSG_DONTWAIT) >= 0;
	}
	check("beyond it", seen == 0);
	to_offset = 0;
	entry.stag ^= 2;
	put(make(entry.key[0], 100, 1));
	check("to another STag", got(MSG_DONTWAIT) < 0);
	entry.stag = stag;
}

/* Finding out whether an address is local needs a descriptor. */
static void exhausted(const char *address)
{
	struct sockaddr_in there = to;
	struct rlimit l, none = { 0 };
	int c = socket(AF_INET, SOCK_DGRAM, 0);

	memset(frame, 'p', sizeof frame);
	there.sin_addr.s_addr = (in_addr_t)strtoul(address, NULL, 16);
	getrlimit(RLIMIT_NOFILE, &l);
	none.rlim_max = l.rlim_max;
	setrlimit(RLIMIT_NOFILE, &none);
	check("no descriptor is left", dup(c) < 0 && errno == EMFILE);
	check("a message leaves", sendto(c, frame, 40, 0, (void *)&there, sizeof there) == 40);
	check("... and arrives", got(MSG_DONTWAIT) == 40);
	setrlimit(RLIMIT_NOFILE, &l);
	close(c);
}

static int find(uint16_t port)
{
	char path[PATH_MAX];
	const char *why;
	struct diw_sockreg *reg = diw_sockreg_open(false, path, sizeof path, &why);

	for (uint32_t i = 0; reg && i < DIW_SOCKREG_PROBE; i++)
		if (diw_sock_read(reg, diw_sockreg_at(reg, port, i), &entry) && entry.local.port == port)
			return 1;
	return 0;
}

int main(int argc, char **argv)
{
	socklen_t len = sizeof to;

	a = socket(AF_INET, SOCK_DGRAM, 0);
	b = socket(AF_INET, SOCK_DGRAM, 0);
	bind(a, (void *)&to, sizeof to);
	getsockname(a, (void *)&to, &len);
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	check("not shown before it receives", !find(ntohs(to.sin_port)));
	got(MSG_DONTWAIT);
	check("shown when it has", find(ntohs(to.sin_port)));
	damaged();
	among_many();
	together();
	cut();
	without_crc();
	if (entry.flags & DIW_SOCK_WRITE_RECORD)
		elsewhere();
	if (argc > 1)
		exhausted(argv[1]);
	while (argc > 1 && getchar() != EOF)
		;
	close(a);
	check("withdrawn when it is closed", !find(ntohs(to.sin_port)));
	return failed;
}
