/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The service of UD queue pairs. A request to the service's UDP port asks for the number and Q_Key of the queue pair
 * that serves it (docs/ud-profile.md section 16). The socket that keeps the port is the service's socket.
 */
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>
#include <zlib.h>

#include "base/sys.h"
#include "verbs/cma/cma.h"
#include "wire/service.h"

#define SIDR_LEN DIW_SERVICE_LEN
#define FIRST_WAIT_NS 100000000ull   /* until the request is repeated; doubled each time */
#define SIDR_TRIES 7
#define REFUSED_NS 10000000ull       /* the same if no service listens: up to 150 ms together */
#define REFUSALS 4
#define SIDR_BUCKETS 256u
#define SIDR_BURST 64                /* datagrams read at a time, so that other watches get their turn */

/* A program reads this status where no service listens: InfiniBand's, beside those of the reply. */
#define NOT_SUPPORTED 1

struct cma_ud {
	struct diw_watch watch;              /* its fd: of a requester, or of a listener */
	struct cma_id *id;
	uint64_t number;                     /* the request's number */
	uint8_t tries, refusals;
	bool answered;
	uint8_t frame[SIDR_LEN];                  /* the request; of a child, the reply */
	struct cma_id *listener;             /* of a child, while the listener exists */
	struct diw_list link;                /* of a child: in a bucket of its listener */
	struct diw_list *children;           /* of a listener: hash table by number */
};

/* ---- Frames ---- */

static uint32_t frame_crc(const uint8_t p[SIDR_LEN])
{
	return (uint32_t)crc32(0, p, DIW_SERVICE_CRC_AT);
}

static void frame_write(struct cma_ud *u, uint8_t kind, uint16_t status, uint32_t qpn, const void *data, uint8_t len)
{
	diw_service_put(u->frame, &(struct diw_service){
		.kind = kind, .status = status, .number = u->number, .qpn = qpn, .qkey = qpn ? RDMA_UDP_QKEY : 0,
		.data = data, .len = len,
	});
	diw_put32le(u->frame + DIW_SERVICE_CRC_AT, frame_crc(u->frame));
}

static bool frame_read(struct diw_service *f, const uint8_t *p, size_t len, uint8_t kind)
{
	return diw_service_get(f, p, len) && f->kind == kind && frame_crc(p) == diw_get32le(p + DIW_SERVICE_CRC_AT);
}

static uint32_t own_qp(const struct cma_id *id, const struct rdma_conn_param *p)
{
	return id->id.qp ? id->id.qp->qp_num : p ? p->qp_num : 0;
}

static struct cma_ud *new_ud(struct cma_id *id)
{
	struct cma_ud *u = calloc(1, sizeof *u);

	if (!u)
		return NULL;
	u->id = id;
	u->watch.fd = -1;
	diw_list_init(&u->watch.link);
	diw_list_init(&u->link);
	id->ud = u;
	return u;
}

void cma_ud_forget(struct cma_id *id)
{
	struct cma_ud *u = id->ud;
	struct diw_list *l;

	if (u->watch.fd >= 0)
		diw_loop_del(&cma_loop, &u->watch);
	diw_list_del(&u->link);
	for (unsigned i = 0; u->children && i < SIDR_BUCKETS; i++)
		while ((l = diw_list_first(&u->children[i]))) {
			diw_container(l, struct cma_ud, link)->listener = NULL;
			diw_list_del(l);
		}
	free(u->children);
	free(u);
	id->ud = NULL;
	cma_hold_drop(id);
}

/* ---- The requester ---- */

static void request_finish(struct cma_id *id, struct cma_event *e, enum cma_state state)
{
	cma_ud_forget(id);
	id->state = state;
	if (e)
		cma_event_post(e);
}

static void request_give_up(struct cma_id *id, int status)
{
	request_finish(id, cma_event_new(id, RDMA_CM_EVENT_UNREACHABLE, status), CMA_OVER);
}

