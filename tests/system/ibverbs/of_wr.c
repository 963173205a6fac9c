/* SPDX-License-Identifier: BSD-2-Clause */
/* Work requests of libibverbs: all operations of all queue pair types, by the builder (ibv_wr_*) and by
 * ibv_post_send(3). */
#include <arpa/inet.h>
#include <pthread.h>

#include "of_pair.h"

#define RC_OPS (IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND | \
		IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | \
		IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW | \
		IBV_QP_EX_WITH_SEND_WITH_INV)
#define UC_OPS (IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND | \
		IBV_QP_EX_WITH_SEND_WITH_IMM)
#define UD_OPS (UC_OPS | IBV_QP_EX_WITH_RDMA_READ)
#define AT(off) ((uintptr_t)mem + (off))

static void begin(struct side *s, uint64_t id)
{
	ibv_wr_start(s->ex);
	s->ex->wr_id = id;
	s->ex->wr_flags = IBV_SEND_SIGNALED;
}

static bool end(struct side *s, uint64_t id, enum ibv_wc_opcode op, const char *what)
{
	struct ibv_wc wc;
	int rc = ibv_wr_complete(s->ex);

	return CHECK(rc == 0 && next_wc(s, &wc, 10) && wc.wr_id == id && wc.status == IBV_WC_SUCCESS &&
		     wc.opcode == op, what);
}

static bool received(struct side *s, enum ibv_wc_opcode op, uint32_t len, bool imm, const char *what)
{
	struct ibv_wc wc;

	return CHECK(next_wc(s, &wc, 10) && wc.status == IBV_WC_SUCCESS && wc.opcode == op && wc.byte_len == len &&
		     wc.wc_flags == (unsigned)(IBV_WC_GRH | (imm ? IBV_WC_WITH_IMM : 0)) &&
		     (!imm || wc.imm_data == htonl(0x01020304)), what);
}

static void fill(uint32_t off, uint32_t len, uint8_t with)
{
	memset(mem + off, with, len);
	memset(mem + HALF + off, 0, len);
}

static bool same(uint32_t from, uint32_t to, uint32_t len)
{
	return memcmp(mem + from, mem + to, len) == 0;
}

/* The operations that RC and UC have in common. */
static void writes_and_sends(enum ibv_qp_type type)
{
	struct side a = { 0 }, b = { 0 };
	struct ibv_data_buf bufs[2] = { { mem, 20 }, { mem + 100, 30 } };
	struct ibv_sge list[3] = { sge_at(0, 10), sge_at(50, 20), sge_at(200, 30) };
	char text[32] = "inline";

	CHECK(pair_open(&a, &b, type, type == IBV_QPT_RC ? RC_OPS : UC_OPS) && a.ex, type == IBV_QPT_RC ? "RC" : "UC");
	for (int i = 0; i < 8; i++)
		post_recv(&b, HALF + 4096, 4096, i);
	fill(0, 4096, 0x31);
	begin(&a, 1);
	ibv_wr_rdma_write(a.ex, mr->rkey, AT(HALF));
	ibv_wr_set_sge(a.ex, mr->lkey, AT(0), 4096);
	end(&a, 1, IBV_WC_RDMA_WRITE, "ibv_wr_rdma_write");
	begin(&a, 2);
	ibv_wr_rdma_write_imm(a.ex, mr->rkey, AT(HALF), htonl(0x01020304));
	ibv_wr_set_sge(a.ex, mr->lkey, AT(0), 4096);
	end(&a, 2, IBV_WC_RDMA_WRITE, "ibv_wr_rdma_write_imm");
	received(&b, IBV_WC_RECV_RDMA_WITH_IMM, 4096, true, "... arrives, and says how long it was");
	CHECK(same(0, HALF, 4096), "... with its data");
	begin(&a, 3);
	ibv_wr_send(a.ex);
	ibv_wr_set_inline_data(a.ex, text, sizeof text);
	memset(text, 'x', sizeof text);         /* inline data: the buffer is the caller's again */
	end(&a, 3, IBV_WC_SEND, "ibv_wr_send, inline");
	received(&b, IBV_WC_RECV, 32, false, "... arrives");
	CHECK(strcmp((char *)mem + HALF + 4096, "inline") == 0, "... as it was");
	begin(&a, 4);
	ibv_wr_send_imm(a.ex, htonl(0x01020304));
	ibv_wr_set_inline_data_list(a.ex, 2, bufs);
	end(&a, 4, IBV_WC_SEND, "ibv_wr_send_imm, inline data of two buffers");
	received(&b, IBV_WC_RECV, 50, true, "... arrives");
	begin(&a, 5);
	ibv_wr_send(a.ex);
	ibv_wr_set_sge_list(a.ex, 3, list);
	end(&a, 5, IBV_WC_SEND, "a list of entries");
	received(&b, IBV_WC_RECV, 60, false, "... arrives");
	CHECK(same(200, HALF + 4096 + 30, 30), "... in order");
	pair_close(&a, &b);
}

