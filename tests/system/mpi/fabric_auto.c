/* SPDX-License-Identifier: BSD-2-Clause */
/* Automatic progress of the provider: what needs the work of both ends goes on while the program does not call
 * libfabric. Also poll sets, the call that wakes a sleeper, and the end after the program has closed all
 * descriptors. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/system/mpi/fabric_kit.h"

static uint64_t word;
static volatile uint8_t *const tail = in + LARGE - 1;

static void nap(void)
{
	nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
}

/* A long message: RTS, CTS and data, and nobody looks. */
static void check_message(void)
{
	struct fi_cq_tagged_entry c;
	time_t until = time(NULL) + PATIENCE;

	for (int i = 0; i < 5; i++) {
		fill((uint8_t)(i + 1));
		out[LARGE - 1] = 0x77;
		REQUIRE(fi_trecv(b.ep, in, LARGE, NULL, a.addr, 1, 0, NULL) == 0);
		REQUIRE(fi_tsend(a.ep, out, LARGE, NULL, b.addr, 1, NULL) == 0);
		while (*tail != 0x77 && time(NULL) < until)
			nap();
		REQUIRE(*tail == 0x77);
		REQUIRE(next(&b, &a, &c, NULL) == 0 && next(&a, &b, &c, NULL) == 0);
		expect_in(LARGE);
	}
}

static void check_atomic(void)
{
	volatile uint64_t *at = &word;
	time_t until = time(NULL) + PATIENCE;
	uint64_t one = 1;
	struct fid_mr *mr;

	REQUIRE(fi_mr_reg(domain, &word, 8, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 1, 0, &mr, NULL) == 0);
	for (uint64_t i = 1; i < 20; i++) {
		REQUIRE(fi_inject_atomic(a.ep, &one, 1, b.addr, (uintptr_t)&word, fi_mr_key(mr), FI_UINT64,
					 FI_SUM) == 0);
		while (*at != i && time(NULL) < until)
			nap();
		REQUIRE(*at == i);
	}
	REQUIRE(fi_close(&mr->fid) == 0);
}

/* A sleeper wakes, whichever thread finds the message. */
static void check_sleeper(void)
{
	struct fi_cq_tagged_entry c;
	time_t begin = time(NULL);

	for (int i = 0; i < 200; i++) {
		REQUIRE(fi_trecv(b.ep, in, 8, NULL, a.addr, 2, 0, NULL) == 0);
		REQUIRE(fi_tinject(a.ep, out, 8, b.addr, 2) == 0);
		if (i % 2)
			nap();
		REQUIRE(fi_cq_sread(b.cq, &c, 1, NULL, PATIENCE * 1000) == 1 && c.tag == 2);
	}
	REQUIRE(time(NULL) - begin < PATIENCE);
}

static void *signaller(void *arg)
{
	nap();
	REQUIRE(fi_cq_signal(arg) == 0);
	return NULL;
}

static void check_signal(void)
{
	struct fi_cq_tagged_entry c;
	time_t begin = time(NULL);
	pthread_t thread;

	REQUIRE(fi_cq_signal(b.cq) == 0);
	REQUIRE(fi_cq_sread(b.cq, &c, 1, NULL, -1) == -FI_EAGAIN);
	REQUIRE(pthread_create(&thread, NULL, signaller, b.cq) == 0);
	REQUIRE(fi_cq_sread(b.cq, &c, 1, NULL, -1) == -FI_EAGAIN);
	REQUIRE(pthread_join(thread, NULL) == 0);
	REQUIRE(time(NULL) - begin < PATIENCE);
	REQUIRE(fi_cq_sread(b.cq, &c, 1, NULL, 10) == -FI_EAGAIN);
}

static void check_poll_set(void)
{
	time_t until = time(NULL) + PATIENCE;
	struct fi_cq_tagged_entry c;
	struct fid_poll *set;
	void *ctx[2] = { 0 };

	b.cq->fid.context = &b;
	b.received->fid.context = &in;
	REQUIRE(fi_poll_open(domain, NULL, &set) == 0);
	REQUIRE(fi_poll_add(set, &b.cq->fid, 0) == 0 && fi_poll_add(set, &b.received->fid, 0) == 0);
	REQUIRE(fi_poll(set, ctx, 2) == 0);
	REQUIRE(fi_trecv(b.ep, in, 8, NULL, a.addr, 3, 0, NULL) == 0 && fi_tinject(a.ep, out, 8, b.addr, 3) == 0);
	while (fi_poll(set, ctx, 2) < 2 && time(NULL) < until)
		;
	REQUIRE(ctx[0] == &b && ctx[1] == &in);
	REQUIRE(fi_poll(set, ctx, 2) == 1 && ctx[0] == &b);
	REQUIRE(next(&b, &a, &c, NULL) == 0 && fi_poll(set, ctx, 2) == 0);
	REQUIRE(fi_poll_del(set, &b.cq->fid, 0) == 0 && fi_poll_del(set, &b.cq->fid, 0) == -FI_EINVAL);
	REQUIRE(fi_close(&set->fid) == 0);
}

/* ---- A program that closes all descriptors, and whose files get the numbers. No other can be opened ---- */

#define FIRST_FILE 3
#define LAST_FILE 100

static void check_closed(void)
{
	const struct rlimit none = { FIRST_FILE, FIRST_FILE };

	for (int fd = FIRST_FILE; fd < 1024; fd++)
		close(fd);
	for (int fd = FIRST_FILE; fd <= LAST_FILE; fd++)
		REQUIRE(open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) == fd);
	REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
}

/* Processor time of this process in half a second in which it makes no call. */
static void check_rest(void)
{
	struct timespec before, after;

	REQUIRE(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before) == 0);
	usleep(500000);
	REQUIRE(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after) == 0);
	REQUIRE((after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000 < 100);
}

static void check_files(void)
{
	struct stat st;

	for (int fd = FIRST_FILE; fd <= LAST_FILE; fd++)
		REQUIRE(fstat(fd, &st) == 0 && st.st_size == 0);
}

int main(int argc, char **argv)
{
	struct fi_info *hints = fi_allocinfo();

	REQUIRE(hints && argc == 2);
	hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_DIRECTED_RECV | FI_SOURCE;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->data_progress = FI_PROGRESS_AUTO;
	ends_open(argv[1], FI_VERSION(1, 9), hints);
	REQUIRE(info->domain_attr->data_progress == FI_PROGRESS_AUTO);
#define CHECK(what) doing = #what, check_##what()
	CHECK(message);
	CHECK(atomic);
	CHECK(sleeper);
	CHECK(signal);
	CHECK(poll_set);
	CHECK(closed);
	CHECK(rest);
	ends_close();
	CHECK(files);
	fi_freeinfo(hints);
	puts("done");
	return 0;
}
