/* SPDX-License-Identifier: BSD-2-Clause */
/* diw sockets: the interposed sockets that can be sent frames. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/sockreg.h"
#include "tools/tool.h"

struct list { struct diw_sock_entry *e; size_t n; };

static const char *mode(const struct diw_sock_entry *e)
{
	if (e->flags & DIW_SOCK_STREAM)
		return e->remote.port ? "connected" : "listens";
	return e->flags & DIW_SOCK_WRITE_RECORD ? "write-record" : "sendrecv";
}

static int by_place(const void *a, const void *b)
{
	const struct diw_sock_entry *x = a, *y = b;

	if (x->local.port != y->local.port)
		return x->local.port < y->local.port ? -1 : 1;
	return memcmp(x->local.ip, y->local.ip, sizeof x->local.ip);
}

static bool read_all(const struct diw_sockreg *reg, struct list *list)
{
	list->n = 0;
	list->e = calloc(DIW_SOCKREG_ENTRIES, sizeof *list->e);
	if (!list->e)
		return false;
	for (uint32_t i = 0; i < DIW_SOCKREG_ENTRIES; i++)
		list->n += diw_sock_read(reg, &reg->entry[i], &list->e[list->n]);
	qsort(list->e, list->n, sizeof *list->e, by_place);
	return true;
}

/* A program's name may hold anything. */
static void clean(char *s, size_t size)
{
	s[size - 1] = '\0';
	for (; *s; s++)
		if (*s < 0x20 || *s > 0x7e)
			*s = '?';
}

static void print_json(const struct diw_sock_entry *e)
{
	char buf[DIW_ADDR_STRLEN];
	cJSON *o = cJSON_CreateObject();

	cJSON_AddNumberToObject(o, "pid", e->pid);
	cJSON_AddStringToObject(o, "program", e->program);
	cJSON_AddStringToObject(o, "local", diw_addr_str(&e->local, buf));
	if (e->remote.port)
		cJSON_AddStringToObject(o, "peer", diw_addr_str(&e->remote, buf));
	cJSON_AddStringToObject(o, "mode", mode(e));
	cJSON_AddBoolToObject(o, "crc", !(e->flags & DIW_SOCK_NO_CRC));
	json_add_count(o, "cookie", e->cookie);
	json_print(o);
}

static void print(const struct diw_sock_entry *e)
{
	char local[DIW_ADDR_STRLEN], remote[DIW_ADDR_STRLEN] = "";
	const char *between = "";

	diw_addr_str(&e->local, local);
	if (e->remote.port)
		diw_addr_str(&e->remote, remote);
	if (*remote)
		between = e->flags & DIW_SOCK_STREAM ? " to " : " from ";
	printf("%7u  %-15s  %-12s  %-8s  %s%s%s\n", e->pid, e->program, mode(e),
	       e->flags & DIW_SOCK_NO_CRC ? "optional" : "always", local, between, remote);
}

static int show(bool json)
{
	char path[PATH_MAX];
	const char *why;
	struct diw_sockreg *reg = diw_sockreg_open(false, path, sizeof path, &why);
	struct list list = { 0 };

	if (!reg && why)
		return tool_failed("%s: %s", path, why);
	if (reg && !read_all(reg, &list))
		return tool_failed("out of memory");
	if (!list.n)
		return tool_failed("no interposed socket of this user receives");
	if (!json)
		printf("%7s  %-15s  %-12s  %-8s  %s\n", "PID", "PROGRAM", "MODE", "CRC", "ADDRESS");
	for (size_t i = 0; i < list.n; i++) {
		clean(list.e[i].program, sizeof list.e[i].program);
		(json ? print_json : print)(&list.e[i]);
	}
	free(list.e);
	return TOOL_OK;
}

static int sockets(int argc, char **argv)
{
	static const struct option opts[] = { { "json", no_argument, NULL, 'j' }, { 0 } };
	bool json = false;
	int opt;

	while ((opt = getopt_long(argc, argv, "", opts, NULL)) != -1) {
		if (opt == '?')
			return tool_bad_option(argv);
		json = true;
	}
	if (optind < argc)
		return tool_usage("'%s' is one argument too many", argv[optind]);
	return show(json);
}

const struct tool_cmd cmd_sockets = {
	.name = "sockets", .run = sockets,
	.args = "[--json]",
	.brief = "Lists the sockets of 'diw run --sockets' that others may send frames to",
	.help = "  --json   one object a socket\n"
		"They are those of one's own processes on this host: UDP sockets that have received by the\n"
		"interposer, TCP sockets that listen, and such as have connected to those.\n",
};
