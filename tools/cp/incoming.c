/* SPDX-License-Identifier: BSD-2-Clause */
/* diw recv: the file that is being received; it has a temporary name until it is complete. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/cp/incoming.h"

#define REACH_FIRST (256u << 20)     /* bytes, before the sender is asked for the first */
#define REACH_NS (250 * DIW_MS)      /* a disk that takes less than 125 MB/s does not keep the receiver from its senders
				      * for longer */
#define REACH_BYTE_NS 8
#define REACH_STEP (256u << 10)      /* bytes at least, save at the end of the file */

/* Allocates the space first: writing to a mapping on a full disk raises SIGBUS. */
static int take_space(int fd, uint64_t size)
{
	if (!size)
		return 0;
	if (fallocate(fd, 0, 0, (off_t)size) == 0)
		return 0;
	if (errno != EOPNOTSUPP && errno != ENOSYS)
		return -errno;
	return ftruncate(fd, (off_t)size) ? -errno : 0;
}

static int open_tmp(struct incoming *in)
{
	uint64_t r = 0;

	if (getrandom(&r, sizeof r, 0) != sizeof r)
		return -EIO;
	snprintf(in->tmp, sizeof in->tmp, ".diw-recv-%016llx.part", (unsigned long long)r);
	in->fd = openat(in->dirfd, in->tmp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	return in->fd < 0 ? -errno : 0;
}

int incoming_create(struct incoming *in, int dirfd, const char *name, uint64_t size, bool force, char *err,
		    size_t errlen)
{
	struct stat st;
	int rc;

	memset(in, 0, sizeof *in);
	in->dirfd = dirfd;
	in->fd = -1;
	in->size = size;
	snprintf(in->name, sizeof in->name, "%s", name);
	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		if (!force || S_ISDIR(st.st_mode)) {
			snprintf(err, errlen, S_ISDIR(st.st_mode) ? "a directory of that name exists"
								   : "the file exists (recv --force overwrites)");
			return -EEXIST;
		}
	}
	rc = open_tmp(in);
	if (!rc)
		rc = take_space(in->fd, size);
	if (!rc && size) {
		in->map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, in->fd, 0);
		if (in->map == MAP_FAILED) {
			in->map = NULL;
			rc = -errno;
		}
	}
	if (rc) {
		snprintf(err, errlen, "%s", strerror(-rc));
		incoming_close(in);
		return rc;
	}
	incoming_reach(in, 0, REACH_FIRST);
	return 0;
}

/* Only forward: what is sent again is there. A kernel before 5.14 does not know the advice: then each page faults. */
void incoming_reach(struct incoming *in, uint64_t from, uint64_t to)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), begun = diw_clock_ns();
	uint64_t start;

	if (to > in->size)
		to = in->size;
	if (from < in->faulted)
		from = in->faulted;
	if (from >= to || (to - from < REACH_STEP && to < in->size))
		return;
	start = from -= from % page;
	while (from < to && diw_clock_ns() - begun < REACH_NS + REACH_BYTE_NS * (from - start)) {
		in->faulted = from + REACH_STEP < to ? from + REACH_STEP : to;
		madvise((char *)in->map + from, in->faulted - from, MADV_POPULATE_WRITE);
		from = in->faulted;
	}
}

/* renameat2(2) if the file system has it; a hard link is atomic, too. */
static int rename_new(struct incoming *in)
{
	if (renameat2(in->dirfd, in->tmp, in->dirfd, in->name, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	if (linkat(in->dirfd, in->tmp, in->dirfd, in->name, 0))
		return -errno;
	unlinkat(in->dirfd, in->tmp, 0);
	return 0;
}

int incoming_commit(struct incoming *in, bool force)
{
	int rc;

	if (force)
		rc = renameat(in->dirfd, in->tmp, in->dirfd, in->name) ? -errno : 0;
	else
		rc = rename_new(in);
	if (!rc)
		in->tmp[0] = '\0';
	return rc;
}

void incoming_close(struct incoming *in)
{
	if (in->map)
		munmap(in->map, in->size);
	if (in->fd >= 0)
		close(in->fd);
	if (in->tmp[0] && in->fd >= 0)
		unlinkat(in->dirfd, in->tmp, 0);
	in->map = NULL;
	in->fd = -1;
	in->tmp[0] = '\0';
}
