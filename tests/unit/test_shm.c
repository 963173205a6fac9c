/* SPDX-License-Identifier: BSD-2-Clause */
/* llp/shm*.c: the ring, a hostile process at its other end, and how pairs are made, refused and ended. */
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
#include "base/wire.h"
#include "llp/shm.h"
#include "tests/unit/fake_dgram.h"
#include "tests/unit/unit.h"
#include "wire/seal.h"

#define BYTES 70000u

static struct diw_shm_ring *ring;
static struct diw_shm_tx tx;
static struct diw_shm_rx rx;
static struct diw_rng rng;
static uint8_t pattern[BYTES], buf[DIW_DGRAM_MAX];

static void ring_setup(void)
{
	ring = aligned_alloc(DIW_SHM_LINE, sizeof *ring);
	memset(ring, 0, sizeof *ring);
	diw_shm_ring_make(ring);
	diw_shm_ring_begin(ring, &tx, ring, &rx);
	rng = (struct diw_rng){ .state = 7 };
	for (uint32_t i = 0; i < BYTES; i++)
		pattern[i] = (uint8_t)(i * 7 + i / 251);
}

static void ring_teardown(void)
{
	free(ring);
}

/* A burst of LEN octets of the pattern from byte AT on, in several pieces. */
static int put(uint32_t at, uint32_t len, uint32_t seg)
{
	struct iovec iov[3] = { { pattern + at, len / 3 }, { NULL, 0 }, { pattern + at + len / 3, len - len / 3 } };

	return diw_shm_put(&tx, &(struct diw_dgram_burst){ .iov = iov, .niov = 3, .len = len, .seg = seg });
}

static int ring_get(uint8_t *to, uint32_t *len, uint32_t *seg)
{
	int rc = diw_shm_look(&rx, len, seg);

	if (rc == 1) {
		diw_shm_copy(&rx, *len / 2, to + *len / 2, *len - *len / 2);
		diw_shm_copy(&rx, 0, to, *len / 2);
		diw_shm_drop(&rx);
	}
	return rc;
}

/* ---- The ring ---- */

static uint32_t size_of(uint32_t i)
{
	struct diw_rng r = { .state = i };
	uint32_t kinds[] = { 1, 60, 2000, 65200, DIW_DGRAM_MAX };

	return 1 + (uint32_t)(diw_rng_next(&r) % kinds[i % 5]);
}

/* Everything comes out as it went in, however the ends take turns. */
START_TEST(ring_order)
{
	uint32_t in = 0, out = 0, full = 0, len, seg;

	while (out < 20000) {
		for (uint64_t n = diw_rng_next(&rng) % 12; n; n--) {
			uint32_t size = size_of(in);
			int rc = put(in % 1000, size, size / 2 + 1);

			ck_assert(rc == 0 || rc == -EAGAIN);
			full += rc != 0;
			in += rc == 0;
		}
		for (uint64_t n = diw_rng_next(&rng) % 12; n && diw_shm_has(&rx); n--, out++) {
			ck_assert_int_eq(ring_get(buf, &len, &seg), 1);
			ck_assert_uint_eq(len, size_of(out));
			ck_assert_uint_eq(seg, len / 2 + 1);
			ck_assert_mem_eq(buf, pattern + out % 1000, len);
		}
	}
	ck_assert_uint_gt(full, 0);
	while (out < in)
		out += (uint32_t)ring_get(buf, &len, &seg);
	ck_assert_int_eq(ring_get(buf, &len, &seg), 0);
}
END_TEST

START_TEST(ring_wakes_once)
{
	ck_assert(diw_shm_wants_wake(&tx));     /* the reader of a new ring may sleep */
	ck_assert(!diw_shm_wants_wake(&tx));
	diw_shm_sleeps(&rx, true);
	ck_assert(diw_shm_wants_wake(&tx));
	ck_assert(!diw_shm_wants_wake(&tx));
	diw_shm_sleeps(&rx, true);
	diw_shm_sleeps(&rx, false);
	ck_assert(!diw_shm_wants_wake(&tx));
}
END_TEST

