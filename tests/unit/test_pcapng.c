/* SPDX-License-Identifier: BSD-2-Clause */
/* The pcapng writer: the file's content, and the errors if it cannot be written. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/wire.h"
#include "llp/pcapng.h"
#include "tests/unit/fake_dgram.h"
#include "tests/unit/pcapng_kit.h"
#include "tests/unit/unit.h"

static char dir[64], path[96];

static void setup(void)
{
	strcpy(dir, "/tmp/diw-pcapng-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/file", dir);
}

static void teardown(void)
{
	unlink(path);
	rmdir(dir);
}

/* The internet checksum over a region that contains its own checksum is 0. */
static uint16_t sum(uint32_t s, const uint8_t *p, size_t len)
{
	for (; len > 1; p += 2, len -= 2)
		s += diw_get16(p);
	if (len)
		s += (uint32_t)*p << 8;
	while (s >> 16)
		s = (s & 0xffff) + (s >> 16);
	return (uint16_t)~s;
}

START_TEST(packets)
{
	uint8_t one[] = "abcde", two[] = "fghij";
	struct iovec iov[2] = { { one, 5 }, { two, 5 } };
	struct diw_addr a = fake_addr(1, 4791), b = fake_addr(2, 4792);
	struct diw_addr a6 = { .ip = { 0x20, 1, [15] = 1 }, .port = 1 },
		b6 = { .ip = { 0x20, 1, [15] = 2 }, .port = 2 };
	struct diw_pcapng *p;
	struct png g;

	ck_assert_int_eq(diw_pcapng_open(path, &p), 0);
	ck_assert_int_eq(diw_pcapng_write(p, &(struct diw_pcapng_packet){ .src = &a, .dst = &b, .outbound = true,
		.ns = 1234567890123456789ull, .iov = iov, .off = 3, .len = 6 }), 0);
	ck_assert_int_eq(diw_pcapng_write(p, &(struct diw_pcapng_packet){ .src = &a6, .dst = &b6, .iov = iov, .len = 7,
		.comment = "rx_crc" }), 0);
	ck_assert_int_eq(diw_pcapng_write(p, &(struct diw_pcapng_packet){ .src = &a, .dst = &b, .iov = iov }), 0);
	diw_pcapng_close(p);
	png_read(&g, path);
	ck_assert_int_eq(g.n, 3);
	ck_assert_uint_eq(g.link, 101);
	ck_assert_uint_eq(g.tsresol, 9);

	ck_assert_uint_eq(g.packet[0].ns, 1234567890123456789ull);
	ck_assert_uint_eq(g.packet[0].flags, 2);
	ck_assert_str_eq(g.packet[0].comment, "");
	ck_assert_uint_eq(g.packet[0].len, 20 + 8 + 6);
	ck_assert_uint_eq(g.packet[0].data[0], 0x45);
	ck_assert_uint_eq(diw_get16(g.packet[0].data + 2), 34);
	ck_assert_uint_eq(sum(0, g.packet[0].data, 20), 0);
	ck_assert_mem_eq(g.packet[0].data + 12, a.ip + 12, 4);
	ck_assert_mem_eq(g.packet[0].data + 16, b.ip + 12, 4);
	ck_assert_uint_eq(diw_get16(g.packet[0].data + 20), 4791);
	ck_assert_uint_eq(diw_get16(g.packet[0].data + 22), 4792);
	ck_assert_uint_eq(sum(17 + 14, g.packet[0].data + 12, 22), 0);
	ck_assert_mem_eq(g.packet[0].data + 28, "defghi", 6);

	ck_assert_uint_eq(g.packet[1].flags, 1);
	ck_assert_str_eq(g.packet[1].comment, "rx_crc");
	ck_assert_uint_eq(g.packet[1].len, 40 + 8 + 7);
	ck_assert_uint_eq(g.packet[1].data[0], 0x60);
	ck_assert_uint_eq(diw_get16(g.packet[1].data + 4), 15);
	ck_assert_mem_eq(g.packet[1].data + 8, a6.ip, 16);
	ck_assert_mem_eq(g.packet[1].data + 24, b6.ip, 16);
	ck_assert_uint_eq(sum(17 + 15, g.packet[1].data + 8, 47), 0);
	ck_assert_mem_eq(g.packet[1].data + 48, "abcdefg", 7);
	ck_assert_uint_eq(g.packet[2].len, 28);
	png_free(&g);
}
END_TEST

