/* SPDX-License-Identifier: BSD-2-Clause */
/* The provider's atomic operations on a peer's memory, by libfabric's calls. tests/unit/test_glue_atomic.c has the
 * arithmetic of every operation and type. */
#include "mpi_glue/msg_hdr.h"
#include "tests/system/mpi/fabric_stranger.h"

#define COUNT 64u

static uint64_t memory[COUNT];           /* belongs to b */
static struct fid_mr *region;
static uint64_t base, key;
static struct stranger deaf;

static int done(uint64_t flags, const void *ctx)
{
	struct fi_cq_tagged_entry c;
	int err = next(&a, &b, &c, NULL);

	REQUIRE(c.op_context == ctx && (c.flags & (FI_ATOMIC | FI_READ | FI_WRITE)) == (FI_ATOMIC | flags));
	return err;
}

/* A fetch returns the value before; each operation takes effect once, and in order. */
static void check_sum(void)
{
	uint64_t v[COUNT], got[COUNT];
	int ctx;

	for (uint64_t i = 0; i < COUNT; i++) {
		v[i] = i;
		memory[i] = 1000 * i;
	}
	REQUIRE(fi_atomic(a.ep, v, COUNT, NULL, b.addr, base, key, FI_UINT64, FI_SUM, &ctx) == 0);
	REQUIRE(fi_fetch_atomic(a.ep, v, COUNT, NULL, got, NULL, b.addr, base, key, FI_UINT64, FI_SUM, &ctx) == 0);
	REQUIRE(done(FI_WRITE, &ctx) == 0 && done(FI_READ, &ctx) == 0);
	for (uint64_t i = 0; i < COUNT; i++)
		REQUIRE(memory[i] == 1002 * i && got[i] == 1001 * i);
	memset(got, 0, sizeof got);
	REQUIRE(fi_fetch_atomic(a.ep, NULL, COUNT, NULL, got, NULL, b.addr, base, key, FI_UINT64, FI_ATOMIC_READ,
				NULL) == 0);
	REQUIRE(done(FI_READ, NULL) == 0 && memcmp(got, memory, sizeof got) == 0);
}

static void check_compare(void)
{
	uint64_t v = 7, compare = 5, got = 0;

	memory[3] = 5;
	for (int i = 0; i < 2; i++) {
		REQUIRE(fi_compare_atomic(a.ep, &v, 1, NULL, &compare, NULL, &got, NULL, b.addr, base + 24, key,
					  FI_UINT64, FI_CSWAP, NULL) == 0);
		REQUIRE(done(FI_READ, NULL) == 0 && got == (i ? 7 : 5) && memory[3] == 7);
	}
}

/* Operands, results and parts of memory are divided at different places. */
static void check_vectors(void)
{
	double v[10], compare[10], got[10], *at = (double *)memory;
	struct fi_ioc from[2] = { { v, 3 }, { v + 3, 7 } }, cmp[2] = { { compare, 9 }, { compare + 9, 1 } };
	struct fi_ioc to[2] = { { got, 5 }, { got + 5, 5 } };
	struct fi_rma_ioc rma[2] = { { base, 4, key }, { base + 80, 6, key } };
	struct fi_msg_atomic m = { .msg_iov = from, .iov_count = 2, .addr = b.addr, .rma_iov = rma,
				   .rma_iov_count = 2, .datatype = FI_DOUBLE, .op = FI_CSWAP_LE };

	for (unsigned i = 0; i < COUNT; i++)
		at[i] = i;
	for (int i = 0; i < 10; i++) {
		v[i] = -i;
		compare[i] = i % 2 ? 1e9 : -1e9;
	}
	REQUIRE(fi_compare_atomicmsg(a.ep, &m, cmp, NULL, 2, to, NULL, 2, FI_COMPLETION) == 0);
	REQUIRE(done(FI_READ, NULL) == 0);
	for (int i = 0; i < 10; i++) {
		int place = i < 4 ? i : i + 6;

		REQUIRE(got[i] == place && at[place] == (i % 2 ? place : -i));
	}
	REQUIRE(at[4] == 4 && at[9] == 9 && at[16] == 16);
	m.op = FI_ATOMIC_WRITE;
	REQUIRE(fi_atomicmsg(a.ep, &m, FI_COMPLETION) == 0 && done(FI_WRITE, NULL) == 0);
	for (int i = 0; i < 10; i++)
		REQUIRE(at[i < 4 ? i : i + 6] == -i);
}