static void record_write(uint64_t pos, uint32_t len, uint32_t seg)
{
	uint8_t *at = ring->data + pos % DIW_SHM_RING;

	memcpy(at, &(uint64_t){ ring->key + pos }, 8);
	memcpy(at + 8, &len, 4);
	memcpy(at + 12, &seg, 4);
}

/* A writer that writes anything anywhere: the reader reads within the ring, and gives no impossible burst. */
START_TEST(ring_hostile_writer)
{
	static const uint32_t words[] = { 0, 1, 8, DIW_DGRAM_MAX, DIW_DGRAM_MAX + 1, DIW_SHM_RING, 0x7fffffff,
					  0xfffffff0, UINT32_MAX };
	uint32_t refused = 0, taken = 0, len, seg;

	for (int round = 0; round < 100000; round++) {
		uint64_t r = diw_rng_next(&rng);
		int rc;

		record_write(rx.head, words[r % 9], words[r / 9 % 9]);
		if (r / 81 % 4 == 0)
			record_write(rx.head, (uint32_t)(r >> 20) % 70000, words[r / 9 % 9]);
		else if (r / 81 % 4 == 1)
			record_write((rx.head / DIW_SHM_RING + 1) * DIW_SHM_RING, words[r / 324 % 9], 8);
		rc = ring_get(buf, &len, &seg);
		ck_assert(rc == 0 || rc == 1 || rc == -EPROTO);
		refused += rc < 0;
		taken += rc == 1;
		if (rc == 1) {
			ck_assert_uint_le(len, DIW_DGRAM_MAX);
			ck_assert(seg > 0 && seg <= len && (len - 1) / seg < DIW_DGRAM_MAX_SEGS);
		}
		if (rc < 0)
			rx.head = diw_rng_next(&rng) % 40960 * DIW_SHM_LINE;
	}
	ck_assert_uint_gt(refused, 1000);
	ck_assert_uint_gt(taken, 1000);
}
END_TEST

/* A reader whose position goes back, or is ahead of the writer's. */
START_TEST(ring_hostile_reader)
{
	uint32_t puts = 0;

	while (put(0, 60000, 60000) == 0)
		puts++;
	ck_assert_uint_ge(puts, 3);
	atomic_store(&ring->head, tx.tail + DIW_SHM_LINE);
	ck_assert_int_eq(put(0, 60000, 60000), -EPROTO);
	atomic_store(&ring->head, (uint64_t)-64);
	ck_assert_int_eq(put(0, 60000, 60000), -EPROTO);
	atomic_store(&ring->head, tx.tail);
	ck_assert_int_eq(put(0, 60000, 60000), 0);
}
END_TEST

/* ---- Pairs: two ports over fakes, which a test connects ---- */

struct side {
	struct fake *f;
	struct diw_shm_host host;
	struct diw_dgram *d;
	int moved;                   /* datagrams that the wire has taken to the other side */
} side[2];

static uint64_t now;
static int asked;

static bool owner_ready(void *owner)
{
	(void)owner;
	asked++;
	return true;
}

static void side_open(struct side *s, uint8_t host)
{
	s->f = fake_new();
	s->f->d.local = fake_addr(host, (uint16_t)(getpid() | 0x400));
	s->moved = 0;
	ck_assert_int_eq(diw_shm_host_open(&s->host), 0);
	s->host.ready = owner_ready;
	ck_assert_int_eq(diw_shm_open(&s->host, s, &s->f->d, &s->d), 0);
}

static void side_close(struct side *s)
{
	s->d->ops->close(s->d);
	diw_shm_host_close(&s->host);
	ck_assert_int_eq(s->f->closed, 1);
	fake_free(s->f);
}

static void pair_setup(void)
{
	ring_setup();
	now = DIW_S;
	side_open(&side[0], 1);
	side_open(&side[1], 2);
}

