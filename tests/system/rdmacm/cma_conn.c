/* SPDX-License-Identifier: BSD-2-Clause */
/* librdmacm.so.1: connections and their private data, errors of a program, and faults of a peer. All on lo. */
#include "tests/system/rdmacm/cma_kit.h"

#include <semaphore.h>
#include <sys/socket.h>

static struct rdma_event_channel *srv, *cli;
static uint8_t pattern[256];

static bool same(const struct rdma_cm_event *ev, uint8_t len)
{
	return ev->param.conn.private_data_len == len &&
	       (!len || memcmp(ev->param.conn.private_data, pattern, len) == 0);
}

static struct rdma_conn_param param(uint8_t len)
{
	return (struct rdma_conn_param){
		.private_data = pattern, .private_data_len = len, .responder_resources = 3, .initiator_depth = 5,
	};
}

/* Connects with this much private data in each direction; false: not all of it arrived. */
static bool connect_pair(uint16_t port, uint8_t len, struct rdma_cm_id **a, struct rdma_cm_id **b)
{
	struct rdma_conn_param p = param(len), q = param((uint8_t)(255 - len));
	struct rdma_cm_event *ev;
	bool good;

	*b = NULL;
	*a = asker(cli, RDMA_PS_TCP, port);
	if (rdma_connect(*a, &p) || !(ev = expect(srv, RDMA_CM_EVENT_CONNECT_REQUEST)))
		return false;
	good = same(ev, len) && ev->param.conn.responder_resources == 5 && ev->param.conn.initiator_depth == 3;
	*b = ev->id;
	if (!make_qp(*b) || rdma_accept(*b, &q) || rdma_ack_cm_event(ev) ||
	    !(ev = expect(cli, RDMA_CM_EVENT_ESTABLISHED)))
		return false;
	good &= same(ev, (uint8_t)(255 - len));
	return rdma_ack_cm_event(ev) == 0 && comes(srv, RDMA_CM_EVENT_ESTABLISHED) && good;
}

static bool part(struct rdma_cm_id *a, struct rdma_cm_id *b)
{
	bool good = rdma_disconnect(a) == 0 && comes(cli, RDMA_CM_EVENT_DISCONNECTED) &&
		    comes(srv, RDMA_CM_EVENT_DISCONNECTED) && rdma_disconnect(b) == 0;

	return destroy(a) == 0 && destroy(b) == 0 && good;
}

/* Both ends report the end of InfiniBand's TimeWait state once; an RNIC's do not. */
static void timewait(uint16_t port)
{
	struct rdma_cm_id *a, *b;
	struct rdma_cm_event *ev;
	double begin;
	bool rnic;

	CHECK(connect_pair(port, 0, &a, &b) && rdma_disconnect(a) == 0 && comes(cli, RDMA_CM_EVENT_DISCONNECTED) &&
	      comes(srv, RDMA_CM_EVENT_DISCONNECTED) && rdma_disconnect(b) == 0, "a connection ends");
	begin = seconds();
	rnic = a->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
	if (rnic) {
		CHECK(!next(cli, 1500) && !next(srv, 0), "an RNIC's is over then");
	} else {
		ev = expect(cli, RDMA_CM_EVENT_TIMEWAIT_EXIT);
		CHECK(ev && ev->id == a && seconds() - begin > 0.9 && rdma_ack_cm_event(ev) == 0,
		      "a channel adapter's leaves TimeWait a second later");
		rdma_destroy_qp(b);
		ev = expect(srv, RDMA_CM_EVENT_TIMEWAIT_EXIT);
		CHECK(ev && ev->id == b && rdma_ack_cm_event(ev) == 0, "... at both ends");
		CHECK(!next(cli, 1200) && !next(srv, 0), "... once");
	}
	CHECK(destroy(a) == 0 && destroy(b) == 0, "both go");
	CHECK(connect_pair(port, 0, &a, &b) && rdma_disconnect(a) == 0 && comes(cli, RDMA_CM_EVENT_DISCONNECTED) &&
	      comes(srv, RDMA_CM_EVENT_DISCONNECTED) && destroy(a) == 0 && destroy(b) == 0 && !next(cli, 1200) &&
	      !next(srv, 0), "nothing is told of identifiers that went before");
}

/* ---- Private data ---- */

