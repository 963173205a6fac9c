/* SPDX-License-Identifier: BSD-2-Clause */
/* diw: finds and runs the command, or prints its help. */
#include <getopt.h>
#include <locale.h>
#include <string.h>

#include "base/ident.h"
#include "tools/tool.h"

static const struct tool_cmd *const commands[] = {
	&cmd_info, &cmd_ping, &cmd_listen, &cmd_cp, &cmd_recv, &cmd_perf, &cmd_stat, &cmd_dump, &cmd_run,
	&cmd_sockets,
};

static int help(FILE *to, int status)
{
	fputs("usage: diw COMMAND [OPTION]...\n"
	      "Shows, tries and measures a software RNIC: RDMA over UDP (datagram-iWARP) and TCP (iWARP).\n\n", to);
	for (size_t i = 0; i < TOOL_COUNT(commands); i++)
		fprintf(to, "  diw %-7s %s\n", commands[i]->name, commands[i]->brief);
	fputs("\n'diw COMMAND --help' lists a command's options; diw(1) describes all of them.\n"
	      "Exit status: 0 success, 1 failed or incomplete, 2 usage.\n", to);
	return status;
}

static int run_subcommand(const struct tool_cmd *cmd, int argc, char **argv)
{
	tool_cmd = cmd;
	for (int i = 1; i < argc && strcmp(argv[i], "--") && (!cmd->foreign_args || argv[i][0] == '-'); i++)
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
			return tool_help(cmd, stdout);
	opterr = 0;
	tool_catch_signals();
	return cmd->run(argc, argv);
}

static int run_named(int argc, char **argv)
{
	if (argc < 2)
		return help(stderr, TOOL_USAGE);
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
		return help(stdout, TOOL_OK);
	if (!strcmp(argv[1], "--version")) {
		puts("diw " DIW_VERSION);
		return TOOL_OK;
	}
	for (size_t i = 0; i < TOOL_COUNT(commands); i++)
		if (!strcmp(argv[1], commands[i]->name))
			return run_subcommand(commands[i], argc - 1, argv + 1);
	return tool_usage("'%s' is not a command", argv[1]);
}

int main(int argc, char **argv)
{
	int status;

	setlocale(LC_CTYPE, "");
	status = run_named(argc, argv);
	/* Output that could not be written is a failure: a full disk behind `> file`. */
	if ((fflush(stdout) || ferror(stdout)) && status == TOOL_OK)
		return tool_failed("standard output: not all of it could be written");
	return status;
}