static void pair_teardown(void)
{
	side_close(&side[0]);
	side_close(&side[1]);
	ring_teardown();
}

/* The octets of the next datagram at S, or 0. */
static uint32_t receive(struct side *s)
{
	struct diw_dgram_burst b;

	if (s->d->ops->recv(s->d, &b, 1, now) != 1)
		return 0;
	ck_assert(diw_addr_eq(&b.peer.addr, &side[s == side].f->d.local));
	ck_assert_mem_eq(b.iov->iov_base, pattern, b.len);
	return b.len;
}

static int dgram_send(struct side *s, uint32_t len)
{
	struct iovec iov = { pattern, len };

	return s->d->ops->send(s->d, &(struct diw_dgram_burst){ .peer.addr = side[s == side].f->d.local, .iov = &iov,
			       .niov = 1, .len = len, .seg = len }, 1, now);
}

/* What the sides have sent by the wire arrives, and time passes. */
static void wire_run(void)
{
	now += 100 * DIW_US;
	for (int i = 0; i < 2; i++) {
		struct side *s = &side[i];

		for (; s->moved < s->f->ntx; s->moved++) {
			const struct fake_burst *b = &s->f->tx[s->moved];

			if (diw_addr_eq(&b->peer.addr, &side[!i].f->d.local))
				fake_deliver(side[!i].f, &s->f->d.local, b->data, b->len, b->seg);
		}
	}
	for (int i = 0; i < 2; i++)
		diw_shm_host_serve(&side[i].host, false, false, now);
}

static uint64_t by_memory(const struct side *s)
{
	return s->f->c.shm_tx_datagrams;
}

static void make_pair(void)
{
	receive(&side[1]);
	receive(&side[0]);
	for (int i = 0; i < 100 && !(by_memory(&side[0]) && by_memory(&side[1])); i++) {
		ck_assert_int_eq(dgram_send(&side[0], 100), 1);
		ck_assert_int_eq(dgram_send(&side[1], 100), 1);
		wire_run();
		while (receive(&side[0]) || receive(&side[1]))
			;
	}
	ck_assert_uint_gt(by_memory(&side[0]), 0);
	ck_assert_uint_gt(by_memory(&side[1]), 0);
}

START_TEST(pair_is_made)
{
	int wire;

	ck_assert_uint_eq(side[0].d->ops->mtu(side[0].d, &side[1].f->d.local), 1472);
	make_pair();
	ck_assert_uint_eq(side[0].d->ops->mtu(side[0].d, &side[1].f->d.local), DIW_DGRAM_MAX);
	wire = side[0].f->ntx;
	for (uint32_t i = 1; i < 2000; i += 7) {
		ck_assert_int_eq(dgram_send(&side[0], i), 1);
		ck_assert_uint_eq(receive(&side[1]), i);
	}
	ck_assert_int_eq(side[0].f->ntx, wire);
	diw_shm_pause(side[0].d, true, now);
	ck_assert_int_eq(dgram_send(&side[0], 50), 1);
	ck_assert_int_eq(side[0].f->ntx, wire + 1);
}
END_TEST

/* The sleeping reader is told, by its descriptor and by its owner. */
START_TEST(pair_wakes)
{
	struct epoll_event ev;

	make_pair();
	ck_assert(!diw_shm_host_rest(&side[1].host));
	ck_assert_int_eq(dgram_send(&side[0], 10), 1);
	ck_assert_int_eq(epoll_wait(side[1].host.epfd, &ev, 1, 0), 1);
	asked = 0;
	ck_assert(diw_shm_host_serve(&side[1].host, false, false, now));
	ck_assert_int_eq(asked, 1);
	ck_assert_int_eq(epoll_wait(side[1].host.epfd, &ev, 1, 0), 0);
	ck_assert(diw_shm_host_rest(&side[1].host));
	ck_assert_uint_eq(receive(&side[1]), 10);
	ck_assert(!diw_shm_host_rest(&side[1].host));
}
END_TEST

