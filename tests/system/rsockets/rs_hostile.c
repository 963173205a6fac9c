/* SPDX-License-Identifier: BSD-2-Clause */
/* Peers that use wire/rsockets.h with false contents: their connection is reset, and another one is not affected. */
#include "tests/system/rsockets/rs_kit.h"
#include "verbs/diw_cm.h"
#include "verbs/host/port.h"
#include "wire/rsockets.h"

#define RECV 512u
#define RECVS 64
#define LARGEST (RS_HDR + RS_DATA + 1)

struct liar {
	struct diw_dev *dev;
	struct diw_pd *pd;
	struct diw_cm *cm;
	struct diw_mr *mr;
	struct diw_cq *cq;
	struct diw_qp *qp;
	uint8_t *memory;                     /* its receives, and its data to send */
	uint16_t port;                       /* of the victim */
};

static void must(int rc, const char *what)
{
	if (rc < 0)
		die(what, rc);
}

static void liar_init(struct liar *l, uint16_t port)
{
	size_t len = RECVS * RECV + LARGEST;

	memset(l, 0, sizeof *l);
	l->port = port;
	l->memory = calloc(1, len);
	must(diw_dev_open("diw_lo", NULL, &l->dev), "open");
	must(diw_pd_alloc(l->dev, &l->pd), "pd");
	must(diw_cm_create(l->dev, &l->cm), "channel");
	must(diw_mr_reg(l->pd, l->memory, len, DIW_ACCESS_LOCAL_WRITE | DIW_ACCESS_REMOTE_WRITE, &l->mr), "memory");
}

static void open_qp(struct liar *l)
{
	struct diw_qp_attr a = DIW_QP_ATTR_INIT;

	must(diw_cq_create(l->dev, 4096, NULL, NULL, &l->cq), "cq");
	a.type = DIW_QP_RC;
	a.send_cq = a.recv_cq = l->cq;
	a.sq_depth = 2048;
	a.rq_depth = RECVS;
	a.max_inline = RECV;
	must(diw_qp_create(l->pd, &a, &l->qp), "qp");
	for (unsigned i = 0; i < RECVS; i++) {
		struct diw_sge sge = { l->memory + i * RECV, RECV, l->mr->stag };

		must(diw_post_recv(l->qp, &(struct diw_recv_wr){ .sge = &sge, .num_sge = 1 }, NULL), "recv");
	}
}

static void close_qp(struct liar *l)
{
	diw_qp_destroy(l->qp);
	diw_cq_destroy(l->cq);
}

/* Connects with this hello; the result is in *EV. */
static enum diw_cm_event_type liar_meet(struct liar *l, const uint8_t *hello, uint32_t len, struct diw_cm_event *ev)
{
	struct diw_conn_attr a = DIW_CONN_ATTR_INIT;
	struct diw_addr to;

	open_qp(l);
	diw_addr_parse("127.0.0.1", diw_port_tcp(l->port), &to);
	a.data = hello;
	a.data_len = len;
	a.plain = true;
	must(diw_connect(l->qp, l->cm, &to, &a), "connect");
	must(diw_cm_get(l->cm, ev, (int64_t)SOON_MS * 1000000), "an outcome");
	return ev->type;
}

static enum diw_cm_event_type liar_connect(struct liar *l, const uint8_t *hello, uint32_t len)
{
	struct diw_cm_event ev;

	return liar_meet(l, hello, len, &ev);
}

static void honest_hello(uint8_t p[RS_HELLO_LEN])
{
	memset(p, 0, RS_HELLO_LEN);
	diw_put32(p, RS_MAGIC);
	diw_put16(p + 4, RECVS / 2);
	diw_put32(p + 8, RECV - RS_HDR);
}

static void say(struct liar *l, struct rs_header h, unsigned reserved, uint32_t len)
{
	uint8_t *p = l->memory + RECVS * RECV;
	struct diw_sge sge = { p, len, l->mr->stag };

	rs_header_put(p, &h);
	if (reserved)
		p[reserved] = 1;
	diw_post_send(l->qp, &(struct diw_send_wr){
		.sge = &sge, .num_sge = 1, .opcode = DIW_WR_SEND,
		.flags = len <= RECV ? DIW_SEND_INLINE : 0 }, NULL);
}

