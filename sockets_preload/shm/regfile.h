/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A file that the processes of one user on one host map: sockreg.h, streamreg.h. A file of another user, or one that
 * others may write, is not used. The file's version is in its name: a file of another release stays, with the processes
 * that still use it.
 */
#ifndef DIW_SOCKETS_REGFILE_H
#define DIW_SOCKETS_REGFILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* It begins with eight bytes that are not 0 from when it is complete. */
struct diw_regfile {
	const char *name;
	size_t size;
	size_t most;                         /* the file's size, if it can be had: the rest of a table that grows */
	size_t backed;                       /* of these, the first so many have memory from the start */
	/* It is zeros. False: with what is wrong in *why. */
	bool (*init)(void *reg, const char **why);
	bool (*is_complete)(const void *reg);
	bool (*is_over)(const void *reg);    /* none of its users lives; NULL: that is not known */
	bool kept;                           /* mapping it holds a shared lock; diw_regfile_clean() removes others */
};

/* Maps SIZE bytes to read and write. They are not locked, and have memory only where they are touched, even after
 * mlockall(MCL_FUTURE). NULL and errno. */
void *diw_map_unlocked(size_t size, int flags, int fd);
/* Of a mapping of a file: pages get memory only when they are wanted, and are not touched before, since that would take
 * memory, or end in SIGBUS where there is none. False: the kernel cannot do that (Linux before 5.14); there is none. */
bool diw_can_back_pages(void);
bool diw_back_pages(const void *at, size_t n);
/* The directory of all such files, as DIWARP_SOCKETS_DIR names it, which comes before; before the first is opened. */
void diw_regfile_place(const char *dir);
/* Maps it, and makes it if CREATE. NULL, with what is wrong in *why and the file in PATH, or *why NULL when there is
 * none. */
void *diw_regfile_open(const struct diw_regfile *what, bool create, char *path, size_t size, const char **why);

/* A table at the end of such a file, in segments: the first is mapped with the file. Each further one is behind the one
 * before, is twice as large, and is mapped when it is wanted. Another table is before it is begun. */
#define DIW_SEGMENTS_MOST 11u
#define DIW_SEGMENTS_ALL(first, n) ((first) * ((1u << (n)) - 1))     /* elements of N, FIRST of them in the first */
struct diw_segments {
	char *_Atomic at[DIW_SEGMENTS_MOST];
	size_t bytes;                        /* of the first */
};
void diw_segments_begin(struct diw_segments *s, void *at, size_t bytes);
/* NULL: it cannot be mapped. */
char *diw_segment(struct diw_segments *s, unsigned k);
/* P is in one that is mapped: *AT bytes behind the table's beginning. */
bool diw_segments_have(struct diw_segments *s, const void *p, size_t *at);
/* Which of them the element N is in, if the first holds FIRST; *AT: which one there. */
static inline unsigned diw_segment_of(uint32_t n, uint32_t first, uint32_t *at)
{
	unsigned k = 31 - (unsigned)__builtin_clz(n / first + 1);

	*at = n - first * ((1u << k) - 1);
	return k;
}
/* No segment is mapped any more. */
void diw_segments_fix(void);

/* Removes the kept files whose names begin as NAME does, up to its last '.', and that no process has had mapped for
 * some seconds; not NAME itself. */
void diw_regfile_clean(const char *name);

#endif
