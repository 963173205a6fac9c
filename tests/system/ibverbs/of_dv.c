/* SPDX-License-Identifier: BSD-2-Clause */
/* Records by infiniband/diwdv.h: by diwdv_poll_cq() and under the cursor, and errors of a program in their use. */
#include "of_pair.h"
#include "verbs/of/diwdv.h"

#define OPS (IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_SEND)
#define LEN 60000u
#define SEGMENT 1000u
#define LOSS "loss=20%,seed=3"

static struct ibv_ah *ah;

static struct ibv_qp *create(struct ibv_cq *cq, enum ibv_qp_type type, struct diwdv_qp_attr *attr)
{
	struct ibv_qp_init_attr_ex a = {
		.cap = { DEPTH, DEPTH, 4, 4, 128 }, .qp_type = type, .send_cq = cq, .recv_cq = cq, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .send_ops_flags = OPS,
	};

	return diwdv_create_qp(dev, &a, attr);
}

/* IMPAIR: of the datagrams that it sends; NULL: none. CQ: an extended queue, or NULL: a plain one of its own. */
static bool dv_open(struct side *s, struct ibv_cq_ex *cq, struct diwdv_qp_attr attr, const char *impair)
{
	attr.comp_mask |= DIWDV_QP_SEGMENT;
	attr.segment = SEGMENT;
	s->cq = cq ? ibv_cq_ex_to_cq(cq) : ibv_create_cq(dev, 4 * DEPTH, NULL, NULL, 0);
	if (impair)
		setenv("DIWARP_IMPAIR", impair, 1);
	s->qp = create(s->cq, IBV_QPT_UD, &attr);
	unsetenv("DIWARP_IMPAIR");
	s->ex = s->qp ? ibv_qp_to_qp_ex(s->qp) : NULL;
	return s->ex && to_init(s) == 0 && to_rtr(s, 0) == 0 && to_rts(s) == 0;
}

static bool write_to(struct side *from, struct side *to, uint32_t len, uint64_t id)
{
	ibv_wr_start(from->ex);
	from->ex->wr_id = id;
	from->ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(from->ex, mr->rkey, (uintptr_t)mem + HALF);
	ibv_wr_set_ud_addr(from->ex, ah, to->qp->qp_num, QKEY);
	ibv_wr_set_sge(from->ex, mr->lkey, (uintptr_t)mem, len);
	return ibv_wr_complete(from->ex) == 0 && next_is(from, id, IBV_WC_SUCCESS);
}

static bool next_record(struct side *s, struct ibv_wc *wc, struct diwdv_record *r)
{
	double until = seconds() + 30;

	while (seconds() < until)
		if (diwdv_poll_cq(s->cq, 1, wc, r) == 1)
			return true;
	return false;
}

/* There is a gap in front of each range; together the ranges are as long as the record says. */
static bool sound(const struct diwdv_record *r)
{
	struct diwdv_range v[LEN / SEGMENT + 2];
	int n = diwdv_record_ranges(r, v, (int)(sizeof v / sizeof *v));
	uint32_t end = 0, sum = 0;

	for (int i = 0; i < n; i++) {
		if ((i && v[i].off <= end) || memcmp(mem + v[i].off, mem + HALF + v[i].off, v[i].len) != 0)
			return false;
		end = v[i].off + v[i].len;
		sum += v[i].len;
	}
	return n > 1 && n == (int)r->nranges && v[0].off == r->offset && sum == r->byte_len && end <= r->msg_len;
}

static void plainly(void)
{
	struct diwdv_record r;
	struct side a, b;
	struct ibv_wc wc;

	CHECK(dv_open(&a, NULL, (struct diwdv_qp_attr){ 0 }, LOSS) &&
	      dv_open(&b, NULL, (struct diwdv_qp_attr){ 0 }, NULL), "two queue pairs");
	memset(mem + HALF, 0, LEN);
	CHECK(write_to(&a, &b, LEN, 1) && next_record(&b, &wc, &r), "a Write-Record, of which some is lost");
	CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == DIWDV_WC_RECORD && wc.wr_id == 0 &&
	      wc.byte_len == r.byte_len && wc.src_qp == a.qp->qp_num, "its completion");
	CHECK(r.byte_len < LEN && r.msg_len == LEN && r.rkey == mr->rkey && r.addr == (uintptr_t)mem + HALF && r.last &&
	      r.close == DIWDV_CLOSE_WINDOW && r.src_qp == a.qp->qp_num && memcmp(&r.src, &gid, sizeof gid) == 0,
	      "its record");
	CHECK(sound(&r), "what the map says has arrived, and there are gaps");
	diwdv_record_release(&r);
	diwdv_record_release(&r);
	CHECK(diwdv_record_ranges(&r, NULL, 0) == 0, "given back, and again: there is no map");
	post_recv(&a, HALF, 4096, 2);
	ibv_wr_start(b.ex);
	ibv_wr_send(b.ex);
	ibv_wr_set_ud_addr(b.ex, ah, a.qp->qp_num, QKEY);
	ibv_wr_set_sge(b.ex, mr->lkey, (uintptr_t)mem, 8);
	memset(&r, 0xff, sizeof r);
	CHECK(ibv_wr_complete(b.ex) == 0 && next_record(&a, &wc, &r) && wc.wr_id == 2 && r.msg_len == 0 &&
	      r.nranges == 0 && r.priv[0] == NULL, "a Send's completion has no record");
	diwdv_record_release(&r);
	pair_close(&a, &b);
}

