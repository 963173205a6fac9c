/* SPDX-License-Identifier: BSD-2-Clause */
/* diw run --sockets --check: which sockets of a program would be framed, and if none, why. The program is not run. */
#include "tools/run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "sockets_preload/shm/conffile.h"
#include "tools/tool.h"

/* ---- Imports ---- */

struct imports { bool sockets, uring; };

static bool is_socket_call(const char *name)
{
	static const char *const calls[] = { "socket", "accept", "accept4", "recv", "recvfrom", "recvmsg", "send",
					     "sendto", "sendmsg", "connect" };

	for (size_t i = 0; i < TOOL_COUNT(calls); i++)
		if (!strcmp(name, calls[i]))
			return true;
	return false;
}

static void read_symbols(Elf *elf, struct imports *in)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;
	GElf_Sym sym;

	while ((scn = elf_nextscn(elf, scn))) {
		Elf_Data *data = gelf_getshdr(scn, &shdr) && shdr.sh_type == SHT_DYNSYM ? elf_getdata(scn, NULL) : NULL;

		for (int i = 1; data && gelf_getsym(data, i, &sym); i++) {
			const char *name = elf_strptr(elf, shdr.sh_link, sym.st_name);

			if (sym.st_shndx != SHN_UNDEF)
				continue;
			in->sockets |= name && is_socket_call(name);
			in->uring |= name && !strncmp(name, "io_uring_", strlen("io_uring_"));
		}
	}
}

static struct imports imports_of(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	Elf *elf = fd < 0 ? NULL : elf_begin(fd, ELF_C_READ_MMAP, NULL);
	struct imports in = { 0 };

	if (elf && elf_kind(elf) == ELF_K_ELF)
		read_symbols(elf, &in);
	elf_end(elf);
	if (fd >= 0)
		close(fd);
	return in;
}

/* ---- Reasons why the library is not loaded ---- */

/* Ends the first word of TEXT with a null. Returns the text behind it. */
static char *word_end(char *text)
{
	char *end = text + strcspn(text, " \t\n");

	if (*end)
		*end++ = '\0';
	return end + strspn(end, " \t");
}

/* If PATH is a script, PATH becomes its interpreter; after "#!/usr/bin/env PROGRAM" it becomes PROGRAM. */
static bool follow_script(char path[PATH_MAX])
{
	char line[PATH_MAX] = "", *name, *next;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof line - 1);

	if (fd >= 0)
		close(fd);
	if (n < 2 || line[0] != '#' || line[1] != '!')
		return false;
	name = line + 2 + strspn(line + 2, " \t");
	next = word_end(name);
	if (!strcmp(name, "/usr/bin/env") && *next && *next != '-') {
		name = next;
		word_end(name);
	}
	printf("%s: a script of %s\n", path, name);
	if (!run_find(name, path))
		snprintf(path, PATH_MAX, "%s", name);
	return true;
}

static bool has_privileges(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return false;
	return (st.st_mode & S_ISUID && st.st_uid != getuid()) || (st.st_mode & S_ISGID && st.st_gid != getgid()) ||
	       (getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0);
}

static bool has_word(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (; *list; list += strcspn(list, ", \t")) {
		list += strspn(list, ", \t");
		if (strcspn(list, ", \t") == len && !strncmp(list, word, len))
			return true;
	}
	return false;
}

/* ---- Settings of the environment or the configuration file ---- */

static struct setting { const char *name, *variable; char in_file[4096]; } settings[] = {
	{ "interpose", "DIWARP_SOCKETS", "" }, { "programs", "DIWARP_SOCKETS_PROGRAMS", "" },
	{ "exclude_programs", "DIWARP_SOCKETS_EXCLUDE_PROGRAMS", "" }, { "streams", "DIWARP_SOCKETS_STREAMS", "" },
};
enum { INTERPOSE, PROGRAMS, EXCLUDE_PROGRAMS, STREAMS };

static bool set_in_file(const char *name, const char *value)
{
	for (size_t i = 0; i < TOOL_COUNT(settings); i++)
		if (!strcmp(name, settings[i].name))
			snprintf(settings[i].in_file, sizeof settings[i].in_file, "%s", value);
	return true;
}

static const char *setting_of(int which)
{
	const char *env = getenv(settings[which].variable);

	return env ? env : settings[which].in_file;
}

/* The setting that excludes the program NAME; NULL: none. */
static const struct setting *setting_against(const char *name)
{
	if (!strcmp(setting_of(INTERPOSE), "off"))
		return &settings[INTERPOSE];
	if (*setting_of(PROGRAMS) && !has_word(setting_of(PROGRAMS), name))
		return &settings[PROGRAMS];
	return has_word(setting_of(EXCLUDE_PROGRAMS), name) ? &settings[EXCLUDE_PROGRAMS] : NULL;
}

/* ---- The answer ---- */

static int is_plain(const char *path, const char *why)
{
	printf("%s: all is plain: %s\n", path, why);
	return TOOL_FAILED;
}

static int is_excluded(const char *path, const struct setting *by)
{
	printf("%s: all is plain: the %s leaves it out (%s)\n", path,
	       getenv(by->variable) ? "environment" : "configuration file", by->name);
	return TOOL_FAILED;
}

int run_check_sockets(const char *program, const char *option)
{
	char path[PATH_MAX], interp[PATH_MAX], own[PATH_MAX], *slash;
	const struct setting *by;
	struct imports in;
	bool streams;

	elf_version(EV_CURRENT);
	diw_conffile_read(set_in_file);
	snprintf(path, sizeof path, "%s", program);
	for (int i = 0; i < 4 && follow_script(path); i++)
		;
	if (!run_interpreter(path, interp))
		return is_plain(path, "it is linked statically, or no program, and loads no library");
	if (!run_interpreter("/proc/self/exe", own) || strcmp(interp, own) != 0) {
		printf("%s: its loader is %s\n", path, interp);
		return is_plain(path, "the interposer is of another C library or another processor");
	}
	if (has_privileges(path))
		return is_plain(path, "it gets privileges that its user has not, and the loader preloads nothing");
	slash = strrchr(path, '/');
	by = setting_against(slash ? slash + 1 : path);
	if (by)
		return is_excluded(path, by);
	in = imports_of(path);
	if (!in.sockets)
		printf("%s: it imports no call of sockets; a library that it loads may\n", path);
	if (in.uring)
		printf("%s: it imports io_uring; what it receives by that is plain\n", path);
	streams = !strcmp(option ? option : setting_of(STREAMS), option ? "all" : "on");
	printf("%s: %s to another interposed program in frames\n", path, streams ? "UDP and TCP go" : "UDP goes");
	return TOOL_OK;
}
