/* SPDX-License-Identifier: BSD-2-Clause */
/* llp/shm_bytes.c, llp/shm_stream.c: the ring of octets, a hostile process at its other end, how two ends decide. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "llp/shm_bytes.h"
#include "llp/shm_stream.h"
#include "tests/unit/fake_stream.h"
#include "tests/unit/unit.h"
#include "verbs/diw.h"

#define BYTES (2 * DIW_SHM_BYTES)
#define LO "00000000000000000000ffff7f000001"         /* 127.0.0.1 */
#define MSG_MAGIC 0x64737331u
#define MAP_SIZE (2 * sizeof(struct diw_shm_bytes))

static struct diw_shm_bytes *ring;
static struct diw_shm_end tx, rx;
static struct diw_rng rng;
static uint8_t pattern[BYTES], buf[BYTES];

static void ring_setup(void)
{
	ring = aligned_alloc(64, sizeof *ring);
	memset(ring, 0, sizeof *ring);
	tx = rx = (struct diw_shm_end){ .ring = ring };
	rng = (struct diw_rng){ .state = 11 };
	for (uint32_t i = 0; i < BYTES; i++)
		pattern[i] = (uint8_t)(i % DIW_SHM_BYTES * 13 + i % DIW_SHM_BYTES / 241);
}

static void ring_teardown(void)
{
	free(ring);
}

/* Three pieces, of which one may be empty. */
static int pieces(struct iovec iov[3], uint8_t *p, size_t len)
{
	iov[0] = (struct iovec){ p, len / 3 };
	iov[1] = (struct iovec){ p + len / 3, len / 5 };
	iov[2] = (struct iovec){ p + len / 3 + len / 5, len - len / 3 - len / 5 };
	return 3;
}

static size_t some_octets(void)
{
	static const size_t most[] = { 8, 100, 5000, 40000, DIW_SHM_BYTES };

	return 1 + diw_rng_next(&rng) % most[diw_rng_next(&rng) % 5];
}

/* ---- The ring ---- */

/* Octets come out in order, however the ends take turns. */
START_TEST(bytes_in_order)
{
	uint64_t in = 0, out = 0;
	struct iovec iov[3];
	unsigned full = 0, empty = 0;

	while (out < 50ull * DIW_SHM_BYTES) {
		size_t at = in % DIW_SHM_BYTES, len = some_octets();
		ssize_t n = diw_shm_write(&tx, iov, pieces(iov, pattern + at, len));

		ck_assert(n == -EAGAIN || (n > 0 && (size_t)n <= len));
		full += n == -EAGAIN || (size_t)n < len;
		in += n > 0 ? (uint64_t)n : 0;
		len = some_octets();
		n = diw_shm_read(&rx, iov, pieces(iov, buf, len));
		ck_assert(n == -EAGAIN || (n > 0 && (size_t)n <= len));
		empty += n == -EAGAIN || (size_t)n < len;
		if (n > 0)
			ck_assert_mem_eq(buf, pattern + out % DIW_SHM_BYTES, (size_t)n);
		out += n > 0 ? (uint64_t)n : 0;
		ck_assert_int_eq(diw_shm_readable(&rx), in != out);
		ck_assert_int_eq(diw_shm_writable(&tx), in - out != DIW_SHM_BYTES);
	}
	ck_assert_uint_gt(full, 0);
	ck_assert_uint_gt(empty, 0);
}
END_TEST

static ssize_t put(size_t len)
{
	return diw_shm_write(&tx, &(struct iovec){ pattern, len }, 1);
}

static ssize_t get(size_t len)
{
	return diw_shm_read(&rx, &(struct iovec){ buf, len }, 1);
}

START_TEST(bytes_wake_once)
{
	ring->asleep = 1;
	ck_assert_int_eq(put(10), 10);
	ck_assert(diw_shm_wakes_reader(&tx));
	ck_assert(!diw_shm_wakes_reader(&tx));
	ck_assert_int_eq(put(DIW_SHM_BYTES), DIW_SHM_BYTES - 10);
	ck_assert_int_eq(put(1), -EAGAIN);
	ring->full = 1;
	ck_assert_int_eq(get(1000), 1000);
	ck_assert(!diw_shm_wakes_writer(&rx));          /* half of the ring is not free yet */
	ck_assert_int_eq(get(DIW_SHM_BYTES / 2), DIW_SHM_BYTES / 2);
	ck_assert(diw_shm_wakes_writer(&rx));
	ck_assert(!diw_shm_wakes_writer(&rx));
}
END_TEST