/* Maps belong to the program until they are released, and their number is limited. */
static void kept(void)
{
	struct diwdv_qp_attr few = { .comp_mask = DIWDV_QP_MAX_RECORDS, .max_records = 4 };
	struct diwdv_record r[8] = { 0 };
	struct side a, b;
	struct ibv_wc wc;
	int n = 0;

	CHECK(dv_open(&a, NULL, (struct diwdv_qp_attr){ 0 }, LOSS) && dv_open(&b, NULL, few, NULL), "four records");
	for (int i = 0; i < 4; i++)
		n += write_to(&a, &b, LEN, 10) && next_record(&b, &wc, &r[i]) && sound(&r[i]);
	CHECK(n == 4, "are kept");
	CHECK(write_to(&a, &b, LEN, 11) && none(&b), "there is no room for a fifth");
	for (int i = 0; i < 4; i++)
		diwdv_record_release(&r[i]);
	CHECK(write_to(&a, &b, LEN, 12) && next_record(&b, &wc, &r[4]) && sound(&r[4]), "until they are given back");
	n = 0;
	for (int i = 0; i < 8; i++)
		n += write_to(&a, &b, LEN, 13) && next_wc(&b, &wc, 30) && wc.opcode == DIWDV_WC_RECORD &&
		     wc.byte_len < LEN;
	CHECK(n == 8, "ibv_poll_cq gives the map back");
	pair_close(&a, &b);
}

static struct ibv_cq_ex *cursor(bool single)
{
	struct ibv_cq_init_attr_ex a = { .cqe = 4 * DEPTH, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
					 .flags = single ? IBV_CREATE_CQ_ATTR_SINGLE_THREADED : 0 };

	return ibv_create_cq_ex(dev, &a);
}

static bool begin(struct ibv_cq_ex *cq)
{
	struct ibv_poll_cq_attr attr = { 0 };
	double until = seconds() + 30;

	while (seconds() < until)
		if (ibv_start_poll(cq, &attr) == 0)
			return true;
	return false;
}

static void under_the_cursor(bool single)
{
	struct ibv_cq_ex *cq = cursor(single);
	struct diwdv_record r;
	struct side a, b;

	CHECK(cq && dv_open(&a, NULL, (struct diwdv_qp_attr){ 0 }, LOSS) &&
	      dv_open(&b, cq, (struct diwdv_qp_attr){ 0 }, NULL), "an extended completion queue");
	memset(mem + HALF, 0, LEN);
	CHECK(write_to(&a, &b, LEN, 20) && begin(cq), "a Write-Record");
	CHECK(ibv_wc_read_opcode(cq) == DIWDV_WC_RECORD && diwdv_wc_read_record(cq, &r) == 0 && sound(&r),
	      "its record");
	diwdv_record_release(&r);
	CHECK(sound(&r), "is the cursor's");
	if (single) {
		CHECK(ibv_destroy_qp(b.qp) == 0, "its queue pair is destroyed while it is there");
		ibv_end_poll(cq);
		CHECK(ibv_destroy_cq(b.cq) == 0, "and the queue");
	} else {
		ibv_end_poll(cq);
		CHECK(side_close(&b) == 0, "destroyed");
	}
	side_close(&a);
}

