/* SPDX-License-Identifier: BSD-2-Clause */
/* The state of descriptors. */
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "sockets_preload/dgram/frame.h"
#include "sockets_preload/dgram/group.h"
#include "sockets_preload/dgram/segments.h"
#include "sockets_preload/shm/regfile.h"
#include "sockets_preload/stream/stream.h"

#define MOST_FDS (1u << 14)
#define FEWEST_FDS (1u << 12)
/* Few programs have more descriptors. Those are in parts of this size, mapped when needed. */
#define PART_FDS (1u << 14)
#define PARTS (1u << 14)

struct diw_real real;
const char *diw_alone = "";
uint32_t diw_mark_dgram = DIW_MARK_FIRST;
_Atomic uint32_t diw_forks;
static _Atomic uint32_t copies;              /* by other calls than fork() and those that execute a program */
struct diw_sock *diw_sock_table;
unsigned diw_sock_max;
static _Atomic int initialised;

static struct diw_sock *_Atomic beyond[PARTS];

static _Atomic unsigned known_end;

unsigned diw_sock_known_end(void)
{
	return atomic_load_explicit(&known_end, memory_order_relaxed);
}

static struct diw_sock *map_table(unsigned n)
{
	return diw_map_unlocked(n * sizeof(struct diw_sock), MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
}

struct diw_sock *diw_sock_beyond(int fd, bool made)
{
	unsigned i = (unsigned)fd / PART_FDS;
	struct diw_sock *part, *other = NULL;

	if (i >= PARTS || !diw_sock_max)
		return NULL;
	part = atomic_load_explicit(&beyond[i], memory_order_acquire);
	if (!part && made && (part = map_table(PART_FDS)) &&
	    !atomic_compare_exchange_strong(&beyond[i], &other, part)) {
		munmap(part, PART_FDS * sizeof *part);
		part = other;
	}
	return part ? part + (unsigned)fd % PART_FDS : NULL;
}

static struct diw_sock *sock_place(int fd)
{
	return (unsigned)fd < diw_sock_max ? &diw_sock_table[fd] : diw_sock_beyond(fd, true);
}

static void set_mark(int fd, uint32_t mark)
{
	unsigned end = atomic_load_explicit(&known_end, memory_order_relaxed);
	struct diw_sock *s = sock_place(fd);

	if (!s)
		return;
	while ((unsigned)fd >= end && !atomic_compare_exchange_weak(&known_end, &end, (unsigned)fd + 1))
		;
	atomic_store_explicit(&s->mark, mark, memory_order_release);
}

/* ---- One descriptor ---- */

int diw_sock_option(int fd, int level, int name)
{
	int value = 0;
	socklen_t len = sizeof value;

	return !diw_is_confined() && getsockopt(fd, level, name, &value, &len) == 0 ? value : 0;
}

uint64_t diw_sock_option64(int fd, int name)
{
	uint64_t value = 0;
	socklen_t len = sizeof value;

	return !diw_is_confined() && getsockopt(fd, SOL_SOCKET, name, &value, &len) == 0 ? value : 0;
}

int diw_sock_open(int domain, int type, int protocol, uint64_t netns)
{
	int fd = real.socket(domain, type | SOCK_CLOEXEC, protocol);

	if (fd >= 0 && diw_sock_option64(fd, SO_NETNS_COOKIE) != netns) {
		real.close(fd);
		fd = -1;
	}
	return fd;
}

/* Whether a filter sees the whole datagram. A filter that cannot be read counts as one that does. */
static bool is_filtered(int fd)
{
	socklen_t len = 0;

	return getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, NULL, &len) < 0 || len > 0;
}

static bool is_bound_to_device(int fd)
{
	char name[64];
	socklen_t len = sizeof name;

	return getsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, name, &len) == 0 && len > 0;
}

static bool has_timeout(int fd)
{
	struct timeval tv = { 0 };
	socklen_t len = sizeof tv;

	return getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, &len) == 0 && (tv.tv_sec || tv.tv_usec);
}

static bool is_unfragmented(int pmtu)
{
	return pmtu == IP_PMTUDISC_DO || pmtu == IP_PMTUDISC_PROBE;
}

bool diw_sock_has_ip_options(int fd)
{
	uint8_t options[40];
	socklen_t len = sizeof options;

	return getsockopt(fd, IPPROTO_IP, IP_OPTIONS, options, &len) == 0 && len > 0;
}

/* Whether the error queue would reveal frames: the refusal of a frame that was too large, although the message has
 * since left; the position of ICMP extensions. */