/* ---- False messages ---- */

static void posts_more(struct liar *l) { say(l, (struct rs_header){ .slots = 1 }, 0, RS_HDR + 1); }
static void posts_many(struct liar *l) { say(l, (struct rs_header){ .slots = UINT16_MAX }, 0, RS_HDR + 1); }
static void unknown_flag(struct liar *l) { say(l, (struct rs_header){ .flags = 0x80 }, 0, RS_HDR + 1); }
static void reserved_byte(struct liar *l) { say(l, (struct rs_header){ 0 }, 1, RS_HDR + 1); }
static void reserved_word(struct liar *l) { say(l, (struct rs_header){ 0 }, 7, RS_HDR + 1); }
static void half_header(struct liar *l) { say(l, (struct rs_header){ 0 }, 0, RS_HDR - 1); }
static void nothing_sent(struct liar *l) { say(l, (struct rs_header){ 0 }, 0, 0); }
static void empty_data(struct liar *l) { say(l, (struct rs_header){ 0 }, 0, RS_HDR); }
static void oversized(struct liar *l) { say(l, (struct rs_header){ 0 }, 0, LARGEST); }
static void bad_map(struct liar *l) { say(l, (struct rs_header){ .flags = RS_F_MAP }, 0, RS_HDR + 5); }

static void fat_control(struct liar *l)
{
	say(l, (struct rs_header){ .flags = RS_F_CONTROL }, 0, RS_HDR + 1);
}

/* A length that wraps. */
static void wrong_map(struct liar *l)
{
	memset(l->memory + RECVS * RECV + RS_HDR, 0xff, RS_MAP_LEN - RS_HDR);
	say(l, (struct rs_header){ .flags = RS_F_MAP }, 0, RS_MAP_LEN);
}

static void write_memory(struct liar *l)
{
	struct diw_sge sge = { l->memory, 8, l->mr->stag };

	diw_post_send(l->qp, &(struct diw_send_wr){
		.sge = &sge, .num_sge = 1, .opcode = DIW_WR_WRITE, .stag = 0x12345678, .to = 4096 }, NULL);
}

static void read_memory(struct liar *l)
{
	struct diw_sge sge = { l->memory, 8, l->mr->stag };

	diw_post_send(l->qp, &(struct diw_send_wr){
		.sge = &sge, .num_sge = 1, .opcode = DIW_WR_READ, .stag = 0x12345678, .to = 4096 }, NULL);
}

static void after_end(struct liar *l)
{
	say(l, (struct rs_header){ .flags = RS_F_CONTROL | RS_F_FIN }, 0, RS_HDR);
	say(l, (struct rs_header){ 0 }, 0, RS_HDR + 1);
}

static void no_credit(struct liar *l)
{
	for (int i = 0; i < 600; i++)
		say(l, (struct rs_header){ 0 }, 0, RS_HDR + 1);
}

static void control_flood(struct liar *l)
{
	for (int i = 0; i < 600; i++)
		say(l, (struct rs_header){ .flags = RS_F_CONTROL }, 0, RS_HDR);
}

static const struct { void (*lie)(struct liar *l); const char *what; } lies[] = {
	{ posts_more, "returns a slot that nobody took" }, { posts_many, "returns 65,535 of them" },
	{ unknown_flag, "sends an unknown flag" }, { reserved_byte, "sets what is reserved" },
	{ reserved_word, "sets other bits that are" }, { half_header, "sends half a header" },
	{ nothing_sent, "sends an empty message" }, { empty_data, "sends a header alone" },
	{ oversized, "sends more than a slot holds" }, { fat_control, "sends data as credits" },
	{ bad_map, "maps half" }, { wrong_map, "maps what wraps" },
	{ write_memory, "writes memory that is not mapped" }, { read_memory, "reads memory" },
	{ after_end, "writes after its end" }, { no_credit, "takes slots that it has not got" },
	{ control_flood, "sends credits without end" },
};

/* Data from before the false message can be read. A peer that has ended its direction cannot send again: later
 * messages change nothing. */