static bool told(struct rdma_cm_id *id, uint8_t timeout)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	return ibv_query_qp(id->qp, &a, IBV_QP_TIMEOUT, &init) == 0 && a.qp_state == IBV_QPS_RTS &&
	       a.timeout == timeout && a.ah_attr.grh.dgid.raw[12] == 127;
}

static void private_data(uint16_t port)
{
	static const uint8_t lens[] = { 0, 1, 56, 196, 239, 240, 251, 252, 255 };
	struct rdma_conn_param bad = { .private_data_len = 1 }, deep = { .responder_resources = 200 };
	struct rdma_cm_id *a, *b;
	struct rdma_cm_event *ev = NULL;

	for (size_t i = 0; i < sizeof lens; i++) {
		char what[80];

		snprintf(what, sizeof what, "%u bytes of private data one way, %u the other", lens[i], 255 - lens[i]);
		CHECK(connect_pair(port, lens[i], &a, &b) && part(a, b), what);
	}
	CHECK(connect_pair(port, 0, &a, &b) && told(a, 14) && told(b, 14),
	      "queue pairs tell what they are connected with");
	CHECK(part(a, b), "both go");
	a = asker(cli, RDMA_PS_TCP, port);
	CHECK(rdma_connect(a, &deep) == -1 && errno == EINVAL, "more Reads at a time than the device has: EINVAL");
	CHECK(rdma_connect(a, &bad) == 0 && (ev = expect(srv, RDMA_CM_EVENT_CONNECT_REQUEST)) && same(ev, 0) &&
	      rdma_reject(ev->id, NULL, 0) == 0 && rdma_destroy_id(ev->id) == 0 && rdma_ack_cm_event(ev) == 0 &&
	      comes(cli, RDMA_CM_EVENT_REJECTED) && destroy(a) == 0, "private data that is nowhere is none");
	a = asker(cli, RDMA_PS_TCP, port);
	CHECK(rdma_connect(a, NULL) == 0 && (ev = expect(srv, RDMA_CM_EVENT_CONNECT_REQUEST)),
	      "then without parameters");
	CHECK(ev->param.conn.responder_resources == 128 && ev->param.conn.initiator_depth == 128,
	      "... which asks for all");
	b = ev->id;
	CHECK(rdma_reject(b, pattern, 255) == 0 && rdma_ack_cm_event(ev) == 0, "a reject with 255 bytes");
	CHECK(rdma_accept(b, NULL) == -1 && errno == EINVAL, "accepting what was rejected: EINVAL");
	ev = expect(cli, RDMA_CM_EVENT_REJECTED);
	CHECK(ev && same(ev, 255) && ev->status != 0 && rdma_ack_cm_event(ev) == 0, "which arrive");
	CHECK(destroy(a) == 0 && destroy(b) == 0, "both go");
}

/* Programs that leave the depths 0 read all the same. */
static void depths(uint16_t port)
{
	struct ibv_send_wr wr = { .wr_id = 7, .opcode = IBV_WR_RDMA_READ }, *bad;
	struct rdma_conn_param none = { 0 };
	struct rdma_cm_id *a = asker(cli, RDMA_PS_TCP, port), *b;
	struct rdma_cm_event *ev = NULL;
	struct ibv_wc wc = { .status = IBV_WC_GENERAL_ERR };
	int n = 0;

	CHECK(rdma_connect(a, &none) == 0 && (ev = expect(srv, RDMA_CM_EVENT_CONNECT_REQUEST)),
	      "a connection with depths of 0");
	b = ev->id;
	CHECK(make_qp(b) && rdma_accept(b, &none) == 0 && rdma_ack_cm_event(ev) == 0 &&
	      comes(cli, RDMA_CM_EVENT_ESTABLISHED) && comes(srv, RDMA_CM_EVENT_ESTABLISHED), "it stands");
	CHECK(ibv_post_send(a->qp, &wr, &bad) == 0, "takes a Read");
	for (int ms = 0; ms < SOON_MS && n == 0; ms++, usleep(1000))
		n = ibv_poll_cq(a->send_cq, 1, &wc);
	CHECK(n == 1 && wc.status == IBV_WC_SUCCESS && wc.wr_id == 7, "... which succeeds");
	CHECK(part(a, b), "both go");
}

/* ---- Channels and addresses ---- */