/* A process that writes anything to the positions: each call moves at most what it was given and what the ring has, or
 * finds the fault. */
START_TEST(bytes_hostile)
{
	static const uint64_t words[] = { 0, 1, DIW_SHM_BYTES - 1, DIW_SHM_BYTES, DIW_SHM_BYTES + 1, 1ull << 32,
					  1ull << 63, UINT64_MAX };
	unsigned refused = 0, moved = 0;

	for (int round = 0; round < 20000; round++) {
		uint64_t r = diw_rng_next(&rng), base = r & 8 ? 0 : r & 16 ? tx.tail : rx.head;
		ssize_t n;

		if (r % 3 == 0)
			ring->tail = base + words[r >> 8 & 7];
		if (r % 5 == 0)
			ring->head = base - words[r >> 16 & 7];
		n = r & 1 ? put(some_octets()) : get(some_octets());
		ck_assert(n == -EAGAIN || n == -EPROTO || (n > 0 && n <= DIW_SHM_BYTES));
		refused += n == -EPROTO;
		moved += n > 0;
		if (n == -EPROTO) {             /* the stream ends; another one begins */
			ring->head = ring->tail = 0;
			tx = rx = (struct diw_shm_end){ .ring = ring };
		}
	}
	ck_assert_uint_gt(refused, 1000);
	ck_assert_uint_gt(moved, 1000);
}
END_TEST

/* ---- Two ends ---- */

static struct diw_shm_host host;
static struct diw_counters counters[2];
static struct fake_stream *fake[2];          /* the responder's and the initiator's lower stream */
static struct diw_stream *end[2];
static unsigned readies, wakes;

static bool count_ready(void *owner)
{
	(void)owner;
	readies++;
	return true;
}

static void count_wake(void *owner)
{
	(void)owner;
	wakes++;
}

static void ends_setup(void)
{
	static uint16_t port = 20000;

	ck_assert_int_eq(diw_shm_host_open(&host), 0);
	host.ready = count_ready;
	host.wakes = count_wake;
	readies = wakes = 0;
	memset(counters, 0, sizeof counters);
	for (int i = 0; i < 2; i++) {
		fake[i] = fake_stream_new();
		fake[i]->room = fake[i]->piece = SIZE_MAX;
		fake[i]->s.near = true;
		ck_assert_int_eq(diw_addr_parse("127.0.0.1", 0, &fake[i]->s.local), 0);
		fake[i]->s.peer = fake[i]->s.local;
		fake[i]->s.local.port = (uint16_t)(port + (getpid() % 20000) + i);
		fake[i]->s.peer.port = (uint16_t)(port + (getpid() % 20000) + !i);
		end[i] = &fake[i]->s;
	}
	for (uint32_t i = 0; i < BYTES; i++)
		pattern[i] = (uint8_t)(i * 13 + i / 241);
}

static void ends_teardown(void)
{
	for (int i = 0; i < 2; i++) {
		end[i]->ops->close(end[i], true);
		ck_assert_int_eq(fake[i]->closed, 1);
		fake_stream_free(fake[i]);
	}
	ck_assert_uint_eq(host.nstreams, 0);
	diw_shm_host_close(&host);
}

static void offer(void)
{
	diw_shm_stream_offer(&host, &end[0], &counters[0], &end[0]);
}

static void join(void)
{
	diw_shm_stream_join(&host, &end[1], &counters[1], &end[1]);
}

static ssize_t end_send(int i, size_t len)
{
	return end[i]->ops->send(end[i], &(struct iovec){ pattern, len }, 1);
}

static ssize_t end_recv(int i, size_t len)
{
	return end[i]->ops->recv(end[i], &(struct iovec){ buf, len }, 1);
}

/* Reads of an empty ring look at the lower stream now and then. */
static ssize_t end_recv_at_last(int i)
{
	ssize_t n = -EAGAIN;

	for (int tries = 0; n == -EAGAIN && tries < 1000; tries++)
		n = end_recv(i, 100);
	return n;
}

static void both_by_memory(void)
{
	offer();
	join();
	ck_assert_int_eq(end_recv(0, 100), -EAGAIN);
	ck_assert(end[0]->wakes && end[1]->wakes);
}

