/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sockets_preload/preload.h"

struct diw_sock_conf diw_conf = { .log = DIW_LOG_WARN };

void diw_log(int level, const char *fmt, ...)
{
	char line[512];
	int saved = errno, n, m;
	va_list ap;

	if (level > diw_conf.log)
		return;
	n = snprintf(line, sizeof line, "diwarp sockets: %s[%d]: ", program_invocation_short_name, (int)getpid());
	va_start(ap, fmt);
	m = vsnprintf(line + n, sizeof line - 1 - (size_t)n, fmt, ap);
	va_end(ap);
	n = n + m < (int)sizeof line - 1 ? n + m : (int)sizeof line - 2;
	line[n++] = '\n';
	(void)!real.write(2, line, (size_t)n);
	errno = saved;
}

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

static void parse_peers(const char *text)
{
	char one[128];

	while (*text) {
		size_t n = strcspn(text, ", ");

		if (n && n < sizeof one && diw_conf.nrules < DIW_MAX_RULES) {
			memcpy(one, text, n);
			one[n] = '\0';
			if (parse_rule(one, &diw_conf.rule[diw_conf.nrules]))
				diw_conf.nrules++;
			else
				diw_log(DIW_LOG_WARN, "DIWARP_SOCKETS_PEERS: '%.*s' is no ADDRESS[/BITS][:PORT[-PORT]]",
					(int)n, text);
		} else if (n) {
			diw_log(DIW_LOG_WARN, "DIWARP_SOCKETS_PEERS: more than %d, or one is too long", DIW_MAX_RULES);
		}
		text += n + (text[n] != '\0');
	}
}

/* The index of the variable's value in WORDS, or DEFAULT. */
static int choice(const char *name, const char *const *words, int n, int standard)
{
	const char *value = getenv(name);

	for (int i = 0; value && i < n; i++)
		if (!strcmp(value, words[i]))
			return i;
	if (value && *value)
		diw_log(DIW_LOG_WARN, "%s=%s is unknown; it is %s", name, value, words[standard]);
	return standard;
}

void diw_conf_init(void)
{
	static const char *const switches[] = { "off", "on" }, *const crcs[] = { "auto", "on", "off" },
		*const levels[] = { "off", "warn", "info", "debug" };
	const char *peers = getenv("DIWARP_SOCKETS_PEERS");

	diw_conf.log = choice("DIWARP_SOCKETS_LOG", levels, 4, DIW_LOG_WARN);
	diw_conf.off = choice("DIWARP_SOCKETS", switches, 2, 1) == 0;
	diw_conf.crc = (enum diw_crc_policy)choice("DIWARP_SOCKETS_CRC", crcs, 3, DIW_CRC_AUTO);
	if (peers)
		parse_peers(peers);
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