static void channels(void)
{
	struct pollfd p = { .fd = cli->fd, .events = POLLIN };
	struct rdma_event_channel *other = rdma_create_event_channel();
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;

	CHECK(poll(&p, 1, 50) == 0, "a channel without events cannot be read");
	fcntl(cli->fd, F_SETFL, O_NONBLOCK);
	CHECK(rdma_get_cm_event(cli, &ev) == -1 && errno == EAGAIN, "O_NONBLOCK: EAGAIN");
	fcntl(cli->fd, F_SETFL, 0);
	rdma_create_id(cli, &id, &p, RDMA_PS_TCP);
	CHECK(rdma_resolve_addr(id, NULL, lo(1), 1000) == 0 && poll(&p, 1, SOON_MS) == 1, "with one it can");
	CHECK(rdma_migrate_id(id, other) == 0 && id->channel == other && poll(&p, 1, 50) == 0,
	      "which moves with its id");
	ev = expect(other, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(ev && ev->id == id && id->context == &p && rdma_ack_cm_event(ev) == 0, "to the other channel");
	CHECK(id->verbs && id->port_num == 1 && id->pd && id->pd->context == id->verbs &&
	      strcmp(id->verbs->device->name, "diw_lo") == 0,
	      "the route names the device, and brings a protection domain");
	CHECK(rdma_destroy_id(id) == 0, "it goes");
	rdma_destroy_event_channel(other);
}

static void addresses(void)
{
	/* 198.51.100.1 */
	struct sockaddr_in far = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0xc6336401) };
	struct sockaddr odd = { .sa_family = AF_UNIX };
	struct rdma_cm_id *id, *again;
	int one = 1;
	uint16_t port = 0;

	rdma_create_id(cli, &id, NULL, RDMA_PS_TCP);
	rdma_create_id(cli, &again, NULL, RDMA_PS_TCP);
	CHECK(rdma_bind_addr(id, (struct sockaddr *)&far) == -1 && errno == EADDRNOTAVAIL, "another's address");
	CHECK(rdma_bind_addr(id, &odd) == -1 && errno == EAFNOSUPPORT, "another family");
	CHECK(rdma_resolve_route(id, 1000) == -1 && errno == EINVAL, "a route before an address");
	CHECK(rdma_bind_addr(id, lo(0)) == 0 && (port = ntohs(rdma_get_src_port(id))), "port 0 becomes one");
	CHECK(!id->verbs, "a loopback address is no device's yet");
	CHECK(rdma_bind_addr(id, lo(0)) == -1 && errno == EINVAL, "bound twice");
	CHECK(rdma_bind_addr(again, lo(port)) == -1 && errno == EADDRINUSE, "a port that another has");
	CHECK(rdma_listen(id, 1) == 0 && rdma_bind_addr(again, lo(port)) == -1 && errno == EADDRINUSE, "or listens on");
	rdma_destroy_id(id);
	CHECK(rdma_set_option(again, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &one, 1) == -1 && errno == EINVAL,
	      "an option of another size");
	CHECK(rdma_set_option(again, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &one, sizeof one) == 0, "REUSEADDR");
	CHECK(rdma_bind_addr(again, lo(port)) == 0 && rdma_listen(again, 1) == 0, "the port is free again");
	rdma_destroy_id(again);
	CHECK(rdma_create_id(cli, &id, NULL, RDMA_PS_IB) == -1 && errno == EPROTONOSUPPORT,
	      "a port space that is not here");
}

/* Whether an earlier connection had reached it: without a processor for 200 ms it comes later than that. */
static bool late_by_50_ms(uint16_t *port)
{
	struct rdma_cm_event *ev;
	struct rdma_cm_id *l, *a;
	struct pollfd p[2] = { { .fd = srv->fd, .events = POLLIN }, { .fd = cli->fd, .events = POLLIN } };
	bool came;

	rdma_create_id(srv, &l, NULL, RDMA_PS_TCP);
	rdma_bind_addr(l, lo(0));
	*port = ntohs(rdma_get_src_port(l));
	a = asker(cli, RDMA_PS_TCP, *port);
	CHECK(rdma_connect(a, NULL) == 0, "connected to before it listens");
	usleep(50000);
	rdma_listen(l, 1);
	poll(p, 2, SOON_MS);
	came = p[0].revents;
	if (came) {
		ev = expect(srv, RDMA_CM_EVENT_CONNECT_REQUEST);
		CHECK(ev && rdma_destroy_id(ev->id) == 0 && rdma_ack_cm_event(ev) == 0, "its request comes");
	}
	CHECK(comes(cli, RDMA_CM_EVENT_REJECTED), "it is refused");
	destroy(a);
	rdma_destroy_id(l);
	return came;
}