START_TEST(memory_carries)
{
	both_by_memory();
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(end_send(i, 5000), 5000);
		ck_assert_int_eq(end_recv(!i, 100), 100);
		ck_assert_int_eq(end_recv(!i, 10000), 4900);
		ck_assert_mem_eq(buf, pattern + 100, 4900);
		ck_assert_uint_eq(fake[i]->ntx, 0);
		ck_assert_uint_eq(counters[i].shm_tx_bytes, 5000);
		ck_assert_uint_eq(counters[!i].shm_rx_bytes, 5000);
	}
}
END_TEST

/* Two addresses of full length have a name, too. */
START_TEST(long_addresses)
{
	for (int i = 0; i < 2; i++) {
		memset(fake[i]->s.local.ip, 0xab, sizeof fake[i]->s.local.ip);
		memset(fake[i]->s.peer.ip, 0xab, sizeof fake[i]->s.peer.ip);
	}
	both_by_memory();
}
END_TEST

/* The responder reads for the first time when the octets are there. */
START_TEST(memory_from_the_first_octet)
{
	offer();
	join();
	ck_assert_int_eq(end_send(1, 5), 5);
	ck_assert_int_eq(end_recv(0, 100), 5);
	ck_assert_mem_eq(buf, pattern, 5);
}
END_TEST

START_TEST(nothing_offered)
{
	join();
	ck_assert_ptr_eq(end[1], &fake[1]->s);
	offer();
	ck_assert_ptr_ne(end[0], &fake[0]->s);
	fake[0]->rx = pattern;
	fake[0]->nrx = 7;
	ck_assert_int_eq(end_recv(0, 100), 7);
	ck_assert_int_eq(end_send(0, 9), 9);
	ck_assert_uint_eq(fake[0]->ntx, 9);
	join();                                 /* it is too late */
	ck_assert_ptr_eq(end[1], &fake[1]->s);
	ck_assert_uint_eq(counters[0].shm_refused, 0);
}
END_TEST

START_TEST(apart_hosts)
{
	fake[0]->s.near = fake[1]->s.near = false;
	offer();
	join();
	ck_assert_ptr_eq(end[0], &fake[0]->s);
	ck_assert_ptr_eq(end[1], &fake[1]->s);
}
END_TEST

/* What was written before the end is read before it. */
START_TEST(the_end_is_behind)
{
	both_by_memory();
	ck_assert_int_eq(end_send(1, 5000), 5000);
	end[1]->ops->shutdown(end[1]);
	ck_assert_int_eq(fake[1]->shut, 1);
	fake[0]->eof = !_i;
	fake[0]->rx_err = ECONNRESET;
	ck_assert_int_eq(end_recv(0, 10000), 5000);
	ck_assert_int_eq(end_recv_at_last(0), _i ? -ECONNRESET : 0);
}
END_TEST

START_TEST(room_wakes)
{
	both_by_memory();
	ck_assert(!diw_shm_host_serve(&host, false, true, 1));
	ck_assert_int_eq(end_send(1, BYTES), DIW_SHM_BYTES);
	ck_assert_int_eq(end_send(1, 1), -EAGAIN);
	wakes = 0;
	ck_assert(diw_shm_host_rest(&host));    /* octets to read */
	ck_assert_uint_gt(readies, 0);
	ck_assert_uint_eq(wakes, 0);
	ck_assert_int_eq(end_recv(0, DIW_SHM_BYTES), DIW_SHM_BYTES);
	diw_shm_host_serve(&host, false, true, 2 * DIW_MS);
	ck_assert_uint_gt(wakes, 0);
	ck_assert_int_eq(end_send(1, 1), 1);
}
END_TEST

/* A thread of the writer already sleeps when the ring becomes full. */
START_TEST(room_wakes_a_sleeper)
{
	both_by_memory();
	diw_shm_host_rest(&host);
	ck_assert_int_eq(end_send(1, BYTES), DIW_SHM_BYTES);
	diw_shm_host_look(&host, true, 1);      /* the reader's wake-up */
	wakes = 0;
	ck_assert_int_eq(end_recv(0, DIW_SHM_BYTES), DIW_SHM_BYTES);
	diw_shm_host_look(&host, true, 2);
	ck_assert_uint_gt(wakes, 0);
}
END_TEST