static void reads_and_atomics(void)
{
	struct side a = { 0 }, b = { 0 };
	uint64_t *word = (void *)(mem + HALF), *got = (void *)mem;

	CHECK(pair_open(&a, &b, IBV_QPT_RC, RC_OPS), "RC");
	memset(mem + HALF, 0x42, 4096);
	begin(&a, 1);
	ibv_wr_rdma_read(a.ex, mr->rkey, AT(HALF));
	ibv_wr_set_sge(a.ex, mr->lkey, AT(0), 4096);
	end(&a, 1, IBV_WC_RDMA_READ, "ibv_wr_rdma_read");
	CHECK(same(0, HALF, 4096), "... brings it");
	*word = 40;
	begin(&a, 2);
	ibv_wr_atomic_fetch_add(a.ex, mr->rkey, AT(HALF), 2);
	ibv_wr_set_sge(a.ex, mr->lkey, AT(0), 8);
	end(&a, 2, IBV_WC_FETCH_ADD, "ibv_wr_atomic_fetch_add");
	CHECK(*got == 40 && *word == 42, "... adds");
	begin(&a, 3);
	ibv_wr_atomic_cmp_swp(a.ex, mr->rkey, AT(HALF), 42, 7);
	ibv_wr_set_sge(a.ex, mr->lkey, AT(0), 8);
	end(&a, 3, IBV_WC_COMP_SWAP, "ibv_wr_atomic_cmp_swp");
	CHECK(*got == 42 && *word == 7, "... swaps");
	pair_close(&a, &b);
}

/* An adapter answers a Read before it places a later Write of the same queue pair, even without a fence. */
static void unfenced(void)
{
	static const struct { uint32_t len; int times; } sizes[] = { { 8, 2000 }, { 65536, 100 }, { 1 << 20, 10 } };
	struct side a = { 0 }, b = { 0 };
	int wrong = 0, failed = 0;

	CHECK(pair_open(&a, &b, IBV_QPT_RC, 0), "RC");
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		for (int n = 0; n < sizes[i].times; n++) {
			struct ibv_sge sge[] = { sge_at(0, sizes[i].len), sge_at(HALF / 2, sizes[i].len) };
			struct ibv_send_wr wr[] = {
				{ .next = &wr[1], .wr_id = 1, .sg_list = &sge[0], .num_sge = 1,
				  .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED },
				{ .wr_id = 2, .sg_list = &sge[1], .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED },
			}, *bad = NULL;

			for (int k = 0; k < 2; k++) {
				wr[k].wr.rdma.remote_addr = AT(HALF);
				wr[k].wr.rdma.rkey = mr->rkey;
			}
			memset(mem + HALF, n & 0x7f, sizes[i].len);
			memset(mem + HALF / 2, 0x80 | (n & 0x7f), sizes[i].len);
			failed += ibv_post_send(a.qp, wr, &bad) != 0 || !next_is(&a, 1, IBV_WC_SUCCESS) ||
				  !next_is(&a, 2, IBV_WC_SUCCESS);
			wrong += mem[0] != (n & 0x7f) || memcmp(mem, mem + 1, sizes[i].len - 1) != 0;
		}
	CHECK(failed == 0, "a Read and a Write to the same place, in one post");
	if (!CHECK(wrong == 0, "... the Read brings what was there"))
		printf("# %d of them brought something else\n", wrong);
	pair_close(&a, &b);
}

