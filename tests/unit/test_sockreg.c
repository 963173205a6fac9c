/* SPDX-License-Identifier: BSD-2-Clause */
/* The registry of interposed sockets: which entries are valid, and for how long. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sockets_preload/shm/sockreg.h"
#include "sockets_preload/shm/streamreg.h"
#include "tests/unit/unit.h"

static char home[64], path[PATH_MAX];
static const char *why;

static void in_own_directory(void)
{
	snprintf(home, sizeof home, "/tmp/diw-sockreg.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(home));
	setenv("XDG_RUNTIME_DIR", home, 1);
}

static void remove_it(void)
{
	char file[PATH_MAX];

	snprintf(file, sizeof file, "%s/diwarp/" DIW_SOCKREG_FILE "-%u", home, DIW_SOCKREG_VERSION);
	unlink(file);
	snprintf(file, sizeof file, "%s/diwarp", home);
	rmdir(file);
	rmdir(home);
}

static struct diw_sockreg *opened(bool create)
{
	return diw_sockreg_open(create, path, sizeof path, &why);
}

/* Shows a socket under an owner that the calling thread claims. */
static struct diw_sock_entry *show(struct diw_sockreg *reg, uint32_t owner)
{
	struct diw_sock_entry *e = diw_sockreg_at(reg, 5000, 0);

	ck_assert_int_eq(pthread_mutex_trylock(&reg->owner[owner].life), 0);
	ck_assert(diw_sockreg_back(reg, e));
	e->local.port = 5000;
	e->owner = owner;
	e->owner_epoch = atomic_load(&reg->owner[owner].epoch);
	atomic_store(&e->seq, 4 + DIW_SOCK_SHOWN);
	return e;
}

START_TEST(is_shared)
{
	struct diw_sockreg *one = opened(true), *two;

	ck_assert_ptr_nonnull(one);
	two = opened(false);
	ck_assert_ptr_nonnull(two);
	ck_assert_uint_eq(one->secret[0], two->secret[0]);
	ck_assert_uint_ne(one->secret[0], one->secret[1]);
	ck_assert(diw_sockreg_back(one, &one->entry[7]));
	one->entry[7].cookie = 77;
	ck_assert_uint_eq(two->entry[7].cookie, 77);
	munmap(one, sizeof *one);
	munmap(two, sizeof *two);
}
END_TEST

START_TEST(is_not_there)
{
	ck_assert_ptr_null(opened(false));
	ck_assert_ptr_null(why);
}
END_TEST

/* An entry is valid while its owner lives, however the owner ends. */
START_TEST(dies_with_its_owner)
{
	struct diw_sockreg *reg = opened(true);
	struct diw_sock_entry copy, *e = diw_sockreg_at(reg, 5000, 0);
	int to_us[2], status;
	pid_t pid;
	char c;

	ck_assert_int_eq(pipe(to_us), 0);
	pid = fork();
	if (pid == 0) {
		show(reg, _i);
		(void)!write(to_us[1], "", 1);
		pause();
	}
	ck_assert_int_eq(read(to_us[0], &c, 1), 1);
	ck_assert(diw_sock_read(reg, e, &copy));
	ck_assert_uint_eq(copy.local.port, 5000);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	ck_assert(!diw_sock_read(reg, e, &copy));
	ck_assert_int_eq(pthread_mutex_trylock(&reg->owner[_i].life), EOWNERDEAD);
	close(to_us[0]);
	close(to_us[1]);
	munmap(reg, sizeof *reg);
}
END_TEST

START_TEST(is_read_whole)
{
	struct diw_sockreg *reg = opened(true);
	struct diw_sock_entry copy, *e = show(reg, 3);

	ck_assert(diw_sock_read(reg, e, &copy));
	atomic_store(&e->seq, 8 + DIW_SOCK_WRITING);
	ck_assert(!diw_sock_read(reg, e, &copy));
	atomic_store(&e->seq, 8 + DIW_SOCK_FREE);
	ck_assert(!diw_sock_read(reg, e, &copy));
	atomic_store(&e->seq, 12 + DIW_SOCK_SHOWN);
	ck_assert(diw_sock_read(reg, e, &copy));
	atomic_fetch_add(&reg->owner[3].epoch, 1);
	ck_assert(!diw_sock_read(reg, e, &copy));
	e->owner = UINT32_MAX;                       /* any owner that it names is searched within the table */
	ck_assert(!diw_sock_read(reg, e, &copy));
	pthread_mutex_unlock(&reg->owner[3].life);
	munmap(reg, sizeof *reg);
}
END_TEST

static void spoil(off_t at, const void *bytes, size_t n)
{
	int fd = open(path, O_RDWR);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(pwrite(fd, bytes, n, at), (int)n);
	close(fd);
}

