/* SPDX-License-Identifier: BSD-2-Clause */
/* hold FILE: holds FILE like a process its counter page (base/statpage.h), and prints that it does, until it is
 * killed. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int fd = argc == 2 ? open(argv[1], O_RDWR) : -1;

	if (fd < 0 || fcntl(fd, F_SETLK, &l) < 0)
		return 1;
	puts("held");
	fflush(stdout);
	for (;;)
		pause();
}
