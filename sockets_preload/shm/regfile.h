/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A file that the processes of one user on one host map: sockreg.h, streamreg.h. A file of another user, or one that
 * others may write, is refused. The version is part of the file's name, so the file of another release remains for the
 * processes that use it.
 */
#ifndef DIW_SOCKETS_REGFILE_H
#define DIW_SOCKETS_REGFILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The file begins with eight bytes that are not 0 when it is complete. */
struct diw_regfile {
	const char *name;
	size_t size;
	size_t most;                         /* the size that the file should have: the rest of a table that grows */
	size_t backed;                       /* bytes at the beginning that have memory from the start */
	/* Initialises the file, which is all zeros. False: the error is in *why. */
	bool (*init)(void *reg, const char **why);
	bool (*is_complete)(const void *reg);
	bool (*is_over)(const void *reg);    /* none of its users is alive; NULL: that is not known */
	bool kept;                           /* a process that maps it holds a shared lock; diw_regfile_clean() removes
					      * unused ones */
};

/* Maps SIZE bytes to read and write. The memory is not locked, and is allocated only when touched, even after
 * mlockall(MCL_FUTURE). NULL with errno. */
void *diw_map_unlocked(size_t size, int flags, int fd);
/* Whether pages of a mapped file can be allocated on demand (Linux 5.14). A page without memory must not be touched: a
 * read would allocate it, or raise SIGBUS if there is none. */
bool diw_can_back_pages(void);
bool diw_back_pages(const void *at, size_t n);
/* Sets the directory of all such files, before the first is opened. DIWARP_SOCKETS_DIR takes precedence. */
void diw_regfile_place(const char *dir);
/* Maps the file; with CREATE, makes it if it does not exist. NULL, with the error in *why and the file in PATH; *why
 * NULL: there is no file. */
void *diw_regfile_open(const struct diw_regfile *what, bool create, char *path, size_t size, const char **why);

/* A table at the end of such a file, in segments. The first is mapped with the file. Each further one is behind the one
 * before, is twice as large, and is mapped when needed. A table that is begun replaces the one before. */
#define DIW_SEGMENTS_MOST 11u
#define DIW_SEGMENTS_ALL(first, n) ((first) * ((1u << (n)) - 1))     /* elements of N segments, if the first holds
								      * FIRST */
struct diw_segments {
	char *_Atomic at[DIW_SEGMENTS_MOST];
	size_t bytes;                        /* of the first segment */
};
void diw_segments_begin(struct diw_segments *s, void *at, size_t bytes);
/* Returns segment K; NULL: it cannot be mapped. */
char *diw_segment(struct diw_segments *s, unsigned k);
/* Whether P is in a mapped segment; *AT is its offset in the table. */
bool diw_segments_have(struct diw_segments *s, const void *p, size_t *at);
/* The segment of element N, if the first holds FIRST; *AT: its index in the segment. */
static inline unsigned diw_segment_of(uint32_t n, uint32_t first, uint32_t *at)
{
	unsigned k = 31 - (unsigned)__builtin_clz(n / first + 1);

	*at = n - first * ((1u << k) - 1);
	return k;
}
/* From here on no further segment is mapped. */
void diw_segments_fix(void);

/* Removes kept files that no process has mapped for some seconds: those whose names are NAME up to its last '.', except
 * NAME itself. */
void diw_regfile_clean(const char *name);

#endif