START_TEST(is_refused_when_damaged)
{
	static const off_t fields[] = {
		offsetof(struct diw_sockreg, magic), offsetof(struct diw_sockreg, version),
		offsetof(struct diw_sockreg, owners), offsetof(struct diw_sockreg, entries),
		offsetof(struct diw_sockreg, size),
	};
	struct diw_sockreg *reg = opened(true), *again;
	uint8_t before, after;

	for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
		before = ((uint8_t *)reg)[fields[i]];
		after = before ^ 1;
		spoil(fields[i], &after, 1);
		ck_assert_ptr_null(opened(true));
		ck_assert_ptr_nonnull(why);
		spoil(fields[i], &before, 1);
		again = opened(true);
		ck_assert_ptr_nonnull(again);
		munmap(again, sizeof *again);
	}
	munmap(reg, sizeof *reg);
	ck_assert_int_eq(truncate(path, 100), 0);
	ck_assert_ptr_null(opened(true));
	ck_assert_int_eq(truncate(path, 0), 0);
	reg = opened(true);                          /* an empty file is initialised again */
	ck_assert_ptr_nonnull(reg);
	munmap(reg, sizeof *reg);
}
END_TEST

/* A file of another release, of any length, is separate and stays unchanged. */
START_TEST(leaves_other_versions_alone)
{
	struct diw_sockreg *reg;
	char other[PATH_MAX], text[8] = "";
	int fd;

	ck_assert_int_eq(mkdir(strcat(strcpy(other, home), "/diwarp"), 0700), 0);
	snprintf(other, sizeof other, "%s/diwarp/" DIW_SOCKREG_FILE "-%u", home, DIW_SOCKREG_VERSION + 1);
	fd = open(other, O_RDWR | O_CREAT | O_EXCL, 0600);
	ck_assert_int_eq(write(fd, "another", 7), 7);
	reg = opened(true);
	ck_assert_ptr_nonnull(reg);
	ck_assert_str_ne(path, other);
	ck_assert_int_eq(pread(fd, text, sizeof text, 0), 7);
	ck_assert_str_eq(text, "another");
	close(fd);
	unlink(other);
	munmap(reg, sizeof *reg);
}
END_TEST

/* The maker was killed before the file was complete. */
/* Cookies start again with each boot. */
START_TEST(streams_of_another_boot_are_no_more)
{
	struct diw_streamreg *reg = diw_streamreg_open(true, path, sizeof path, &why);

	ck_assert_ptr_nonnull(reg);
	atomic_store(&reg->slot[7].cookie, 77);
	munmap(reg, sizeof *reg);
	reg = diw_streamreg_open(true, path, sizeof path, &why);
	ck_assert_uint_eq(atomic_load(&reg->slot[7].cookie), 77);
	reg->boot ^= 1;
	munmap(reg, sizeof *reg);
	ck_assert_ptr_null(diw_streamreg_open(false, path, sizeof path, &why));
	ck_assert_ptr_null(why);
	reg = diw_streamreg_open(true, path, sizeof path, &why);
	ck_assert_uint_eq(atomic_load(&reg->slot[7].cookie), 0);
	munmap(reg, sizeof *reg);
	unlink(path);
}
END_TEST

static size_t blocks(void)
{
	struct stat st;

	ck_assert_int_eq(stat(path, &st), 0);
	return (size_t)st.st_blocks * 512;
}

/* The first and the last entry of each segment are accessible to every process that maps the file, and take little
 * memory. */
START_TEST(grows)
{
	struct diw_sockreg *reg = opened(true);
	size_t before = blocks();
	uint32_t first = 0, at;

	ck_assert_uint_le(before, 500000);
	for (unsigned k = 0; k < DIW_SOCKREG_SEGMENTS; first += DIW_SOCKREG_FIRST << k++) {
		const uint32_t ends[] = { first, first + (DIW_SOCKREG_FIRST << k) - 1 };

		for (int i = 0; i < 2; i++) {
			struct diw_sock_entry *e = diw_sockreg_entry(reg, ends[i]);

			ck_assert_uint_eq(diw_segment_of(ends[i], DIW_SOCKREG_FIRST, &at), k);
			ck_assert_uint_eq(diw_sockreg_number(reg, e), ends[i]);
			ck_assert_uint_eq(diw_sock_seq(reg, e), 0);
			ck_assert(diw_sockreg_back(reg, e));
			e->cookie = 1000 + ends[i];
			atomic_store(&e->seq, 4 + DIW_SOCK_FREE);
		}
	}
	ck_assert_uint_eq(first, DIW_SOCKREG_ENTRIES);
	ck_assert_uint_le(blocks() - before, 200000);
	munmap(reg, sizeof *reg);
	reg = opened(false);
	ck_assert_uint_eq(diw_sockreg_entry(reg, DIW_SOCKREG_ENTRIES - 1)->cookie, 999 + DIW_SOCKREG_ENTRIES);
	ck_assert_uint_eq(diw_sock_seq(reg, diw_sockreg_entry(reg, DIW_SOCKREG_ENTRIES - 1)), 4 + DIW_SOCK_FREE);
	munmap(reg, sizeof *reg);
}
END_TEST

