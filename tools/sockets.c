/* SPDX-License-Identifier: BSD-2-Clause */
/* diw sockets: lists interposed sockets that can be sent frames, and streams that may have frames. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "sockets_preload/shm/conffile.h"
#include "sockets_preload/shm/sockreg.h"
#include "sockets_preload/shm/streamreg.h"
#include "tools/tool.h"

struct row {
	struct diw_sock_entry e;             /* for a stream, made up from its slot */
	const char *mode;
	const char *sends, *receives;        /* of a stream; NULL: not known */
};
struct list { struct row *row; size_t n, room; };

static const char *mode(const struct diw_sock_entry *e)
{
	if (e->flags & DIW_SOCK_STREAM)
		return e->flags & DIW_SOCK_CONNECTION ? "connected" : "listens";
	return e->flags & DIW_SOCK_WRITE_RECORD ? "write-record" : "sendrecv";
}

static const char *state(uint8_t state)
{
	static const char *const names[] = { "undecided", "plain", "framed", "broken" };

	return names[state % 4];
}

static int by_place(const void *a, const void *b)
{
	const struct diw_sock_entry *x = &((const struct row *)a)->e, *y = &((const struct row *)b)->e;

	if (x->local.port != y->local.port)
		return x->local.port < y->local.port ? -1 : 1;
	if (x->remote.port != y->remote.port)
		return x->remote.port < y->remote.port ? -1 : 1;
	return memcmp(x->local.ip, y->local.ip, sizeof x->local.ip);
}

/* Whether the process that used the slot last still has the socket. */
static bool is_used(const struct diw_sock_stream *st, uint64_t cookie)
{
	uint32_t user = atomic_load(&st->user);

	return cookie > 1 && cookie != UINT64_MAX && user && st->local.port && st->remote.port &&
	       (kill((pid_t)user, 0) == 0 || errno == EPERM);
}

static bool row_of_stream(const struct diw_sock_stream *st, struct row *row)
{
	uint64_t cookie = atomic_load(&st->cookie);
	bool crc;

	if (!is_used(st, cookie))
		return false;
	crc = st->crc || st->tx.crc || st->rx.crc;
	*row = (struct row){ .e = { .cookie = cookie, .local = st->local, .remote = st->remote, .pid = st->user,
				    .flags = DIW_SOCK_STREAM | (crc ? 0 : DIW_SOCK_NO_CRC) },
			     .mode = st->initiator ? "connected" : "accepted",
			     .sends = state(st->tx.state), .receives = state(st->rx.state) };
	memcpy(row->e.program, st->program, sizeof row->e.program);
	return atomic_load(&st->cookie) == cookie;
}

/* Whether the stream is shown by its slot. */
static bool has_slot(struct diw_streamreg *streams, uint64_t cookie)
{
	struct diw_sock_stream *st = streams ? diw_streamreg_find(streams, cookie) : NULL;

	return st && is_used(st, cookie);
}

static bool row_add(struct list *list, const struct row *row)
{
	size_t room = list->room ? 2 * list->room : 1024;
	struct row *more = list->n < list->room ? list->row : realloc(list->row, room * sizeof *row);

	if (!more)
		return false;
	if (list->n == list->room)
		list->room = room;
	list->row = more;
	list->row[list->n++] = *row;
	return true;
}

static bool read_sockets(struct diw_sockreg *reg, struct diw_streamreg *streams, struct list *list)
{
	for (uint32_t i = 0; i < DIW_SOCKREG_ENTRIES; i++) {
		struct row row = { 0 };

		if (!diw_sock_read(reg, diw_sockreg_entry(reg, i), &row.e))
			continue;
		row.mode = mode(&row.e);
		if (row.e.flags & DIW_SOCK_CONNECTION && (!row.e.local.port || has_slot(streams, row.e.cookie)))
			continue;
		if (!row_add(list, &row))
			return false;
	}
	return true;
}

static bool read_streams(struct diw_streamreg *streams, struct list *list)
{
	for (uint32_t i = 0; i < DIW_STREAMREG_SLOTS; i++) {
		struct diw_sock_stream *st;
		struct row row;

		if (diw_streamreg_used(streams, i, &st) && row_of_stream(st, &row) && !row_add(list, &row))
			return false;
	}
	return true;
}