static void windows(void)
{
	struct side a = { 0 }, b = { 0 };
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	struct ibv_mw_bind_info info = { mr, AT(HALF), 4096, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };
	struct ibv_wc wc;
	uint32_t rkey;

	CHECK(mw && pair_open(&a, &b, IBV_QPT_RC, RC_OPS), "RC and a memory window");
	rkey = ibv_inc_rkey(mw->rkey);
	begin(&b, 1);
	ibv_wr_bind_mw(b.ex, mw, rkey, &info);
	end(&b, 1, IBV_WC_BIND_MW, "ibv_wr_bind_mw");
	CHECK(mw->rkey == rkey, "the window's rkey is the new one");
	fill(0, 100, 0x55);
	begin(&a, 2);
	ibv_wr_rdma_write(a.ex, rkey, AT(HALF));
	ibv_wr_set_sge(a.ex, mr->lkey, AT(0), 100);
	end(&a, 2, IBV_WC_RDMA_WRITE, "a Write through the window");
	post_recv(&b, HALF + 8192, 64, 3);
	begin(&a, 4);
	ibv_wr_send_inv(a.ex, rkey);
	ibv_wr_set_sge(a.ex, mr->lkey, AT(0), 8);
	end(&a, 4, IBV_WC_SEND, "ibv_wr_send_inv");
	CHECK(next_wc(&b, &wc, 10) && (wc.wc_flags & IBV_WC_WITH_INV) && wc.invalidated_rkey == rkey &&
	      same(0, HALF, 100), "... arrives behind the Write and says what it ended");
	rkey = ibv_inc_rkey(rkey);
	begin(&b, 5);
	ibv_wr_bind_mw(b.ex, mw, 0x12345600 | (rkey & 0xff), &info);
	end(&b, 5, IBV_WC_BIND_MW, "bound again");
	CHECK(mw->rkey == rkey, "of the rkey that is asked for, only the low byte counts");
	begin(&b, 6);
	ibv_wr_local_inv(b.ex, rkey);
	end(&b, 6, IBV_WC_LOCAL_INV, "ibv_wr_local_inv");
	begin(&a, 7);
	ibv_wr_rdma_read(a.ex, rkey, AT(HALF));
	ibv_wr_set_sge(a.ex, mr->lkey, AT(0), 8);
	CHECK(ibv_wr_complete(a.ex) == 0 && next_is(&a, 7, IBV_WC_REM_ACCESS_ERR), "and is of no use then");
	CHECK(state_of(&a) == IBV_QPS_ERR, "which ends the connection");
	pair_close(&a, &b);
	CHECK(ibv_dealloc_mw(mw) == 0, "the window goes");
}

/* Each list fails behind its bind: the window keeps its rkey. */
static void unbound(void)
{
	struct side a = { 0 }, b = { 0 };
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	struct ibv_mw_bind_info info = { mr, AT(HALF), 4096, IBV_ACCESS_REMOTE_WRITE };
	struct ibv_sge sge = sge_at(0, 8);
	struct ibv_send_wr wr[DEPTH + 2] = { 0 }, *bad;
	uint32_t rkey;

	CHECK(mw && pair_open(&a, &b, IBV_QPT_RC, RC_OPS), "RC and a memory window, to which no bind is posted");
	rkey = mw->rkey;
	begin(&b, 1);
	ibv_wr_bind_mw(b.ex, mw, ibv_inc_rkey(rkey), &info);
	ibv_wr_abort(b.ex);
	CHECK(mw->rkey == rkey, "ibv_wr_abort");
	begin(&b, 1);
	ibv_wr_bind_mw(b.ex, mw, ibv_inc_rkey(rkey), &info);
	ibv_wr_bind_mw(b.ex, mw, rkey + 2, &info);
	ibv_wr_send(b.ex);
	ibv_wr_set_sge_list(b.ex, 99, &sge);
	CHECK(ibv_wr_complete(b.ex) != 0 && mw->rkey == rkey, "ibv_wr_complete that fails");
	for (int i = 0; i < DEPTH + 2; i++)
		wr[i] = (struct ibv_send_wr){ .wr_id = (uint64_t)i, .next = i <= DEPTH ? &wr[i + 1] : NULL,
					      .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };
	for (int i = DEPTH; i < DEPTH + 2; i++) {
		wr[i].opcode = IBV_WR_BIND_MW;
		wr[i].bind_mw = (__typeof__(wr[i].bind_mw)){ mw, rkey + 1 + (uint32_t)i, info };
	}
	CHECK(ibv_post_send(b.qp, wr, &bad) == ENOMEM && bad == &wr[DEPTH] && mw->rkey == rkey,
	      "ibv_post_send that finds the queue full");
	pair_close(&a, &b);
	CHECK(ibv_dealloc_mw(mw) == 0, "the window goes");
}

