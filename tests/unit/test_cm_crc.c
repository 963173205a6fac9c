/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether a connection has a CRC: what both ends ask for, and what is left off if both are on this host. */
#include <unistd.h>

#include "tests/unit/cm_kit.h"
#include "tests/unit/unit.h"

#define ANNOUNCED "646977373330368f0c00"     /* what an end takes: the flags follow */

static struct cmkit m;
static struct end a, b;

static const struct {
	uint8_t crc, far_crc;
	bool plain, far_plain;
	uint32_t data_len;
	const char *env;
	bool on;
} choices[] = {
	{ DIW_CRC_AUTO, DIW_CRC_AUTO, false, false, 0, NULL, false },
	{ DIW_CRC_AUTO, DIW_CRC_OFF, false, false, 0, NULL, false },
	{ DIW_CRC_OFF, DIW_CRC_OFF, false, false, 0, NULL, false },
	{ DIW_CRC_AUTO, DIW_CRC_ON, false, false, 0, NULL, true },
	{ DIW_CRC_ON, DIW_CRC_AUTO, false, false, 0, NULL, true },
	{ DIW_CRC_OFF, DIW_CRC_AUTO, false, false, 0, NULL, true },      /* OFF does not say where the initiator is */
	{ DIW_CRC_AUTO, DIW_CRC_AUTO, true, false, 0, NULL, true },      /* without the announcement */
	{ DIW_CRC_AUTO, DIW_CRC_AUTO, false, false, 240, NULL, true },
	{ DIW_CRC_AUTO, DIW_CRC_AUTO, false, true, 239, NULL, false },
	{ DIW_CRC_AUTO, DIW_CRC_AUTO, false, false, 0, "on", true },
	{ DIW_CRC_ON, DIW_CRC_ON, true, true, 0, "off", true },
	{ DIW_CRC_AUTO, DIW_CRC_AUTO, true, true, 0, "off", false },
	{ DIW_CRC_AUTO, DIW_CRC_AUTO, false, false, 0, "auto", false },
};

static void set_env(const char *value)
{
	if (value)
		ck_assert_int_eq(setenv("DIWARP_CRC", value, 1), 0);
	else
		ck_assert_int_eq(unsetenv("DIWARP_CRC"), 0);
}

START_TEST(chosen)
{
	struct diw_conn_attr at_a = DIW_CONN_ATTR_INIT, at_b = DIW_CONN_ATTR_INIT;
	static const uint8_t data[240];
	struct diw_cm_event ev;
	struct diw_qp_info info;

	set_env(choices[_i].env);
	cm_open(&m, DIW_PROGRESS_THREAD, NULL);
	rc_open(&a, &m);
	rc_open(&b, &m);
	at_a.crc = choices[_i].crc;
	at_a.plain = choices[_i].plain;
	at_a.data = data;
	at_a.data_len = choices[_i].data_len;
	at_b.crc = choices[_i].far_crc;
	at_b.plain = choices[_i].far_plain;
	ck_assert_int_eq(diw_connect(a.qp, m.cm, &m.addr, &at_a), 0);
	cm_expect(m.cm, &ev, DIW_CM_CONNECT_REQUEST);
	ck_assert_uint_eq(ev.data_len, choices[_i].data_len);
	ck_assert_int_eq(diw_accept(ev.req, b.qp, &at_b), 0);
	for (int i = 0; i < 2; i++) {
		cm_expect(m.cm, &ev, DIW_CM_ESTABLISHED);
		ck_assert_int_eq(ev.crc, choices[_i].on);
		ck_assert_int_eq(diw_qp_query(ev.qp, &info), 0);
		ck_assert_int_eq(info.crc, choices[_i].on);
	}
	end_close(&a);
	end_close(&b);
	cm_close(&m);
	set_env(NULL);
}
END_TEST

/* A responder that is not of this library may be behind a program that forwards the stream. */
START_TEST(asks_a_stranger)
{
	struct diw_addr at;
	int lfd, fd;

	cm_open(&m, DIW_PROGRESS_THREAD, NULL);
	rc_open(&a, &m);
	lfd = raw_listen(&at, 1);
	ck_assert_int_eq(diw_connect(a.qp, m.cm, &at, NULL), 0);
	fd = raw_accept(lfd);
	expect_frame(fd, false, "500200108010c010" ANNOUNCED "000f");
	end_close(&a);
	close(fd);
	close(lfd);
	cm_close(&m);
}
END_TEST

/* Initiators: only one that asks for no CRC, and says that it may be off, gets a reply without. */
static const struct { const char *request, *reply; } asked[] = {
	{ "1002001000100010" ANNOUNCED "000f", "1002001000100010" ANNOUNCED "0007" },
	{ "5002001000100010" ANNOUNCED "000f", "5002001000100010" ANNOUNCED "0007" },
	{ "1002001000100010" ANNOUNCED "0007", "5002001000100010" ANNOUNCED "0007" },
	{ "1002001000100010" ANNOUNCED "0008", "5002000400100010" },
	{ "1002000400100010", "5002000400100010" }, { "00010000", "40010000" },
};

START_TEST(answers)
{
	struct diw_cm_event ev;
	int fd;

	cm_open(&m, DIW_PROGRESS_THREAD, NULL);
	rc_open(&b, &m);
	fd = dial(&m.addr);
	send_frame(fd, false, asked[_i].request);
	cm_expect(m.cm, &ev, DIW_CM_CONNECT_REQUEST);
	ck_assert_int_eq(diw_accept(ev.req, b.qp, NULL), 0);
	expect_frame(fd, true, asked[_i].reply);
	end_close(&b);
	close(fd);
	cm_close(&m);
}
END_TEST

START_TEST(refused)
{
	struct diw_conn_attr attr = DIW_CONN_ATTR_INIT;

	cm_open(&m, DIW_PROGRESS_THREAD, NULL);
	rc_open(&a, &m);
	attr.crc = DIW_CRC_AUTO + 1;
	ck_assert_int_eq(diw_connect(a.qp, m.cm, &m.addr, &attr), -EINVAL);
	set_env("perhaps");
	ck_assert_int_eq(diw_connect(a.qp, m.cm, &m.addr, NULL), -EINVAL);
	set_env(NULL);
	end_close(&a);
	cm_close(&m);
}
END_TEST

Suite *suite_cm_crc(void)
{
	Suite *s = suite_create("cm_crc");
	TCase *tc = tcase_create("cm_crc");

	tcase_set_timeout(tc, 20);
	tcase_add_loop_test(tc, chosen, 0, sizeof choices / sizeof *choices);
	tcase_add_test(tc, asks_a_stranger);
	tcase_add_loop_test(tc, answers, 0, sizeof asked / sizeof *asked);
	tcase_add_test(tc, refused);
	suite_add_tcase(s, tc);
	return s;
}
