/* SPDX-License-Identifier: BSD-2-Clause */
/* The provider's reads and writes of a peer's memory, by libfabric's calls: every byte and every field of the
 * completions is checked. With the argument "keys" the application chooses the keys of its memory. */
#include "tests/system/mpi/fabric_kit.h"

static uint8_t memory[LARGE + 64];       /* belongs to b */
static struct fid_mr *region;
static uint64_t base;                    /* the address by which peers name its first byte */

static struct fid_mr *region_of(void *at, size_t len, uint64_t access, uint64_t key)
{
	struct fid_mr *mr;

	REQUIRE(fi_mr_reg(domain, at, len, access, 0, key, 0, &mr, NULL) == 0);
	return mr;
}

static uint64_t base_of(void *at)
{
	return info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)at : 0;
}

/* The next completion of a, which is of a read or write. */
static int done(uint64_t flags, const void *ctx)
{
	struct fi_cq_tagged_entry c;
	int err = next(&a, &b, &c, NULL);

	REQUIRE(c.op_context == ctx && (c.flags & (FI_RMA | FI_READ | FI_WRITE)) == (FI_RMA | flags));
	return err;
}

static void check_sizes(void)
{
	static const size_t sizes[] = { 0, 1, 8, 511, 512, 513, 4096, 16384, 16385, 100000, LARGE };
	int ctx[2];

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		size_t len = sizes[i];

		fill((uint8_t)i);
		memset(memory, 0x11, sizeof memory);
		REQUIRE(fi_write(a.ep, out, len, NULL, b.addr, base + 7, fi_mr_key(region), &ctx[0]) == 0);
		REQUIRE(done(FI_WRITE, &ctx[0]) == 0);
		REQUIRE(memcmp(memory + 7, out, len) == 0 && memory[6] == 0x11 && memory[7 + len] == 0x11);
		REQUIRE(fi_read(a.ep, in, len, NULL, b.addr, base + 7, fi_mr_key(region), &ctx[1]) == 0);
		REQUIRE(done(FI_READ, &ctx[1]) == 0);
		expect_in(len);
	}
}

/* Several local vectors and several parts of remote memory, of different lengths. */
static void check_vectors(void)
{
	static uint8_t other[5000];
	struct fid_mr *second = region_of(other, sizeof other, FI_REMOTE_READ | FI_REMOTE_WRITE, 7);
	struct iovec from[3] = { { out, 3000 }, { out + 3000, 0 }, { out + 3000, 7000 } };
	struct iovec to[2] = { { in, 9000 }, { in + 9000, 1000 } };
	struct fi_rma_iov rma[2] = { { base, 5500, fi_mr_key(region) },
				     { base_of(other) + 10, 4500, fi_mr_key(second) } };
	struct fi_msg_rma m = { .msg_iov = from, .iov_count = 3, .addr = b.addr, .rma_iov = rma, .rma_iov_count = 2 };

	fill(1);
	memset(memory, 0, 10000);
	REQUIRE(fi_writemsg(a.ep, &m, FI_COMPLETION) == 0 && done(FI_WRITE, NULL) == 0);
	REQUIRE(memcmp(memory, out, 5500) == 0 && memory[5500] == 0);
	REQUIRE(memcmp(other + 10, out + 5500, 4490) == 0);
	m.msg_iov = to;
	m.iov_count = 2;
	REQUIRE(fi_readmsg(a.ep, &m, FI_COMPLETION) == 0 && done(FI_READ, NULL) == 0);
	expect_in(10000);
	rma[1].len = 4499;
	REQUIRE(fi_readmsg(a.ep, &m, FI_COMPLETION) == -FI_EINVAL);
	REQUIRE(fi_close(&second->fid) == 0);
}

/* An injected write takes its octets at the call, and has no completion. */
static void check_inject(void)
{
	static const size_t sizes[] = { 8, 512, 16384 };
	uint64_t before = fi_cntr_read(a.sent);
	time_t until = time(NULL) + PATIENCE;

	for (int i = 0; i < 3; i++) {
		fill(2);
		REQUIRE(fi_inject_write(a.ep, out, sizes[i], b.addr, base, fi_mr_key(region)) == 0);
		memset(out, 0, sizes[i]);
		while (fi_cntr_read(a.sent) == before + (uint64_t)i && time(NULL) < until)
			progress();
		fill(2);
		REQUIRE(memcmp(memory, out, sizes[i]) == 0);
	}
	REQUIRE(fi_inject_write(a.ep, out, 16385, b.addr, base, fi_mr_key(region)) == -FI_EMSGSIZE);
	expect_none(&a);
}