static void mistakes(void)
{
	struct side a = { 0 }, b = { 0 };
	static uint8_t big[4096];

	CHECK(pair_open(&a, &b, IBV_QPT_RC, RC_OPS), "RC");
	begin(&a, 1);
	ibv_wr_rdma_write(a.ex, mr->rkey, AT(HALF));
	ibv_wr_set_sge(a.ex, mr->lkey, AT(0), 8);
	ibv_wr_abort(a.ex);
	CHECK(none(&a), "ibv_wr_abort posts nothing");
	begin(&a, 2);
	ibv_wr_rdma_write(a.ex, mr->rkey, AT(HALF));
	ibv_wr_set_sge(a.ex, mr->lkey, AT(0), 8);
	ibv_wr_send(a.ex);
	ibv_wr_set_inline_data(a.ex, big, sizeof big);
	CHECK(ibv_wr_complete(a.ex) != 0 && none(&a), "too much inline data: nothing is posted");
	begin(&a, 3);
	ibv_wr_set_sge(a.ex, mr->lkey, AT(0), 8);
	CHECK(ibv_wr_complete(a.ex) == EINVAL, "data of no request");
	begin(&a, 4);
	for (int i = 0; i < DEPTH + 1; i++) {
		ibv_wr_rdma_write(a.ex, mr->rkey, AT(HALF));
		ibv_wr_set_sge(a.ex, mr->lkey, AT(0), 8);
	}
	CHECK(ibv_wr_complete(a.ex) == ENOMEM && none(&a), "more than the queue takes: nothing is posted");
	begin(&a, 5);
	ibv_wr_rdma_write(a.ex, mr->rkey, AT(HALF));
	ibv_wr_set_sge(a.ex, mr->lkey, AT(0), 8);
	ibv_wr_atomic_fetch_add(a.ex, mr->rkey, AT(HALF) + 1, 1);
	ibv_wr_set_sge(a.ex, mr->lkey, AT(0), 8);
	CHECK(ibv_wr_complete(a.ex) == EINVAL && none(&a), "an atomic off its boundary: nothing is posted");
	begin(&a, 6);
	CHECK(ibv_wr_complete(a.ex) == 0, "an empty list");
	begin(&a, 7);
	ibv_wr_rdma_write(a.ex, mr->rkey, AT(HALF));
	ibv_wr_set_sge(a.ex, mr->lkey, AT(0), 8);
	end(&a, 7, IBV_WC_RDMA_WRITE, "and the queue pair still works");
	to_state(&a, IBV_QPS_RESET);
	begin(&a, 8);
	ibv_wr_rdma_write(a.ex, mr->rkey, AT(HALF));
	ibv_wr_set_sge(a.ex, mr->lkey, AT(0), 8);
	CHECK(ibv_wr_complete(a.ex) == EINVAL, "RESET takes no request");
	pair_close(&a, &b);
	CHECK(REFUSED(side_open(&a, IBV_QPT_UC, RC_OPS, NULL), EOPNOTSUPP), "UC has no Reads");
	CHECK(REFUSED(side_open(&a, IBV_QPT_RC, IBV_QP_EX_WITH_TSO, NULL), EOPNOTSUPP), "nobody segments");
}

static struct ibv_ah *handle(void)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = gid, .hop_limit = 64 } };

	return ibv_create_ah(pd, &attr);
}

static int ud_send(struct side *s, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey, uint64_t id)
{
	struct ibv_sge sge = sge_at(0, 100);
	struct ibv_send_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM,
				  .imm_data = htonl(0x01020304), .send_flags = IBV_SEND_SIGNALED }, *bad = NULL;

	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = qpn;
	wr.wr.ud.remote_qkey = qkey;
	return ibv_post_send(s->qp, &wr, &bad);
}

