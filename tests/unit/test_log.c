/* SPDX-License-Identifier: BSD-2-Clause */
/* DIWARP_LOG: each refusal names the argument, its value and the limit, and a line goes only where it may. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "tests/unit/unit.h"
#include "tests/unit/verbs_kit.h"

static char dir[] = "/tmp/diwarp-log.XXXXXX", path[64], text[65536];
static struct kit k;
static struct end e;

static void begin(const char *level)
{
	strcpy(dir + sizeof dir - 7, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/log", dir);
	setenv("DIWARP_LOG", level, 1);
	setenv("DIWARP_LOG_FILE", path, 1);
	diw_log_reread();
}

static void end(void)
{
	unsetenv("DIWARP_LOG");
	unsetenv("DIWARP_LOG_FILE");
	diw_log_reread();
	unlink(path);
	ck_assert_int_eq(rmdir(dir), 0);
}

/* The lines logged since the last call. */
static const char *logged(void)
{
	int fd = open(path, O_RDWR);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);

	text[n] = '\0';
	if (fd >= 0) {
		ck_assert_int_eq(ftruncate(fd, 0), 0);
		close(fd);
	}
	return text;
}

static void qp_says(void (*spoil)(struct diw_qp_attr *), const char *says)
{
	struct diw_qp_attr attr;
	struct diw_qp *qp;

	end_attr(&attr);
	attr.send_cq = e.scq;
	attr.recv_cq = e.rcq;
	spoil(&attr);
	ck_assert_int_eq(diw_qp_create(k.pd, &attr, &qp), -EINVAL);
	ck_assert_msg(strstr(logged(), says), "\"%s\" is not in: %s", says, text);
	ck_assert_ptr_nonnull(strstr(text, "error: diw_qp_create: "));
	ck_assert_ptr_nonnull(strstr(text, " (EINVAL)\n"));
}

#define SPOIL(name, what) static void name(struct diw_qp_attr *x) { what; }
SPOIL(no_rcq, x->recv_cq = NULL)
SPOIL(sq_big, x->sq_depth = 65537)
SPOIL(sge_17, x->max_sge = 17)
SPOIL(inline_big, x->max_inline = 513)
SPOIL(bad_type, x->type = 7)
SPOIL(mulpdu_small, x->mulpdu = 127)
SPOIL(record_0, x->dgram.record_timeout_ns = 0)

START_TEST(a_queue_pair_that_cannot_be_says_why)
{
	begin("error");
	kit_open(&k, DIW_PROGRESS_THREAD);
	end_open(&e, &k, NULL, 16);
	ck_assert_str_eq(logged(), "");
	qp_says(no_rcq, "recv_cq is NULL");
	qp_says(sq_big, "sq_depth 65537: not 1 to 65536");
	qp_says(sge_17, "max_sge 17: not 1 to 16");
	qp_says(inline_big, "max_inline 513: not 0 to 512");
	qp_says(bad_type, "type 7: not UD, UC, RC or RD");
	qp_says(mulpdu_small, "mulpdu 127: not 128 to 65503");
	qp_says(record_0, "record_timeout_ns 0: less than 1");
	end_close(&e);
	kit_close(&k);
	end();
}
END_TEST

static void says(int rc, int want, const char *why)
{
	ck_assert_int_eq(rc, want);
	ck_assert_msg(strstr(logged(), why), "\"%s\" is not in: %s", why, text);
}

START_TEST(other_calls_say_why)
{
	struct diw_sge sge = { k.mem, 8, 0 };
	struct diw_send_wr wr = { .sge = &sge, .num_sge = 1 };
	const struct diw_send_wr *bad;
	struct diw_dev *dev;
	struct diw_cq *cq;
	struct diw_mr *mr, *mr2;
	struct diw_mr_attr chosen = { .addr = &sge, .length = 8, .stag = DIW_STAG_CHOSEN_MAX + 1 };
	const struct diw_addr none = { .port = 1 };

	begin("error");
	kit_open(&k, DIW_PROGRESS_THREAD);
	end_open(&e, &k, NULL, 16);
	says(diw_dev_open("diw_none", NULL, &dev), -ENODEV, "diw_dev_open: \"diw_none\"");
	says(diw_dev_close(k.dev), -EBUSY, "diw_dev_close: 1 protection domains, 1 queue pairs");
	says(diw_cq_create(k.dev, 0, NULL, NULL, &cq), -EINVAL, "diw_cq_create: depth 0");
	says(diw_qp_attach(e.qp, &none), -EINVAL, "diw_qp_attach: ");
	says(diw_qp_detach(e.qp, &none), -EINVAL, "diw_qp_detach: ");
	says(diw_mr_reg(k.pd, &sge, 8, 1 << 20, &mr), -EINVAL, "diw_mr_reg: access 0x100000: 0x100000 is unknown");
	says(diw_mr_reg(k.pd, &sge, 8, DIW_ACCESS_REMOTE_WRITE, &mr), -EINVAL, "needs LOCAL_WRITE");
	says(diw_mr_reg(k.pd, &sge, 8, DIW_ACCESS_GROUP_WRITE, &mr), -EINVAL, "needs LOCAL_WRITE");
	says(diw_mr_reg_attr(k.pd, &chosen, &mr), -EINVAL, "STag 0x1000000: choose one of 0x100 to 0xffffff");
	chosen.stag = 0x1234;
	ck_assert_int_eq(diw_mr_reg_attr(k.pd, &chosen, &mr), 0);
	chosen.stag = 0x12ff;
	says(diw_mr_reg_attr(k.pd, &chosen, &mr2), -EEXIST, "STag 0x12ff: the device has a region with its index 0x12");
	says(diw_mr_rereg(mr, k.pd, &chosen), -EINVAL, "STag 0x12ff: the region keeps 0x1234");
	ck_assert_int_eq(diw_mr_dereg(mr), 0);
	says(diw_post_send(e.qp, &wr, &bad), -EINVAL, "diw_post_send: no destination");
	says(diw_qp_impair(e.qp, "loss=2", NULL, 0), -EINVAL, "diw_qp_impair: ");
	end_close(&e);
	kit_close(&k);
	end();
}
END_TEST