/* Some programs announce their port before they listen. */
static void late(void)
{
	struct rdma_cm_id *a;
	bool good = false;
	double begin;
	uint16_t port;

	for (int i = 0; i < 10 && !good; i++)
		good = late_by_50_ms(&port);
	CHECK(good, "a listener is late by 50 ms");
	a = asker(cli, RDMA_PS_TCP, port);
	begin = seconds();
	CHECK(rdma_connect(a, NULL) == 0 && comes(cli, RDMA_CM_EVENT_REJECTED) && seconds() - begin < 10,
	      "where nobody listens it is REJECTED, soon");
	destroy(a);
}

/* ---- Errors of a program ---- */

static void own_event(uint16_t port)
{
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;
	double begin;

	rdma_create_id(cli, &id, NULL, RDMA_PS_TCP);
	rdma_resolve_addr(id, NULL, lo(port), 1000);
	ev = expect(cli, RDMA_CM_EVENT_ADDR_RESOLVED);
	begin = seconds();
	CHECK(rdma_destroy_id(id) == -1 && errno == EDEADLK && seconds() - begin < 20,
	      "destroyed inside its event: EDEADLK");
	CHECK(rdma_resolve_route(id, 1000) == 0, "... and it lives on");
	CHECK(rdma_ack_cm_event(ev) == 0 && rdma_destroy_id(id) == 0, "until the event is acknowledged");
	/* The identifier of a request may be destroyed within the request. */
	id = asker(cli, RDMA_PS_TCP, port);
	rdma_connect(id, NULL);
	ev = expect(srv, RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK(ev && rdma_destroy_id(ev->id) == 0 && rdma_ack_cm_event(ev) == 0, "a request's id goes inside its event");
	CHECK(comes(cli, RDMA_CM_EVENT_REJECTED) && destroy(id) == 0, "which refuses the request");
}

static void *late_ack(void *ev)
{
	usleep(200000);
	rdma_ack_cm_event(ev);
	return NULL;
}

static void *both_connect(void *id)
{
	return (void *)(intptr_t)(rdma_connect(id, NULL) ? errno : 0);
}

static void *both_disconnect(void *id)
{
	return (void *)(intptr_t)(rdma_disconnect(id) ? errno : 0);
}

/* The results of the two calls: the smaller and the larger one. */
static void twice(void *(*call)(void *), void *arg, intptr_t out[2])
{
	pthread_t t[2];
	void *r[2];

	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, call, arg);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], &r[i]);
	out[0] = (intptr_t)r[0] < (intptr_t)r[1] ? (intptr_t)r[0] : (intptr_t)r[1];
	out[1] = (intptr_t)r[0] + (intptr_t)r[1] - out[0];
}

static void two_threads(uint16_t port)
{
	struct rdma_cm_event *ev;
	struct rdma_cm_id *a, *b;
	intptr_t r[2];
	pthread_t t;
	double begin;

	a = asker(cli, RDMA_PS_TCP, port);
	twice(both_connect, a, r);
	CHECK(r[0] == 0 && r[1] == EINVAL, "two threads connect one id: one does, the other gets EINVAL");
	ev = expect(srv, RDMA_CM_EVENT_CONNECT_REQUEST);
	b = ev->id;
	CHECK(make_qp(b) && rdma_accept(b, NULL) == 0 && rdma_ack_cm_event(ev) == 0, "its request is accepted");
	CHECK(comes(cli, RDMA_CM_EVENT_ESTABLISHED), "it stands");
	ev = expect(srv, RDMA_CM_EVENT_ESTABLISHED);
	twice(both_disconnect, a, r);
	CHECK(r[0] == 0 && r[1] == 0 && comes(cli, RDMA_CM_EVENT_DISCONNECTED) && !next(cli, 50),
	      "both end it: one event");
	begin = seconds();
	pthread_create(&t, NULL, late_ack, ev);
	CHECK(destroy(b) == 0 && seconds() - begin > 0.1,
	      "who is destroyed waits for another thread's acknowledgement");
	pthread_join(t, NULL);
	CHECK(destroy(a) == 0 && !next(srv, 50), "and leaves no event behind");
}

