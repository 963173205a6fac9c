/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that concern none of our objects, and features that no software device has. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "verbs/of/of.h"

/* ---- Enhanced connection establishment, which is between NICs of one vendor ---- */

int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp, (void)ece;
	return EOPNOTSUPP;
}

int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp, (void)ece;
	return EOPNOTSUPP;
}

/* ---- sysfs: it does not list our devices; programs may read other files by these calls ---- */

#pragma GCC visibility push(default)
const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);
void of_register_driver(const char *name, void *init);
#pragma GCC visibility pop

const char *ibv_get_sysfs_path(void)
{
	return "/sys";
}

/* Returns the length without a newline at the end, or -1. */
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	char path[512];
	ssize_t n;
	int fd;

	if (snprintf(path, sizeof path, "%s/%s", dir, file) >= (int)sizeof path)
		return -1;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	n = read(fd, buf, size);
	close(fd);
	if (n <= 0)
		return (int)n;
	if (buf[n - 1] == '\n')
		buf[--n] = '\0';
	else if ((size_t)n < size)
		buf[n] = '\0';
	else
		return -1;
	return (int)n;
}

/* The call by which providers registered before 2017: no device here needs one. */
void of_register_driver(const char *name, void *init)
{
	(void)name, (void)init;
}
__asm__(".symver of_register_driver, ibv_register_driver@IBVERBS_1.1");
