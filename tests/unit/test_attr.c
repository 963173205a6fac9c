/* SPDX-License-Identifier: BSD-2-Clause */
/* Attributes of programs that were compiled with an earlier or a later version of the headers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cm_kit.h"
#include "tests/unit/unit.h"
#include "tests/unit/verbs_kit.h"

#define LATER 16                     /* bytes by which a later version is longer */

static struct kit k;
static struct diw_cq *cq;

static void open_kit(void)
{
	kit_open(&k, DIW_PROGRESS_INLINE);
	ck_assert_int_eq(diw_cq_create(k.dev, 16, NULL, NULL, &cq), 0);
}

static void close_kit(void)
{
	ck_assert_int_eq(diw_cq_destroy(cq), 0);
	kit_close(&k);
}

static struct diw_qp_attr some_attr(void)
{
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;

	attr.send_cq = attr.recv_cq = cq;
	return attr;
}

/* The result of diw_qp_create() for a struct of SIZE bytes, whose byte AT is set to 1 if AT is not 0. ATTR is an
 * allocation of exactly SIZE bytes, so that AddressSanitizer detects an access beyond it. */
static int create_sized(size_t size, size_t at)
{
	struct diw_qp_attr attr = some_attr();
	uint8_t *given = calloc(1, size);
	struct diw_qp *qp;
	int rc;

	attr.size = size;
	memcpy(given, &attr, size < sizeof attr ? size : sizeof attr);
	if (at)
		given[at] = 1;
	rc = diw_qp_create(k.pd, (void *)given, &qp);
	if (rc == 0)
		ck_assert_int_eq(diw_qp_destroy(qp), 0);
	free(given);
	return rc;
}

START_TEST(qp_sizes)
{
	const size_t whole = sizeof(struct diw_qp_attr);

	ck_assert_int_eq(create_sized(whole, 0), 0);
	ck_assert_int_eq(create_sized(offsetof(struct diw_qp_attr, rc), 0), 0);
	ck_assert_int_eq(create_sized(offsetof(struct diw_qp_attr, dgram), 0), 0);
	ck_assert_int_eq(create_sized(offsetof(struct diw_qp_attr, send_cq), 0), -EINVAL);
	ck_assert_int_eq(create_sized(whole + LATER, 0), 0);
	ck_assert_int_eq(create_sized(whole + LATER, whole), -E2BIG);
	ck_assert_int_eq(create_sized(whole + LATER, whole + LATER - 1), -E2BIG);
	ck_assert_int_eq(create_sized(whole, offsetof(struct diw_qp_attr, dgram.reserved[0])), -E2BIG);
	ck_assert_int_eq(create_sized(whole, offsetof(struct diw_qp_attr, rc.reserved[3])), -E2BIG);
	ck_assert_int_eq(create_sized(whole, offsetof(struct diw_qp_attr, rd.reserved[3])), -E2BIG);
}
END_TEST

START_TEST(no_size)
{
	static const size_t sizes[] = { 0, sizeof(size_t) - 1, 1 << 20, SIZE_MAX };
	struct diw_qp_attr attr = some_attr();
	struct diw_qp *qp;

	attr.size = sizes[_i];
	ck_assert_int_eq(diw_qp_create(k.pd, &attr, &qp), -EINVAL);
}
END_TEST

/* Members beyond the size have their defaults, not 0: max_sge 4 allows a request of 4 entries. */
START_TEST(left_out)
{
	struct diw_qp_attr attr = some_attr();
	struct diw_sge sge[4] = { { 0 } };
	struct diw_recv_wr wr = { .sge = sge, .num_sge = 4 };
	struct diw_qp *qp;

	attr.size = offsetof(struct diw_qp_attr, sq_depth);
	attr.max_sge = 1;
	ck_assert_int_eq(diw_qp_create(k.pd, &attr, &qp), 0);
	ck_assert_int_eq(diw_post_recv(qp, &wr, NULL), 0);
	ck_assert_int_eq(diw_qp_destroy(qp), 0);
}
END_TEST

START_TEST(connections)
{
	struct diw_conn_attr conn = DIW_CONN_ATTR_INIT;
	struct diw_listen_attr listen = DIW_LISTEN_ATTR_INIT;
	struct diw_qp_attr attr = some_attr();
	struct { struct diw_listen_attr attr; uint64_t later[2]; } longer = { .attr = DIW_LISTEN_ATTR_INIT };
	struct diw_listener *listener;
	struct diw_listener_info info;
	struct diw_cm *cm;
	struct diw_qp *qp;

	attr.type = DIW_QP_RC;
	ck_assert_int_eq(diw_qp_create(k.pd, &attr, &qp), 0);
	ck_assert_int_eq(diw_cm_create(k.dev, &cm), 0);
	listen.size = 0;
	ck_assert_int_eq(diw_listen(cm, &listen, &listener), -EINVAL);
	longer.attr.size = sizeof longer;
	longer.later[1] = 1;
	ck_assert_int_eq(diw_listen(cm, &longer.attr, &listener), -E2BIG);
	longer.later[1] = 0;
	ck_assert_int_eq(diw_listen(cm, &longer.attr, &listener), 0);
	ck_assert_int_eq(diw_listener_query(listener, &info), 0);
	conn.size = 0;
	ck_assert_int_eq(diw_connect(qp, cm, &info.local, &conn), -EINVAL);
	conn.size = sizeof conn;
	conn.connect.reserved[2] = 1;
	ck_assert_int_eq(diw_connect(qp, cm, &info.local, &conn), -E2BIG);
	ck_assert_int_eq(diw_qp_destroy(qp), 0);
	ck_assert_int_eq(diw_listener_close(listener), 0);
	ck_assert_int_eq(diw_cm_destroy(cm), 0);
}
END_TEST

Suite *suite_attr(void)
{
	Suite *s = suite_create("attr");
	TCase *t = tcase_create("attr");

	tcase_add_checked_fixture(t, open_kit, close_kit);
	tcase_add_test(t, qp_sizes);
	tcase_add_loop_test(t, no_size, 0, 4);
	tcase_add_test(t, left_out);
	tcase_add_test(t, connections);
	suite_add_tcase(s, t);
	return s;
}
