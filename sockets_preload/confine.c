/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs that restrict their system calls by seccomp. The kernel kills such a program for a call that its filter does
 * not allow: sshd would be killed for a sendto() in place of a write(). So before a filter is installed, it is
 * evaluated here, as the kernel will evaluate it, to find out which calls it allows.
 */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "sockets_preload/dgram/bad_net.h"
#include "sockets_preload/stream/stream.h"

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#else
#define ARCH 0u                          /* not an architecture: every filter refuses it */
#endif

#define FEWEST 1024                      /* the least number of descriptors that are checked */
#define FD 3                             /* an arbitrary descriptor */

unsigned diw_denied;

/* ---- The filter ---- */

struct machine { uint32_t a, x, mem[BPF_MEMWORDS]; };

static uint32_t bpf_compute(uint32_t a, unsigned op, uint32_t b)
{
	switch (op) {
	case BPF_ADD: return a + b;
	case BPF_SUB: return a - b;
	case BPF_MUL: return a * b;
	case BPF_DIV: return b ? a / b : 0;
	case BPF_OR: return a | b;
	case BPF_AND: return a & b;
	case BPF_XOR: return a ^ b;
	case BPF_LSH: return b < 32 ? a << b : 0;
	case BPF_RSH: return b < 32 ? a >> b : 0;
	default: return -a;                  /* BPF_NEG */
	}
}

static bool bpf_compare(uint32_t a, unsigned op, uint32_t b)
{
	switch (op) {
	case BPF_JEQ: return a == b;
	case BPF_JGT: return a > b;
	case BPF_JGE: return a >= b;
	default: return a & b;               /* BPF_JSET */
	}
}

static uint32_t bpf_load(const struct machine *m, const struct sock_filter *f, const struct seccomp_data *d)
{
	uint32_t word = 0;

	switch (BPF_MODE(f->code)) {
	case BPF_ABS:
		if (f->k <= sizeof *d - sizeof word)
			memcpy(&word, (const char *)d + f->k, sizeof word);
		return word;
	case BPF_MEM:
		return m->mem[f->k % BPF_MEMWORDS];
	case BPF_LEN:
		return sizeof *d;
	default:
		return f->k;                 /* BPF_IMM */
	}
}

static void machine_step(struct machine *m, const struct sock_filter *f, const struct seccomp_data *d)
{
	switch (BPF_CLASS(f->code)) {
	case BPF_LD:
		m->a = bpf_load(m, f, d);
		break;
	case BPF_LDX:
		m->x = bpf_load(m, f, d);
		break;
	case BPF_ST:
		m->mem[f->k % BPF_MEMWORDS] = m->a;
		break;
	case BPF_STX:
		m->mem[f->k % BPF_MEMWORDS] = m->x;
		break;
	case BPF_ALU:
		m->a = bpf_compute(m->a, BPF_OP(f->code), BPF_SRC(f->code) == BPF_X ? m->x : f->k);
		break;
	default:
		if (BPF_MISCOP(f->code) == BPF_TAX)
			m->x = m->a;
		else
			m->a = m->x;
	}
}

/* The filter's verdict on a call. For a filter that the kernel will refuse, the verdict is of no importance. */
static uint32_t filter_verdict(const struct sock_fprog *prog, const struct seccomp_data *d)
{
	struct machine m = { 0 };

	for (size_t i = 0; i < prog->len; i++) {
		const struct sock_filter *f = &prog->filter[i];

		if (BPF_CLASS(f->code) == BPF_RET)
			return BPF_RVAL(f->code) == BPF_A ? m.a : f->k;
		if (BPF_CLASS(f->code) != BPF_JMP)
			machine_step(&m, f, d);
		else if (BPF_OP(f->code) == BPF_JA)
			i += f->k;
		else
			i += bpf_compare(m.a, BPF_OP(f->code), BPF_SRC(f->code) == BPF_X ? m.x : f->k) ? f->jt : f->jf;
	}
	return SECCOMP_RET_KILL_PROCESS;
}

/* ---- The calls that are checked ---- */