static bool has_odd_errors(int fd, int family)
{
	if (diw_sock_option(fd, IPPROTO_IP, IP_RECVERR) &&
	    (is_unfragmented(diw_sock_option(fd, IPPROTO_IP, IP_MTU_DISCOVER)) ||
	     diw_sock_has_ip_options(fd) || diw_sock_option(fd, IPPROTO_IP, IP_RECVERR_RFC4884)))
		return true;
	return family == AF_INET6 && diw_sock_option(fd, IPPROTO_IPV6, IPV6_RECVERR) &&
	       (is_unfragmented(diw_sock_option(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER)) ||
		diw_sock_option(fd, IPPROTO_IPV6, IPV6_DONTFRAG) ||
		diw_sock_option(fd, IPPROTO_IPV6, IPV6_RECVERR_RFC4884));
}

/* The value of diw_sock.plain. SIZE: UDP_SEGMENT. */
static uint8_t plain_reason(int fd, int family, uint16_t size)
{
	if (diw_sock_option(fd, IPPROTO_UDP, UDP_CORK) || has_odd_errors(fd, family))
		return DIW_C_sock_plain_option;
	return size || diw_bad_net_on ? IS_CUT : NO_REASON;
}

static bool is_watched(int fd, int family)
{
	return diw_sock_option(fd, SOL_SOCKET, SO_TIMESTAMPING) || diw_sock_option(fd, IPPROTO_IP, IP_RECVERR) ||
	       (family == AF_INET6 && diw_sock_option(fd, IPPROTO_IPV6, IPV6_RECVERR));
}

static bool peeks_at_offset(int fd)
{
	int peek_off = -1;
	socklen_t len = sizeof peek_off;

	return getsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &peek_off, &len) == 0 && peek_off >= 0;
}

/* Whether something other than the receive calls would see frames. */
static bool must_be_quiet(int fd)
{
	return diw_sock_option(fd, IPPROTO_UDP, UDP_ENCAP) || is_filtered(fd) || is_bound_to_device(fd);
}

static bool sock_describe(int fd, struct diw_sock *s)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof ss;

	s->family = (uint8_t)diw_sock_option(fd, SOL_SOCKET, SO_DOMAIN);
	s->cookie = diw_sock_option64(fd, SO_COOKIE);
	s->netns = diw_sock_option64(fd, SO_NETNS_COOKIE);
	if (!s->cookie || !s->netns)
		return false;
	diw_reg_keys(s);
	s->segment = (uint16_t)diw_sock_option(fd, IPPROTO_UDP, UDP_SEGMENT);
	s->gro = diw_bad_net_on || diw_sock_option(fd, IPPROTO_UDP, UDP_GRO);
	s->plain = plain_reason(fd, s->family, s->segment);
	s->watched = is_watched(fd, s->family);
	s->timed = has_timeout(fd);
	s->broadcasts = diw_sock_option(fd, SOL_SOCKET, SO_BROADCAST);
	s->v6only = s->family == AF_INET6 && diw_sock_option(fd, IPPROTO_IPV6, IPV6_V6ONLY);
	if (getsockname(fd, (struct sockaddr *)&ss, &len) < 0)
		return false;
	diw_addr_from_sockaddr(&s->local, (struct sockaddr *)&ss);
	s->keys.port = s->local.port;
	len = sizeof ss;
	s->connected = getpeername(fd, (struct sockaddr *)&ss, &len) == 0;
	if (s->connected) {
		diw_addr_from_sockaddr(&s->peer, (struct sockaddr *)&ss);
		memcpy(&s->peer_name, &ss, sizeof s->peer_name);
	}
	s->peeks_at = peeks_at_offset(fd);
	s->quiet = s->peeks_at || atomic_load(&diw_has_ring) || must_be_quiet(fd) ||
		   diw_conf_excludes(s->local.port, s->peer.port);
	return true;
}

/* Returns IPPROTO_UDP, IPPROTO_TCP; 0: another file; -1: no descriptor. */
static int fd_protocol(int fd)
{
	int type = 0, domain, protocol;
	socklen_t len = sizeof type;

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0)
		return errno == EBADF ? -1 : 0;
	domain = diw_sock_option(fd, SOL_SOCKET, SO_DOMAIN);
	if ((type != SOCK_DGRAM && type != SOCK_STREAM) || (domain != AF_INET && domain != AF_INET6))
		return 0;
	protocol = diw_sock_option(fd, SOL_SOCKET, SO_PROTOCOL);
	return protocol == (type == SOCK_DGRAM ? IPPROTO_UDP : IPPROTO_TCP) ? protocol : 0;
}

/* Stores the answer unless another thread, or the interrupted code, is classifying the same descriptor. */
static struct diw_sock *sock_keep(int fd, const struct diw_sock *s, uint32_t mark)
{
	struct diw_sock *to = sock_place(fd);
	uint32_t before = to ? atomic_load_explicit(&to->mark, memory_order_relaxed) : (uint32_t)DIW_MARK_BUSY;