/* An injected write of two parts takes the octets of both at the call, even when there is room for one part only. */
static void check_inject_parts(void)
{
	struct fi_rma_iov rma[2] = { { base, 600, fi_mr_key(region) }, { 0, 600, fi_mr_key(region) } };
	struct iovec iov = { out, 1200 };
	struct fi_msg_rma m = { .msg_iov = &iov, .iov_count = 1, .addr = b.addr, .rma_iov = rma, .rma_iov_count = 2 };
	uint8_t n = 0;

	memset(memory, 0, sizeof memory);
	REQUIRE(fi_inject_write(a.ep, out, 600, b.addr, base, fi_mr_key(region)) == 0);
	for (;;) {
		memset(out, n + 1, 1200);
		rma[0].addr = base + 1200u * n;
		rma[1].addr = rma[0].addr + 600;
		if (n == 200 || fi_writemsg(a.ep, &m, FI_INJECT) != 0)
			break;
		n++;
	}
	memset(out, 0xff, 1200);
	for (int i = 0; i < n; i++)
		REQUIRE(done(FI_WRITE, NULL) == 0);
	REQUIRE(n > 0);
	for (size_t i = 0; i < 1200u * n; i++)
		REQUIRE(memory[i] == i / 1200 + 1);
}

/* Remote CQ data comes when the octets are there. */
static void check_data(void)
{
	static const size_t sizes[] = { 0, 100, 20000, LARGE };
	struct fi_cq_tagged_entry c;
	fi_addr_t from;

	for (uint64_t i = 0; i < 4; i++) {
		fill(3);
		memset(memory, 0, sizeof memory);
		REQUIRE(fi_writedata(a.ep, out, sizes[i], NULL, ~i, b.addr, base, fi_mr_key(region), &c) == 0);
		REQUIRE(next(&b, &a, &c, &from) == 0 && memcmp(memory, out, sizes[i]) == 0);
		REQUIRE(c.flags == (FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA) && c.data == ~i);
		REQUIRE(c.len == sizes[i] && !c.op_context && from == a.addr);
		REQUIRE(done(FI_WRITE, &c) == 0);
	}
	REQUIRE(fi_inject_writedata(a.ep, out, 8, 5, b.addr, base, fi_mr_key(region)) == 0);
	REQUIRE(next(&b, &a, &c, NULL) == 0 && c.data == 5);
	expect_none(&a);
}

/* A message behind a write finds the written data, a read behind it returns that data, and a later write prevails. */
static void check_order(void)
{
	struct fi_cq_tagged_entry c;
	uint64_t value, got, back, seen;

	for (value = 1; value < 200; value++) {
		uint64_t earlier = ~value;

		REQUIRE(fi_trecv(b.ep, &got, 8, NULL, a.addr, 1, 0, NULL) == 0);
		REQUIRE(fi_inject_write(a.ep, &earlier, 8, b.addr, base, fi_mr_key(region)) == 0);
		REQUIRE(fi_inject_write(a.ep, &value, 8, b.addr, base, fi_mr_key(region)) == 0);
		REQUIRE(fi_read(a.ep, &back, 8, NULL, b.addr, base, fi_mr_key(region), NULL) == 0);
		REQUIRE(fi_tinject(a.ep, &value, 8, b.addr, 1) == 0);
		REQUIRE(next(&b, &a, &c, NULL) == 0 && got == value);
		memcpy(&seen, memory, 8);
		REQUIRE(seen == value);
		REQUIRE(done(FI_READ, NULL) == 0 && back == value);
	}
}

/* More requests than the send queue holds. */
static void check_many(void)
{
	time_t until = time(NULL) + PATIENCE;
	ssize_t rc;

	fill(4);
	memset(memory, 0, sizeof memory);
	for (size_t i = 0; i < 5000; i++) {
		while ((rc = fi_write(a.ep, out + i * 600, 600, NULL, b.addr, base + i * 600, fi_mr_key(region),
				      out + i)) == -FI_EAGAIN && time(NULL) < until)
			progress();
		REQUIRE(rc == 0);
	}
	for (size_t i = 0; i < 5000; i++)
		REQUIRE(done(FI_WRITE, out + i) == 0);
	REQUIRE(memcmp(memory, out, 5000 * 600ul) == 0);
}