static const struct { int number; uint64_t arg[3]; unsigned denied; } calls[] = {
	{ SYS_socket, { AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG }, DIW_DENIED_ASKING },
	{ SYS_socket, { AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE }, DIW_DENIED_ASKING },
	{ SYS_socket, { AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0 }, DIW_DENIED_ASKING },
	{ SYS_socket, { AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0 }, DIW_DENIED_ASKING },
	{ SYS_connect, { FD }, DIW_DENIED_ASKING },
	{ SYS_close, { FD }, DIW_DENIED_ASKING },
	{ SYS_getsockopt, { FD, SOL_SOCKET, SO_TYPE }, DIW_DENIED_SOCKETS },
	{ SYS_getsockopt, { FD, SOL_SOCKET, SO_COOKIE }, DIW_DENIED_SOCKETS },
	{ SYS_getsockopt, { FD, SOL_SOCKET, SO_NETNS_COOKIE }, DIW_DENIED_SOCKETS },
	{ SYS_getsockopt, { FD, SOL_SOCKET, SO_MEMINFO }, DIW_DENIED_SOCKETS },
	{ SYS_setsockopt, { FD, SOL_SOCKET, SO_RCVLOWAT }, DIW_DENIED_SOCKETS },
	{ SYS_getsockname, { FD }, DIW_DENIED_SOCKETS },
	{ SYS_getpeername, { FD }, DIW_DENIED_SOCKETS },
	{ SYS_sendto, { FD }, DIW_DENIED_SOCKETS },
	{ SYS_sendmsg, { FD }, DIW_DENIED_SOCKETS },
	{ SYS_recvfrom, { FD }, DIW_DENIED_SOCKETS },
	{ SYS_recvmsg, { FD }, DIW_DENIED_SOCKETS },
	{ SYS_fcntl, { FD, F_GETFL }, DIW_DENIED_SOCKETS },
	{ SYS_ppoll, { 0 }, DIW_DENIED_SOCKETS },
	{ SYS_clock_nanosleep, { 0 }, DIW_DENIED_SOCKETS },
	{ SYS_sched_yield, { 0 }, DIW_DENIED_SOCKETS },
	{ SYS_madvise, { 0, 0, MADV_POPULATE_WRITE }, DIW_DENIED_SOCKETS },
	{ SYS_tkill, { 0 }, DIW_DENIED_SOCKETS },
	{ SYS_rt_sigaction, { 0 }, DIW_DENIED_SOCKETS },
	{ SYS_getsockopt, { FD, SOL_SOCKET, SO_GET_FILTER }, DIW_DENIED_SOCKETS },
	{ SYS_getsockopt, { FD, IPPROTO_IP, IP_RECVERR }, DIW_DENIED_SOCKETS },
	{ SYS_openat, { 0, 0, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC }, DIW_DENIED_OPENING },
	{ SYS_flock, { FD, LOCK_EX | LOCK_NB }, DIW_DENIED_OPENING },
	{ SYS_fallocate, { FD }, DIW_DENIED_OPENING },
	{ SYS_ftruncate, { FD }, DIW_DENIED_OPENING },
	{ SYS_mmap, { 0, 1, PROT_NONE }, DIW_DENIED_OPENING },
	{ SYS_mprotect, { 0, 1, PROT_READ | PROT_WRITE }, DIW_DENIED_OPENING },
	{ SYS_munlock, { 0 }, DIW_DENIED_OPENING },
	{ SYS_mremap, { 0 }, DIW_DENIED_OPENING },
	{ SYS_prlimit64, { 0, RLIMIT_FSIZE }, DIW_DENIED_OPENING },
	{ SYS_fcntl, { FD, F_DUPFD_CLOEXEC }, DIW_DENIED_OPENING },
	{ SYS_fcntl, { FD, F_SETLK }, DIW_DENIED_OPENING },
#ifdef SYS_mkdir
	{ SYS_mkdir, { 0 }, DIW_DENIED_OPENING },
#else
	{ SYS_mkdirat, { 0 }, DIW_DENIED_OPENING },
#endif
#ifdef SYS_unlink
	{ SYS_unlink, { 0 }, DIW_DENIED_FILES },
#else
	{ SYS_unlinkat, { 0 }, DIW_DENIED_FILES },
#endif
};

static unsigned denied_by(const struct sock_fprog *prog)
{
	unsigned denied = 0;

	for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
		struct seccomp_data d = { .nr = calls[i].number, .arch = ARCH };
		uint32_t does;

		memcpy(d.args, calls[i].arg, sizeof calls[i].arg);
		does = filter_verdict(prog, &d) & SECCOMP_RET_ACTION_FULL;
		if (does != SECCOMP_RET_ALLOW && does != SECCOMP_RET_LOG)
			denied |= calls[i].denied;
	}
	return denied;
}

/* ---- A filter that was installed before this program ---- */

/* The number after NAME in a status file of /proc; -1: none. */
static int status_number(const char *path, const char *name)
{
	char text[4096];
	const char *at;
	ssize_t n = 0, rc = 1;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	while (rc > 0 && n < (ssize_t)sizeof text - 1) {
		rc = real.read(fd, text + n, sizeof text - 1 - (size_t)n);
		n += rc > 0 ? rc : 0;
	}
	real.close(fd);
	text[n] = '\0';
	at = strstr(text, name);
	return at ? atoi(at + strlen(name)) : -1;
}

/* Such a filter cannot be read. It allows the loader to open, read and map files; nothing else is known. A filter that
 * all processes of a container have is an exception: it is made for programs in general. */
void diw_confine_inherited(void)
{
	static const char own[] = "/proc/self/status", first[] = "/proc/1/status", mode[] = "\nSeccomp:",
		filters[] = "\nSeccomp_filters:";

	if (status_number(own, mode) <= 0 || (status_number(first, mode) == SECCOMP_MODE_FILTER &&
					      status_number(own, filters) == status_number(first, filters)))
		return;
	diw_denied = DIW_DENIED_SOCKETS | DIW_DENIED_FILES;
	diw_stream_fix();
}

