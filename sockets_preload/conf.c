/* SPDX-License-Identifier: BSD-2-Clause */
/* Settings of the interposer, from the environment and the configuration file. */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sockets_preload/preload.h"
#include "sockets_preload/shm/conffile.h"
#include "sockets_preload/shm/regfile.h"

struct diw_sock_conf diw_conf;

static bool parse_ports(const char *text, struct diw_peer_rule *r)
{
	unsigned long first, last;
	char *end;

	first = strtoul(text, &end, 10);
	last = *end == '-' ? strtoul(end + 1, &end, 10) : first;
	if (end == text || *end || first < 1 || last > 65535 || last < first)
		return false;
	r->net.port = (uint16_t)first;
	r->last_port = (uint16_t)last;
	return true;
}

static bool parse_ip(char *text, struct diw_peer_rule *r)
{
	char *slash = strchr(text, '/'), *end;
	struct in_addr v4;
	unsigned long bits;

	if (slash)
		*slash = '\0';
	memset(r->net.ip, 0, sizeof r->net.ip);
	if (inet_pton(AF_INET, text, &v4) == 1) {
		r->net.ip[10] = r->net.ip[11] = 0xff;
		memcpy(r->net.ip + 12, &v4, sizeof v4);
		r->bits = 96;
	} else if (inet_pton(AF_INET6, text, r->net.ip) == 1) {
		r->bits = 0;
	} else {
		return false;
	}
	bits = slash ? strtoul(slash + 1, &end, 10) : 128u - r->bits;
	if ((slash && (*end || end == slash + 1)) || bits > 128u - r->bits)
		return false;
	r->bits = (uint16_t)(r->bits + bits);
	return true;
}

/* ADDRESS[/BITS][:PORT[-PORT]], an IPv6 address in brackets if ports follow. */
static bool parse_rule(char *text, struct diw_peer_rule *r)
{
	char *ports = NULL, *close;

	r->net.port = 1;
	r->last_port = 65535;
	if (*text == '[') {
		close = strchr(++text, ']');
		if (!close)
			return false;
		*close = '\0';
		if (close[1] == ':')
			ports = close + 2;
		else if (close[1])
			return false;
	} else {
		close = strchr(text, ':');
		if (close && !strchr(close + 1, ':')) {
			*close = '\0';
			ports = close + 1;
		}
	}
	return (!ports || parse_ports(ports, r)) && parse_ip(text, r);
}

/* Calls TAKE with each word of a list. A word that TAKE refuses, or for which there is no room, is logged. */
static void list_each(const char *name, const char *list, bool (*take)(char *word))
{
	char word[128];

	while (*list) {
		size_t n = strcspn(list, ", \t");

		if (n && n < sizeof word) {
			memcpy(word, list, n);
			word[n] = '\0';
		}
		if (n && (n >= sizeof word || !take(word)))
			diw_log(DIW_LOG_WARN, "%s: '%.*s' is not valid, or the list is too long: ignored", name,
				(int)n, list);
		list += n + (list[n] != '\0');
	}
}

static bool take_peer(char *word)
{
	bool good = diw_conf.nrules < DIW_MAX_RULES && parse_rule(word, &diw_conf.rule[diw_conf.nrules]);

	diw_conf.nrules += good;
	return good;
}

static bool add_ports(char *word, struct diw_port_range *list, unsigned *n)
{
	struct diw_peer_rule r;
	bool good = *n < DIW_MAX_RULES && parse_ports(word, &r);

	if (good)
		list[(*n)++] = (struct diw_port_range){ r.net.port, r.last_port };
	return good;
}

static bool take_ports(char *word)
{
	return add_ports(word, diw_conf.port, &diw_conf.nports);
}

static bool take_plain_ports(char *word)
{
	return add_ports(word, diw_conf.plain_port, &diw_conf.nplain_ports);
}

/* Names of programs; an entry of 64 bytes includes the terminating 0. */
struct names { char name[DIW_MAX_RULES][64]; unsigned n; };
static struct names programs, plain_programs;

static bool add_name(char *word, struct names *list)
{
	bool good = list->n < DIW_MAX_RULES && strlen(word) < sizeof list->name[0];

	if (good)
		strcpy(list->name[list->n++], word);
	return good;
}

static bool take_program(char *word)
{
	return add_name(word, &programs);
}

static bool take_plain_program(char *word)
{
	return add_name(word, &plain_programs);
}

static bool names_include(const struct names *list, const char *name)
{
	for (unsigned i = 0; i < list->n; i++)
		if (!strcmp(list->name[i], name))
			return true;
	return false;
}

bool diw_conf_leaves_out(const char *name)
{
	return (diw_conf.programs && !names_include(&programs, name)) || names_include(&plain_programs, name);
}

/* 32 hexadecimal digits. */
static void take_key(const char *name, const char *value)
{
	char half[17] = "", *end;

	diw_conf.have_key = strlen(value) == 32 && strspn(value, "0123456789abcdefABCDEF") == 32;
	for (int i = 0; i < 2 && diw_conf.have_key; i++) {
		memcpy(half, value + 16 * i, 16);
		diw_conf.key[i] = strtoull(half, &end, 16);
	}
	if (!diw_conf.have_key && *value)
		diw_log(DIW_LOG_WARN, "%s: must be 32 hexadecimal digits", name);
}

/* The index of VALUE in WORDS, or -1. */
static int word_choice(const char *name, const char *value, const char *const *words, int n)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(value, words[i]))
			return i;
	diw_log(DIW_LOG_WARN, "%s: '%s' is not one of its values (diwarp-sockets(7))", name, value);
	return -1;
}