/* Writes the queue pair that a frame names, and its address, to the event. */
static void tell_qp(struct cma_event *e, const struct cma_id *id, const struct diw_service *f)
{
	struct ibv_ah_attr *ah = &e->ev.param.ud.ah_attr;

	cma_event_data(e, f->data, f->len);
	e->ev.param.ud.qp_num = f->qpn;
	e->ev.param.ud.qkey = f->qkey;
	ah->is_global = 1;
	ah->port_num = 1;
	ah->grh.sgid_index = cma_gid_index(id);
	ah->grh.hop_limit = 64;
	ah->grh.traffic_class = id->tos;
	memcpy(ah->grh.dgid.raw, id->peer.ip, sizeof id->peer.ip);
}

static void on_reply(struct cma_id *id, const struct diw_service *f)
{
	struct cma_event *e = cma_event_new(id, f->status ? RDMA_CM_EVENT_UNREACHABLE : RDMA_CM_EVENT_ESTABLISHED,
					    f->status);

	if (e)
		tell_qp(e, id, f);
	request_finish(id, e, f->status ? CMA_OVER : CMA_CONNECTED);
}

/* No service listens at the port. A server that has announced its port may not have reached rdma_listen(3) yet, since
 * another process has its processor. So the request is repeated for a short time. */
static void sidr_refused(struct cma_ud *u, uint64_t now)
{
	if (u->refusals == REFUSALS)
		request_give_up(u->id, NOT_SUPPORTED);
	else
		diw_loop_call(&cma_loop, &u->watch, now + (REFUSED_NS << u->refusals++));
}