/* More operations than the send queue and the answers have room for, from both ends. */
static void check_many(void)
{
	uint64_t before = fi_cntr_read(a.sent), one = 1;
	time_t until = time(NULL) + PATIENCE;
	ssize_t rc;

	memory[0] = memory[1] = 0;
	for (int i = 0; i < 6000; i++) {
		struct end *e = i % 2 ? &a : &b;

		while ((rc = fi_inject_atomic(e->ep, &one, 1, i % 2 ? b.addr : a.addr, base + 8 * (i % 2u), key,
					      FI_UINT64, FI_SUM)) == -FI_EAGAIN && time(NULL) < until)
			progress();
		REQUIRE(rc == 0);
	}
	while (fi_cntr_read(a.sent) < before + 3000 && time(NULL) < until)
		;
	while (memory[0] < 3000 && time(NULL) < until)
		progress();
	REQUIRE(memory[0] == 3000 && memory[1] == 3000 && fi_cntr_read(a.sent) == before + 3000);
	expect_none(&a);
}

/* A message behind an atomic operation finds its effect, even if there is no room for answers for a time. */
static void check_order(void)
{
	static uint64_t got[3000], v[2000];
	struct fi_cq_tagged_entry c;
	time_t until = time(NULL) + PATIENCE;
	ssize_t rc;

	memory[0] = 0;
	for (uint64_t i = 0; i < 300; i++)
		REQUIRE(fi_trecv(b.ep, &got[i], 8, NULL, a.addr, 1, 0, &got[i]) == 0);
	for (uint64_t i = 0; i < 300; i++) {
		v[0] = i + 1;
		while ((rc = fi_fetch_atomic(a.ep, v, 1, NULL, &v[i + 1], NULL, b.addr, base, key, FI_UINT64,
					     FI_ATOMIC_WRITE, &v[i + 1])) == -FI_EAGAIN && time(NULL) < until)
			progress();
		REQUIRE(rc == 0);
		while ((rc = fi_tinject(a.ep, &i, 8, b.addr, 1)) == -FI_EAGAIN && time(NULL) < until)
			progress();
		REQUIRE(rc == 0);
	}
	for (uint64_t i = 0; i < 300; i++)
		REQUIRE(next(&b, &a, &c, NULL) == 0 && c.op_context == &got[i] && got[i] == i && memory[0] > i);
	for (uint64_t i = 0; i < 300; i++)
		REQUIRE(done(FI_READ, &v[i + 1]) == 0 && v[i + 1] == i);
}

static void check_refused(void)
{
	static uint64_t guarded;
	struct fid_mr *mr;
	uint64_t v = 1, got = 9;

	REQUIRE(fi_mr_reg(domain, &guarded, 8, FI_REMOTE_READ, 0, 5, 0, &mr, NULL) == 0);
	REQUIRE(fi_atomic(a.ep, &v, 1, NULL, b.addr, (uintptr_t)&guarded, fi_mr_key(mr), FI_UINT64, FI_SUM,
			  NULL) == 0);
	REQUIRE(done(FI_WRITE, NULL) == FI_EACCES && guarded == 0);
	REQUIRE(fi_fetch_atomic(a.ep, NULL, 1, NULL, &got, NULL, b.addr, (uintptr_t)&guarded, fi_mr_key(mr),
				FI_UINT64, FI_ATOMIC_READ, NULL) == 0);
	REQUIRE(done(FI_READ, NULL) == 0 && got == 0);
	REQUIRE(fi_atomic(a.ep, &v, 1, NULL, b.addr, base + sizeof memory - 4, key, FI_UINT32, FI_SUM, NULL) == 0);
	REQUIRE(done(FI_WRITE, NULL) == 0);
	REQUIRE(fi_atomic(a.ep, &v, 1, NULL, b.addr, base + sizeof memory - 4, key, FI_UINT64, FI_SUM, NULL) == 0);
	REQUIRE(done(FI_WRITE, NULL) == FI_EACCES);
	REQUIRE(fi_atomic(a.ep, &v, 1, NULL, b.addr, base + 4, key, FI_UINT64, FI_SUM, NULL) == 0);
	REQUIRE(done(FI_WRITE, NULL) == FI_EINVAL);
	REQUIRE(fi_atomic(a.ep, &v, 1, NULL, b.addr, base, key, FI_FLOAT, FI_BOR, NULL) == -FI_EOPNOTSUPP);
	REQUIRE(fi_close(&mr->fid) == 0);
}

