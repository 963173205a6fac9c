/* SPDX-License-Identifier: BSD-2-Clause */
/* The text form of an impairment: [tx.|rx.]key=value, separated by commas (diwarp(7)). */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "llp/impair.h"

#define MAX_DELAY (60 * DIW_S)
#define MIN_MTU 68u                  /* RFC 791: every link carries packets of 68 octets */

enum key { LOSS, BURST, DUP, REORDER, DELAY, CORRUPT, MASK, MTU, SEED, KEYS };

static const char *const key_name[KEYS] = {
	"loss", "burst", "dup", "reorder", "delay", "corrupt", "mask", "mtu", "seed"
};

/* Digits with at most one point. strtod() is not usable: its decimal point depends on the program's locale. */
static bool get_decimal(const char **p, double *v)
{
	double scale = 1;
	int digits = 0;

	for (*v = 0; isdigit((unsigned char)**p); ++*p, digits++)
		*v = *v * 10 + (**p - '0');
	if (**p == '.')
		for (++*p; isdigit((unsigned char)**p); ++*p, digits++)
			*v += (**p - '0') * (scale /= 10);
	return digits > 0;
}

static bool get_probability(const char **p, double *v)
{
	if (!get_decimal(p, v))
		return false;
	if (**p == '%') {
		*v /= 100;
		++*p;
	}
	return *v <= 1;
}

static bool get_integer(const char *p, int base, uint64_t *v)
{
	char *end;

	if (!isxdigit((unsigned char)*p))
		return false;
	errno = 0;
	*v = strtoull(p, &end, base);
	return !errno && !*end;
}

static const char *set_burst(const char *p, struct diw_impair_dir *d)
{
	d->burst_len = 8;
	if (!get_probability(&p, &d->burst))
		return "is no PROBABILITY[:MEANLENGTH], such as 1%:8";
	if (*p == ':') {
		p++;
		if (!get_decimal(&p, &d->burst_len) || d->burst_len < 1 || d->burst_len > 1e6)
			return "needs a mean length of 1 to 1000000";
	}
	if (*p)
		return "is no PROBABILITY[:MEANLENGTH], such as 1%:8";
	if (d->burst < 1 && d->burst > d->burst_len * (1 - d->burst))
		return "is more loss than bursts so short can make";
	return NULL;
}

static const char *set_delay(const char *p, struct diw_impair_dir *d)
{
	static const struct { const char *name; double ns; } unit[] = {
		{ "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 }
	};
	double v;

	if (get_decimal(&p, &v))
		for (size_t i = 0; i < sizeof unit / sizeof *unit; i++)
			if (!strcmp(p, unit[i].name)) {
				if (v * unit[i].ns > (double)MAX_DELAY)
					return "is longer than 60s";
				d->delay = (uint64_t)(v * unit[i].ns + 0.5);
				return NULL;
			}
	return "is no time with a unit (ns, us, ms, s), such as 200us";
}

static const char *set_probability(const char *p, double *v)
{
	return get_probability(&p, v) && !*p ? NULL : "is no probability from 0 to 1, such as 1% or 0.01";
}

/* The error in the value, or NULL. */
static const char *set_value(enum key key, const char *p, struct diw_impair_dir *d)
{
	uint64_t v;

	switch (key) {
	case LOSS:
		return set_probability(p, &d->loss);
	case BURST:
		return set_burst(p, d);
	case DUP:
		return set_probability(p, &d->dup);
	case REORDER:
		return set_probability(p, &d->reorder);
	case DELAY:
		return set_delay(p, d);
	case CORRUPT:
		return set_probability(p, &d->corrupt);
	case MASK:
		return get_integer(p, 16, &d->mask) ? NULL : "is no mask of up to 16 hexadecimal digits";
	case MTU:
		if (!isdigit((unsigned char)*p) || !get_integer(p, 10, &v) || v < MIN_MTU || v > 65535)
			return "is no number of bytes from 68 to 65535";
		d->mtu = (uint32_t)v;
		return NULL;
	case SEED:
		return isdigit((unsigned char)*p) && get_integer(p, 10, &d->seed) ? NULL : "is no 64-bit number";
	default:
		return "is unknown";
	}
}

static bool same_value(enum key key, const struct diw_impair_dir *a, const struct diw_impair_dir *b)
{
	switch (key) {
	case LOSS: return a->loss == b->loss;
	case BURST: return a->burst == b->burst && a->burst_len == b->burst_len;
	case DUP: return a->dup == b->dup;
	case REORDER: return a->reorder == b->reorder;
	case DELAY: return a->delay == b->delay;
	case CORRUPT: return a->corrupt == b->corrupt;
	case MASK: return a->mask == b->mask;
	case MTU: return a->mtu == b->mtu;
	default: return a->seed == b->seed;
	}
}

struct parser {
	struct diw_impair_spec *spec;
	unsigned seen[2];
	char *err;
	size_t errlen;
};

static int parse_item(struct parser *ps, char *item)
{
	char *eq = strchr(item, '='), *name = item;
	int which = DIW_IMPAIR_TX, key;
	struct diw_impair_dir before;
	const char *wrong;

	if (!eq) {
		snprintf(ps->err, ps->errlen, "\"%s\" is no key=value", item);
		return -EINVAL;
	}
	*eq = 0;
	if (!strncmp(name, "tx.", 3) || !strncmp(name, "rx.", 3)) {
		which = *name == 'r' ? DIW_IMPAIR_RX : DIW_IMPAIR_TX;
		name += 3;
	}
	for (key = 0; key < KEYS && strcmp(name, key_name[key]); key++)
		;
	if (key == KEYS) {
		snprintf(ps->err, ps->errlen, "\"%s\" is no key: loss, burst, dup, reorder, delay, corrupt, mask, mtu, "
			 "seed, each with tx. or rx. before it", item);
		return -EINVAL;
	}
	before = ps->spec->dir[which];
	wrong = set_value((enum key)key, eq + 1, &ps->spec->dir[which]);
	if (!wrong && (ps->seen[which] & 1u << key) && !same_value((enum key)key, &before, &ps->spec->dir[which]))
		wrong = "contradicts an earlier value";
	if (wrong) {
		snprintf(ps->err, ps->errlen, "%s: \"%s\" %s", item, eq + 1, wrong);
		return -EINVAL;
	}
	ps->seen[which] |= 1u << key;
	return 0;
}

int diw_impair_parse(const char *text, struct diw_impair_spec **spec, char *err, size_t errlen)
{
	char none[1], *copy = strdup(text), *next = copy;
	struct parser ps = { .spec = calloc(1, sizeof **spec), .err = err ? err : none, .errlen = err ? errlen : 1 };
	int rc = copy && ps.spec ? 0 : -ENOMEM;

	if (!rc) {
		ps.spec->dir[DIW_IMPAIR_TX].seed = ps.spec->dir[DIW_IMPAIR_RX].seed = 1;
		while (!rc && *copy && next)
			rc = parse_item(&ps, strsep(&next, ","));
		/* A seed without a direction is the seed of the whole run. */
		if (!(ps.seen[DIW_IMPAIR_RX] & 1u << SEED))
			ps.spec->dir[DIW_IMPAIR_RX].seed = ps.spec->dir[DIW_IMPAIR_TX].seed;
	} else
		snprintf(ps.err, ps.errlen, "out of memory");
	free(copy);
	if (rc)
		free(ps.spec);
	else
		*spec = ps.spec;
	return rc;
}

void diw_impair_spec_free(struct diw_impair_spec *spec)
{
	free(spec);
}
