/* SPDX-License-Identifier: BSD-2-Clause */
/* The UDP offloads that are found: segmentation, and its reverse. */
#include <net/if.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "llp/udp.h"
#include "tests/unit/kernel.h"
#include "tests/unit/unit.h"

/* If loopback is down nothing can be tested, so the kernel's options are believed. */
START_TEST(offload_without_loopback)
{
	struct ifreq r = { .ifr_name = "lo", .ifr_flags = 0 };
	int fd;

	ck_assert(kernel_own_network());
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	ck_assert_int_eq(ioctl(fd, SIOCSIFFLAGS, &r), 0);
	ck_assert(diw_udp_offload().gso);
	ck_assert(diw_udp_offload().gro);
	close(fd);
}
END_TEST

Suite *suite_udp_offload(void)
{
	Suite *s = suite_create("udp_offload");
	TCase *t = tcase_create("udp_offload");

	if (kernel_can_own_network())
		tcase_add_test(t, offload_without_loopback);
	else
		printf("SKIP: udp_offload: no network namespaces here for offload_without_loopback\n");
	suite_add_tcase(s, t);
	return s;
}
