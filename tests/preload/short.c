/* SPDX-License-Identifier: BSD-2-Clause */
/* Preloaded after the interposer: simulates a kernel that is short of memory. The interposer's sends on a TCP
 * connection accept fewer bytes than they are given, or none. The program can act in the middle of a call.
 *   SHORT=SEED     sends that do not wait accept fewer bytes; SEED determines how many
 *   SHORT_READS=SEED   every read() returns fewer bytes
 *   short_hook     a function of the program, called after each such call that sends or receives something
 *   short_peeked   the number of bytes that a call has peeked at and not taken */
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
#define PIECES 64

static __typeof__(&send) real_send;
static __typeof__(&sendmsg) real_sendmsg;
static __typeof__(&recv) real_recv;
static __typeof__(&recvmsg) real_recvmsg;
static __typeof__(&read) real_read;
static _Atomic uint64_t state;
static bool on, reads;

API void (*_Atomic short_hook)(int fd, bool sends);
void (*_Atomic short_hook)(int fd, bool sends);
API _Atomic size_t short_peeked;
_Atomic size_t short_peeked;

__attribute__((constructor)) static void begin(void)
{
	const char *seed = getenv("SHORT"), *of_reads = getenv("SHORT_READS");

	real_send = (__typeof__(real_send))dlsym(RTLD_NEXT, "send");
	real_sendmsg = (__typeof__(real_sendmsg))dlsym(RTLD_NEXT, "sendmsg");
	real_recv = (__typeof__(real_recv))dlsym(RTLD_NEXT, "recv");
	real_recvmsg = (__typeof__(real_recvmsg))dlsym(RTLD_NEXT, "recvmsg");
	real_read = (__typeof__(real_read))dlsym(RTLD_NEXT, "read");
	on = seed && *seed;
	reads = of_reads && *of_reads;
	state = on ? strtoull(seed, NULL, 10) : reads ? strtoull(of_reads, NULL, 10) : 0;
}

static uint64_t dice(void)
{
	uint64_t z = atomic_fetch_add(&state, 0x9e3779b97f4a7c15u);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* The number of bytes, of LEN, that a call moves; 0: EAGAIN. Small numbers cut headers and trailers. */
static size_t fewer(bool active, size_t len)
{
	uint64_t d = dice();

	if (!active || len == 0 || d % 4 == 0)
		return len;
	if (d % 16 == 1)
		return 0;
	d >>= 8;
	return d % 3 ? 1 + d % len : len - d / 3 % (len < 12 ? len : 12);
}

static bool is_meant(int fd, int flags)
{
	int type = 0, saved = errno;
	socklen_t len = sizeof type;
	bool is = flags & MSG_DONTWAIT && getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &type, &len) == 0 &&
		  type == IPPROTO_TCP;

	errno = saved;
	return is;
}

static ssize_t ends(int fd, bool sends, ssize_t rc)
{
	void (*hook)(int, bool) = short_hook;
	int saved = errno;

	if (hook)
		hook(fd, sends);
	errno = saved;
	return rc;
}

static ssize_t not_now(void)
{
	errno = EAGAIN;
	return -1;
}

API ssize_t read(int fd, void *buf, size_t len)
{
	size_t n = fewer(reads, len);

	return real_read(fd, buf, n || !len ? n : 1);
}

API ssize_t send(int fd, const void *buf, size_t len, int flags)
{
	size_t n;

	if (!is_meant(fd, flags))
		return real_send(fd, buf, len, flags);
	n = flags & MSG_OOB ? len : fewer(on, len);
	return ends(fd, true, n || !len ? real_send(fd, buf, n, flags) : not_now());
}

API ssize_t recv(int fd, void *buf, size_t len, int flags)
{
	ssize_t rc = real_recv(fd, buf, len, flags);

	if (rc > 0 && flags & MSG_PEEK)
		short_peeked += (size_t)rc;
	return is_meant(fd, flags) && !(flags & MSG_PEEK) ? ends(fd, false, rc) : rc;
}

/* The first N bytes of MSG, in CUT. */
static void cut_to(struct msghdr *cut, struct iovec *iov, const struct msghdr *msg, size_t n)
{
	*cut = *msg;
	cut->msg_iov = iov;
	cut->msg_iovlen = 0;
	for (size_t i = 0; n && i < msg->msg_iovlen && i < PIECES; i++) {
		iov[i] = msg->msg_iov[i];
		if (iov[i].iov_len > n)
			iov[i].iov_len = n;
		n -= iov[i].iov_len;
		cut->msg_iovlen++;
	}
}

static size_t all_of(const struct msghdr *msg)
{
	size_t n = 0;

	for (size_t i = 0; i < msg->msg_iovlen; i++)
		n += msg->msg_iov[i].iov_len;
	return n;
}

API ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	struct iovec iov[PIECES];
	struct msghdr cut;
	size_t n;

	if (!is_meant(fd, flags))
		return real_sendmsg(fd, msg, flags);
	n = fewer(on, all_of(msg));
	cut_to(&cut, iov, msg, n);
	return ends(fd, true, n ? real_sendmsg(fd, &cut, flags) : not_now());
}

API ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	ssize_t rc = real_recvmsg(fd, msg, flags);

	return is_meant(fd, flags) ? ends(fd, false, rc) : rc;
}
