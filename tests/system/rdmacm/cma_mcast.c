/* SPDX-License-Identifier: BSD-2-Clause */
/* librdmacm.so.1: groups of UD queue pairs, joined and left; members, and identifiers that only send. All on lo. */
#include "tests/system/rdmacm/cma_kit.h"

#include <infiniband/ib.h>

#define GROUP "239.192.71.9"
#define GROUP6 "ff15::4709"
#define BYTES 200
#define QPN_GROUP 0xffffffu

static struct rdma_event_channel *ch;

static struct sockaddr *address(const char *text)
{
	static _Thread_local struct sockaddr_storage ss;
	struct sockaddr_in *in = (struct sockaddr_in *)&ss;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&ss;

	memset(&ss, 0, sizeof ss);
	ss.ss_family = strchr(text, ':') ? AF_INET6 : AF_INET;
	if (inet_pton(ss.ss_family, text, strchr(text, ':') ? (void *)&in6->sin6_addr : (void *)&in->sin_addr) != 1)
		exit(2);
	return (struct sockaddr *)&ss;
}

/* Whether this network namespace is a member on lo, by the kernel's list. */
static bool member(const char *group)
{
	const struct sockaddr *sa = address(group);
	char line[256], want[64] = "";
	FILE *f = fopen(sa->sa_family == AF_INET ? "/proc/net/igmp" : "/proc/net/igmp6", "r");
	bool found = false;

	if (sa->sa_family == AF_INET)
		snprintf(want, sizeof want, "%08X", ((const struct sockaddr_in *)sa)->sin_addr.s_addr);
	else
		for (int i = 0; i < 16; i++)
			snprintf(want + 2 * i, 3, "%02x", ((const struct sockaddr_in6 *)sa)->sin6_addr.s6_addr[i]);
	while (f && !found && fgets(line, sizeof line, f))
		found = strstr(line, want);
	if (f)
		fclose(f);
	return found;
}

/* ---- A member: an identifier, its queue pair, its buffer ---- */

struct end {
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	struct ibv_ah *ah;
	uint8_t buf[2][40 + BYTES];
};

static void open_end(struct end *e, const char *local)
{
	/* an identifier that is bound to a loopback address has no device */
	if (rdma_create_id(ch, &e->id, e, RDMA_PS_UDP) || rdma_resolve_addr(e->id, NULL, address(local), 1000) ||
	    !comes(ch, RDMA_CM_EVENT_ADDR_RESOLVED) || !make_qp(e->id) ||
	    !(e->mr = ibv_reg_mr(e->id->pd, e->buf, sizeof e->buf, IBV_ACCESS_LOCAL_WRITE))) {
		printf("not ok - a queue pair: %s\n", strerror(errno));
		exit(1);
	}
	e->ah = NULL;
}

static void close_end(struct end *e)
{
	if (e->ah)
		ibv_destroy_ah(e->ah);
	ibv_dereg_mr(e->mr);
	CHECK(destroy(e->id) == 0, "it goes");
}

static int join(struct rdma_cm_id *id, const char *group, uint32_t flags, void *context)
{
	struct rdma_cm_join_mc_attr_ex a = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS, .join_flags = flags,
		.addr = address(group),
	};

	return rdma_join_multicast_ex(id, &a, context);
}

static bool tells(const struct rdma_cm_event *ev, struct end *e, const char *group)
{
	const struct sockaddr *sa = address(group);
	const struct rdma_ud_param *ud = &ev->param.ud;
	union ibv_gid want = { .raw = { [10] = 0xff, [11] = 0xff } }, local;

	if (sa->sa_family == AF_INET)
		memcpy(want.raw + 12, &((const struct sockaddr_in *)sa)->sin_addr, 4);
	else
		memcpy(want.raw, &((const struct sockaddr_in6 *)sa)->sin6_addr, 16);
	return ev->id == e->id && ev->status == 0 && ud->private_data == e && ud->private_data_len == 0 &&
	       ud->qp_num == QPN_GROUP && ud->qkey == RDMA_UDP_QKEY && ud->ah_attr.is_global == 1 &&
	       ud->ah_attr.port_num == 1 && memcmp(&ud->ah_attr.grh.dgid, &want, sizeof want) == 0 &&
	       ibv_query_gid(e->id->verbs, 1, ud->ah_attr.grh.sgid_index, &local) == 0 &&
	       local.raw[15] == 1;              /* 127.0.0.1, ::1 */
}