/* A later list replaces an earlier one. */
static void conf_set(const char *name, const char *value)
{
	static const char *const switches[] = { "off", "on" }, *const crcs[] = { "auto", "on", "off" },
		*const users[] = { "own", "all" }, *const modes[] = { "sendrecv", "write-record" };
	int i;

	if (!strcmp(name, "interpose") && (i = word_choice(name, value, switches, 2)) >= 0) {
		diw_conf.off = i == 0;
	} else if (!strcmp(name, "streams") && (i = word_choice(name, value, switches, 2)) >= 0) {
		diw_conf.streams = i == 1;
	} else if (!strcmp(name, "crc") && (i = word_choice(name, value, crcs, 3)) >= 0) {
		diw_conf.crc = (enum diw_crc_policy)i;
	} else if (!strcmp(name, "mode") && (i = word_choice(name, value, modes, 2)) >= 0) {
		diw_conf.mode = (enum diw_sock_mode)i;
	} else if (!strcmp(name, "users") && (i = word_choice(name, value, users, 2)) >= 0) {
		diw_conf.own_users = i == 0;
	} else if (!strcmp(name, "log")) {
		i = diw_log_parse(value);
		if (i >= DIW_LOG_OFF)
			atomic_store(&diw_log_level, i);
		else
			diw_log(DIW_LOG_WARN, "%s: '%s' is not one of its values (diwarp-sockets(7))", name, value);
	} else if (!strcmp(name, "dir")) {
		diw_regfile_place(value);
	} else if (!strcmp(name, "key")) {
		take_key(name, value);
	} else if (!strcmp(name, "peers")) {
		diw_conf.nrules = 0;
		list_each(name, value, take_peer);
	} else if (!strcmp(name, "ports")) {
		diw_conf.nports = 0;
		list_each(name, value, take_ports);
	} else if (!strcmp(name, "exclude_ports")) {
		diw_conf.nplain_ports = 0;
		list_each(name, value, take_plain_ports);
	} else if (!strcmp(name, "programs")) {
		diw_conf.programs = *value != '\0';
		programs.n = 0;
		list_each(name, value, take_program);
	} else if (!strcmp(name, "exclude_programs")) {
		plain_programs.n = 0;
		list_each(name, value, take_plain_program);
	}
}

static const struct { const char *name, *variable; } settings[] = {
	{ "log", "DIWARP_SOCKETS_LOG" }, { "interpose", "DIWARP_SOCKETS" }, { "crc", "DIWARP_SOCKETS_CRC" },
	{ "mode", "DIWARP_SOCKETS_MODE" }, { "users", "DIWARP_SOCKETS_USERS" }, { "streams", "DIWARP_SOCKETS_STREAMS" },
	{ "peers", "DIWARP_SOCKETS_PEERS" }, { "key", "DIWARP_SOCKETS_KEY" }, { "ports", "DIWARP_SOCKETS_PORTS" },
	{ "programs", "DIWARP_SOCKETS_PROGRAMS" }, { "exclude_ports", "DIWARP_SOCKETS_EXCLUDE_PORTS" },
	{ "exclude_programs", "DIWARP_SOCKETS_EXCLUDE_PROGRAMS" },
	{ "dir", NULL },                     /* sockets_preload/shm/regfile.c reads this variable */
};
#define SETTINGS (sizeof settings / sizeof settings[0])

static bool set_from_file(const char *name, const char *value)
{
	for (size_t i = 0; i < SETTINGS; i++)
		if (!strcmp(name, settings[i].name)) {
			conf_set(name, value);
			return true;
		}
	return false;
}

/* True: no line may be written. A program that confines itself may not write files: sshd sets its file size limit to
 * 0. */
static bool log_is_muted(void)
{
	return diw_is_confined();
}

void diw_conf_init(void)
{
	diw_log_begin(&(struct diw_log_how){ .name = "diwarp sockets", .level = DIW_LOG_WARN, .call = real.syscall,
					     .muted = log_is_muted });
	diw_conffile_read(set_from_file);
	for (size_t i = 0; i < SETTINGS; i++) {
		const char *value = settings[i].variable ? getenv(settings[i].variable) : NULL;

		if (value)
			conf_set(settings[i].name, value);
	}
	diw_conf.off = diw_conf.off || diw_conf_leaves_out(program_invocation_short_name);
}

static bool ports_name(const struct diw_port_range *list, unsigned n, uint16_t a, uint16_t b)
{
	for (unsigned i = 0; i < n; i++)
		if ((a >= list[i].first && a <= list[i].last) || (b >= list[i].first && b <= list[i].last))
			return true;
	return false;
}

bool diw_conf_excludes(uint16_t a, uint16_t b)
{
	return ports_name(diw_conf.plain_port, diw_conf.nplain_ports, a, b);
}

bool diw_conf_has_port(uint16_t a, uint16_t b)
{
	return !diw_conf_excludes(a, b) &&
	       (diw_conf.nports == 0 || ports_name(diw_conf.port, diw_conf.nports, a, b));
}

static bool has_prefix(const struct diw_addr *a, const struct diw_addr *net, unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;

	return memcmp(a->ip, net->ip, whole) == 0 &&
	       (!rest || ((a->ip[whole] ^ net->ip[whole]) & (0xff00u >> rest) & 0xff) == 0);
}

bool diw_conf_is_peer(const struct diw_addr *dst)
{
	for (unsigned i = 0; i < diw_conf.nrules; i++) {
		const struct diw_peer_rule *r = &diw_conf.rule[i];

		if (dst->port >= r->net.port && dst->port <= r->last_port && has_prefix(dst, &r->net, r->bits))
			return true;
	}
	return false;
}