START_TEST(levels)
{
	begin("warn");
	diw_log(DIW_LOG_INFO, "no");
	diw_log(DIW_LOG_WARN, "yes");
	ck_assert_ptr_nonnull(strstr(logged(), "warn: yes\n"));
	ck_assert_ptr_null(strstr(text, "no\n"));
	setenv("DIWARP_LOG", "off", 1);
	diw_log_reread();
	diw_log(DIW_LOG_TELL, "no");
	ck_assert_str_eq(logged(), "");
	setenv("DIWARP_LOG", "loud", 1);
	diw_log_reread();
	diw_log(DIW_LOG_ERROR, "no");
	ck_assert_ptr_nonnull(strstr(logged(), "DIWARP_LOG=loud: not one of"));
	unsetenv("DIWARP_LOG");
	diw_log_reread();
	diw_log(DIW_LOG_TELL, "yes");
	ck_assert_int_eq(diw_fail(-EPERM, "no"), -EPERM);
	ck_assert_ptr_nonnull(strstr(logged(), ": yes\n"));
	ck_assert_ptr_null(strstr(text, "no"));
	end();
}
END_TEST

START_TEST(a_line_stays_a_line)
{
	char longer[2000];

	begin("debug");
	memset(longer, 'x', sizeof longer - 1);
	longer[sizeof longer - 1] = '\0';
	errno = ENOTTY;
	diw_log(DIW_LOG_DEBUG, "a\nb\x1b[2J%s", longer);
	ck_assert_int_eq(errno, ENOTTY);
	ck_assert_ptr_nonnull(strstr(logged(), "a?b?[2Jxxx"));
	ck_assert_ptr_eq(strchr(text, '\n'), text + strlen(text) - 1);
	ck_assert_uint_le(strlen(text), 512);
	end();
}
END_TEST

START_TEST(only_a_file_of_our_own)
{
	struct stat st;
	char other[64];
	int fd;

	begin("error");
	snprintf(other, sizeof other, "%s/other", dir);
	ck_assert_int_eq(symlink(other, path), 0);
	diw_log(DIW_LOG_ERROR, "no");
	ck_assert_int_lt(access(other, F_OK), 0);       /* the link was not followed */
	unlink(path);
	fd = open(other, O_CREAT | O_WRONLY, 0600);
	ck_assert_int_eq(link(other, path), 0);
	diw_log(DIW_LOG_ERROR, "no");
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_int_eq(st.st_size, 0);                /* neither was a file with a second name written */
	close(fd);
	unlink(path);
	unlink(other);
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	diw_log(DIW_LOG_ERROR, "no");                   /* there is no reader */
	unlink(path);
	umask(0);
	diw_log(DIW_LOG_ERROR, "yes");
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_uint_eq(st.st_mode & 0777, 0600);
	end();
}
END_TEST

/* Descriptor 2 belongs to the program: another file in its place is not a log. */
START_TEST(another_file_at_descriptor_2)
{
	struct stat st;
	int fd, pipes[2];

	begin("error");
	unsetenv("DIWARP_LOG_FILE");
	fd = open(path, O_CREAT | O_RDWR, 0600);
	ck_assert_int_eq(dup2(fd, 2), 2);
	diw_log(DIW_LOG_ERROR, "no");
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_int_eq(st.st_size, 0);
	close(2);
	ck_assert_int_eq(open(path, O_WRONLY | O_APPEND), 2);
	diw_log(DIW_LOG_ERROR, "no");                   /* it may be a journal */
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_int_eq(st.st_size, 0);
	ck_assert_int_eq(pipe(pipes), 0);
	dup2(pipes[1], 2);
	diw_log(DIW_LOG_ERROR, "no");
	fcntl(pipes[0], F_SETFL, O_NONBLOCK);
	ck_assert_int_lt(read(pipes[0], text, 1), 0);
	end();
}
END_TEST

START_TEST(ten_a_second)
{
	struct diw_log_limit l = { 0 };
	int n = 0;

	for (int i = 0; i < 100; i++)
		n += diw_log_may(&l, 5000000000u);
	ck_assert_int_eq(n, 10);
	ck_assert(diw_log_may(&l, 6000000000u));
}
END_TEST

Suite *suite_log(void)
{
	Suite *s = suite_create("log");
	TCase *t = tcase_create("log");

	tcase_add_test(t, a_queue_pair_that_cannot_be_says_why);
	tcase_add_test(t, other_calls_say_why);
	tcase_add_test(t, levels);
	tcase_add_test(t, a_line_stays_a_line);
	tcase_add_test(t, only_a_file_of_our_own);
	tcase_add_test(t, another_file_at_descriptor_2);
	tcase_add_test(t, ten_a_second);
	suite_add_tcase(s, t);
	return s;
}
