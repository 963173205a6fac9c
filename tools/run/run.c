/* SPDX-License-Identifier: BSD-2-Clause */
/* diw run: runs a program that uses libibverbs or sockets over diwarp. */
#include "tools/run/run.h"

#include <errno.h>
#include <getopt.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/tool.h"

#define VERBS "libibverbs.so.1"
#define INTERPOSER "libdiwarp_sockets.so"

enum { NOT_RUN = 126, NOT_FOUND = 127 };             /* exit statuses, as of shells and env(1) */

/* Searches beside this program, in the build tree and where it was installed, with any name of the library
 * directory. */
int run_find_libdir(const char *library, char dir[PATH_MAX])
{
	static const char *const places[] = { "lib/diwarp", "lib64/diwarp", "lib/*/diwarp" };
	char exe[PATH_MAX / 2], pattern[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
	char *slash;

	if (n < 0)
		return tool_failed("/proc/self/exe: %s", strerror(errno));
	exe[n] = '\0';
	for (int up = 0; up < 2; up++) {
		slash = strrchr(exe, '/');
		if (slash)
			*slash = '\0';
	}
	for (size_t i = 0; i < TOOL_COUNT(places); i++) {
		glob_t g;

		snprintf(pattern, sizeof pattern, "%s/%s/%s", exe, places[i], library);
		if (glob(pattern, 0, NULL, &g) == 0) {
			snprintf(dir, PATH_MAX, "%s", g.gl_pathv[0]);
			globfree(&g);
			*strrchr(dir, '/') = '\0';
			return TOOL_OK;
		}
	}
	return tool_failed("no %s/lib/diwarp/%s%s", exe, library, strcmp(library, VERBS) ? "" :
			   ": it is built where libibverbs-dev is installed");
}

int run_libdir(char dir[PATH_MAX])
{
	return run_find_libdir(VERBS, dir);
}

bool run_set_list(const char *name, const char *first, const char *second)
{
	size_t len = strlen(first) + strlen(second) + 2;
	char *list = malloc(len);
	bool done;

	if (!list)
		return false;
	snprintf(list, len, "%s%s%s", first, *first && *second ? ":" : "", second);
	done = setenv(name, list, 1) == 0;
	free(list);
	return done;
}

bool run_use_libdir(const char *dir)
{
	const char *old = getenv("LD_LIBRARY_PATH");

	return run_set_list("LD_LIBRARY_PATH", dir, old ? old : "");
}

/* Appended to existing preloads, which so stay before the program's other libraries. */
static int preload(void)
{
	const char *old = getenv("LD_PRELOAD");
	char dir[PATH_MAX], path[PATH_MAX + sizeof INTERPOSER + 1];
	int rc = run_find_libdir(INTERPOSER, dir);

	if (rc != TOOL_OK)
		return rc;
	snprintf(path, sizeof path, "%s/%s", dir, INTERPOSER);
	if (strpbrk(path, ": "))
		return tool_failed("%s: a path in LD_PRELOAD must not contain a blank or a colon", path);
	return run_set_list("LD_PRELOAD", old ? old : "", path) ? TOOL_OK : tool_failed("out of memory");
}

static bool is_regular(const char *path, int mode)
{
	struct stat st;

	return access(path, mode) == 0 && stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static bool is_program(const char *path)
{
	return is_regular(path, X_OK);
}

bool run_find(const char *program, char path[PATH_MAX])
{
	const char *dirs = getenv("PATH"), *end;

	if (strchr(program, '/')) {
		snprintf(path, PATH_MAX, "%s", program);
		return is_program(path);
	}
	for (; dirs; dirs = *end ? end + 1 : NULL) {
		end = strchrnul(dirs, ':');
		snprintf(path, PATH_MAX, "%.*s/%s", end > dirs ? (int)(end - dirs) : 1, end > dirs ? dirs : ".",
			 program);
		if (is_program(path))
			return true;
	}
	return false;
}

static int start_program(char **argv)
{
	execvp(argv[0], argv);
	tool_failed("%s: %s", argv[0], strerror(errno));
	return errno == ENOENT ? NOT_FOUND : NOT_RUN;
}

static int check_program(const char *program, const char *dir)
{
	char path[PATH_MAX];

	/* shared objects need not be executable */
	if (is_regular(program, R_OK) && strchr(program, '/'))
		snprintf(path, sizeof path, "%s", program);
	else if (!run_find(program, path))
		return tool_failed("%s: no such program", program);
	return run_check(path, dir);
}

static int check_sockets(const char *program, const char *streams)
{
	char path[PATH_MAX];

	if (!run_find(program, path))
		return tool_failed("%s: no such program", program);
	return run_check_sockets(path, streams);
}

static int run_command(int argc, char **argv)
{
	static const struct option opts[] = {
		{ "personality", required_argument, NULL, 'p' }, { "check", no_argument, NULL, 'c' },
		{ "sockets", optional_argument, NULL, 's' }, { "dev", no_argument, NULL, 'd' },
		{ "mpi", no_argument, NULL, 'm' }, { 0 },
	};
	const char *personality = NULL, *streams = NULL, *env;
	char dir[PATH_MAX] = "";
	bool only_check = false, sockets = false, dev = false, mpi = false;
	int opt, rc;

	while ((opt = getopt_long(argc, argv, "+", opts, NULL)) != -1) {
		if (opt == '?')
			return tool_bad_option(argv);
		only_check |= opt == 'c';
		if (opt == 's' && optarg && strcmp(optarg, "datagrams") != 0 && strcmp(optarg, "all") != 0)
			return tool_usage("--sockets: '%s' is neither datagrams nor all", optarg);
		sockets |= opt == 's';
		streams = opt == 's' ? optarg : streams;
		dev |= opt == 'd';
		mpi |= opt == 'm';
		personality = opt == 'p' ? optarg : personality;
	}
	if (personality && strcmp(personality, "ca") != 0 && strcmp(personality, "rnic") != 0)
		return tool_usage("--personality: '%s' is neither ca nor rnic", personality);
	if (sockets && (personality || dev))
		return tool_usage("--sockets is for programs that use sockets, %s for programs that use libibverbs",
				  personality ? "--personality" : "--dev");
	if (mpi && (personality || dev || sockets || only_check))
		return tool_usage("--mpi cannot be combined with other options");
	if (only_check && dev)
		return tool_usage("--check cannot be combined with --dev: it runs no program");
	if (optind == argc)
		return tool_usage("PROGRAM is missing");
	if (only_check && optind + 1 < argc)
		return tool_usage("'%s': --check takes a program without arguments", argv[optind + 1]);
	if (sockets && only_check)
		return check_sockets(argv[optind], streams);
	rc = mpi ? run_set_mpi() : sockets ? preload() : run_libdir(dir);
	if (rc != TOOL_OK)
		return rc;
	if (streams && setenv("DIWARP_SOCKETS_STREAMS", strcmp(streams, "all") ? "off" : "on", 1))
		return tool_failed("out of memory");
	if (sockets || mpi)
		return start_program(argv + optind);
	if (!run_use_libdir(dir) || (personality && setenv("DIWARP_PERSONALITY", personality, 1)))
		return tool_failed("out of memory");
	env = getenv("DIWARP_PERSONALITY");
	if (dev && run_make_dev(env && strcmp(env, "rnic") == 0) != TOOL_OK)
		return NOT_RUN;
	return only_check ? check_program(argv[optind], dir) : start_program(argv + optind);
}

const struct tool_cmd cmd_run = {
	.name = "run", .run = run_command, .foreign_args = true,
	.args = "[--personality ca|rnic] [--dev] [--] PROGRAM [ARGUMENT]... |\n"
		"               --sockets[=datagrams|all] [--] PROGRAM [ARGUMENT]... |\n"
		"               --mpi [--] MPIRUN [ARGUMENT]... |\n"
		"               --check PROGRAM|LIBRARY | --sockets[=datagrams|all] --check PROGRAM",
	.brief = "Runs a program that was made for RDMA hardware (libibverbs), or for sockets, over diwarp",
	.help = "  --personality P    type of the devices: ca, a channel adapter with RoCE v2 (default), or\n"
		"                     rnic, an iWARP RNIC\n"
		"  --dev              shows the program /dev/infiniband/diw_eth0 and /sys/class/infiniband/diw_eth0,\n"
		"                     which UCX and MVAPICH2 look for, in a mount namespace of its own\n"
		"  --check            does not run the program. Lists the functions of libibverbs and librdmacm that\n"
		"                     it or its libraries import, and that are missing or always fail. Status 1 if\n"
		"                     one is missing. Takes shared objects, too (a module, a provider)\n"
		"  --sockets          for programs that use sockets: UDP between two such programs goes as messages\n"
		"                     of datagram-iWARP, all else is unchanged, see diwarp-sockets(7)\n"
		"  --sockets=all      TCP between two such programs goes as iWARP, too; =datagrams: it does not,\n"
		"                     whatever DIWARP_SOCKETS_STREAMS says\n"
		"  --sockets --check  does not run the program. Says whether it would be interposed; if not, says why\n"
		"                     and ends with status 1\n"
		"  --mpi              for mpirun or mpiexec of OpenMPI, MPICH or MVAPICH: sets what their ranks need\n"
		"                     to use the libfabric provider diwarp, unless it is set already\n"
		"The devices are the network interfaces, diw_eth0 and so on; GID 0 is the first address.\n"
		"Exit status: the program's; 126 or 127 if it cannot be run.\n",
};
