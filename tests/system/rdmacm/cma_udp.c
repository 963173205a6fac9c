/* SPDX-License-Identifier: BSD-2-Clause */
/* librdmacm.so.1: the service of UD queue pairs, and peers that lose, repeat and forge requests. All on lo. */
#include "tests/system/rdmacm/cma_kit.h"

#include <sys/socket.h>
#include <zlib.h>

#define LEN 292
#define CRC_AT 288

static struct rdma_event_channel *srv, *cli;
static uint8_t pattern[256];

static bool same(const struct rdma_cm_event *ev, uint8_t len)
{
	return ev->param.ud.private_data_len == len &&
	       (!len || memcmp(ev->param.ud.private_data, pattern, len) == 0);
}

/* Both ends' identifiers, with LEN bytes of private data one way and 255 - LEN the other. */
static bool serve(uint16_t port, uint8_t len, struct rdma_cm_id **a, struct rdma_cm_id **b)
{
	struct rdma_conn_param p = { .private_data = pattern, .private_data_len = len };
	struct rdma_conn_param q = { .private_data = pattern, .private_data_len = (uint8_t)(255 - len) };
	struct rdma_cm_event *ev;
	bool good;

	*b = NULL;
	*a = asker(cli, RDMA_PS_UDP, port);
	if (rdma_connect(*a, &p) || !(ev = expect(srv, RDMA_CM_EVENT_CONNECT_REQUEST)))
		return false;
	*b = ev->id;
	good = same(ev, len) && ev->param.ud.qp_num == (*a)->qp->qp_num;
	if (!make_qp(*b) || rdma_accept(*b, &q) || rdma_ack_cm_event(ev) ||
	    !(ev = expect(cli, RDMA_CM_EVENT_ESTABLISHED)))
		return false;
	good &= same(ev, (uint8_t)(255 - len)) && ev->param.ud.qp_num == (*b)->qp->qp_num &&
		ev->param.ud.qkey == RDMA_UDP_QKEY;
	return rdma_ack_cm_event(ev) == 0 && good;
}

static void private_data(uint16_t port)
{
	static const uint8_t lens[] = { 0, 1, 254, 255 };
	struct rdma_cm_id *a, *b;

	for (size_t i = 0; i < sizeof lens; i++) {
		char what[80];

		snprintf(what, sizeof what, "%u bytes of private data one way, %u the other", lens[i], 255 - lens[i]);
		CHECK(serve(port, lens[i], &a, &b), what);
		CHECK(destroy(a) == 0 && destroy(b) == 0, "both go");
	}
}

static void refusals(uint16_t port)
{
	struct rdma_cm_id *a = asker(cli, RDMA_PS_UDP, port), *nobody;
	struct rdma_cm_event *ev;

	rdma_connect(a, NULL);
	ev = expect(srv, RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK(ev && rdma_reject(ev->id, pattern, 9) == 0 && rdma_destroy_id(ev->id) == 0 && rdma_ack_cm_event(ev) == 0,
	      "a request is rejected");
	ev = expect(cli, RDMA_CM_EVENT_UNREACHABLE);
	CHECK(ev && ev->status == 2 && same(ev, 9) && rdma_ack_cm_event(ev) == 0, "who asked hears of it, and why");
	destroy(a);
	nobody = asker(cli, RDMA_PS_UDP, 9);
	rdma_connect(nobody, NULL);
	CHECK(comes(cli, RDMA_CM_EVENT_UNREACHABLE), "a service that is not there");
	destroy(nobody);
}

/* ---- Hand-written requests ---- */

static void request(uint8_t p[LEN], uint64_t number)
{
	uint32_t crc;

	memset(p, 0, LEN);
	memcpy(p, "diwu\1\1", 6);
	memcpy(p + 8, &number, sizeof number);
	p[16] = 1, p[17] = 0x11;
	crc = (uint32_t)crc32(0, p, CRC_AT);
	memcpy(p + CRC_AT, &crc, sizeof crc);   /* low byte first, as on this machine */
}

static int socket_to(uint16_t port)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return connect(fd, lo(port), sizeof(struct sockaddr_in)) ? -1 : fd;
}