static bool joins(struct end *e, const char *group, uint32_t flags)
{
	struct rdma_cm_event *ev;
	bool good;

	if (join(e->id, group, flags, e) || !(ev = expect(ch, RDMA_CM_EVENT_MULTICAST_JOIN)))
		return false;
	good = tells(ev, e, group);
	if (!e->ah)
		e->ah = ibv_create_ah(e->id->pd, &ev->param.ud.ah_attr);
	return rdma_ack_cm_event(ev) == 0 && good && e->ah;
}

/* The last message that came, or NULL. */
static const uint8_t *received(struct end *e, struct ibv_wc *wc, double limit)
{
	double until = seconds() + limit;

	do {
		if (ibv_poll_cq(e->id->recv_cq, 1, wc) == 1)
			return wc->status == IBV_WC_SUCCESS && wc->byte_len == 40 + BYTES ?
				e->buf[wc->wr_id] + 40 : NULL;
	} while (seconds() < until);
	return NULL;
}

static void post_recvs(struct end *e)
{
	for (uint64_t i = 0; i < 2; i++) {
		struct ibv_sge sge = { (uintptr_t)e->buf[i], sizeof e->buf[i], e->mr->lkey };
		struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 }, *bad;

		CHECK(ibv_post_recv(e->id->qp, &wr, &bad) == 0, "a receive");
	}
}

static bool says(struct end *e, uint8_t what)
{
	uint8_t text[BYTES];
	struct ibv_mr *mr = ibv_reg_mr(e->id->pd, text, sizeof text, 0);
	struct ibv_sge sge = { (uintptr_t)text, sizeof text, mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
		.wr.ud = { .ah = e->ah, .remote_qpn = QPN_GROUP, .remote_qkey = RDMA_UDP_QKEY },
	}, *bad;
	struct ibv_wc wc = { 0 };
	double until = seconds() + 30;
	bool good;

	memset(text, what, sizeof text);
	good = ibv_post_send(e->id->qp, &wr, &bad) == 0;
	while (good && ibv_poll_cq(e->id->send_cq, 1, &wc) == 0 && seconds() < until)
		;
	ibv_dereg_mr(mr);
	return good && wc.status == IBV_WC_SUCCESS;
}

static bool hears(struct end *e, const struct end *from, uint8_t what)
{
	struct ibv_wc wc;
	const uint8_t *p = received(e, &wc, 30);

	return p && p[0] == what && p[BYTES - 1] == what && wc.src_qp == from->id->qp->qp_num &&
	       wc.wc_flags & IBV_WC_GRH;
}

static void datagrams(void)
{
	struct end a, b, c;
	struct ibv_wc wc;

	open_end(&a, "127.0.0.1");
	open_end(&b, "127.0.0.1");
	open_end(&c, "127.0.0.1");
	CHECK(!member(GROUP) && joins(&a, GROUP, RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER) && !member(GROUP),
	      "who joins only to send is told all, and is no member");
	CHECK(joins(&b, GROUP, RDMA_MC_JOIN_FLAG_FULLMEMBER) && member(GROUP), "a full member");
	CHECK(joins(&c, GROUP, RDMA_MC_JOIN_FLAG_FULLMEMBER), "and another");
	post_recvs(&a);
	post_recvs(&b);
	post_recvs(&c);
	CHECK(says(&a, 1) && hears(&b, &a, 1) && hears(&c, &a, 1), "what one says to the group both members hear");
	CHECK(rdma_leave_multicast(c.id, address(GROUP)) == 0 && member(GROUP), "one leaves");
	CHECK(says(&b, 2) && hears(&b, &b, 2), "a member hears itself, too");
	/* One socket serves all, so their datagrams have come by now. */
	CHECK(!received(&c, &wc, 0), "who has left hears nothing");
	CHECK(!received(&a, &wc, 0), "nor does who only sends");
	CHECK(rdma_leave_multicast(b.id, address(GROUP)) == 0 && !member(GROUP), "with the last the group is left");
	CHECK(rdma_leave_multicast(b.id, address(GROUP)) == -1 && errno == EADDRNOTAVAIL, "left twice: EADDRNOTAVAIL");
	CHECK(rdma_leave_multicast(a.id, address(GROUP)) == 0, "who only sends leaves as well");
	close_end(&a);
	close_end(&b);
	close_end(&c);
}