/* ---- Faults of a peer ---- */

static int raw(uint16_t port, const void *data, size_t len)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (connect(fd, lo_tcp(port), sizeof(struct sockaddr_in)) || write(fd, data, len) != (ssize_t)len)
		perror("raw");
	return fd;
}

#define HALF_OPEN 450                  /* the descriptors of both ends are ours, and many users may have 1024 */

/* A request of a peer with more private data than librdmacm has room for (RFC 5044 section 7.1.1: at most 512
 * octets). */
static int long_request(uint16_t port, uint16_t len)
{
	static uint8_t frame[20 + 600] = "MPA ID Req Frame";

	frame[16] = 0x40;                       /* CRC */
	frame[17] = 1;
	frame[18] = (uint8_t)(len >> 8);
	frame[19] = (uint8_t)len;
	for (int i = 0; i < len; i++)
		frame[20 + i] = pattern[i % 256];
	return raw(port, frame, 20 + len);
}

static void too_much(uint16_t port)
{
	struct pollfd p = { .events = POLLIN };
	struct rdma_cm_event *ev;
	char c;

	p.fd = long_request(port, 513);
	CHECK(poll(&p, 1, SOON_MS) == 1 && read(p.fd, &c, 1) <= 0 && !next(srv, 0),
	      "513 octets of private data: a reset, and the program is not told");
	close(p.fd);
	p.fd = long_request(port, 512);
	ev = expect(srv, RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK(ev && same(ev, 255), "of 512 it gets the first 255");
	CHECK(ev && rdma_reject(ev->id, pattern, 1) == 0 && rdma_destroy_id(ev->id) == 0 &&
	      rdma_ack_cm_event(ev) == 0 && poll(&p, 1, SOON_MS) == 1, "and may refuse it");
	close(p.fd);
}

static void garbage(uint16_t port)
{
	static uint8_t noise[4096];
	int fds[HALF_OPEN];
	struct rdma_cm_id *a, *b;

	for (size_t i = 0; i < sizeof noise; i++)
		noise[i] = (uint8_t)rand();
	for (int i = 0; i < HALF_OPEN; i++)
		fds[i] = i % 3 == 0 ? raw(port, noise, sizeof noise) :
			 i % 3 == 1 ? raw(port, "MPA ID Req", 10) : raw(port, "", 0);
	CHECK(connect_pair(port, 8, &a, &b), "a listener with 450 others that say nothing, half or nonsense");
	CHECK(part(a, b) && !next(srv, 50), "tells its program nothing of them");
	for (int i = 0; i < HALF_OPEN; i++)
		close(fds[i]);
}

static void unfetched(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *a[20], *l;
	int refused = 0, before = open_files();
	uint16_t port;

	l = listener(ch, RDMA_PS_TCP, &port);
	for (int i = 0; i < 20; i++) {
		a[i] = asker(cli, RDMA_PS_TCP, port);
		rdma_connect(a[i], NULL);
	}
	usleep(300000);
	CHECK(rdma_destroy_id(l) == 0, "a listener goes with 20 requests that nobody fetched");
	for (int i = 0; i < 20; i++)
		refused += comes(cli, RDMA_CM_EVENT_REJECTED);
	CHECK(refused == 20, "all of them are refused");
	for (int i = 0; i < 20; i++)
		destroy(a[i]);
	rdma_destroy_event_channel(ch);
	CHECK(no_more_files(before), "no descriptor is left");
}

static void many(uint16_t port)
{
	struct rdma_cm_id *a, *b;
	int good = 0, before;
	double begin;

	CHECK(connect_pair(port, 0, &a, &b) && part(a, b), "one connection");
	before = open_files();
	begin = seconds();
	for (int i = 0; i < 500; i++)
		good += connect_pair(port, 4, &a, &b) && part(a, b);
	printf("# 500 connections, one after the other, in %.2f s\n", seconds() - begin);
	CHECK(good == 500, "500 connections begin and end");
	CHECK(open_files() == before, "no descriptor is left");
}

/* ---- Silent peers take long: they are asked first, and checked last ---- */

static sem_t listening;

static void *sync_server(void *arg)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP }, *res;
	struct ibv_qp_init_attr init = { .cap = { 4, 4, 1, 1, 16 }, .sq_sig_all = 1 };
	struct rdma_cm_id *l, *id;
	static char in[16];
	struct ibv_mr *mr;
	struct ibv_wc wc;

	(void)arg;
	if (rdma_getaddrinfo("127.0.0.1", "7999", &hints, &res) || rdma_create_ep(&l, res, NULL, &init) ||
	    rdma_listen(l, 0) || sem_post(&listening) || rdma_get_request(l, &id) ||
	    !(mr = rdma_reg_msgs(id, in, sizeof in)) ||
	    rdma_post_recv(id, NULL, in, sizeof in, mr) || rdma_accept(id, NULL) || rdma_get_recv_comp(id, &wc) != 1)
		return "the server fails";
	rdma_disconnect(id);
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
	rdma_destroy_ep(l);
	rdma_freeaddrinfo(res);
	return in;
}