/* Each call takes the operations for which its query says that they exist, and no others. */
static void check_forms(void)
{
	uint64_t v[4] = { 0 }, cmp[4] = { 0 }, got[4] = { 0 };
	size_t count;

	for (enum fi_datatype type = FI_INT8; type <= FI_LONG_DOUBLE_COMPLEX; type++)
		for (enum fi_op op = FI_MIN; op <= FI_MSWAP; op++) {
			int rc[3] = { fi_atomicvalid(a.ep, type, op, &count),
				      fi_fetch_atomicvalid(a.ep, type, op, &count),
				      fi_compare_atomicvalid(a.ep, type, op, &count) };

			REQUIRE((rc[0] == 0 || rc[1] == 0) + (rc[2] == 0) <= 1);
			REQUIRE(fi_atomic(a.ep, v, 1, NULL, b.addr, base, key, type, op, NULL) == rc[0]);
			REQUIRE(rc[0] || done(FI_WRITE, NULL) == 0);
			REQUIRE(fi_inject_atomic(a.ep, v, 1, b.addr, base, key, type, op) == rc[0]);
			REQUIRE(fi_fetch_atomic(a.ep, v, 1, NULL, got, NULL, b.addr, base, key, type, op,
						NULL) == rc[1]);
			REQUIRE(rc[1] || done(FI_READ, NULL) == 0);
			REQUIRE(fi_compare_atomic(a.ep, v, 1, NULL, cmp, NULL, got, NULL, b.addr, base, key, type,
						  op, NULL) == rc[2]);
			REQUIRE(rc[2] || done(FI_READ, NULL) == 0);
		}
	expect_none(&a);
}

/* Elements may be wherever a C program may put them: a complex number at a multiple of the size of its parts. */
static void check_alignment(void)
{
	float v[2] = { 1, 2 }, *at = (float *)memory;

	memset(memory, 0, sizeof memory);
	REQUIRE(fi_atomic(a.ep, v, 1, NULL, b.addr, base + 4, key, FI_FLOAT_COMPLEX, FI_SUM, NULL) == 0);
	REQUIRE(done(FI_WRITE, NULL) == 0 && at[0] == 0 && at[1] == 1 && at[2] == 2 && at[3] == 0);
	REQUIRE(fi_atomic(a.ep, v, 1, NULL, b.addr, base + 2, key, FI_FLOAT_COMPLEX, FI_SUM, NULL) == 0);
	REQUIRE(done(FI_WRITE, NULL) == FI_EINVAL);
	REQUIRE(fi_atomic(a.ep, v, 1, NULL, b.addr, base + 4, key, FI_DOUBLE, FI_SUM, NULL) == 0);
	REQUIRE(done(FI_WRITE, NULL) == FI_EINVAL);
}

/* The stranger asks for N old values, and acknowledges none. */
static void deaf_ask(uint32_t n)
{
	struct glue_hdr h = { .kind = GLUE_ATOMIC, .flags = GLUE_FETCH, .op = FI_SUM, .type = FI_UINT64,
			      .stag = (uint32_t)key, .to = base, .count = 1 };
	uint64_t v = 1, before = memory[0];
	uint8_t p[GLUE_HDR_MAX + 8];

	for (h.id = 1; h.id <= n; h.id++) {
		uint32_t len = diw_glue_hdr_encode(p, &h);

		memcpy(p + len, &v, 8);
		stranger_send(&deaf, p, len + 8);
	}
	REQUIRE(memory[0] - before < n);
}

/* It acknowledges, and all of its N operations are answered, in order. */
static void deaf_hear(uint32_t n)
{
	for (uint32_t id = 1; id <= n; id++) {
		struct glue_hdr h;

		if (id % STRANGER_RECVS == 1)
			stranger_listen(&deaf, STRANGER_RECVS);
		REQUIRE(diw_glue_hdr_decode(&h, stranger_hear(&deaf, GLUE_RESULT), GLUE_HDR_MAX) && h.id == id);
	}
}