static void repeated(uint16_t port)
{
	struct pollfd p = { .fd = socket_to(port), .events = POLLIN };
	uint8_t ask[LEN], said[2][LEN + 1];
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;

	request(ask, 7);
	for (int i = 0; i < 5; i++)
		CHECK(send(p.fd, ask, LEN, 0) == LEN, "a request, again and again");
	ev = expect(srv, RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK(ev && !next(srv, 100), "is one request");
	id = ev->id;
	CHECK(make_qp(id) && rdma_accept(id, NULL) == 0 && rdma_ack_cm_event(ev) == 0, "it is accepted");
	CHECK(poll(&p, 1, SOON_MS) == 1 && recv(p.fd, said[0], LEN + 1, 0) == LEN && said[0][5] == 2,
	      "the reply comes");
	CHECK(send(p.fd, ask, LEN, 0) == LEN && poll(&p, 1, SOON_MS) == 1 && recv(p.fd, said[1], LEN + 1, 0) == LEN &&
	      memcmp(said[0], said[1], LEN) == 0, "and comes again when it is asked for again");
	CHECK(!next(srv, 100), "without another event");
	destroy(id);
	close(p.fd);
}

static void nonsense(uint16_t port)
{
	int fd = socket_to(port);
	uint8_t good[LEN], p[LEN + 1];
	unsigned n = 0;

	request(good, 8);
	for (unsigned bit = 0; bit < 8 * LEN; bit += 5) {
		memcpy(p, good, LEN);
		p[bit / 8] ^= (uint8_t)(1u << bit % 8);
		n += send(fd, p, LEN, 0) == LEN;
	}
	for (unsigned len = 0; len <= LEN + 1; len += 7)
		if (len != LEN)
			n += send(fd, good, len > LEN ? LEN : len, 0) >= 0;
	CHECK(n > 500 && !next(srv, 300), "damaged and cut requests are nobody's");
	close(fd);
}

/* Requests that the application does not fetch: some wait, the others are dropped, and all end with the listener's
 * program. */
static void flood(uint16_t port)
{
	int fd = socket_to(port), before = open_files();
	struct rdma_cm_id *a, *b;
	struct rdma_cm_event *ev;
	unsigned sent = 0, told = 0;
	uint8_t p[LEN];

	for (uint64_t number = 1000; number < 6000; number++) {
		request(p, number);
		sent += send(fd, p, LEN, 0) == LEN;
	}
	while ((ev = next(srv, 2000))) {
		told += ev->event == RDMA_CM_EVENT_CONNECT_REQUEST && rdma_destroy_id(ev->id) == 0;
		rdma_ack_cm_event(ev);
	}
	CHECK(sent == 5000 && told > 0 && told <= sent,
	      "a flood of requests; each that is told of goes inside its event");
	CHECK(open_files() == before, "they hold no descriptor");
	CHECK(serve(port, 4, &a, &b) && destroy(a) == 0 && destroy(b) == 0, "then another is served");
	close(fd);
}

/* A listener that waits itself ends while an answered request lives on. */
static void sync_listener(void)
{
	struct rdma_cm_id *l, *a = NULL, *b = NULL;
	double begin;

	CHECK(rdma_create_id(NULL, &l, NULL, RDMA_PS_UDP) == 0 && rdma_bind_addr(l, lo(0)) == 0 &&
	      rdma_listen(l, 0) == 0 && (a = asker(cli, RDMA_PS_UDP, ntohs(rdma_get_src_port(l)))) &&
	      rdma_connect(a, NULL) == 0, "a request to a listener that waits itself");
	CHECK(rdma_get_request(l, &b) == 0 && make_qp(b) && rdma_accept(b, NULL) == 0 && !b->event &&
	      comes(cli, RDMA_CM_EVENT_ESTABLISHED), "it is accepted");
	begin = seconds();
	CHECK(rdma_destroy_id(l) == 0 && seconds() - begin < 0.9, "the listener goes at once");
	CHECK(b && destroy(b) == 0 && destroy(a) == 0, "both others go");
}

int main(void)
{
	struct rdma_event_channel *slow = rdma_create_event_channel();
	struct rdma_cm_id *l, *patient, *again;
	int mute = socket(AF_INET, SOCK_DGRAM, 0), before;
	struct sockaddr_in in;
	socklen_t len = sizeof in;
	struct rdma_cm_event *ev;
	uint16_t port;

	for (int i = 0; i < 256; i++)
		pattern[i] = (uint8_t)(i * 5 + 3);
	srv = rdma_create_event_channel();
	cli = rdma_create_event_channel();
	if (bind(mute, lo(0), sizeof in) || getsockname(mute, (struct sockaddr *)&in, &len))
		return 2;
	patient = asker(slow, RDMA_PS_UDP, ntohs(in.sin_port));
	before = open_files();
	CHECK(rdma_connect(patient, NULL) == 0, "a service that says nothing");
	l = listener(srv, RDMA_PS_UDP, &port);
	rdma_create_id(cli, &again, NULL, RDMA_PS_UDP);
	CHECK(rdma_bind_addr(again, lo(port)) == -1 && errno == EADDRINUSE, "its port is taken");
	rdma_destroy_id(again);
	private_data(port);
	refusals(port);
	repeated(port);
	nonsense(port);
	flood(port);
	sync_listener();
	CHECK(rdma_destroy_id(l) == 0, "the listener goes");
	ev = next(slow, 20000);
	CHECK(ev && ev->event == RDMA_CM_EVENT_UNREACHABLE && ev->status == -ETIMEDOUT, "the silent one is given up");
	for (len = 0; recv(mute, pattern, sizeof pattern, MSG_DONTWAIT) > 0; len++)
		;
	CHECK(len == 7, "after seven requests");
	if (ev)
		rdma_ack_cm_event(ev);
	CHECK(open_files() == before, "no descriptor is left");
	CHECK(destroy(patient) == 0, "its id goes");
	rdma_destroy_event_channel(slow);
	return failed;
}