START_TEST(segments)
{
	static uint8_t big[DIW_PCAPNG_MAX_TCP];
	struct iovec iov = { big, sizeof big };
	struct diw_addr a = fake_addr(1, 4791), b = fake_addr(2, 4792);
	struct diw_addr a6 = { .ip = { 0x20, 1, [15] = 1 }, .port = 1 };
	struct diw_pcapng_tcp tcp = { .seq = 0xfffffffe, .ack = 7, .flags = DIW_PCAPNG_PSH | DIW_PCAPNG_ACK };
	struct diw_pcapng_packet k = { .src = &a, .dst = &b, .iov = &iov, .tcp = &tcp };
	struct diw_pcapng *p;
	struct png g;

	for (size_t i = 0; i < sizeof big; i++)
		big[i] = (uint8_t)(i * 11);
	ck_assert_int_eq(diw_pcapng_open(path, &p), 0);
	for (k.len = 0; k.len < 4; k.len++)
		ck_assert_int_eq(diw_pcapng_write(p, &k), 0);
	k.len = sizeof big;
	ck_assert_int_eq(diw_pcapng_write(p, &k), 0);
	k.src = k.dst = &a6;
	ck_assert_int_eq(diw_pcapng_write(p, &k), 0);
	diw_pcapng_close(p);
	png_read(&g, path);
	ck_assert_int_eq(g.n, 6);
	for (uint32_t i = 0; i < 5; i++) {
		const uint8_t *ip = g.packet[i].data, *t = ip + 20;
		uint32_t len = i < 4 ? i : sizeof big;

		ck_assert_uint_eq(g.packet[i].len, 40 + len);
		ck_assert_uint_eq(diw_get16(ip + 2), 40 + len);
		ck_assert_uint_eq(ip[9], 6);
		ck_assert_uint_eq(sum(0, ip, 20), 0);
		ck_assert_uint_eq(sum(6 + 20 + len, ip + 12, 28 + len), 0);
		ck_assert_uint_eq(diw_get16(t), 4791);
		ck_assert_uint_eq(diw_get16(t + 2), 4792);
		ck_assert_uint_eq(diw_get32(t + 4), 0xfffffffe);
		ck_assert_uint_eq(diw_get32(t + 8), 7);
		ck_assert_uint_eq(t[12], 0x50);
		ck_assert_uint_eq(t[13], 0x18);
		ck_assert_mem_eq(t + 20, big, len);
	}
	ck_assert_uint_eq(g.packet[5].data[6], 6);
	ck_assert_uint_eq(diw_get16(g.packet[5].data + 4), 20 + sizeof big);
	ck_assert_uint_eq(sum(6 + 20 + sizeof big, g.packet[5].data + 8, 32 + 20 + sizeof big), 0);
	png_free(&g);
}
END_TEST

/* More than the writer buffers, in packets of the largest size. */
START_TEST(large)
{
	static uint8_t big[65507];
	struct iovec iov = { big, sizeof big };
	struct diw_addr a6 = { .ip = { 0x20, [15] = 1 }, .port = 1 };
	struct diw_pcapng *p;
	struct png g;

	ck_assert_int_eq(diw_pcapng_open(path, &p), 0);
	for (int i = 0; i < 20; i++) {
		big[0] = (uint8_t)i;
		ck_assert_int_eq(diw_pcapng_write(p, &(struct diw_pcapng_packet){ .src = &a6, .dst = &a6, .iov = &iov,
			.len = sizeof big, .comment = "c" }), 0);
	}
	diw_pcapng_close(p);
	png_read(&g, path);
	ck_assert_int_eq(g.n, 20);
	for (int i = 0; i < 20; i++)
		ck_assert_uint_eq(g.packet[i].data[48], i);
	png_free(&g);
}
END_TEST