/* ---- Names of groups ---- */

static void names(void)
{
	struct sockaddr_ib ib = { .sib_family = AF_IB };
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;
	struct end e;

	open_end(&e, "::1");
	CHECK(joins(&e, GROUP6, RDMA_MC_JOIN_FLAG_FULLMEMBER) && member(GROUP6), "a group of IPv6");
	CHECK(rdma_leave_multicast(e.id, address(GROUP6)) == 0 && !member(GROUP6), "which is left");
	inet_pton(AF_INET6, GROUP6, &ib.sib_addr);
	CHECK(rdma_join_multicast(e.id, (struct sockaddr *)&ib, &e) == 0 &&
	      (ev = expect(ch, RDMA_CM_EVENT_MULTICAST_JOIN)) && tells(ev, &e, GROUP6) && rdma_ack_cm_event(ev) == 0 &&
	      member(GROUP6), "the same by AF_IB");
	CHECK(rdma_leave_multicast(e.id, (struct sockaddr *)&ib) == 0 && !member(GROUP6), "left by it");
	close_end(&e);
	rdma_create_id(ch, &id, NULL, RDMA_PS_UDP);
	CHECK(rdma_resolve_addr(id, address("127.0.0.1"), address(GROUP), 1000) == 0 &&
	      comes(ch, RDMA_CM_EVENT_ADDR_RESOLVED) && id->verbs, "a group's address is resolved");
	CHECK(rdma_join_multicast(id, address(GROUP), NULL) == 0 && comes(ch, RDMA_CM_EVENT_MULTICAST_JOIN) &&
	      !member(GROUP), "without a queue pair it is the program that attaches one");
	CHECK(rdma_destroy_id(id) == 0, "an identifier goes while it is joined");
}

/* ---- The queue pair that exists when the event is fetched is attached ---- */

/* An identifier without a queue pair. */
static struct rdma_cm_id *bare_id(void)
{
	struct rdma_cm_id *id;

	if (rdma_create_id(ch, &id, NULL, RDMA_PS_UDP) || rdma_resolve_addr(id, NULL, lo(1), SOON_MS) ||
	    !comes(ch, RDMA_CM_EVENT_ADDR_RESOLVED)) {
		printf("not ok - an identifier: %s\n", strerror(errno));
		exit(1);
	}
	return id;
}

static bool fetches_join(void)
{
	return comes(ch, RDMA_CM_EVENT_MULTICAST_JOIN);
}

static void queue_pair_first(void)
{
	struct rdma_cm_id *id = bare_id();

	CHECK(make_qp(id) && join(id, GROUP, 0, NULL) == 0 && !member(GROUP),
	      "a queue pair is not attached before the event is fetched");
	CHECK(fetches_join() && member(GROUP), "it is attached when the event is fetched");
	CHECK(join(id, GROUP, 0, NULL) == 0 && fetches_join() && member(GROUP), "the group is joined twice");
	CHECK(rdma_leave_multicast(id, address(GROUP)) == 0 && rdma_leave_multicast(id, address(GROUP)) == 0 &&
	      !member(GROUP), "it is left twice");
	CHECK(join(id, GROUP, 0, NULL) == 0, "a join whose event is fetched without the queue pair");
	rdma_destroy_qp(id);
	CHECK(fetches_join() && !member(GROUP) && rdma_destroy_id(id) == 0, "attaches nothing");
}