static void sync_ids(void)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *res;
	struct ibv_qp_init_attr init = { .cap = { 4, 4, 1, 1, 16 }, .sq_sig_all = 1 };
	struct rdma_cm_id *id;
	struct ibv_wc wc;
	pthread_t t;
	void *said;

	sem_init(&listening, 0, 0);
	pthread_create(&t, NULL, sync_server, NULL);
	sem_wait(&listening);
	CHECK(rdma_getaddrinfo("127.0.0.1", "7999", &hints, &res) == 0, "a name and a service");
	CHECK(rdma_create_ep(&id, res, NULL, &init) == 0 && rdma_connect(id, NULL) == 0,
	      "ids without a channel wait themselves");
	CHECK(rdma_post_send(id, NULL, "fifteen letters", 16, NULL, IBV_SEND_INLINE) == 0 &&
	      rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS, "and bring their completion queues");
	pthread_join(t, &said);
	CHECK(strcmp(said, "fifteen letters") == 0, "the other end has it");
	CHECK(rdma_disconnect(id) == 0, "the end");
	rdma_destroy_ep(id);
	rdma_freeaddrinfo(res);
	hints.ai_src_addr = lo(5);
	hints.ai_src_len = sizeof(struct sockaddr_in);
	CHECK(rdma_getaddrinfo(NULL, NULL, &hints, &res) == 0 && res->ai_src_len == hints.ai_src_len &&
	      memcmp(res->ai_src_addr, lo(5), hints.ai_src_len) == 0 && !res->ai_dst_addr, "no name, but a source");
	rdma_freeaddrinfo(res);
	hints.ai_flags = RAI_NUMERICHOST;
	CHECK(rdma_getaddrinfo("no number", "1", &hints, &res) == -1 && errno == ENODATA, "no such name");
}

int main(void)
{
	struct rdma_event_channel *slow = rdma_create_event_channel();
	struct sockaddr_in in;
	socklen_t len = sizeof in;
	int mute = socket(AF_INET, SOCK_STREAM, 0);
	struct rdma_cm_id *l, *patient;
	struct rdma_cm_event *ev;
	double begin = seconds();
	uint16_t port;

	for (int i = 0; i < 256; i++)
		pattern[i] = (uint8_t)(i * 7 + 1);
	srv = rdma_create_event_channel();
	cli = rdma_create_event_channel();
	if (bind(mute, lo(0), sizeof in) || listen(mute, 8) || getsockname(mute, (struct sockaddr *)&in, &len))
		return 2;
	patient = asker(slow, RDMA_PS_TCP, ntohs(in.sin_port));
	CHECK(rdma_connect(patient, NULL) == 0, "a peer that accepts and says nothing");
	l = listener(srv, RDMA_PS_TCP, &port);
	channels();
	addresses();
	private_data(port);
	depths(port);
	timewait(port);
	late();
	own_event(port);
	two_threads(port);
	garbage(port);
	too_much(port);
	unfetched();
	many(port);
	sync_ids();
	CHECK(rdma_destroy_id(l) == 0, "the listener goes");
	ev = next(slow, 2 * SOON_MS);
	CHECK(ev && ev->event == RDMA_CM_EVENT_UNREACHABLE && ev->status == -ETIMEDOUT && seconds() - begin > 19,
	      "the silent peer is given up after 20 s: UNREACHABLE");
	if (ev)
		rdma_ack_cm_event(ev);
	CHECK(destroy(patient) == 0, "its id goes");
	rdma_destroy_event_channel(slow);
	return failed;
}