/* A post while a thread sleeps leaves the wake-up to it. */
START_TEST(pair_wakes_behind_a_post)
{
	struct epoll_event ev;

	make_pair();
	diw_shm_host_rest(&side[1].host);
	ck_assert_int_eq(dgram_send(&side[0], 10), 1);
	now += 2 * DIW_MS;
	ck_assert_int_eq(dgram_send(&side[1], 20), 1);
	ck_assert_int_eq(epoll_wait(side[1].host.epfd, &ev, 1, 0), 1);
	ck_assert(diw_shm_host_serve(&side[1].host, false, false, now));
	ck_assert_uint_eq(receive(&side[1]), 10);
}
END_TEST

/* Another thread polls while one sleeps: it takes a datagram and the wake-up. The next datagram wakes the sleeper. */
START_TEST(pair_wakes_behind_a_poll)
{
	struct epoll_event ev;

	make_pair();
	diw_shm_host_rest(&side[1].host);
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(dgram_send(&side[0], 10), 1);
		ck_assert_int_eq(epoll_wait(side[1].host.epfd, &ev, 1, 0), 1);
		ck_assert_uint_eq(receive(&side[1]), 10);
		now += 2 * DIW_MS;
		diw_shm_host_serve(&side[1].host, true, false, now);
		ck_assert_int_eq(epoll_wait(side[1].host.epfd, &ev, 1, 0), 0);
	}
}
END_TEST

/* A full ring blocks for a while. A reader that does not read holds up nobody for longer. */
START_TEST(pair_full)
{
	int wire;

	make_pair();
	wire = side[0].f->ntx;
	while (dgram_send(&side[0], 60000) == 1)
		;
	ck_assert_int_eq(side[0].f->ntx, wire);
	ck_assert_uint_lt(side[0].d->ops->deadline(side[0].d), now + DIW_MS);
	for (int i = 0; i < 2; i++)             /* the end of the ring may be too short for one of this size */
		ck_assert_uint_eq(receive(&side[1]), 60000);
	while (dgram_send(&side[0], 60000) == 1)
		;
	ck_assert_int_eq(side[0].f->ntx, wire);
	now += DIW_MS;
	ck_assert_int_eq(dgram_send(&side[0], 60000), 1);
	ck_assert_int_eq(side[0].f->ntx, wire + 1);
	while (receive(&side[1]) == 60000)
		;
	ck_assert_int_eq(dgram_send(&side[0], 60000), 1);
	ck_assert_int_eq(side[0].f->ntx, wire + 1);
	receive(&side[0]);
	ck_assert_uint_eq(side[0].d->ops->deadline(side[0].d), DIW_NEVER);
}
END_TEST

/* What the other end wrote before its end is delivered, then the wire is used, then a new pair. */
START_TEST(pair_ends)
{
	int wire;

	make_pair();
	ck_assert_int_eq(dgram_send(&side[0], 10), 1);
	ck_assert_int_eq(dgram_send(&side[0], 20), 1);
	side_close(&side[0]);
	side_open(&side[0], 1);
	now += 10 * DIW_MS;
	wire = side[1].f->ntx;
	ck_assert_int_eq(dgram_send(&side[1], 30), 1);
	ck_assert_int_eq(side[1].f->ntx, wire + 1);
	ck_assert_uint_eq(receive(&side[1]), 10);
	ck_assert_uint_eq(receive(&side[1]), 20);
	ck_assert_uint_eq(receive(&side[1]), 0);
	now += 10 * DIW_S;
	side[1].moved = side[1].f->ntx;
	side[1].f->c.shm_tx_datagrams = 0;
	make_pair();
}
END_TEST

/* ---- Processes that are not what they seem ---- */

/* Connects to the port of side 1 as another process would. */
static int stranger(void)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	int n = snprintf(un.sun_path + 1, sizeof un.sun_path - 1, "diwarp-shm-%u-192.0.2.2-%u", (unsigned)geteuid(),
			 side[1].f->d.local.port);

	receive(&side[1]);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&un,
				 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)), 0);
	return fd;
}