static void datagrams(void)
{
	struct ibv_ah *ah = handle();
	struct side a = { 0 }, b = { 0 };
	struct ibv_wc wc;

	CHECK(ah && pair_open(&a, &b, IBV_QPT_UD, UD_OPS), "UD");
	fill(0, 4096, 0x66);
	post_recv(&b, HALF, 140, 1);
	CHECK(ud_send(&a, ah, b.qp->qp_num, QKEY + 1, 2) == 0 && next_is(&a, 2, IBV_WC_SUCCESS) && none(&b),
	      "a wrong Q_Key");
	CHECK(ud_send(&a, ah, b.qp->qp_num, QKEY, 3) == 0 && next_is(&a, 3, IBV_WC_SUCCESS), "ibv_post_send");
	CHECK(next_wc(&b, &wc, 10) && wc.status == IBV_WC_SUCCESS && wc.byte_len == 140 && (wc.wc_flags & IBV_WC_GRH) &&
	      wc.src_qp == a.qp->qp_num && wc.imm_data == htonl(0x01020304), "... arrives behind 40 bytes of header");
	CHECK(same(0, HALF + 40, 100) && mem[HALF + 20] == 0x45, "... which is IPv4");
	post_recv(&b, HALF, 140, 4);
	CHECK(ud_send(&a, ah, b.qp->qp_num, 1u << 31, 5) == 0 && next_is(&a, 5, IBV_WC_SUCCESS) &&
	      next_is(&b, 4, IBV_WC_SUCCESS), "a Q_Key with the highest bit set is the sender's");
	CHECK(ud_send(&a, NULL, b.qp->qp_num, QKEY, 6) == EINVAL, "no address handle");
	CHECK(ud_send(&a, ah, 0xffffff, QKEY, 6) == EINVAL, "the number of no UD queue pair");
	post_recv(&b, HALF, 4096, 7);
	begin(&a, 8);
	ibv_wr_send_imm(a.ex, htonl(0x01020304));
	ibv_wr_set_ud_addr(a.ex, ah, b.qp->qp_num, QKEY);
	ibv_wr_set_sge(a.ex, mr->lkey, AT(0), 100);
	end(&a, 8, IBV_WC_SEND, "ibv_wr_send_imm");
	received(&b, IBV_WC_RECV, 140, true, "... arrives");
	begin(&a, 9);
	ibv_wr_rdma_write_imm(a.ex, mr->rkey, AT(HALF + 8192), htonl(0x01020304));
	ibv_wr_set_ud_addr(a.ex, ah, b.qp->qp_num, QKEY);
	ibv_wr_set_sge(a.ex, mr->lkey, AT(0), 4096);
	end(&a, 9, IBV_WC_RDMA_WRITE, "ibv_wr_rdma_write_imm and ibv_wr_set_ud_addr: a Write-Record");
	CHECK(next_wc(&b, &wc, 10) && wc.status == IBV_WC_SUCCESS && wc.byte_len == 4096 &&
	      wc.imm_data == htonl(0x01020304) && wc.src_qp == a.qp->qp_num && same(0, HALF + 8192, 4096),
	      "... is told to its target, and takes no receive");
	memset(mem + HALF, 0x77, 4096);
	begin(&a, 10);
	ibv_wr_rdma_read(a.ex, mr->rkey, AT(HALF));
	ibv_wr_set_ud_addr(a.ex, ah, b.qp->qp_num, QKEY);
	ibv_wr_set_sge(a.ex, mr->lkey, AT(0), 4096);
	end(&a, 10, IBV_WC_RDMA_READ, "ibv_wr_rdma_read");
	CHECK(same(0, HALF, 4096), "... brings it");
	begin(&a, 11);
	ibv_wr_send(a.ex);
	ibv_wr_set_sge(a.ex, mr->lkey, AT(0), 8);
	CHECK(ibv_wr_complete(a.ex) == EINVAL, "no address");
	pair_close(&a, &b);
	ibv_destroy_ah(ah);
}

#define BINDS 2000

static struct ibv_mw *shared_window;

static void *bind_often(void *side)
{
	struct side *s = side;
	struct ibv_mw_bind bind = {
		.send_flags = IBV_SEND_SIGNALED, .bind_info = { mr, (uintptr_t)mem, 4096, IBV_ACCESS_REMOTE_WRITE },
	};

	for (bind.wr_id = 0; bind.wr_id < BINDS; bind.wr_id++)
		if (ibv_bind_mw(s->qp, shared_window, &bind) || !next_is(s, bind.wr_id, IBV_WC_SUCCESS))
			return NULL;
	return s;
}

/* Threads bind one window by queue pairs of their own. Its rkey is that of the last bind. */
static void threads_bind(void)
{
	struct side s[4];
	pthread_t thread[2];
	void *good[2];
	struct ibv_sge sge = sge_at(4096, 64);
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED }, *bad = NULL;

	shared_window = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	CHECK(shared_window && pair_open(&s[0], &s[1], IBV_QPT_RC, 0) && pair_open(&s[2], &s[3], IBV_QPT_RC, 0),
	      "a window, and two pairs");
	for (int i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, bind_often, &s[2 * i]);
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], &good[i]);
	CHECK(good[0] && good[1], "two threads bind it");
	wr.wr.rdma.remote_addr = (uintptr_t)mem;
	wr.wr.rdma.rkey = shared_window->rkey;
	CHECK(ibv_post_send(s[1].qp, &wr, &bad) == 0 && next_is(&s[1], 1, IBV_WC_SUCCESS), "its rkey is of use");
	CHECK(ibv_dealloc_mw(shared_window) == 0 && pair_close(&s[0], &s[1]) == 0 && pair_close(&s[2], &s[3]) == 0,
	      "destroyed");
}

int main(void)
{
	open_all();
	writes_and_sends(IBV_QPT_RC);
	writes_and_sends(IBV_QPT_UC);
	reads_and_atomics();
	unfenced();
	windows();
	unbound();
	threads_bind();
	mistakes();
	datagrams();
	CHECK(close_all() == 0, "everything is closed");
	return failed;
}