static bool read_all(struct diw_sockreg *reg, struct diw_streamreg *streams, struct list *list)
{
	if ((reg && !read_sockets(reg, streams, list)) || (streams && !read_streams(streams, list)))
		return false;
	if (list->n)
		qsort(list->row, list->n, sizeof *list->row, by_place);
	return true;
}

/* A program's name may contain any bytes. */
static void program_clean(char *s, size_t size)
{
	s[size - 1] = '\0';
	for (; *s; s++)
		if (*s < 0x20 || *s > 0x7e)
			*s = '?';
}

static void row_json(const struct row *row)
{
	const struct diw_sock_entry *e = &row->e;
	char buf[DIW_ADDR_STRLEN];
	cJSON *o = cJSON_CreateObject();

	cJSON_AddNumberToObject(o, "pid", e->pid);
	cJSON_AddStringToObject(o, "program", e->program);
	cJSON_AddStringToObject(o, "local", diw_addr_str(&e->local, buf));
	if (e->remote.port)
		cJSON_AddStringToObject(o, "peer", diw_addr_str(&e->remote, buf));
	cJSON_AddStringToObject(o, "mode", row->mode);
	if (row->sends) {
		cJSON_AddStringToObject(o, "sends", row->sends);
		cJSON_AddStringToObject(o, "receives", row->receives);
	}
	cJSON_AddBoolToObject(o, "crc", !(e->flags & DIW_SOCK_NO_CRC));
	json_add_count(o, "cookie", e->cookie);
	json_print(o);
}

static void row_print(const struct row *row)
{
	const struct diw_sock_entry *e = &row->e;
	char local[DIW_ADDR_STRLEN], remote[DIW_ADDR_STRLEN] = "";
	const char *between = "", *crc = e->flags & DIW_SOCK_NO_CRC ? "optional" : "always";

	diw_addr_str(&e->local, local);
	if (e->remote.port)
		diw_addr_str(&e->remote, remote);
	if (*remote)
		between = !strcmp(row->mode, "connected") ? " to " : " from ";
	if (row->sends)
		crc = e->flags & DIW_SOCK_NO_CRC ? "no" : "yes";
	printf("%7u  %-15s  %-12s  %-8s  %s%s%s", e->pid, e->program, row->mode, crc, local, between, remote);
	if (row->sends)
		printf(", sends %s, receives %s", row->sends, row->receives);
	putchar('\n');
}

/* Of the configuration file only the directory of the registries is used. */
static bool place_set(const char *name, const char *value)
{
	if (!strcmp(name, "dir"))
		diw_regfile_place(value);
	return true;
}

static int show_all(bool json)
{
	char path[PATH_MAX];
	const char *why, *why_none;
	struct diw_sockreg *reg;
	struct diw_streamreg *streams;
	struct list list = { 0 };

	diw_conffile_read(place_set);
	reg = diw_sockreg_open(false, path, sizeof path, &why);
	if (!reg && why)
		return tool_failed("%s: %s", path, why);
	streams = diw_streamreg_open(false, path, sizeof path, &why_none);
	if (!read_all(reg, streams, &list))
		return tool_failed("out of memory");
	if (!list.n)
		return tool_failed("no interposed socket of this user receives");
	if (!json)
		printf("%7s  %-15s  %-12s  %-8s  %s\n", "PID", "PROGRAM", "MODE", "CRC", "ADDRESS");
	for (size_t i = 0; i < list.n; i++) {
		program_clean(list.row[i].e.program, sizeof list.row[i].e.program);
		(json ? row_json : row_print)(&list.row[i]);
	}
	free(list.row);
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
	return show_all(json);
}

const struct tool_cmd cmd_sockets = {
	.name = "sockets", .run = sockets,
	.args = "[--json]",
	.brief = "Lists the sockets of 'diw run --sockets' that can be sent frames",
	.help = "  --json   one object a socket\n"
		"Lists sockets of this user's processes on this host: UDP sockets that have received by the\n"
		"interposer, TCP sockets that listen, and both ends of their connections, with the state of\n"
		"each direction (framed or plain).\n",
};