static bool is_reset(int victim, ssize_t last)
{
	double until = seconds() + SOON_MS / 1000;
	ssize_t n, sent;
	char c;

	if (!polled(victim, POLLIN, SOON_MS))
		return false;
	while ((n = recv_from(victim, &c, 1, 0)) == 1)
		;
	do
		sent = send_to(victim, &c, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (sent != -EPIPE && seconds() < until);
	if (n != last || sent != -EPIPE)
		printf("# read %zd, not %zd; wrote %zd\n", n, last, sent);
	return n == last && sent == -EPIPE;
}

static bool sees_end(struct liar *l)
{
	struct diw_cm_event ev;
	int rc = diw_cm_get(l->cm, &ev, (int64_t)SOON_MS * 1000000);

	return rc == 0 && ev.type == DIW_CM_DISCONNECTED;
}

static void test_lie(struct liar *l, int listens, unsigned i, const int bystander[2])
{
	const struct timeval soon = { .tv_sec = SOON_MS / 1000 };
	uint8_t hello[RS_HELLO_LEN];
	int victim;
	bool ended;

	honest_hello(hello);
	if (liar_connect(l, hello, sizeof hello) != DIW_CM_ESTABLISHED)
		die("a liar's connection", -ECONNREFUSED);
	victim = diw_rs_accept(listens, NULL, NULL);
	diw_rs_setopt(victim, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon);
	lies[i].lie(l);
	/* Uses beyond the credits are detected by the stack before the victim polls. */
	ended = (lies[i].lie == no_credit || lies[i].lie == control_flood) && sees_end(l);
	CHECK(is_reset(victim, lies[i].lie == after_end ? 0 : -ECONNRESET), "a peer that %s is reset", lies[i].what);
	CHECK((ended || sees_end(l)) && talk(bystander[0], bystander[1]), "... and it alone");
	diw_rs_close(victim);
	close_qp(l);
}

static void test_hello(struct liar *l)
{
	static const struct { unsigned at; uint32_t value; const char *what; } bad[] = {
		{ 0, 0x12345678, "has another magic" }, { 4, 0x00010000, "has one slot" },
		{ 4, 0x00200001, "sets what is reserved" }, { 8, 100, "has small slots" },
	};
	uint8_t hello[RS_HELLO_LEN];

	for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
		honest_hello(hello);
		diw_put32(hello + bad[i].at, bad[i].value);
		CHECK(liar_connect(l, hello, sizeof hello) == DIW_CM_REJECTED, "who %s is rejected", bad[i].what);
		close_qp(l);
	}
	CHECK(liar_connect(l, hello, 3) == DIW_CM_REJECTED, "who says too little is rejected");
	close_qp(l);
}

/* The vector of docs/rc-wire.md section 2.3, and the form of its answer. */
static void test_vector(struct liar *l, int listens)
{
	static const uint8_t hello[] = { 0x64, 0x52, 0x53, 0x31, 0x00, 0x20, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00 };
	static const uint8_t zeros[20];
	struct diw_cm_event ev;
	bool met = liar_meet(l, hello, sizeof hello, &ev) == DIW_CM_ESTABLISHED;
	int victim;

	CHECK(met, "the hello of the page is taken");
	CHECK(ev.data_len == 32 && memcmp(ev.data, hello, 4) == 0 && diw_get16(ev.data + 4) >= 2 &&
	      memcmp(ev.data + 6, hello + 6, 6) == 0 && memcmp(ev.data + 12, zeros, 20) == 0,
	      "and answered in the same form");
	if (met) {
		victim = diw_rs_accept(listens, NULL, NULL);
		diw_rs_close(victim);
	}
	close_qp(l);
}

int main(void)
{
	int listens = listener(AF_INET, 4), bystander[2];
	struct liar l;

	signal(SIGPIPE, SIG_IGN);
	pair(bystander);
	liar_init(&l, port_of(listens));
	test_hello(&l);
	test_vector(&l, listens);
	for (unsigned i = 0; i < sizeof lies / sizeof *lies; i++)
		test_lie(&l, listens, i, bystander);
	close_both(bystander);
	diw_rs_close(listens);
	diw_mr_dereg(l.mr);
	diw_cm_destroy(l.cm);
	diw_pd_free(l.pd);
	CHECK(diw_dev_close(l.dev) == 0, "nothing of them is left");
	free(l.memory);
	return failures > 0;
}