/* The entries of a port continue in a segment, and then in the next segment. */
START_TEST(goes_on_in_the_next_segment)
{
	struct diw_sockreg *reg = opened(true);
	uint32_t last = diw_sockreg_number(reg, diw_sockreg_at(reg, 5000, DIW_SOCKREG_NEAR - 1));
	uint32_t next = diw_sockreg_number(reg, diw_sockreg_at(reg, 5000, DIW_SOCKREG_NEAR));

	ck_assert_uint_eq(last, diw_sockreg_number(reg, diw_sockreg_at(reg, 5000, 0)) + DIW_SOCKREG_NEAR - 1);
	ck_assert_uint_ge(next, DIW_SOCKREG_FIRST);
	ck_assert_uint_lt(next, 3 * DIW_SOCKREG_FIRST);
	ck_assert_uint_lt(diw_sockreg_number(reg, diw_sockreg_at(reg, 65535, DIW_SOCKREG_PROBE - 1)),
			  DIW_SOCKREG_ENTRIES);
	munmap(reg, sizeof *reg);
}
END_TEST

/* The process that made the file may not have been able to make it larger; the next process that can, extends it. */
START_TEST(does_not_grow_beyond_its_file)
{
	struct diw_sockreg *reg = opened(true);
	struct diw_sock_entry *e;

	munmap(reg, sizeof *reg);
	ck_assert_int_eq(truncate(path, sizeof *reg), 0);
	reg = opened(false);
	ck_assert_ptr_nonnull(reg);
	e = diw_sockreg_at(reg, 5000, DIW_SOCKREG_NEAR);
	ck_assert_uint_eq(diw_sock_seq(reg, e), 0);
	ck_assert(!diw_sockreg_back(reg, e));
	munmap(reg, sizeof *reg);
	reg = opened(true);
	ck_assert(diw_sockreg_back(reg, diw_sockreg_at(reg, 5000, DIW_SOCKREG_NEAR)));
	munmap(reg, sizeof *reg);
}
END_TEST

/* An initiator whose first slots are taken gets one in the next segment, and is found there. */
START_TEST(streams_go_on_in_the_next_segment)
{
	struct diw_streamreg *reg = diw_streamreg_open(true, path, sizeof path, &why);
	const uint64_t cookie = 0x123456;
	struct diw_sock_stream *st;

	for (unsigned k = 0; k < DIW_STREAMREG_SEGMENTS; k++) {
		for (uint32_t i = 0; i < DIW_STREAMREG_INITIATOR; i++) {
			ck_assert_ptr_null(diw_streamreg_find(reg, cookie));
			st = diw_streamreg_back(reg, diw_streamreg_at(cookie, k, i));
			ck_assert_ptr_nonnull(st);
			atomic_store(&st->cookie, cookie);
			ck_assert_ptr_eq(diw_streamreg_find(reg, cookie), st);
			atomic_store(&st->cookie, 1);
		}
	}
	ck_assert_ptr_null(diw_streamreg_find(reg, cookie));
	ck_assert_uint_lt(blocks(), 2000000);
	munmap(reg, sizeof *reg);
	unlink(path);
}
END_TEST

START_TEST(is_made_anew_when_unfinished)
{
	static const uint64_t nothing;
	struct diw_sockreg *reg = opened(true);

	munmap(reg, sizeof *reg);
	spoil(offsetof(struct diw_sockreg, magic), &nothing, sizeof nothing);
	ck_assert_ptr_null(opened(false));
	ck_assert_ptr_null(why);
	reg = opened(true);
	ck_assert_ptr_nonnull(reg);
	munmap(reg, sizeof *reg);
}
END_TEST

START_TEST(is_refused_when_others_may_write)
{
	struct diw_sockreg *reg = opened(true);
	char dir[PATH_MAX];

	munmap(reg, sizeof *reg);
	snprintf(dir, sizeof dir, "%s", path);
	*strrchr(dir, '/') = '\0';
	ck_assert_int_eq(chmod(path, 0620), 0);
	ck_assert_ptr_null(opened(true));
	ck_assert_ptr_nonnull(why);
	ck_assert_int_eq(chmod(path, 0600), 0);
	ck_assert_int_eq(chmod(dir, 0703), 0);
	ck_assert_ptr_null(opened(true));
	ck_assert_int_eq(chmod(dir, 0700), 0);
	reg = opened(true);
	ck_assert_ptr_nonnull(reg);
	munmap(reg, sizeof *reg);
}
END_TEST

Suite *suite_sockreg(void)
{
	Suite *s = suite_create("sockreg");
	TCase *t = tcase_create("registry");

	tcase_add_checked_fixture(t, in_own_directory, remove_it);
	tcase_add_test(t, is_shared);
	tcase_add_test(t, is_not_there);
	tcase_add_loop_test(t, dies_with_its_owner, 0, 2);
	tcase_add_test(t, is_read_whole);
	tcase_add_test(t, is_refused_when_damaged);
	tcase_add_test(t, leaves_other_versions_alone);
	tcase_add_test(t, streams_of_another_boot_are_no_more);
	tcase_add_test(t, grows);
	tcase_add_test(t, goes_on_in_the_next_segment);
	tcase_add_test(t, does_not_grow_beyond_its_file);
	tcase_add_test(t, streams_go_on_in_the_next_segment);
	tcase_add_test(t, is_made_anew_when_unfinished);
	tcase_add_test(t, is_refused_when_others_may_write);
	suite_add_tcase(s, t);
	return s;
}