/* ---- Preparations: state that cannot be found out under the filter ---- */

static void prepare_stream(int fd, struct diw_sock *s)
{
	int fl = real.fcntl(fd, F_GETFL), bytes;

	s->nonblocking = fl >= 0 && fl & O_NONBLOCK;
	diw_stream_next(fd, &bytes);         /* if anything has come, this finds out what it begins with */
	if (!diw_stream_is(s->slot, s->cookie))
		return;
	if (!s->slot->rx.part)               /* the place for incomplete FPDUs with a CRC: allocating it takes a system
					      * call */
		s->slot->rx.part = diw_stream_hold(s->cookie);
	if (s->slot->rx.low <= 1)
		return;
	real.setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &(int){ 1 }, sizeof(int));
	s->slot->rx.low = 1;
}

/* Frames sent to these sockets are still removed, but a sender would have to ask the kernel. */
static void prepare_datagrams(struct diw_sock *s)
{
	s->plain = DIW_C_sock_plain_option;
	s->quiet = true;
	s->timed = false;
}

/* Under the filter, nothing more can be found out. */
static void confine_prepare(void)
{
	for (int fd = 0; fd < FEWEST || (unsigned)fd < diw_sock_known_end(); fd++) {
		struct diw_sock tmp, *s = diw_sock_get(fd, &tmp);
		struct diw_sock *stream = diw_stream_get(fd), *listener = diw_sock_marked(fd, DIW_MARK_LISTENER);

		if (s)
			prepare_datagrams(s);
		else if (stream)
			prepare_stream(fd, stream);
		else if (listener)
			diw_reg_withdraw(listener);
	}
}

unsigned diw_confine(const struct sock_fprog *prog)
{
	unsigned before = diw_denied, denied = prog && prog->filter ? denied_by(prog) : DIW_DENIED_ASKING;
	int saved = errno;

	diw_bad_net_settle();
	/* only the search for other users' sockets needs further calls */
	diw_conf.own_users = true;
	if (denied & ~before & DIW_DENIED_SOCKETS)
		confine_prepare();
	if (denied & (DIW_DENIED_SOCKETS | DIW_DENIED_OPENING))
		diw_stream_fix();
	diw_denied |= denied | DIW_DENIED_EXECUTED;
	errno = saved;
	return before;
}

/* ---- Streams under a filter ---- */

ssize_t diw_confined_read(int fd, void *buf, size_t n)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int rc = real.ppoll(&p, 1, &(struct timespec){ 0 }, NULL);

	if (rc > 0)
		return real.read(fd, buf, n);
	if (rc == 0)
		errno = EAGAIN;
	return -1;
}

bool diw_confined_wait(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return real.ppoll(&p, 1, NULL, NULL) > 0;
}

static void tell_state(struct diw_sock_stream *st, uint8_t state, enum diw_sock_counter which)
{
	diw_count(which);
	atomic_store(&st->rx.state, state);
}

ssize_t diw_confined_begin(int fd, struct diw_sock_stream *st, const struct iovec *iov, size_t n, size_t *done)
{
	uint8_t hello[DIW_STREAM_HELLO];
	enum diw_hello is = DIW_HELLO_PART;
	size_t room = diw_iov_len(iov, n), got = 0, most = room < sizeof hello ? room : sizeof hello;

	for (; is == DIW_HELLO_PART; most = sizeof hello) {
		ssize_t rc = diw_confined_read(fd, hello + got, most - got);

		if (rc <= 0 && !got)
			return rc;
		if (rc < 0 && (errno == EAGAIN || errno == EINTR)) {
			diw_confined_wait(fd);
			continue;
		}
		if (rc <= 0)                 /* the stream has ended */
			break;
		got += (size_t)rc;
		is = diw_stream_is_hello(st, hello, got, &st->rx.crc);
	}
	if (is == DIW_HELLO_WHOLE) {
		tell_state(st, DIW_STREAM_FRAMED, DIW_C_sock_stream_framed);
	} else if (got > room) {
		tell_state(st, DIW_STREAM_BROKEN, DIW_C_sock_stream_malformed);
	} else {
		*done = diw_iov_fill(iov, n, hello, got);
		atomic_store(&st->rx.state, DIW_STREAM_PLAIN);
	}
	return 1;
}

ssize_t diw_confined_fpdu(int fd, struct diw_sock_stream *st)
{
	struct diw_stream_rx *rx = &st->rx;
	size_t all = rx->left + rx->tail;

	if (!rx->part)
		rx->part = diw_stream_hold(atomic_load(&st->cookie));
	if (!rx->part)
		return 0;
	while (rx->held < all) {
		ssize_t rc = diw_confined_read(fd, diw_stream_part(rx->part) + rx->held, all - rx->held);

		if (rc <= 0)
			return rc;
		rx->held = (uint16_t)(rx->held + rc);
	}
	return 1;
}