START_TEST(not_a_file)
{
	struct diw_pcapng *p, *q;

	ck_assert_int_eq(diw_pcapng_open("/nonexistent/x", &p), -ENOENT);
	ck_assert_int_eq(diw_pcapng_open(dir, &p), -EISDIR);
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	ck_assert_int_eq(diw_pcapng_open(path, &p), -EINVAL);   /* it is a FIFO */
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(diw_pcapng_open(path, &p), 0);
	ck_assert_int_eq(diw_pcapng_open(path, &q), -EBUSY);
	diw_pcapng_close(p);
	ck_assert_int_eq(diw_pcapng_open(path, &q), 0);
	diw_pcapng_close(q);
}
END_TEST

/* An existing file that is no capture of the user is not changed. */
START_TEST(not_to_be_overwritten)
{
	char other[sizeof path + 8], text[8] = "";
	struct diw_pcapng *p;
	struct stat st;
	int fd;

	snprintf(other, sizeof other, "%s.other", path);
	fd = open(other, O_CREAT | O_RDWR, 0644);
	ck_assert_int_eq(write(fd, "thesis", 6), 6);
	ck_assert_int_eq(diw_pcapng_open(other, &p), -EEXIST);
	ck_assert_int_eq(symlink(other, path), 0);
	ck_assert_int_eq(diw_pcapng_open(path, &p), -ELOOP);
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(link(other, path), 0);
	ck_assert_int_eq(diw_pcapng_open(path, &p), -EPERM);
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(pread(fd, text, sizeof text, 0), 6);
	ck_assert_str_eq(text, "thesis");
	ck_assert_int_eq(ftruncate(fd, 0), 0);
	ck_assert_int_eq(diw_pcapng_open(other, &p), 0);
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_uint_eq(st.st_mode & 0777, 0600);
	diw_pcapng_close(p);
	close(fd);
	unlink(other);
	ck_assert_int_eq(symlink(other, path), 0);
	ck_assert_int_eq(diw_pcapng_open(path, &p), -ELOOP);
	ck_assert_int_lt(access(other, F_OK), 0);
}
END_TEST

START_TEST(full_disk)
{
	struct diw_addr a = fake_addr(1, 1);
	struct iovec iov = { dir, 4 };
	struct diw_pcapng_packet k = { .src = &a, .dst = &a, .iov = &iov, .len = 4 };
	struct diw_pcapng *p;

	ck_assert_int_eq(diw_pcapng_open("/dev/full", &p), 0);
	ck_assert_int_eq(diw_pcapng_write(p, &k), -ENOSPC);
	ck_assert_int_eq(diw_pcapng_write(p, &k), 0);           /* reported once */
	ck_assert_int_eq(diw_pcapng_flush(p), 0);
	diw_pcapng_close(p);
}
END_TEST

/* The file ends with a whole block, and SIGXFSZ does not come. */
START_TEST(file_limit)
{
	static uint8_t data[10000];
	struct rlimit before, lim;
	struct diw_addr a = fake_addr(1, 1);
	struct iovec iov = { data, sizeof data };
	struct diw_pcapng_packet k = { .src = &a, .dst = &a, .iov = &iov, .len = sizeof data };
	struct diw_pcapng *p;
	struct png g;
	int told = 0;

	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
	lim = before;
	lim.rlim_cur = 400000;
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &lim), 0);
	ck_assert_int_eq(diw_pcapng_open(path, &p), 0);
	for (int i = 0; i < 200; i++) {
		int rc = diw_pcapng_write(p, &k);

		ck_assert(rc == 0 || rc == -EFBIG);
		told += rc != 0;
	}
	ck_assert_int_eq(told, 1);
	diw_pcapng_close(p);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
	png_read(&g, path);
	ck_assert_int_eq(g.n, 39);              /* as many as the limit allows */
	png_free(&g);
}
END_TEST

Suite *suite_pcapng(void)
{
	Suite *s = suite_create("pcapng");
	TCase *tc = tcase_create("pcapng");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, packets);
	tcase_add_test(tc, segments);
	tcase_add_test(tc, large);
	tcase_add_test(tc, not_a_file);
	tcase_add_test(tc, not_to_be_overwritten);
	tcase_add_test(tc, full_disk);
	tcase_add_test(tc, file_limit);
	suite_add_tcase(s, tc);
	return s;
}