static void others(void)
{
	struct ibv_cq_ex *cq = cursor(false);
	struct diwdv_qp_attr patient = { .comp_mask = DIWDV_QP_READ_TIMEOUT, .read_timeout_ns = 2000000000 };
	struct diwdv_record r;
	struct side a, b;

	CHECK(cq && dv_open(&a, cq, patient, NULL) && dv_open(&b, NULL, (struct diwdv_qp_attr){ 0 }, LOSS),
	      "for a Read");
	ibv_wr_start(a.ex);
	ibv_wr_rdma_read(a.ex, mr->rkey, (uintptr_t)mem + HALF);
	ibv_wr_set_ud_addr(a.ex, ah, b.qp->qp_num, QKEY);
	ibv_wr_set_sge(a.ex, mr->lkey, (uintptr_t)mem, LEN);
	a.ex->wr_flags = IBV_SEND_SIGNALED;
	CHECK(ibv_wr_complete(a.ex) == 0 && begin(cq) && cq->status == IBV_WC_RESP_TIMEOUT_ERR, "which times out");
	CHECK(diwdv_wc_read_record(cq, &r) == 0 && r.msg_len == LEN && r.src_qp == b.qp->qp_num && sound(&r),
	      "its record says what came");
	ibv_end_poll(cq);
	ibv_wr_start(a.ex);
	ibv_wr_send(a.ex);
	ibv_wr_set_ud_addr(a.ex, ah, b.qp->qp_num, QKEY);
	ibv_wr_set_sge(a.ex, mr->lkey, (uintptr_t)mem, 8);
	CHECK(ibv_wr_complete(a.ex) == 0 && begin(cq) && diwdv_wc_read_record(cq, &r) == ENOENT, "a Send has none");
	ibv_end_poll(cq);
	pair_close(&a, &b);
}

static void chunks(void)
{
	struct diwdv_qp_attr attr = { .comp_mask = DIWDV_QP_FLAGS, .flags = DIWDV_QP_CHUNKS };
	uint32_t bytes = 0, runs = 0;
	struct diwdv_range one;
	struct diwdv_record r;
	struct side a, b;
	struct ibv_wc wc;
	bool last = false, good = true;

	CHECK(dv_open(&a, NULL, (struct diwdv_qp_attr){ 0 }, LOSS) && dv_open(&b, NULL, attr, NULL), "in chunks");
	CHECK(write_to(&a, &b, LEN, 30), "a Write-Record");
	while (!last && next_record(&b, &wc, &r)) {
		last = r.last;
		runs += r.nranges;
		bytes += r.byte_len;
		good = good && r.msg_len == LEN && r.nranges <= 1;
		if (r.nranges)
			good = good && diwdv_record_ranges(&r, &one, 1) == 1 && one.off == r.offset &&
				one.len == r.byte_len;
	}
	CHECK(last && good && runs > 1 && bytes > 0 && bytes < LEN, "comes in runs");
	pair_close(&a, &b);
}

static void mistakes(void)
{
	struct ibv_cq *cq = ibv_create_cq(dev, 16, NULL, NULL, 0);
	struct diwdv_qp_attr attr = { 0 };

	CHECK(REFUSED(create(cq, IBV_QPT_RC, &attr), EINVAL) && REFUSED(create(cq, IBV_QPT_UC, &attr), EINVAL),
	      "not UD");
	CHECK(REFUSED(create(cq, IBV_QPT_UD, NULL), EINVAL), "no attributes");
	attr.comp_mask = 1u << 31;
	CHECK(REFUSED(create(cq, IBV_QPT_UD, &attr), EINVAL), "an unknown attribute");
	attr = (struct diwdv_qp_attr){ .comp_mask = DIWDV_QP_FLAGS, .flags = 4 };
	CHECK(REFUSED(create(cq, IBV_QPT_UD, &attr), EINVAL), "an unknown flag");
	attr = (struct diwdv_qp_attr){ .comp_mask = DIWDV_QP_SEGMENT, .segment = 100 };
	CHECK(REFUSED(create(cq, IBV_QPT_UD, &attr), EINVAL), "a segment too small");
	attr.segment = 65504;
	CHECK(REFUSED(create(cq, IBV_QPT_UD, &attr), EINVAL), "... or too large");
	attr = (struct diwdv_qp_attr){ .comp_mask = DIWDV_QP_RECORD_TIMEOUT };
	CHECK(REFUSED(create(cq, IBV_QPT_UD, &attr), EINVAL), "no time for a record");
	attr = (struct diwdv_qp_attr){ .comp_mask = DIWDV_QP_MAX_RECORDS };
	CHECK(REFUSED(create(cq, IBV_QPT_UD, &attr), EINVAL), "no record");
	CHECK(diwdv_is_supported(dev->device) && strcmp(diwdv_close_str(DIWDV_CLOSE_COMPLETE), "complete") == 0 &&
	      diwdv_close_str(99), "words");
	ibv_destroy_cq(cq);
}

int main(void)
{
	struct ibv_ah_attr to = { .is_global = 1, .port_num = 1 };

	open_all();
	to.grh.dgid = gid;
	ah = ibv_create_ah(pd, &to);
	for (uint32_t i = 0; i < LEN; i++)
		mem[i] = (uint8_t)(1 + i % 251);
	plainly();
	kept();
	under_the_cursor(false);
	under_the_cursor(true);
	others();
	chunks();
	mistakes();
	ibv_destroy_ah(ah);
	CHECK(close_all() == 0, "everything is closed");
	return failed;
}
