/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets that a program without the interposer gets by execve() and similar calls or by SCM_RIGHTS, and sockets of a
 * program with io_uring, which receives without a call. Such a program must not be sent frames, so its sockets are
 * withdrawn from the registry.
 */
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "sockets_preload/dgram/bad_net.h"
#include "sockets_preload/stream/stream.h"

#define SCRIPTS 4                        /* nested interpreters, the kernel's limit */
#define HEADERS 32u

_Atomic uint32_t diw_lendings;
_Atomic bool diw_has_ring;

/* ---- Whether a program is interposed ---- */

static const char *env_setting(char *const envp[], const char *name)
{
	size_t n = strlen(name);

	for (; envp && *envp; envp++)
		if (!strncmp(*envp, name, n) && (*envp)[n] == '=')
			return *envp + n + 1;
	return NULL;
}

static bool is_asked_for(char *const envp[])
{
	const char *preload = env_setting(envp, "LD_PRELOAD"), *on = env_setting(envp, "DIWARP_SOCKETS");

	return preload && strstr(preload, "libdiwarp_sockets.so") && (!on || strcmp(on, "off") != 0);
}

/* The loader ignores LD_PRELOAD in a program that gains privileges. */
static bool gains_rights(const char *path, const struct stat *st)
{
	return geteuid() != getuid() || getegid() != getgid() || (st->st_mode & S_ISUID && st->st_uid != getuid()) ||
	       (st->st_mode & S_ISGID && st->st_gid != getgid()) ||
	       (getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0);
}

/* Whether the file has this library's class and machine, and a loader. */
static bool is_dynamic(int fd, const ElfW(Ehdr) *e)
{
	ElfW(Phdr) p[HEADERS];
	size_t n = e->e_phnum < HEADERS ? e->e_phnum : HEADERS;
	ssize_t got = pread(fd, p, n * sizeof *p, (off_t)e->e_phoff);

	if (e->e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) || e->e_phentsize != sizeof *p)
		return false;
#if defined(__x86_64__)
	if (e->e_machine != EM_X86_64)
		return false;
#endif
	for (size_t i = 0; got > 0 && i < (size_t)got / sizeof *p; i++)
		if (p[i].p_type == PT_INTERP)
			return true;
	return false;
}

/* The interpreter that the first line of a script names. */
static char *script_interpreter(char *line)
{
	char *path = line + 2 + strspn(line + 2, " \t");

	path[strcspn(path, " \t\n")] = '\0';
	return path;
}

static bool program_loads(const char *path, int scripts)
{
	union { ElfW(Ehdr) elf; char line[256]; } u = { .line = "" };
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : pread(fd, &u, sizeof u - 1, 0);
	bool is = false;

	if (n > 2 && !memcmp(u.line, "#!", 2))
		is = scripts > 0 && program_loads(script_interpreter(u.line), scripts - 1);
	else if (n >= (ssize_t)sizeof u.elf && !memcmp(u.elf.e_ident, ELFMAG, SELFMAG))
		is = is_dynamic(fd, &u.elf);
	if (fd >= 0)
		real.close(fd);
	return is;
}

/* A missing program counts as interposed: it cannot be executed. */
static bool is_interposed(const char *path, char *const envp[])
{
	const char *slash = strrchr(path, '/');
	struct stat st;

	if (stat(path, &st) < 0 && errno == ENOENT)
		return true;
	return !(diw_denied & DIW_DENIED_EXECUTED) && is_asked_for(envp) &&
	       !diw_conf_leaves_out(slash ? slash + 1 : path) && !gains_rights(path, &st) &&
	       program_loads(path, SCRIPTS);
}

/* ---- Lending ---- */

static uint16_t local_port(int fd)
{
	struct sockaddr_storage ss;
	struct diw_addr a = { 0 };
	socklen_t len = sizeof ss;

	if (getsockname(fd, (struct sockaddr *)&ss, &len) == 0 && len >= sizeof(struct sockaddr_in))
		diw_addr_from_sockaddr(&a, (struct sockaddr *)&ss);
	return a.port;
}

/* Lends a connection. If data has come, its format is already decided. */
static void lend_stream(uint64_t cookie)
{
	struct diw_sock_stream *st = diw_stream_open() ? diw_stream_seek(cookie) : NULL;

	if (!st)
		return;
	atomic_store(&st->outside, true);
	diw_reg_hide(cookie, diw_sockreg_port(cookie));
}

static void fd_lend(int fd)
{
	int protocol = diw_sock_option(fd, SOL_SOCKET, SO_PROTOCOL);
	uint64_t cookie;

	if (protocol != IPPROTO_UDP && (protocol != IPPROTO_TCP || !diw_conf.streams))
		return;
	cookie = diw_sock_option64(fd, SO_COOKIE);
	if (cookie && protocol == IPPROTO_TCP)
		lend_stream(cookie);
	else if (cookie)
		diw_reg_lend(cookie, local_port(fd));
}

struct entry { uint64_t ino; int64_t off; unsigned short len; unsigned char type; char name[]; };

/* Lends the descriptors that stay open; with ALL, all descriptors, since they may be duplicated. The caller may be the
 * child of vfork(), so nothing is allocated. */
static void lend_each(bool all)
{
	_Alignas(struct entry) char buf[2048];
	int dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	long n;

	while (dir >= 0 && (n = real.syscall(SYS_getdents64, dir, buf, sizeof buf)) > 0)
		for (long at = 0; at < n; at += ((struct entry *)(void *)(buf + at))->len) {
			const char *name = ((struct entry *)(void *)(buf + at))->name;
			int fd = *name == '.' ? -1 : (int)strtol(name, NULL, 10);

			if (fd >= 0 && (all || !(real.fcntl(fd, F_GETFD) & FD_CLOEXEC)))
				fd_lend(fd);
		}
	if (dir >= 0)
		real.close(dir);
}

void diw_lend(const char *path, char *const envp[], bool all)
{
	int saved = errno;

	diw_preload_init();
	diw_bad_net_flush(0, UINT_MAX);
	if (!diw_sock_max || diw_is_confined() || !path)
		return;
	atomic_fetch_add(&diw_lendings, 1);
	if (!is_interposed(path, envp) && diw_reg_open())
		lend_each(all);
	errno = saved;
}

void diw_lend_passed(int fd)
{
	struct diw_sock *s = diw_sock_known(fd);

	diw_fd_copied();
	if (s)
		diw_reg_withdraw(s);
	s = diw_stream_get(fd);
	if (s && diw_stream_is(s->slot, s->cookie) && atomic_load(&s->slot->rx.state) == DIW_STREAM_START)
		diw_reg_hide(s->cookie, diw_sockreg_port(s->cookie));
}

/* ---- io_uring ---- */

void diw_lend_to_ring(void)
{
	diw_preload_init();
	if (!diw_sock_max || atomic_exchange(&diw_has_ring, true))
		return;
	for (int fd = 0; (unsigned)fd < diw_sock_known_end(); fd++) {
		struct diw_sock *s = diw_sock_known(fd);

		diw_lend_passed(fd);
		if (s)
			s->quiet = true;
	}
}