/* A key or address that the peer has not registered for this is refused; later requests succeed. */
static void check_refused(void)
{
	static uint8_t guarded[100];
	struct fid_mr *reads = region_of(guarded, 100, FI_REMOTE_READ, 8);
	struct fid_mr *writes = region_of(guarded, 100, FI_REMOTE_WRITE, 9), *none;
	uint64_t at = base_of(guarded), gone = fi_mr_key(writes);

	REQUIRE(fi_write(a.ep, out, 8, NULL, b.addr, at, fi_mr_key(reads), NULL) == 0);
	REQUIRE(done(FI_WRITE, NULL) == FI_EACCES);
	REQUIRE(fi_read(a.ep, in, 8, NULL, b.addr, at, fi_mr_key(writes), NULL) == 0);
	REQUIRE(done(FI_READ, NULL) == FI_EACCES);
	REQUIRE(fi_write(a.ep, out, 8, NULL, b.addr, at + 93, fi_mr_key(writes), NULL) == 0);
	REQUIRE(done(FI_WRITE, NULL) == FI_EACCES);
	REQUIRE(fi_inject_write(a.ep, out, 8, b.addr, at + 93, fi_mr_key(writes)) == 0);
	REQUIRE(done(FI_WRITE, NULL) == FI_EACCES);
	REQUIRE(fi_write(a.ep, out, 8, NULL, b.addr, at, 1ull << 32, NULL) == -FI_EKEYREJECTED);
	REQUIRE(fi_mr_reg(domain, NULL, 0, FI_REMOTE_WRITE, 0, 10, 0, &none, NULL) == -FI_EINVAL);
	REQUIRE(fi_close(&writes->fid) == 0);
	REQUIRE(fi_write(a.ep, out, 8, NULL, b.addr, at, gone, NULL) == 0);
	REQUIRE(done(FI_WRITE, NULL) == FI_EACCES);
	for (int i = 0; i < 100; i++)
		REQUIRE(guarded[i] == 0);
	REQUIRE(fi_close(&reads->fid) == 0);
	check_order();
}

/* The N next completions of E; the errors are to be as many. FLAGS: of all of them together. */
static void expect_several(struct end *e, struct end *other, int n, int errors, uint64_t flags)
{
	struct fi_cq_tagged_entry c;

	while (n--) {
		int err = next(e, other, &c, NULL);

		REQUIRE(err == 0 || (err == FI_EACCES && c.flags & FI_WRITE));
		REQUIRE(!(c.flags & FI_REMOTE_WRITE) || c.data == 2);
		errors -= err != 0;
		flags &= ~c.flags;
	}
	REQUIRE(errors == 0 && flags == 0);
}

/* Messages and requests behind a refused write are not lost, and no notice tells of it. */
static void check_refused_alone(void)
{
	static uint8_t small[8];

	for (int i = 0; i < 20; i++) {
		fill((uint8_t)(i + 60));
		REQUIRE(fi_send(b.ep, out, LARGE, NULL, a.addr, NULL) == 0);
		REQUIRE(fi_recv(a.ep, in, LARGE, NULL, b.addr, NULL) == 0);
		REQUIRE(fi_trecv(b.ep, small, 8, NULL, a.addr, 2, 0, NULL) == 0);
		REQUIRE(fi_writedata(a.ep, out, LARGE, NULL, 1, b.addr, base, 0x7fff, NULL) == 0);
		REQUIRE(fi_writedata(a.ep, out, 100, NULL, 2, b.addr, base, fi_mr_key(region), NULL) == 0);
		REQUIRE(fi_tinject(a.ep, out, 8, b.addr, 2) == 0);
		expect_several(&a, &b, 3, 1, FI_WRITE | FI_RECV);
		expect_several(&b, &a, 3, 0, FI_REMOTE_WRITE | FI_TAGGED | FI_SEND);
		REQUIRE(memcmp(small, out, 8) == 0 && memcmp(memory, out, 100) == 0);
		expect_in(LARGE);
	}
}

/* A refusal that came before fi_cntr_wait(), and that no call has looked for, ends the wait. */
static void check_counted(void)
{
	uint64_t sent = fi_cntr_read(a.sent);

	REQUIRE(fi_write(a.ep, out, 8, NULL, b.addr, base_of(out), 0x7fff, NULL) == 0);
	nanosleep(&(struct timespec){ 0, 100000000 }, NULL);
	REQUIRE(fi_cntr_wait(a.sent, sent + 1, PATIENCE * 1000) == -FI_EAVAIL);
	REQUIRE(done(FI_WRITE, NULL) == FI_EACCES);
}