static void service_ask(struct cma_ud *u, uint64_t now)
{
	if (send(u->watch.fd, u->frame, SIDR_LEN, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno == ECONNREFUSED)
		sidr_refused(u, now);
	else
		diw_loop_call(&cma_loop, &u->watch, now + (FIRST_WAIT_NS << u->tries++));
}

static void asker_ready(struct diw_watch *w, uint64_t now)
{
	struct cma_ud *u = diw_container(w, struct cma_ud, watch);
	uint8_t buf[SIDR_LEN + 1];
	struct diw_service f;
	ssize_t n;

	for (int i = 0; i < SIDR_BURST && (n = recv(w->fd, buf, sizeof buf, MSG_DONTWAIT)) >= 0; i++)
		if (frame_read(&f, buf, (size_t)n, DIW_SERVICE_REPLY) && f.number == u->number) {
			on_reply(u->id, &f);
			return;
		}
	if (n < 0 && errno == ECONNREFUSED)
		sidr_refused(u, now);
	else if (!w->due && u->tries == SIDR_TRIES)
		request_give_up(u->id, -ETIMEDOUT);
	else if (!w->due)
		service_ask(u, now);
}

static int open_asker(struct cma_id *id)
{
	struct sockaddr_storage ss;
	socklen_t len;

	if (id->hold < 0) {
		struct diw_addr any = id->local;

		any.port = 0;
		len = diw_addr_to_sockaddr(&any, &ss);
		id->hold = diw_socket(ss.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (id->hold < 0 || bind(id->hold, (struct sockaddr *)&ss, len))
			return errno;
	}
	len = diw_addr_to_sockaddr(&id->peer, &ss);
	return connect(id->hold, (struct sockaddr *)&ss, len) ? errno : 0;
}

int cma_ud_connect(struct cma_id *id, const struct rdma_conn_param *p)
{
	struct cma_ud *u;
	int rc = open_asker(id);

	if (rc)
		return rc;
	u = new_ud(id);
	if (!u)
		return ENOMEM;
	if (getrandom(&u->number, sizeof u->number, 0) != sizeof u->number)
		rc = EAGAIN;
	frame_write(u, DIW_SERVICE_REQUEST, 0, own_qp(id, p), p ? p->private_data : NULL, cma_data_len(p));
	u->watch.ready = asker_ready;
	if (rc == 0) {
		u->watch.fd = id->hold;
		rc = -diw_loop_add(&cma_loop, &u->watch);
	}
	if (rc) {
		u->watch.fd = -1;
		cma_ud_forget(id);
		return rc;
	}
	u->watch.due = 1;                       /* the thread sends the request: the result is always an event */
	diw_loop_call(&cma_loop, &u->watch, 1);
	return 0;
}

/* ---- The service ---- */

/* Sends from the address that the request was sent to. */
static void service_answer(const struct cma_ud *child)
{
	const struct cma_id *id = child->id;
	union { struct cmsghdr h; char room[CMSG_SPACE(sizeof(struct in6_pktinfo))]; } c = { 0 };
	struct sockaddr_storage to;
	struct iovec iov = { (void *)child->frame, SIDR_LEN };
	struct msghdr m = { .msg_name = &to, .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &c };

	m.msg_namelen = diw_addr_to_sockaddr(&id->peer, &to);
	if (diw_addr_is_v4(&id->local)) {
		struct in_pktinfo info = { 0 };

		memcpy(&info.ipi_spec_dst, id->local.ip + 12, 4);
		c.h = (struct cmsghdr){ CMSG_LEN(sizeof info), IPPROTO_IP, IP_PKTINFO };
		memcpy(CMSG_DATA(&c.h), &info, sizeof info);
		m.msg_controllen = CMSG_SPACE(sizeof info);
	} else {
		struct in6_pktinfo info = { .ipi6_ifindex = id->local.scope };

		memcpy(&info.ipi6_addr, id->local.ip, sizeof id->local.ip);
		c.h = (struct cmsghdr){ CMSG_LEN(sizeof info), IPPROTO_IPV6, IPV6_PKTINFO };
		memcpy(CMSG_DATA(&c.h), &info, sizeof info);
		m.msg_controllen = CMSG_SPACE(sizeof info);
	}
	/* a lost reply is requested again */
	(void)!sendmsg(child->listener->ud->watch.fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static struct diw_list *child_bucket(const struct cma_ud *l, uint64_t number)
{
	return &l->children[number % SIDR_BUCKETS];
}

static struct cma_ud *child_find(const struct cma_ud *l, uint64_t number, const struct diw_addr *peer)
{
	for (struct diw_list *n = child_bucket(l, number)->next; n != child_bucket(l, number); n = n->next) {
		struct cma_ud *u = diw_container(n, struct cma_ud, link);

		if (u->number == number && diw_addr_eq(&u->id->peer, peer))
			return u;
	}
	return NULL;
}

static struct cma_id *service_child_new(struct cma_id *l, const struct diw_addr *local, const struct diw_addr *peer)
{
	struct cma_dev *dev = l->dev ? l->dev : cma_dev_of(local);
	struct cma_id *id = dev && l->id.channel ?
		cma_id_new(l->sync ? NULL : l->id.channel, l->id.context, l->id.ps, l->id.qp_type) : NULL;
	struct cma_ud *u = id ? new_ud(id) : NULL;

	if (!u) {
		if (id)
			cma_id_free(id);
		return NULL;
	}
	u->listener = l;
	id->local = *local;
	id->peer = *peer;
	id->tos = l->tos;
	id->state = CMA_REQUESTED;
	cma_id_device(id, dev);
	cma_id_show(id);
	return id;
}

static void service_on_request(struct cma_id *l, const struct diw_service *f, const struct diw_addr *local,
			       const struct diw_addr *peer)
{
	struct cma_ud *u = child_find(l->ud, f->number, peer);
	struct cma_event *e;
	struct cma_id *id;

	if (u) {
		if (u->answered)
			service_answer(u);
		return;
	}
	id = l->queued < l->backlog ? service_child_new(l, local, peer) : NULL;
	e = id ? cma_event_new(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0) : NULL;
	if (!e) {
		if (id)
			cma_id_free(id);
		return;                         /* the requester will repeat the request */
	}
	id->ud->number = f->number;
	diw_list_add_tail(child_bucket(l->ud, f->number), &id->ud->link);
	e->owner = l;
	e->ev.listen_id = &l->id;
	tell_qp(e, id, f);
	l->queued++;
	cma_event_post(e);
}

/* The destination address of the datagram. */
static void local_of(struct msghdr *m, struct diw_addr *local)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
			struct in_pktinfo info;

			memcpy(&info, CMSG_DATA(c), sizeof info);
			memset(local->ip, 0, 10);
			local->ip[10] = local->ip[11] = 0xff;
			memcpy(local->ip + 12, &info.ipi_addr, 4);
			return;
		}
		if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
			struct in6_pktinfo info;

			memcpy(&info, CMSG_DATA(c), sizeof info);
			memcpy(local->ip, &info.ipi6_addr, sizeof local->ip);
			local->scope = IN6_IS_ADDR_LINKLOCAL(&info.ipi6_addr) ? info.ipi6_ifindex : 0;
		}
	}
}

