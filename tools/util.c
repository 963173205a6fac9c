/* SPDX-License-Identifier: BSD-2-Clause */
/* Options, messages and numbers, for all commands. */
#include <errno.h>
#include <getopt.h>
#include <langinfo.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/addr.h"
#include "tools/tool.h"

const struct tool_cmd *tool_cmd;
volatile sig_atomic_t tool_stopped, tool_signal;

static void begin_message(void)
{
	fflush(stdout);
	fprintf(stderr, "diw%s%s: ", tool_cmd ? " " : "", tool_cmd ? tool_cmd->name : "");
}

int tool_usage(const char *fmt, ...)
{
	va_list ap;

	begin_message();
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\nTry 'diw%s%s --help'.\n", tool_cmd ? " " : "", tool_cmd ? tool_cmd->name : "");
	return TOOL_USAGE;
}

int tool_failed(const char *fmt, ...)
{
	va_list ap;

	begin_message();
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return TOOL_FAILED;
}

int tool_help(const struct tool_cmd *cmd, FILE *to)
{
	fprintf(to, "usage: diw %s %s\n%s.\n\n%s", cmd->name, cmd->args, cmd->brief, cmd->help ? cmd->help : "");
	if (cmd->print_help)
		cmd->print_help(to);
	return TOOL_OK;
}

int tool_bad_option(char **argv)
{
	const char *arg = argv[optind - 1];

	if (optopt > 0 && optopt <= CHAR_MAX && strncmp(arg, "--", 2) != 0)
		return tool_usage("-%c: unknown option, or its value is missing", optopt);
	return tool_usage("%s: unknown option, or a value is missing or too many", arg);
}

/* Digits, and with SUFFIX one of k, m, g. False: anything else, or a value that does not fit. */
static bool parse_number(const char *text, bool suffix, uint64_t *value)
{
	uint64_t v = 0, unit = 1;
	const char *p = text;

	if (*p < '0' || *p > '9')
		return false;
	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(v, 10u, &v) || __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
			return false;
	if (suffix && *p) {
		switch (*p++) {
		case 'k': case 'K': unit = 1u << 10; break;
		case 'm': case 'M': unit = 1u << 20; break;
		case 'g': case 'G': unit = 1u << 30; break;
		default: return false;
		}
	}
	return *p == '\0' && !__builtin_mul_overflow(v, unit, value);
}

int opt_number(const char *opt, const char *text, uint64_t min, uint64_t max, uint64_t *value)
{
	if (!parse_number(text, false, value))
		return tool_usage("%s: '%s' is not a number", opt, text);
	if (*value < min || *value > max)
		return tool_usage("%s: %s is not in %llu..%llu", opt, text, (unsigned long long)min,
				  (unsigned long long)max);
	return 0;
}

/* Not rounded: a printed limit must be accepted as input. */
static const char *exact(uint64_t n, char buf[24])
{
	if (n % 1024 == 0)
		return fmt_bytes(n, buf);
	snprintf(buf, 24, "%llu B", (unsigned long long)n);
	return buf;
}

int opt_size(const char *opt, const char *text, uint64_t min, uint64_t max, uint64_t *value)
{
	char lo[24], hi[24];

	if (!parse_number(text, true, value))
		return tool_usage("%s: '%s' is not a size (like 64, 1k, 512k, 4m)", opt, text);
	if (*value < min || *value > max)
		return tool_usage("%s: %s is not in %s..%s", opt, text, exact(min, lo), exact(max, hi));
	return 0;
}

static int opt_value(const char *opt, const char *text, bool size, uint64_t min, uint64_t max, uint64_t *value)
{
	return (size ? opt_size : opt_number)(opt, text, min, max, value);
}

/* FROM:TO or FROM:TO:xN, which begins at WORD and whose first colon is at COLON: FROM, FROM * N, ... up to TO. */
static int opt_range(const char *opt, char *word, char *colon, bool size, uint64_t limits[2], uint64_t *values,
		     int max_values)
{
	char *factor = strchr(colon + 1, ':');
	uint64_t from, to, by = 2;
	int n = 0;

	*colon = '\0';
	if (factor) {
		*factor++ = '\0';
		if (*factor != 'x' || !parse_number(factor + 1, false, &by) || by < 2)
			return -tool_usage("%s: '%s' is not a factor (like x2, x4)", opt, factor);
	}
	if (opt_value(opt, word, size, limits[0], limits[1], &from) ||
	    opt_value(opt, colon + 1, size, limits[0], limits[1], &to))
		return -TOOL_USAGE;
	if (!from || from > to)
		return -tool_usage("%s: %s:%s begins at 0 or ends before it begins", opt, word, colon + 1);
	for (bool over = false; !over && from <= to; over = __builtin_mul_overflow(from, by, &from)) {
		if (n == max_values)
			return -tool_usage("%s: more than %d values", opt, max_values);
		values[n++] = from;
	}
	return n;
}