/* Over RC a refusal ends the connection, and later requests fail at once. */
static void check_refused_rc(void)
{
	static uint8_t guarded[100];
	struct fid_mr *reads = region_of(guarded, 100, FI_REMOTE_READ, 8);
	struct fi_cq_tagged_entry c;
	uint64_t at = base_of(guarded);
	time_t until = time(NULL) + PATIENCE;
	ssize_t rc;

	REQUIRE(fi_write(a.ep, out, 8, NULL, b.addr, at, fi_mr_key(reads), NULL) == 0);
	REQUIRE(done(FI_WRITE, NULL) == FI_EACCES);
	while ((rc = fi_tinject(a.ep, out, 8, b.addr, 1)) == 0 && time(NULL) < until)
		REQUIRE(fi_cq_read(a.cq, &c, 1) == -FI_EAGAIN);
	REQUIRE(rc < 0 && rc != -FI_EAGAIN);
	REQUIRE(fi_write(a.ep, out, 8, NULL, b.addr, base, fi_mr_key(region), NULL) == rc);
	for (int i = 0; i < 100; i++)
		REQUIRE(guarded[i] == 0);
	REQUIRE(fi_close(&reads->fid) == 0);
}

/* An application that chooses keys cannot use one twice, nor one that is too long; its whole memory may have one. */
static void check_keys(void)
{
	struct fid_mr *mr;
	uint64_t value = 42;

	REQUIRE(info->domain_attr->mr_key_size == 2);
	REQUIRE(fi_mr_key(region) == 1);
	REQUIRE(fi_mr_reg(domain, out, 8, FI_REMOTE_WRITE, 0, 1, 0, &mr, NULL) == -FI_ENOKEY);
	REQUIRE(fi_mr_reg(domain, out, 8, FI_REMOTE_WRITE, 0, 0xffff, 0, &mr, NULL) == -FI_EKEYREJECTED);
	mr = region_of(NULL, SIZE_MAX, FI_REMOTE_READ | FI_REMOTE_WRITE, 0xfffe);
	REQUIRE(fi_inject_write(a.ep, &value, 8, b.addr, (uintptr_t)in, 0xfffe) == 0);
	REQUIRE(fi_read(a.ep, out, 8, NULL, b.addr, (uintptr_t)in, 0xfffe, NULL) == 0 && done(FI_READ, NULL) == 0);
	REQUIRE(memcmp(in, &value, 8) == 0 && memcmp(out, &value, 8) == 0);
	REQUIRE(fi_close(&mr->fid) == 0);
}

int main(int argc, char **argv)
{
	bool keys = argc == 3 && strcmp(argv[2], "keys") == 0;
	struct fi_info *hints = fi_allocinfo();

	REQUIRE(hints && argc >= 2);
	hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_DIRECTED_RECV | FI_SOURCE;
	hints->domain_attr->mr_mode = keys ? 0 : FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->tx_attr->msg_order = FI_ORDER_SAW | FI_ORDER_RAW | FI_ORDER_WAW;
	ends_open(argv[1], FI_VERSION(1, 9), hints);
	REQUIRE(info->caps & FI_REMOTE_WRITE && !(info->domain_attr->mr_mode & FI_MR_LOCAL));
	REQUIRE((info->domain_attr->mr_mode == 0) == keys);
	region = region_of(memory, sizeof memory, FI_REMOTE_READ | FI_REMOTE_WRITE, 1);
	base = base_of(memory);
#define CHECK(what) doing = #what, check_##what()
	CHECK(sizes);
	CHECK(vectors);
	CHECK(inject);
	CHECK(inject_parts);
	CHECK(data);
	CHECK(order);
	CHECK(many);
	if (keys)
		CHECK(keys);
	if (!over_rc()) {
		CHECK(refused);
		CHECK(refused_alone);
		if (info->domain_attr->data_progress == FI_PROGRESS_MANUAL)
			CHECK(counted);
	} else {
		CHECK(refused_rc);
	}
	REQUIRE(fi_close(&region->fid) == 0);
	ends_close();
	fi_freeinfo(hints);
	puts("done");
	return 0;
}