static void queue_pair_between(void)
{
	struct rdma_cm_id *id = bare_id();

	CHECK(join(id, GROUP, 0, NULL) == 0 && join(id, GROUP6, 0, NULL) == 0 && fetches_join(),
	      "two groups are joined without a queue pair, and one event is fetched");
	CHECK(make_qp(id) && fetches_join() && member(GROUP6), "a queue pair made then is attached to the other");
	CHECK(!member(GROUP), "it is not attached to the first");
	CHECK(rdma_leave_multicast(id, address(GROUP6)) == 0 && !member(GROUP6), "the other is left");
	CHECK(join(id, GROUP6, RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER, NULL) == 0 && fetches_join() && !member(GROUP6),
	      "a join to send attaches nothing");
	CHECK(destroy(id) == 0, "the identifier goes while it is joined");
}

static void queue_pair_last(void)
{
	union ibv_gid gid = { .raw = { [10] = 0xff, [11] = 0xff, 239, 192, 71, 9 } };
	struct rdma_cm_id *id = bare_id();

	CHECK(join(id, GROUP, 0, NULL) == 0 && fetches_join() && make_qp(id) && !member(GROUP),
	      "a queue pair that is made behind the event is not attached");
	CHECK(ibv_attach_mcast(id->qp, &gid, 0) == 0 && member(GROUP), "the program attaches it");
	CHECK(rdma_leave_multicast(id, address(GROUP)) == 0 && !member(GROUP), "the end of the join detaches it");
	CHECK(join(id, GROUP, 0, NULL) == 0 && destroy(id) == 0 && !member(GROUP) && !next(ch, 0),
	      "an identifier goes before its event is fetched");
}

/* ---- Errors of a program ---- */

static void misuse(void)
{
	struct rdma_cm_join_mc_attr_ex a = { .comp_mask = 4, .addr = address(GROUP) };
	struct sockaddr odd = { .sa_family = AF_UNIX };
	struct rdma_cm_event *ev = NULL;
	struct rdma_cm_id *id;
	struct end e;

	rdma_create_id(ch, &id, NULL, RDMA_PS_UDP);
	CHECK(join(id, GROUP, 0, NULL) == -1 && errno == EINVAL, "an identifier without a device: EINVAL");
	rdma_destroy_id(id);
	rdma_create_id(ch, &id, NULL, RDMA_PS_TCP);
	CHECK(rdma_resolve_addr(id, NULL, lo(1), 1000) == 0 && comes(ch, RDMA_CM_EVENT_ADDR_RESOLVED) &&
	      join(id, GROUP, 0, NULL) == -1 && errno == EINVAL, "one of TCP's: EINVAL");
	rdma_destroy_id(id);
	open_end(&e, "127.0.0.1");
	CHECK(join(e.id, "192.0.2.1", 0, NULL) == -1 && errno == EINVAL, "no group's address: EINVAL");
	CHECK(join(e.id, "255.255.255.255", 0, NULL) == -1 && errno == EINVAL, "everybody's: EINVAL");
	CHECK(join(e.id, "2001:db8::1", 0, NULL) == -1 && errno == EINVAL, "no group's of IPv6: EINVAL");
	CHECK(rdma_join_multicast(e.id, &odd, NULL) == -1 && errno == EAFNOSUPPORT, "another family: EAFNOSUPPORT");
	CHECK(rdma_join_multicast(e.id, NULL, NULL) == -1 && errno == EINVAL, "no address: EINVAL");
	CHECK(rdma_join_multicast_ex(e.id, &a, NULL) == -1 && errno == ENOTSUP, "an unknown attribute: ENOTSUP");
	a.comp_mask = 0;
	CHECK(rdma_join_multicast_ex(e.id, &a, NULL) == -1 && errno == EINVAL, "without the address's: EINVAL");
	CHECK(join(e.id, GROUP, 2, NULL) == -1 && errno == ENOTSUP, "a flag that is not known: ENOTSUP");
	CHECK(rdma_leave_multicast(e.id, address(GROUP)) == -1 && errno == EADDRNOTAVAIL,
	      "left without having been joined: EADDRNOTAVAIL");
	CHECK(!next(ch, 0), "nothing of it is an event");
	CHECK(join(e.id, GROUP, 0, NULL) == 0 && rdma_leave_multicast(e.id, address(GROUP)) == 0 && !next(ch, 0),
	      "left before its event is fetched, which vanishes");
	CHECK(join(e.id, GROUP, 0, NULL) == 0 && (ev = expect(ch, RDMA_CM_EVENT_MULTICAST_JOIN)) != NULL, "joined");
	CHECK(rdma_leave_multicast(e.id, address(GROUP)) == -1 && errno == EDEADLK && member(GROUP),
	      "left inside its own event: EDEADLK");
	CHECK(rdma_ack_cm_event(ev) == 0 && rdma_leave_multicast(e.id, address(GROUP)) == 0 && !member(GROUP),
	      "left when that is acknowledged");
	CHECK(joins(&e, GROUP, 0) && member(GROUP), "joined again");
	close_end(&e);
	CHECK(!member(GROUP) && !next(ch, 0), "with its queue pair the membership ends, and nothing is told");
}