/* The room is told once: the owner may have nothing to send any more. */
START_TEST(room_is_told_once)
{
	both_by_memory();
	ck_assert_int_eq(end_send(1, BYTES), DIW_SHM_BYTES);
	ck_assert_int_eq(end_recv(0, DIW_SHM_BYTES), DIW_SHM_BYTES);
	ck_assert(diw_shm_host_rest(&host));
	ck_assert(!diw_shm_host_rest(&host));
	ck_assert_int_eq(end_send(1, BYTES), DIW_SHM_BYTES);
	ck_assert_int_eq(end_recv(0, DIW_SHM_BYTES), DIW_SHM_BYTES);
	ck_assert(diw_shm_host_rest(&host));
}
END_TEST

/* The responder's Terminate may be in front of the initiator's first octet. */
START_TEST(responder_sends_first)
{
	offer();
	join();
	ck_assert_int_eq(end_send(0, 5), 5);
	ck_assert_uint_eq(fake[0]->ntx, 0);
	ck_assert_int_eq(end_recv(1, 100), 5);
	ck_assert_int_eq(end_send(1, 7), 7);
	ck_assert_int_eq(end_recv(0, 100), 7);
}
END_TEST

static ssize_t late_end;

static ssize_t recv_late(struct diw_stream *s, const struct iovec *iov, int n)
{
	(void)s;
	(void)iov;
	(void)n;
	if (!end[1]->wakes) {
		join();
		ck_assert_int_eq(end_send(1, 5), 5);
	}
	return late_end;
}

/* The initiator passes the memory, writes, and ends, all after the responder has looked for its call. */
START_TEST(end_behind_a_late_call)
{
	struct diw_stream_ops late = *fake[0]->s.ops;

	late.recv = recv_late;
	late_end = _i ? -ECONNRESET : 0;
	fake[0]->s.ops = &late;
	offer();
	ck_assert_int_eq(end_recv(0, 100), 5);
	ck_assert_mem_eq(buf, pattern, 5);
	ck_assert_int_eq(end_recv_at_last(0), _i ? -ECONNRESET : 0);
	ends_teardown();
	ends_setup();
}
END_TEST

/* A stream that takes the wire has no share of the streams of the host. */
START_TEST(wire_is_not_counted)
{
	offer();
	ck_assert_uint_eq(host.nstreams, 1);
	fake[0]->rx = pattern;
	fake[0]->nrx = 7;
	ck_assert_int_eq(end_recv(0, 100), 7);
	ck_assert_uint_eq(host.nstreams, 0);
}
END_TEST

/* ---- Strangers ---- */

START_TEST(lower_octets_behind_the_decision)
{
	both_by_memory();
	fake[0]->rx = pattern;
	fake[0]->nrx = 7;
	ck_assert_int_eq(end_recv_at_last(0), -ECONNRESET);
	ck_assert_uint_eq(counters[0].shm_refused, 1);
}
END_TEST

static int call(void)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int n = snprintf(un.sun_path + 1, sizeof un.sun_path - 1, "diwarp-rc-%u-" LO "-%u-" LO "-%u",
			 (unsigned)geteuid(), fake[0]->s.local.port, fake[0]->s.peer.port);
	int fd = diw_shm_socket();

	ck_assert_int_eq(connect(fd, (struct sockaddr *)&un, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
									 (size_t)n)), 0);
	return fd;
}

/* A process that calls and ends has decided nothing. */
START_TEST(stranger_ends)
{
	int fd;

	offer();
	fd = call();
	if (_i)
		ck_assert_int_eq(end_recv(0, 100), -EAGAIN);
	close(fd);
	ck_assert_int_eq(end_recv(0, 100), -EAGAIN);
	join();
	ck_assert_int_eq(end_send(1, 5), 5);
	ck_assert_int_eq(end_recv(0, 100), 5);
	ck_assert_uint_eq(counters[0].shm_refused, 0);
}
END_TEST

static int call_with_memory(void)
{
	uint32_t msg[2] = { MSG_MAGIC, MAP_SIZE };
	int fd, memory = diw_shm_memory_new(MAP_SIZE);

	offer();
	fd = call();
	ck_assert(diw_shm_tell(fd, msg, sizeof msg, memory));
	close(memory);
	ck_assert_int_eq(end_recv(0, 100), -EAGAIN);
	ck_assert(end[0]->wakes);
	return fd;
}