static void listener_ready(struct diw_watch *w, uint64_t now)
{
	struct cma_id *l = diw_container(w, struct cma_ud, watch)->id;

	(void)now;
	for (int i = 0; i < SIDR_BURST; i++) {
		union { struct cmsghdr h; char room[256]; } c;
		struct sockaddr_storage from;
		struct diw_addr peer, local = l->local;
		uint8_t buf[SIDR_LEN + 1];
		struct iovec iov = { buf, sizeof buf };
		struct msghdr m = { .msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &iov, .msg_iovlen = 1,
				    .msg_control = &c, .msg_controllen = sizeof c };
		ssize_t n = recvmsg(w->fd, &m, MSG_DONTWAIT);
		struct diw_service f;

		if (n < 0)
			return;
		if (!frame_read(&f, buf, (size_t)n, DIW_SERVICE_REQUEST))
			continue;
		diw_addr_from_sockaddr(&peer, (struct sockaddr *)&from);
		local_of(&m, &local);
		service_on_request(l, &f, &local, &peer);
	}
}

int cma_ud_listen(struct cma_id *id)
{
	const int one = 1;
	struct cma_ud *u = new_ud(id);
	int rc;

	if (!u)
		return ENOMEM;
	u->children = calloc(SIDR_BUCKETS, sizeof *u->children);
	for (unsigned i = 0; u->children && i < SIDR_BUCKETS; i++)
		diw_list_init(&u->children[i]);
	setsockopt(id->hold, IPPROTO_IP, IP_PKTINFO, &one, sizeof one);
	setsockopt(id->hold, IPPROTO_IPV6, IPV6_RECVPKTINFO, &one, sizeof one);
	u->watch.ready = listener_ready;
	u->watch.fd = id->hold;
	rc = u->children ? -diw_loop_add(&cma_loop, &u->watch) : ENOMEM;
	if (rc) {
		free(u->children);
		free(u);
		id->ud = NULL;
	}
	return rc;
}

static int sidr_reply(struct cma_id *id, uint16_t status, uint32_t qpn, const void *data, uint8_t len)
{
	struct cma_ud *u = id->ud;

	if (!u || !u->listener)
		return ECONNRESET;
	frame_write(u, DIW_SERVICE_REPLY, status, qpn, data, len);
	u->answered = true;
	service_answer(u);
	return 0;
}

int cma_ud_accept(struct cma_id *id, const struct rdma_conn_param *p)
{
	uint32_t qpn = own_qp(id, p);

	if (!qpn)
		return EINVAL;
	return sidr_reply(id, DIW_SERVICE_ACCEPTED, qpn, p ? p->private_data : NULL, cma_data_len(p));
}

int cma_ud_reject(struct cma_id *id, const void *data, uint8_t len)
{
	return sidr_reply(id, DIW_SERVICE_REJECTED, 0, data, len);
}
