/* SPDX-License-Identifier: BSD-2-Clause */
/* The registry of interposed sockets: who is believed, and until when. */
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

#include "base/sockreg.h"
#include "base/streamreg.h"
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

/* Shown under an owner that the calling thread claims. */
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

/* What an entry says holds as long as its owner lives, however that ends. */
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
	e->owner = UINT32_MAX;                       /* whatever it names, it is looked up within the table */
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
	reg = opened(true);                          /* empty, it is made anew */
	ck_assert_ptr_nonnull(reg);
	munmap(reg, sizeof *reg);
}
END_TEST

/* What another release made, at whatever length, is beside it and stays as it is. */
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

/* Whoever made it was killed before it was complete. */
/* Cookies begin anew with each boot. */
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
	tcase_add_test(t, is_made_anew_when_unfinished);
	tcase_add_test(t, is_refused_when_others_may_write);
	suite_add_tcase(s, t);
	return s;
}