/* A process that ends without reading: a reset, as of TCP. One that has only ended its half may still read. */
START_TEST(stranger_leaves_octets)
{
	int fd = call_with_memory();

	ck_assert_int_eq(end_send(0, 10), 10);
	fake[0]->eof = true;
	if (_i == 0)
		close(fd);
	ck_assert_int_eq(end_recv_at_last(0), _i ? 0 : -ECONNRESET);
	if (_i)
		close(fd);
}
END_TEST

START_TEST(nobody_makes_room)
{
	int fd = call_with_memory();

	ck_assert_int_eq(end_send(0, BYTES), DIW_SHM_BYTES);
	ck_assert_int_eq(end_send(0, 1), -EAGAIN);
	close(fd);
	diw_shm_host_look(&host, true, 1);
	ck_assert_int_eq(end_send(0, 1), -EPIPE);
}
END_TEST

static int small_memory(void) { return diw_shm_memory_new(MAP_SIZE - 1); }
static int no_memory(void) { return -1; }
static int a_file(void) { return open("/dev/null", O_RDWR | O_CLOEXEC); }

static int memory_that_shrinks(void)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ck_assert_int_eq(ftruncate(fd, MAP_SIZE), 0);
	return fd;
}

static const struct {
	uint32_t magic, size;
	size_t len;
	int (*memory)(void);
} stranger[] = {
	{ MSG_MAGIC + 1, MAP_SIZE, 8, memory_that_shrinks }, { MSG_MAGIC, MAP_SIZE + 1, 8, memory_that_shrinks },
	{ MSG_MAGIC, MAP_SIZE, 7, memory_that_shrinks }, { MSG_MAGIC, MAP_SIZE, 8, memory_that_shrinks },
	{ MSG_MAGIC, MAP_SIZE, 8, small_memory }, { MSG_MAGIC, MAP_SIZE, 8, a_file },
	{ MSG_MAGIC, MAP_SIZE, 8, no_memory },
};

/* The initiator has decided, and this end cannot follow: the stream is broken. */
START_TEST(stranger_memory)
{
	uint32_t msg[2] = { stranger[_i].magic, stranger[_i].size };
	int fd, memory = stranger[_i].memory();

	offer();
	fd = call();
	ck_assert(diw_shm_tell(fd, msg, stranger[_i].len, memory));
	ck_assert_int_eq(end_recv(0, 100), -ECONNRESET);
	ck_assert_int_eq(end_recv(0, 100), -ECONNRESET);
	ck_assert_uint_eq(counters[0].shm_refused, 1);
	close(fd);
	if (memory >= 0)
		close(memory);
}
END_TEST

Suite *suite_shm_stream(void)
{
	Suite *s = suite_create("shm_stream");
	TCase *bytes = tcase_create("bytes"), *ends = tcase_create("ends");

	tcase_add_checked_fixture(bytes, ring_setup, ring_teardown);
	tcase_add_test(bytes, bytes_in_order);
	tcase_add_test(bytes, bytes_wake_once);
	tcase_add_test(bytes, bytes_hostile);
	tcase_set_timeout(bytes, 60);
	suite_add_tcase(s, bytes);
	tcase_add_checked_fixture(ends, ends_setup, ends_teardown);
	tcase_add_test(ends, memory_carries);
	tcase_add_test(ends, long_addresses);
	tcase_add_test(ends, memory_from_the_first_octet);
	tcase_add_test(ends, nothing_offered);
	tcase_add_test(ends, apart_hosts);
	tcase_add_loop_test(ends, the_end_is_behind, 0, 2);
	tcase_add_test(ends, room_wakes);
	tcase_add_test(ends, room_wakes_a_sleeper);
	tcase_add_test(ends, lower_octets_behind_the_decision);
	tcase_add_test(ends, room_is_told_once);
	tcase_add_test(ends, responder_sends_first);
	tcase_add_loop_test(ends, end_behind_a_late_call, 0, 2);
	tcase_add_test(ends, wire_is_not_counted);
	tcase_add_loop_test(ends, stranger_leaves_octets, 0, 2);
	tcase_add_test(ends, nobody_makes_room);
	tcase_add_loop_test(ends, stranger_ends, 0, 2);
	tcase_add_loop_test(ends, stranger_memory, 0, sizeof stranger / sizeof *stranger);
	suite_add_tcase(s, ends);
	return s;
}