struct hello { uint32_t kind, size; uint64_t id, token; };
#define HELLO 0x64737031u

static void tell(int fd, const struct hello *h, int pass)
{
	struct iovec iov = { (void *)h, sizeof *h };
	union { struct cmsghdr align; uint8_t b[CMSG_SPACE(sizeof(int))]; } control = { 0 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (pass >= 0) {
		m.msg_control = &control;
		m.msg_controllen = sizeof control;
		*CMSG_FIRSTHDR(&m) = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET,
						       .cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), &pass, sizeof pass);
	}
	ck_assert_int_eq(sendmsg(fd, &m, 0), sizeof *h);
}

#define MAP (2 * (unsigned)sizeof(struct diw_shm_ring))

/* A memory of SIZE octets with SEALS is refused. */
static const struct { unsigned size, says; int seals; bool pass, taken; } memory[] = {
	{ MAP, MAP, F_SEAL_SHRINK | F_SEAL_GROW, true, true }, { MAP, MAP, F_SEAL_GROW, true, false },
	{ MAP, MAP, F_SEAL_SHRINK, true, false }, { MAP - 4096, MAP, F_SEAL_SHRINK | F_SEAL_GROW, true, false },
	{ MAP, MAP - 4096, F_SEAL_SHRINK | F_SEAL_GROW, true, false },
	{ MAP, MAP, F_SEAL_SHRINK | F_SEAL_GROW, false, false },
};

START_TEST(stranger_memory)
{
	int fd = stranger(), mem = memfd_create("test", MFD_ALLOW_SEALING);
	struct hello h = { HELLO, memory[_i].says, 5, 0 };

	ck_assert_int_eq(ftruncate(mem, memory[_i].size), 0);
	ck_assert_int_eq(fcntl(mem, F_ADD_SEALS, memory[_i].seals), 0);
	tell(fd, &h, memory[_i].pass ? mem : -1);
	wire_run();
	wire_run();
	ck_assert_int_eq(recv(fd, &h, sizeof h, MSG_DONTWAIT), memory[_i].taken ? sizeof h : 0);
	ck_assert_uint_eq(side[1].f->c.shm_refused, !memory[_i].taken);
	close(mem);
	close(fd);
	wire_run();
}
END_TEST

/* Messages in a wrong order, of a wrong size, and with a token that the stranger did not get. */
START_TEST(stranger_messages)
{
	int fd = stranger();

	if (_i == 0)
		ck_assert_int_eq(send(fd, "12345", 5, 0), 5);
	else
		tell(fd, &(struct hello){ HELLO + (uint32_t)_i, MAP, 5, 0 }, -1);
	wire_run();
	wire_run();
	ck_assert_uint_eq(side[1].f->c.shm_refused, 1);
	ck_assert_int_eq(recv(fd, buf, sizeof buf, 0), 0);
	close(fd);
}
END_TEST