/* A peer that asks for old values, and acknowledges none: its operations wait, those of another peer do not. */
static void check_deaf(void)
{
	uint64_t v = 1, got = 0, before = memory[0];
	struct fi_cq_tagged_entry c;
	time_t begin = time(NULL);

	stranger_open(&deaf);
	deaf_ask(1500);
	REQUIRE(fi_fetch_atomic(a.ep, &v, 1, NULL, &got, NULL, b.addr, base + 8, key, FI_UINT64, FI_SUM, NULL) == 0);
	REQUIRE(fi_trecv(b.ep, &got, 8, NULL, a.addr, 2, 0, &got) == 0 && fi_tinject(a.ep, &v, 8, b.addr, 2) == 0);
	REQUIRE(next(&b, &a, &c, NULL) == 0 && c.op_context == &got && done(FI_READ, NULL) == 0);
	REQUIRE(time(NULL) - begin < 8); /* the link gives up a peer after 10 s */
	deaf_hear(1500);
	REQUIRE(memory[0] - before == 1500);
	stranger_close(&deaf);
}

/* Such a peer's messages wait behind its operations, many in a Send, while another endpoint has all operations of the
 * domain that calls may take. None is lost when the peer acknowledges: they come as operations become free. */
static void check_scarce(void)
{
	enum { ASKED = 520, SENDS = 150, EACH = 21 };
	struct glue_hdr h = { .kind = GLUE_EAGER, .flags = GLUE_TAGGED | GLUE_IMM, .packed = 1, .tag = 3 };
	struct fi_cq_tagged_entry c;
	struct end other;
	uint8_t p[GLUE_PACK];

	end_open(&other);
	while (fi_trecv(other.ep, NULL, 0, NULL, FI_ADDR_UNSPEC, 4, 0, NULL) == 0)
		;
	stranger_open(&deaf);
	deaf_ask(ASKED);
	while (h.imm < SENDS * EACH) {
		uint32_t len = 0;

		for (int i = 0; i < EACH; i++, h.imm++)
			len += diw_glue_hdr_encode(p + len, &h);
		stranger_send(&deaf, p, len);
	}
	deaf_hear(ASKED);
	end_close(&other);
	for (uint64_t i = 0; i < SENDS * EACH; i++) {
		REQUIRE(fi_trecv(b.ep, NULL, 0, NULL, FI_ADDR_UNSPEC, 3, 0, NULL) == 0);
		REQUIRE(next(&b, &a, &c, NULL) == 0 && c.tag == 3 && c.data == i);
	}
	stranger_close(&deaf);
}

static void check_queries(void)
{
	struct fi_atomic_attr attr;
	size_t count;

	REQUIRE(fi_atomicvalid(a.ep, FI_UINT64, FI_SUM, &count) == 0 && count >= 2048);
	REQUIRE(fi_compare_atomicvalid(a.ep, FI_UINT64, FI_CSWAP, &count) == 0 && count >= 1024);
	REQUIRE(fi_fetch_atomicvalid(a.ep, FI_DOUBLE, FI_ATOMIC_READ, &count) == 0);
	REQUIRE(fi_atomicvalid(a.ep, FI_DOUBLE, FI_ATOMIC_READ, &count) == -FI_EOPNOTSUPP);
	REQUIRE(fi_atomicvalid(a.ep, FI_UINT64, FI_CSWAP, &count) == -FI_EOPNOTSUPP);
	REQUIRE(fi_query_atomic(domain, FI_LONG_DOUBLE, FI_PROD, &attr, FI_FETCH_ATOMIC) == 0 && attr.size == 16);
}

int main(int argc, char **argv)
{
	struct fi_info *hints = fi_allocinfo();

	REQUIRE(hints && argc == 2);
	hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_DIRECTED_RECV | FI_SOURCE;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->tx_attr->msg_order = FI_ORDER_SAW | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW;
	ends_open(argv[1], FI_VERSION(1, 9), hints);
	REQUIRE(fi_mr_reg(domain, memory, sizeof memory, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 1, 0, &region,
			  NULL) == 0);
	base = (uintptr_t)memory;
	key = fi_mr_key(region);
#define CHECK(what) doing = #what, check_##what()
	CHECK(sum);
	CHECK(compare);
	CHECK(vectors);
	CHECK(many);
	CHECK(order);
	CHECK(refused);
	CHECK(queries);
	CHECK(deaf);
	CHECK(scarce);
	CHECK(forms);
	CHECK(alignment);
	REQUIRE(fi_close(&region->fid) == 0);
	ends_close();
	fi_freeinfo(hints);
	puts("done");
	return 0;
}