int opt_each_once(const char *opt, const char *text, const uint64_t *values, int n)
{
	for (int i = 0; i < n; i++)
		for (int k = 0; k < i; k++)
			if (values[i] == values[k])
				return tool_usage("%s: '%s' has a value twice", opt, text);
	return 0;
}

int opt_list(const char *opt, const char *text, bool size, uint64_t min, uint64_t max, uint64_t *values,
	     int max_values, int *n)
{
	char *copy = strdup(text), *save, *word, *colon;
	int rc = 0;

	*n = 0;
	for (word = copy ? strtok_r(copy, ",", &save) : NULL; word && !rc; word = strtok_r(NULL, ",", &save)) {
		colon = strchr(word, ':');
		if (colon) {
			int got = opt_range(opt, word, colon, size, (uint64_t[]){ min, max }, values + *n,
					    max_values - *n);

			rc = got < 0 ? -got : 0;
			*n += got > 0 ? got : 0;
		} else if (*n == max_values) {
			rc = tool_usage("%s: more than %d values", opt, max_values);
		} else {
			rc = opt_value(opt, word, size, min, max, &values[(*n)++]);
		}
	}
	free(copy);
	if (!rc)
		rc = *n ? opt_each_once(opt, text, values, *n) : tool_usage("%s: '%s' names nothing", opt, text);
	return rc;
}

int opt_seconds(const char *opt, const char *text, double min, double max, double *value)
{
	char *end;

	*value = strtod(text, &end);
	if (end == text || *end || !isfinite(*value))
		return tool_usage("%s: '%s' is not a number of seconds", opt, text);
	if (*value < min || *value > max)
		return tool_usage("%s: %s is not in %g..%g seconds", opt, text, min, max);
	return 0;
}

int opt_port(const char *text, uint16_t *port)
{
	uint64_t v;
	int rc = opt_number("--port", text, 1, 65535, &v);

	*port = rc ? 0 : (uint16_t)v;
	return rc;
}

int opt_host(const char *host, uint16_t port, struct diw_addr *addr)
{
	int rc = diw_addr_parse(host, port, addr);

	return rc ? tool_failed("%s: %s", host, rc == -EINVAL ? "no such host" : strerror(-rc)) : 0;
}

int local_addr_for(const struct diw_addr *dst, struct diw_addr *local)
{
	struct sockaddr_storage ss;
	struct diw_addr to = *dst;
	socklen_t len;
	int fd, rc = 0;

	if (!to.port)
		to.port = DIW_PORT;
	len = diw_addr_to_sockaddr(&to, &ss);
	fd = socket(ss.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&ss, len) < 0)
		rc = -errno;
	len = sizeof ss;
	if (!rc && getsockname(fd, (struct sockaddr *)&ss, &len) < 0)
		rc = -errno;
	close(fd);
	if (!rc) {
		diw_addr_from_sockaddr(local, (struct sockaddr *)&ss);
		local->port = 0;
	}
	return rc;
}

static void on_signal(int sig)
{
	tool_signal = sig;
	tool_stopped = tool_stopped + 1;
}

void tool_catch_signals(void)
{
	struct sigaction sa = { .sa_handler = on_signal };

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sa.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &sa, NULL);
}

const char *fmt_bytes(uint64_t n, char buf[24])
{
	static const char *const unit[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	double v = (double)n;
	unsigned u = 0;

	while (v >= 1024 && u + 1 < TOOL_COUNT(unit)) {
		v /= 1024;
		u++;
	}
	snprintf(buf, 24, v == floor(v) ? "%.0f %s" : "%.1f %s", v, unit[u]);
	return buf;
}

bool tool_utf8(void)
{
	return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

int tool_columns(FILE *f)
{
	struct winsize ws;

	return ioctl(fileno(f), TIOCGWINSZ, &ws) == 0 && ws.ws_col >= 20 ? ws.ws_col : 80;
}

void json_print(cJSON *o)
{
	char *text = cJSON_PrintUnformatted(o);

	puts(text ? text : "{}");
	fflush(stdout);
	cJSON_free(text);
	cJSON_Delete(o);
}

cJSON *json_number(double v)
{
	char buf[32];

	snprintf(buf, sizeof buf, "%.6g", v);
	return cJSON_CreateNumber(strtod(buf, NULL));
}

void json_add_number(cJSON *o, const char *key, double v)
{
	cJSON_AddItemToObject(o, key, json_number(v));
}

void json_add_count(cJSON *o, const char *key, uint64_t v)
{
	cJSON_AddNumberToObject(o, key, (double)v);
}

void json_add_null_number(cJSON *o, const char *key, bool valid, double v)
{
	if (valid)
		json_add_number(o, key, v);
	else
		cJSON_AddNullToObject(o, key);
}