	if (before == DIW_MARK_BUSY ||
	    !atomic_compare_exchange_strong(&to->mark, &before, (uint32_t)DIW_MARK_BUSY))
		return NULL;
	memcpy((char *)to + sizeof to->mark, (const char *)s + sizeof s->mark, sizeof *s - sizeof s->mark);
	set_mark(fd, DIW_MARK_BUSY);
	before = DIW_MARK_BUSY;
	return atomic_compare_exchange_strong(&to->mark, &before, mark) ? to : NULL;
}

bool diw_sock_keep(int fd, const struct diw_sock *s, uint32_t mark)
{
	diw_bad_net_open(true);
	return sock_keep(fd, s, mark);
}

static struct diw_sock *sock_look(int fd, struct diw_sock *tmp)
{
	struct diw_sock *at = diw_sock_at(fd);
	bool is_new = at && atomic_load_explicit(&at->mark, memory_order_relaxed) == diw_mark_new;
	int kind = diw_stream_new(fd) ? IPPROTO_TCP : fd_protocol(fd);
	struct diw_sock *kept;

	if (kind < 0)
		return NULL;
	memset(tmp, 0, sizeof *tmp);
	if (kind == IPPROTO_TCP && diw_conf.streams) {
		uint32_t mark = diw_stream_look(fd, tmp);

		if (mark == DIW_MARK_FOREIGN)
			set_mark(fd, mark);
		else if (mark != DIW_MARK_UNKNOWN)
			sock_keep(fd, tmp, mark);
		return NULL;
	}
	if (kind != IPPROTO_UDP || !diw_reg_open() || !sock_describe(fd, tmp)) {
		set_mark(fd, DIW_MARK_FOREIGN);
		return NULL;
	}
	diw_sock_stat_open();
	diw_bad_net_open(false);
	tmp->shared = !is_new;
	tmp->way = is_new ? at->way : DIW_WAY_UNKNOWN;
	tmp->born = atomic_load_explicit(&diw_forks, memory_order_relaxed);
	kept = sock_keep(fd, tmp, diw_mark_dgram);
	return kept ? kept : tmp;
}

/* Threads have separate descriptor tables. So nothing is stored by number, since it would hold for one thread only. */
static bool fds_differ;

void diw_sock_part(void)
{
	if (!diw_sock_max || diw_conf.streams)
		return;
	diw_lend_to_ring();
	fds_differ = true;
	diw_sock_max = 0;
}

static struct diw_sock *sock_ask(int fd, struct diw_sock *tmp)
{
	memset(tmp, 0, sizeof *tmp);
	tmp->shared = true;
	tmp->way = DIW_WAY_UNKNOWN;
	return fd_protocol(fd) == IPPROTO_UDP && sock_describe(fd, tmp) ? tmp : NULL;
}

struct diw_sock *diw_sock_look(int fd, struct diw_sock *tmp)
{
	int saved = errno;
	struct diw_sock *s;
	uint32_t mark = 0;

	diw_preload_init();
	if (fds_differ && fd >= 0 && !diw_is_confined()) {
		s = sock_ask(fd, tmp);
		errno = saved;
		return s;
	}
	if (fd < 0 || !diw_sock_max)
		return NULL;
	s = diw_sock_at(fd);
	if (s)
		mark = atomic_load_explicit(&s->mark, memory_order_acquire);
	if (mark >= DIW_MARK_FOREIGN && mark < DIW_MARK_FIRST)
		return NULL;
	if (mark != diw_mark_dgram)
		s = diw_is_confined() ? NULL : sock_look(fd, tmp);
	errno = saved;
	return s;
}

struct diw_sock *diw_sock_marked(int fd, uint32_t mark)
{
	struct diw_sock *s = diw_sock_at(fd);
	uint32_t is;

	if (!s)
		return NULL;
	is = atomic_load_explicit(&s->mark, memory_order_acquire);
	if (mark == DIW_MARK_UNKNOWN)
		return is == diw_mark_dgram || is == DIW_MARK_STREAM || is == DIW_MARK_LISTENER ? s : NULL;
	return is == mark ? s : NULL;
}

struct diw_sock *diw_sock_known(int fd)
{
	return diw_sock_marked(fd, diw_mark_dgram);
}

void diw_sock_forget(int fd)
{
	struct diw_sock *s = diw_sock_at(fd);

	if (s && atomic_load_explicit(&s->mark, memory_order_relaxed) != DIW_MARK_UNKNOWN)
		atomic_store_explicit(&s->mark, DIW_MARK_UNKNOWN, memory_order_release);
}