/* One that never proves its address is given up. Its ring is not read. */
START_TEST(stranger_unproved)
{
	int fd = stranger(), mem = memfd_create("test", MFD_ALLOW_SEALING);
	struct diw_shm_ring *map;
	struct diw_shm_rx unused;

	ck_assert_int_eq(ftruncate(mem, MAP), 0);
	ck_assert_int_eq(fcntl(mem, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	map = mmap(NULL, MAP, PROT_READ | PROT_WRITE, MAP_SHARED, mem, 0);
	diw_shm_ring_begin(map, &tx, map, &unused);
	ck_assert_int_eq(put(0, 100, 100), 0);
	tell(fd, &(struct hello){ HELLO, MAP, 5, 0 }, mem);
	for (int i = 0; i < 5; i++) {
		wire_run();
		ck_assert_uint_eq(receive(&side[1]), 0);
	}
	now += 3 * DIW_S;
	wire_run();
	ck_assert_int_eq(recv(fd, buf, sizeof buf, 0), sizeof(struct hello));
	ck_assert_int_eq(recv(fd, buf, sizeof buf, 0), 0);
	munmap(map, MAP);
	close(mem);
	close(fd);
}
END_TEST

/* Probes within bursts are removed, from any sender; other datagrams of that size are kept. */
START_TEST(probes_are_removed)
{
	uint8_t data[4 * DIW_SHM_PROBE] = "\xff\xff" "diwarp probe 1", plain[DIW_SHM_PROBE];

	receive(&side[1]);
	memcpy(plain, pattern, sizeof plain);
	memcpy(data + DIW_SHM_PROBE, plain, sizeof plain);
	memcpy(data + 2 * DIW_SHM_PROBE, data, DIW_SHM_PROBE);
	fake_deliver(side[1].f, &side[0].f->d.local, data, 3 * DIW_SHM_PROBE, DIW_SHM_PROBE);
	fake_deliver(side[1].f, &side[0].f->d.local, data, DIW_SHM_PROBE, DIW_SHM_PROBE);
	fake_deliver(side[1].f, &side[0].f->d.local, "", 0, 0);
	ck_assert_uint_eq(receive(&side[1]), DIW_SHM_PROBE);
	ck_assert_uint_eq(receive(&side[1]), 0);
	ck_assert_int_eq(side[1].f->next_rx, 3);
}
END_TEST

/* A burst without CRCs gets them if it takes the wire after all. */
START_TEST(bare_by_the_wire)
{
	struct iovec iov[2] = { { pattern, 150 }, { pattern + 150, 80 } };
	const struct fake_burst *b;

	make_pair();
	ck_assert(side[0].d->ops->bare(side[0].d, &side[1].f->d.local));
	diw_shm_pause(side[0].d, true, now);
	ck_assert(!side[0].d->ops->bare(side[0].d, &side[1].f->d.local));
	ck_assert_int_eq(side[0].d->ops->send(side[0].d, &(struct diw_dgram_burst){ .iov = iov, .niov = 2, .len = 230,
		.peer.addr = side[1].f->d.local, .seg = 100, .bare = true }, 1, now), 1);
	b = &side[0].f->tx[side[0].f->ntx - 1];
	ck_assert_uint_eq(b->len, 230);
	ck_assert(diw_seal_is_good(b->data, 100) && diw_seal_is_good(b->data + 100, 100) &&
		  diw_seal_is_good(b->data + 200, 30));
	ck_assert_mem_eq(b->data, pattern, 96);
	ck_assert_mem_eq(b->data + 100, pattern + 100, 96);
}
END_TEST

Suite *suite_shm(void)
{
	Suite *s = suite_create("shm");
	TCase *ring_case = tcase_create("ring"), *pairs = tcase_create("pairs");

	tcase_add_checked_fixture(ring_case, ring_setup, ring_teardown);
	tcase_add_test(ring_case, ring_order);
	tcase_add_test(ring_case, ring_wakes_once);
	tcase_add_test(ring_case, ring_hostile_writer);
	tcase_add_test(ring_case, ring_hostile_reader);
	suite_add_tcase(s, ring_case);
	tcase_add_checked_fixture(pairs, pair_setup, pair_teardown);
	tcase_add_test(pairs, pair_is_made);
	tcase_add_test(pairs, pair_wakes);
	tcase_add_test(pairs, pair_wakes_behind_a_post);
	tcase_add_test(pairs, pair_wakes_behind_a_poll);
	tcase_add_test(pairs, pair_full);
	tcase_add_test(pairs, pair_ends);
	tcase_add_loop_test(pairs, stranger_memory, 0, sizeof memory / sizeof *memory);
	tcase_add_loop_test(pairs, stranger_messages, 0, 4);
	tcase_add_test(pairs, stranger_unproved);
	tcase_add_test(pairs, probes_are_removed);
	tcase_add_test(pairs, bare_by_the_wire);
	suite_add_tcase(s, pairs);
	return s;
}
