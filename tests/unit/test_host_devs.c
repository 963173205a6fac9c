/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of open devices of the ABI libraries: each device is opened once, and a device whose interface has gone is
 * not found. */
#include <errno.h>
#include <stdlib.h>

#include "verbs/host/devs.h"
#include "tests/unit/unit.h"

static int opened;

static int host_open(const char *name, struct diw_host_dev **d)
{
	struct diw_host_dev *dev = calloc(1, sizeof *dev);
	int rc = diw_dev_open(name, NULL, &dev->diw);

	if (rc < 0)
		free(dev);
	else
		*d = dev;
	opened += rc == 0;
	return rc;
}

static void close_all(struct diw_host_devs *devs)
{
	struct diw_host_dev *d;

	while ((d = devs->first)) {
		devs->first = d->next;
		ck_assert_int_eq(diw_dev_close(d->diw), 0);
		free(d);
	}
}

static const struct diw_addr host_any = { 0 }, host_lo = { .ip = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 } };

START_TEST(opened_once)
{
	struct diw_host_devs devs = { .open = host_open };
	struct diw_host_dev *d, *again;

	opened = 0;
	ck_assert_int_eq(diw_host_dev_of(&devs, &host_any, &d), 0);
	ck_assert_str_eq(d->name, "diw_lo");
	ck_assert_int_eq(diw_host_dev_of(&devs, &host_any, &again), 0);
	ck_assert_ptr_eq(again, d);
	ck_assert_int_eq(diw_host_dev_of(&devs, &host_lo, &again), 0);
	ck_assert_ptr_eq(again, d);
	ck_assert_int_eq(diw_host_dev_named(&devs, "diw_lo", &again), 0);
	ck_assert_ptr_eq(again, d);
	ck_assert_int_eq(opened, 1);
	close_all(&devs);
}
END_TEST

/* As if lo had gone, and an interface with another index had its name. */
START_TEST(gone_is_not_found)
{
	struct diw_host_devs devs = { .open = host_open };
	struct diw_host_dev *d, *other, *again;

	opened = 0;
	ck_assert_int_eq(diw_host_dev_named(&devs, "diw_lo", &d), 0);
	d->ifindex += 1000;
	ck_assert_int_eq(diw_host_dev_of(&devs, &host_lo, &other), 0);
	ck_assert_ptr_ne(other, d);
	ck_assert_int_eq(diw_host_dev_of(&devs, &host_any, &again), 0);
	ck_assert_ptr_eq(again, other);
	ck_assert_int_eq(opened, 2);
	close_all(&devs);
}
END_TEST

START_TEST(no_such_device)
{
	const struct diw_addr documentation = { .ip = { 0x20, 0x01, 0x0d, 0xb8, [15] = 1 } };
	struct diw_host_devs devs = { .open = host_open };
	struct diw_host_dev *d;

	ck_assert_int_eq(diw_host_dev_named(&devs, "diw_none", &d), -ENODEV);
	ck_assert_int_eq(diw_host_dev_of(&devs, &documentation, &d), -EADDRNOTAVAIL);
	ck_assert_ptr_null(devs.first);
}
END_TEST

Suite *suite_host_devs(void)
{
	Suite *s = suite_create("host_devs");
	TCase *tc = tcase_create("host_devs");

	tcase_add_test(tc, opened_once);
	tcase_add_test(tc, gone_is_not_found);
	tcase_add_test(tc, no_such_device);
	suite_add_tcase(s, tc);
	return s;
}