static void *leaves(void *id)
{
	return (void *)(intptr_t)(rdma_leave_multicast(id, address(GROUP)) ? errno : 0);
}

static void two_threads(void)
{
	pthread_t t[2];
	void *r[2];
	struct end e;

	open_end(&e, "127.0.0.1");
	CHECK(joins(&e, GROUP, 0), "joined");
	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, leaves, e.id);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], &r[i]);
	CHECK((intptr_t)r[0] + (intptr_t)r[1] == EADDRNOTAVAIL && (!r[0] || !r[1]),
	      "two threads leave it: one does, the other gets EADDRNOTAVAIL");
	close_end(&e);
}

/* ---- More groups than there is room for ---- */

static void too_many(void)
{
	struct rdma_cm_event *ev = NULL;
	int good = 0, left = 0, status = 0;
	char group[32];
	struct end e;

	open_end(&e, "127.0.0.1");
	while (good < 1000 && !status) {
		snprintf(group, sizeof group, "239.193.%d.%d", good / 200, good % 200);
		if (join(e.id, group, 0, &e) || !(ev = next(ch, SOON_MS)))
			break;
		status = ev->event == RDMA_CM_EVENT_MULTICAST_ERROR && ev->param.ud.private_data == &e ? ev->status : 0;
		good += status == 0;
		rdma_ack_cm_event(ev);
	}
	CHECK(good > 0 && status == -ENOBUFS, "a group too many: MULTICAST_ERROR, no buffers");
	CHECK(rdma_leave_multicast(e.id, address(group)) == 0, "it is left like another");
	while (left < good) {
		snprintf(group, sizeof group, "239.193.%d.%d", left / 200, left % 200);
		if (rdma_leave_multicast(e.id, address(group)))
			break;
		left++;
	}
	CHECK(left == good, "all others are left");
	CHECK(joins(&e, GROUP, 0) && rdma_leave_multicast(e.id, address(GROUP)) == 0, "then there is room");
	close_end(&e);
}

static void sync_ids(void)
{
	struct end e;

	CHECK(rdma_create_id(NULL, &e.id, &e, RDMA_PS_UDP) == 0 &&
	      rdma_resolve_addr(e.id, NULL, lo(1), 1000) == 0 && make_qp(e.id), "an identifier without a channel");
	CHECK(rdma_join_multicast(e.id, address(GROUP), &e) == 0 && e.id->event && tells(e.id->event, &e, GROUP) &&
	      member(GROUP), "waits for the outcome itself");
	CHECK(rdma_leave_multicast(e.id, address(GROUP)) == 0 && !e.id->event && !member(GROUP), "and leaves");
	CHECK(destroy(e.id) == 0, "it goes");
}

int main(void)
{
	int before;

	ch = rdma_create_event_channel();
	names();
	before = open_files();
	datagrams();
	queue_pair_first();
	queue_pair_between();
	queue_pair_last();
	misuse();
	two_threads();
	too_many();
	sync_ids();
	CHECK(open_files() == before, "no descriptor is left");
	return failed;
}
