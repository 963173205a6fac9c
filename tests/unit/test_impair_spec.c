/* SPDX-License-Identifier: BSD-2-Clause */
/* llp/impair_spec.c: the text of DIWARP_IMPAIR, good and bad. */
#include <errno.h>

#include "llp/dgram.h"
#include "tests/unit/unit.h"

#define GOOD_TEXTS 22
START_TEST(good_text)
{
	static const char *const good[] = {
		"", "loss=1%", "loss=0.01", "loss=.5", "loss=100%", "loss=0", "burst=1%", "burst=1%:2.5", "burst=0.5:1",
		"tx.loss=1%,rx.loss=2%", "delay=0ns", "delay=1.5ms", "delay=60s", "mask=0x1", "mask=ffffffffffffffff",
		"mtu=68", "mtu=65535", "seed=18446744073709551615", "rx.seed=2", "loss=1%,loss=0.01", "loss=1%,loss=1%",
		"loss=1%,reorder=0.5%,delay=200us,seed=7",
	};
	struct diw_impair_spec *spec;
	char err[160];

	ck_assert_uint_eq(sizeof good / sizeof *good, GOOD_TEXTS);
	ck_assert_msg(diw_impair_parse(good[_i], &spec, err, sizeof err) == 0, "%s: %s", good[_i], err);
	diw_impair_spec_free(spec);
}
END_TEST

#define BAD_TEXTS 41
START_TEST(bad_text)
{
	static const struct { const char *text, *key; } bad[] = {
		{ "los=1%", "los" }, { "loss", "loss" }, { "loss=", "loss" }, { "loss=x", "loss" },
		{ "loss=-1%", "loss" }, { "loss=101%", "loss" }, { "loss=1.01", "loss" },
		{ "loss=1%%", "loss" }, { "loss=1 %", "loss" }, { "loss=nan", "loss" },
		{ "loss=1e-3", "loss" }, { "loss=.", "loss" }, { "loss=1%,", "\"\"" },
		{ "loss=1%,loss=2%", "loss" }, { "tx.loss=1%,loss=2%", "loss" }, { "dup=2", "dup" },
		{ "reorder=a", "reorder" }, { "corrupt=1%x", "corrupt" }, { "burst=1%:", "burst" },
		{ "burst=1%:0.5", "burst" }, { "burst=0.9:2", "burst" }, { "burst=1%:8x", "burst" },
		{ "burst=1%,burst=1%:9", "burst" }, { "delay=5", "delay" }, { "delay=61s", "delay" },
		{ "delay=us", "delay" }, { "delay=1min", "delay" }, { "delay=-1us", "delay" },
		{ "mask=", "mask" }, { "mask=g", "mask" }, { "mask=10000000000000000", "mask" },
		{ "mtu=67", "mtu" }, { "mtu=65536", "mtu" }, { "mtu=1k", "mtu" }, { "seed=-1", "seed" },
		{ "seed=0x1", "seed" }, { "seed=18446744073709551616", "seed" }, { "xx.loss=1%", "xx.loss" },
		{ "rx.=1", "rx." }, { "rx.dup=3", "rx.dup" }, { "=1", "\"\"" },
	};
	struct diw_impair_spec *spec = NULL;
	char err[160] = "";

	ck_assert_uint_eq(sizeof bad / sizeof *bad, BAD_TEXTS);
	ck_assert_msg(diw_impair_parse(bad[_i].text, &spec, err, sizeof err) == -EINVAL, "%s", bad[_i].text);
	ck_assert_msg(strstr(err, bad[_i].key) != NULL, "%s: %s", bad[_i].text, err);
	ck_assert_ptr_null(spec);
	ck_assert_int_eq(diw_impair_parse(bad[_i].text, &spec, NULL, 0), -EINVAL);
}
END_TEST

Suite *suite_impair_spec(void)
{
	Suite *s = suite_create("impair_spec");
	TCase *t = tcase_create("impair_spec");

	tcase_add_loop_test(t, good_text, 0, GOOD_TEXTS);
	tcase_add_loop_test(t, bad_text, 0, BAD_TEXTS);
	suite_add_tcase(s, t);
	return s;
}