static bool makes_tcp(int domain, int type, int protocol)
{
	return (domain == AF_INET || domain == AF_INET6) && (type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) == SOCK_STREAM &&
	       (protocol == 0 || protocol == IPPROTO_TCP);
}

void diw_sock_is_new(int fd, int domain, int type, int protocol)
{
	struct diw_sock *s = sock_place(fd);

	if (s) {
		s->way = DIW_WAY_ASKED;
		s->stream = diw_conf.streams && makes_tcp(domain, type, protocol) ? DIW_SOCK_STREAM : 0;
		s->family = (uint8_t)domain;
		s->bound = false;
		s->awaited = false;
		s->copies = diw_fd_copies();
	}
	set_mark(fd, diw_mark_new);
}

void diw_sock_ask_again(int fd)
{
	struct diw_sock *s = diw_sock_known(fd);

	if (s)
		set_mark(fd, s->shared ? (uint32_t)DIW_MARK_UNKNOWN : diw_mark_new);
}

void diw_sock_forget_range(unsigned first, unsigned last)
{
	unsigned end = atomic_load_explicit(&known_end, memory_order_relaxed);

	for (unsigned fd = first; fd < end && fd <= last; fd++) {
		struct diw_sock *s = diw_sock_marked((int)fd, DIW_MARK_UNKNOWN);

		if (s)
			diw_stream_leave(s);
		if (diw_sock_at((int)fd))
			diw_sock_forget((int)fd);
		else
			fd |= PART_FDS - 1;
	}
}

/* ---- The process ---- */

ssize_t diw_failed(long rc)
{
	errno = (int)-rc;
	return -1;
}

/* Whether the library of VARIABLE has all functions that are called in its place (real.h). */
static bool has_all(const void *variable)
{
	const void *const passed_by[] = {
		(const void *)real.send, (const void *)real.sendto, (const void *)real.sendmsg,
		(const void *)real.recv, (const void *)real.recvfrom, (const void *)real.recvmsg,
	};
	Dl_info of_f, of_v;

	if (!dladdr(variable, &of_v))
		return false;
	for (size_t i = 0; i < sizeof passed_by / sizeof *passed_by; i++)
		if (!dladdr(passed_by[i], &of_f) || of_f.dli_fbase != of_v.dli_fbase)
			return false;
	return true;
}

static void real_resolve(void)
{
#define X(name) real.name = (__typeof__(real.name))dlsym(RTLD_NEXT, #name);
	DIW_REALS(X)
#undef X
	/* the library's own variable: pthread_cancel() does not change a program's copy */
	if (has_all(real.__libc_single_threaded))
		diw_alone = real.__libc_single_threaded;
}

uint32_t diw_fd_copies(void)
{
	return diw_reg_forks() + atomic_load_explicit(&copies, memory_order_relaxed);
}

void diw_fd_copied(void)
{
	atomic_fetch_add_explicit(&copies, 1, memory_order_relaxed);
}

static void in_parent(void)
{
	atomic_fetch_add_explicit(&diw_forks, 1, memory_order_relaxed);
}

static void fd_in_child(void)
{
	atomic_fetch_add_explicit(&diw_forks, 1, memory_order_relaxed);
	diw_mark_dgram += 2;
	diw_reg_forked();
	diw_group_forked();
	diw_sock_stat_forked();
	diw_bad_net_forked();
	diw_stream_forked();
	diw_aio_forked();
	diw_ask_forked();
}

static void make_table(void)
{
	struct rlimit l;
	unsigned n = MOST_FDS;

	if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_max < n)
		n = (unsigned)l.rlim_max;
	for (; n >= FEWEST_FDS / 16 && !diw_sock_table; n = diw_sock_table ? n : n / 4)
		diw_sock_table = map_table(n);
	diw_sock_max = diw_sock_table ? n : 0;
}

/* Called by the constructor, or by an earlier call: of another library's constructor, or of the program's malloc()
 * while it holds its lock. There is only one thread at that time. The function allocates nothing. */
void diw_preload_init(void)
{
	if (DIW_LIKELY(atomic_load_explicit(&initialised, memory_order_acquire)))
		return;
	real_resolve();
	atomic_store_explicit(&initialised, 1, memory_order_release);
}

/* Before this, there is no table, and calls go to the C library. */
__attribute__((constructor(101))) static void preload_begin(void)
{
	diw_preload_init();
	diw_confine_inherited();
	diw_conf_init();
	if (diw_conf.off || diw_is_confined())
		return;
	diw_bad_net_init();
	diw_frame_init();
	if (diw_isal_open()) {
		pthread_atfork(NULL, in_parent, fd_in_child);
		make_table();
	}
}
