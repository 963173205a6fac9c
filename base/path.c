/* SPDX-License-Identifier: BSD-2-Clause */
/* File names from the environment: %p becomes the process id, %% a percent sign. */
#include "base/path.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

int diw_path_expand(const char *path, char *out, size_t room)
{
	size_t n = 0;

	for (; *path; path++) {
		int len = 1;

		if (path[0] == '%' && path[1] == 'p') {
			len = snprintf(out + n, room - n, "%ld", (long)getpid());
			path++;
		} else {
			path += path[0] == '%' && path[1] == '%';
			out[n] = *path;
		}
		if (len < 0 || (size_t)len >= room - n)
			return -ENAMETOOLONG;
		n += (size_t)len;
	}
	out[n] = '\0';
	return 0;
}
