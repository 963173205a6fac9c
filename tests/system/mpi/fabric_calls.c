/* SPDX-License-Identifier: BSD-2-Clause */
/* The provider's calls that move no data: what they refuse, what an error tells, and calls of several threads. */
#include <pthread.h>
#include <sched.h>

#include "tests/system/mpi/fabric_stranger.h"

static struct fi_info *hints;

static int getinfo_rc(void)
{
	struct fi_info *found = NULL;
	int rc = fi_getinfo(FI_VERSION(1, 9), NULL, NULL, 0, hints, &found);

	fi_freeinfo(found);
	return rc;
}

/* More room than an endpoint can have is refused; the room that fi_getinfo() names is not. */
static void check_sizes(void)
{
	size_t tx = info->tx_attr->size, rx = info->rx_attr->size;

	hints->tx_attr->size = tx;
	hints->rx_attr->size = rx;
	hints->rx_attr->total_buffered_recv = info->rx_attr->total_buffered_recv;
	REQUIRE(tx > 0 && rx > 0 && getinfo_rc() == 0);
	hints->tx_attr->size = tx + 1;
	REQUIRE(getinfo_rc() == -FI_ENODATA);
	hints->tx_attr->size = 0;
	hints->rx_attr->size = rx + 1;
	REQUIRE(getinfo_rc() == -FI_ENODATA);
	hints->rx_attr->size = 0;
	hints->rx_attr->total_buffered_recv++;
	REQUIRE(getinfo_rc() == -FI_ENODATA);
	hints->rx_attr->total_buffered_recv = 0;
	hints->ep_attr->max_order_raw_size = SIZE_MAX;
	REQUIRE(getinfo_rc() == -FI_ENODATA);
	hints->ep_attr->max_order_raw_size = 0;
	REQUIRE(getinfo_rc() == 0);
}

/* More than a domain has is refused, as are addresses of other families; and a name where a number has to be. */
static void check_hints(void)
{
	struct fi_domain_attr *d = hints->domain_attr;
	size_t *const limit[] = { &d->mr_iov_limit, &d->max_err_data, &d->max_ep_tx_ctx, &d->max_ep_rx_ctx,
				  &d->max_ep_stx_ctx, &d->max_ep_srx_ctx };
	struct sockaddr_storage other = { .ss_family = AF_UNIX };
	struct fi_info *found;

	for (size_t i = 0; i < sizeof limit / sizeof *limit; i++) {
		*limit[i] = 2;
		REQUIRE(getinfo_rc() == -FI_ENODATA);
		*limit[i] = 0;
	}
	hints->ep_attr->protocol_version = info->ep_attr->protocol_version;
	REQUIRE(getinfo_rc() == 0);
	hints->ep_attr->protocol_version++;
	REQUIRE(getinfo_rc() == -FI_ENODATA);
	hints->ep_attr->protocol_version = 0;
	hints->src_addr = &other;
	hints->src_addrlen = sizeof other;
	REQUIRE(getinfo_rc() == -FI_ENODATA);
	hints->dest_addr = hints->src_addr;
	hints->dest_addrlen = hints->src_addrlen;
	hints->src_addr = NULL;
	hints->src_addrlen = 0;
	REQUIRE(getinfo_rc() == -FI_ENODATA);
	hints->dest_addr = NULL;
	hints->dest_addrlen = 0;
	REQUIRE(fi_getinfo(FI_VERSION(1, 9), "localhost", "5", FI_NUMERICHOST, hints, &found) == -FI_ENODATA);
	REQUIRE(fi_getinfo(FI_VERSION(1, 9), "127.0.0.1", "5", FI_NUMERICHOST, hints, &found) == 0);
	fi_freeinfo(found);
	REQUIRE(getinfo_rc() == 0);
}

/* As many sends and receives as fi_getinfo() says can be posted without progress between them. */
static void check_room(void)
{
	struct fi_cq_tagged_entry c;
	size_t tx = info->tx_attr->size, rx = info->rx_attr->size;

	for (size_t i = 0; i < tx; i++)
		REQUIRE(fi_tsend(a.ep, out, 8192, NULL, b.addr, 1, NULL) == 0);
	for (size_t i = 0; i < tx; i++) {
		REQUIRE(next(&a, &b, &c, NULL) == 0);
		REQUIRE(fi_trecv(b.ep, in, 8192, NULL, a.addr, 1, 0, NULL) == 0 && next(&b, &a, &c, NULL) == 0);
	}
	for (size_t i = 0; i < rx; i++)
		REQUIRE(fi_trecv(b.ep, in, 8, NULL, a.addr, 2, 0, NULL) == 0);
	for (size_t i = 0; i < rx; i++)
		REQUIRE(fi_cancel(&b.ep->fid, NULL) == 0 && next(&b, &a, &c, NULL) == FI_ECANCELED);
}

/* A signal wakes a program that sleeps on the descriptor once. */
static void check_signal(void)
{
	struct fid *queue = &b.cq->fid;
	struct fi_cq_tagged_entry c;

	REQUIRE(fi_trywait(fabric, &queue, 1) == 0);
	REQUIRE(fi_cq_signal(b.cq) == 0);
	REQUIRE(fi_trywait(fabric, &queue, 1) == -FI_EAGAIN && fi_cq_read(b.cq, &c, 1) == -FI_EAGAIN);
	REQUIRE(fi_trywait(fabric, &queue, 1) == 0);
	REQUIRE(fi_cq_signal(b.cq) == 0 && fi_cq_sread(b.cq, &c, 1, NULL, -1) == -FI_EAGAIN);
}

/* When no further receive can be posted, messages come all the same. */
static void check_full(void)
{
	struct fi_cq_tagged_entry c;
	size_t posted = 0;
	ssize_t rc;

	while ((rc = fi_trecv(b.ep, in, LARGE, NULL, FI_ADDR_UNSPEC, 3, 0, NULL)) == 0)
		posted++;
	REQUIRE(rc == -FI_EAGAIN && posted >= info->rx_attr->size);
	for (int i = 0; i < 3; i++) {
		REQUIRE(fi_tinject(a.ep, out, 8, b.addr, 3) == 0 && next(&b, &a, &c, NULL) == 0 && c.len == 8);
		REQUIRE(fi_tsend(a.ep, out, LARGE, NULL, b.addr, 3, NULL) == 0);
		REQUIRE(next(&b, &a, &c, NULL) == 0 && c.len == LARGE && next(&a, &b, &c, NULL) == 0);
		posted -= 2;
	}
	while (posted--)
		REQUIRE(fi_cancel(&b.ep->fid, NULL) == 0 && next(&b, &a, &c, NULL) == FI_ECANCELED);
}

/* A buffer for many messages is one vector. */
static void check_many(void)
{
	const struct iovec two[2] = { { in, 16 }, { in + 64, 100 } };
	struct fi_msg m = { .msg_iov = two, .iov_count = 2, .addr = FI_ADDR_UNSPEC };
	struct fi_cq_tagged_entry c;

	REQUIRE(fi_recvmsg(b.ep, &m, FI_MULTI_RECV) == -FI_EINVAL);
	REQUIRE(fi_recvmsg(b.ep, &m, FI_COMPLETION) == 0);
	REQUIRE(fi_inject(a.ep, out, 50, b.addr) == 0 && next(&b, &a, &c, NULL) == 0 && c.len == 50);
	REQUIRE(memcmp(in, out, 16) == 0 && memcmp(in + 64, out + 16, 34) == 0);
}

/* An endpoint needs an address vector, and a completion queue for each direction that it has. */
static void check_enable(void)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_TAGGED };
	struct fid_ep *ep;
	struct fid_cq *cq;

	attr.format = FI_CQ_FORMAT_TAGGED + 1;
	REQUIRE(fi_cq_open(domain, &attr, &cq, NULL) == -FI_EINVAL);
	attr.format = FI_CQ_FORMAT_TAGGED;
	REQUIRE(fi_cq_open(domain, &attr, &cq, NULL) == 0 && fi_endpoint(domain, info, &ep, NULL) == 0);
	REQUIRE(fi_enable(ep) == -FI_ENOAV);
	REQUIRE(fi_ep_bind(ep, &av->fid, 0) == 0 && fi_enable(ep) == -FI_ENOCQ);
	REQUIRE(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT) == 0 && fi_enable(ep) == -FI_ENOCQ);
	REQUIRE(fi_ep_bind(ep, &cq->fid, FI_RECV) == 0 && fi_enable(ep) == 0 && fi_enable(ep) == 0);
	REQUIRE(fi_close(&ep->fid) == 0 && fi_close(&cq->fid) == 0);
}

/* An endpoint that is not enabled refuses every operation. */
static void check_disabled(void)
{
	uint64_t v = 0;
	struct fid_ep *ep;

	REQUIRE(fi_endpoint(domain, info, &ep, NULL) == 0 && fi_ep_bind(ep, &av->fid, 0) == 0);
	REQUIRE(fi_trecv(ep, in, 8, NULL, a.addr, 17, 0, NULL) == -FI_EOPBADSTATE);
	REQUIRE(fi_tsend(ep, out, 8, NULL, a.addr, 17, NULL) == -FI_EOPBADSTATE);
	REQUIRE(fi_send(ep, out, sizeof out, NULL, a.addr, NULL) == -FI_EOPBADSTATE);
	REQUIRE(fi_inject(ep, out, 8, a.addr) == -FI_EOPBADSTATE);
	REQUIRE(fi_write(ep, out, 8, NULL, a.addr, 0, 1, NULL) == -FI_EOPBADSTATE);
	REQUIRE(fi_read(ep, in, 8, NULL, a.addr, 0, 1, NULL) == -FI_EOPBADSTATE);
	REQUIRE(fi_atomic(ep, &v, 1, NULL, a.addr, 0, 1, FI_UINT64, FI_SUM, NULL) == -FI_EOPBADSTATE);
	REQUIRE(fi_close(&ep->fid) == 0);
}

/* Events that the provider does not count are refused, and no event is bound twice. */
static void check_counters(void)
{
	struct fi_cntr_attr attr = { .events = FI_CNTR_EVENTS_COMP };
	struct fid_cntr *cntr;
	struct fid_ep *ep;

	REQUIRE(fi_cntr_open(domain, &attr, &cntr, NULL) == 0 && fi_endpoint(domain, info, &ep, NULL) == 0);
	REQUIRE(fi_ep_bind(ep, &cntr->fid, FI_REMOTE_WRITE) == -FI_ENOSYS);
	REQUIRE(fi_ep_bind(ep, &cntr->fid, FI_SEND | FI_REMOTE_READ) == -FI_ENOSYS);
	REQUIRE(fi_ep_bind(ep, &cntr->fid, 0) == -FI_EINVAL);
	REQUIRE(fi_ep_bind(ep, &cntr->fid, FI_SEND) == 0 && fi_ep_bind(ep, &cntr->fid, FI_SEND) == -FI_EINVAL);
	REQUIRE(fi_close(&cntr->fid) == -FI_EBUSY);
	REQUIRE(fi_close(&ep->fid) == 0 && fi_close(&cntr->fid) == 0);
}

/* Flags that ask for what the provider has not are refused, and not ignored. */
static void check_flags(void)
{
	static const uint64_t refused[] = { FI_TRIGGER, FI_FENCE, FI_MULTICAST, FI_COMMIT_COMPLETE };
	uint64_t v = 0;
	const struct iovec iov = { &v, sizeof v };
	const struct fi_ioc ioc = { &v, 1 };
	const struct fi_rma_iov rma = { (uintptr_t)&v, sizeof v, 1 };
	const struct fi_rma_ioc rma_ioc = { (uintptr_t)&v, 1, 1 };
	const struct fi_msg m = { .msg_iov = &iov, .iov_count = 1, .addr = b.addr };
	const struct fi_msg_tagged t = { .msg_iov = &iov, .iov_count = 1, .addr = b.addr };
	const struct fi_msg_rma r = { .msg_iov = &iov, .iov_count = 1, .addr = b.addr, .rma_iov = &rma,
				      .rma_iov_count = 1 };
	const struct fi_msg_atomic x = { .msg_iov = &ioc, .iov_count = 1, .addr = b.addr, .rma_iov = &rma_ioc,
					 .rma_iov_count = 1, .datatype = FI_UINT64, .op = FI_SUM };

	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		REQUIRE(fi_sendmsg(a.ep, &m, refused[i]) == -FI_EBADFLAGS);
		REQUIRE(fi_tsendmsg(a.ep, &t, refused[i]) == -FI_EBADFLAGS);
		REQUIRE(fi_recvmsg(a.ep, &m, refused[i]) == -FI_EBADFLAGS);
		REQUIRE(fi_writemsg(a.ep, &r, refused[i]) == -FI_EBADFLAGS);
		REQUIRE(fi_readmsg(a.ep, &r, refused[i]) == -FI_EBADFLAGS);
		REQUIRE(fi_atomicmsg(a.ep, &x, refused[i]) == -FI_EBADFLAGS);
	}
}

/* A fabric is busy while it has a domain or an event queue. */
static void check_fabric(void)
{
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_NONE };
	struct fid_fabric *other;
	struct fid_domain *inside;
	struct fid_eq *eq;

	REQUIRE(fi_fabric(info->fabric_attr, &other, NULL) == 0);
	REQUIRE(fi_domain(other, info, &inside, NULL) == 0 && fi_eq_open(other, &attr, &eq, NULL) == 0);
	REQUIRE(fi_close(&other->fid) == -FI_EBUSY && fi_close(&inside->fid) == 0);
	REQUIRE(fi_close(&other->fid) == -FI_EBUSY && fi_close(&eq->fid) == 0);
	REQUIRE(fi_close(&other->fid) == 0);
}

/* An error's entry has a number of the provider's, and fi_cq_strerror() its text. The provider has no further data. */
static void check_error(void)
{
	uint8_t data[16];
	char text[8] = "";
	struct fi_cq_err_entry e = { .err_data = data, .err_data_size = sizeof data };
	struct fi_cq_tagged_entry c;
	ssize_t rc;

	REQUIRE(fi_trecv(b.ep, in, 50, NULL, a.addr, 1, 0, NULL) == 0);
	REQUIRE(fi_tinject(a.ep, out, 100, b.addr, 1) == 0);
	while ((rc = fi_cq_read(b.cq, &c, 1)) == -FI_EAGAIN)
		;
	REQUIRE(rc == -FI_EAVAIL && fi_cq_readerr(b.cq, &e, 0) == 1 && e.err == FI_ETRUNC && e.olen == 50);
	REQUIRE(e.err_data == data && e.err_data_size == 0 && e.prov_errno != 0);
	REQUIRE(strcmp(fi_cq_strerror(b.cq, e.prov_errno, NULL, NULL, 0), fi_strerror(FI_ETRUNC)) == 0);
	REQUIRE(fi_cq_strerror(b.cq, e.prov_errno, NULL, text, sizeof text) == text);
	REQUIRE(strlen(text) == sizeof text - 1 && strncmp(text, fi_strerror(FI_ETRUNC), sizeof text - 1) == 0);
	REQUIRE(fi_trecv(b.ep, in, 8, NULL, a.addr, 7, 0, &e) == 0 && fi_cancel(&b.ep->fid, &e) == 0);
	e.err_data_size = 0;
	REQUIRE(fi_cq_read(b.cq, &c, 1) == -FI_EAVAIL && fi_cq_readerr(b.cq, &e, 0) == 1 && e.err == FI_ECANCELED);
	REQUIRE(e.err_data == NULL && e.err_data_size == 0 && e.prov_errno != 0);
}

/* The source of a's next message, as b knows it. */
static fi_addr_t source_of_a(void)
{
	struct fi_cq_tagged_entry c;
	fi_addr_t from = 0;

	REQUIRE(fi_tinject(a.ep, out, 8, b.addr, 8) == 0);
	REQUIRE(fi_trecv(b.ep, in, 8, NULL, FI_ADDR_UNSPEC, 8, 0, NULL) == 0 && next(&b, &a, &c, &from) == 0);
	return from;
}

/* An address that was inserted three times has three numbers. Each is valid until it is removed. */
static void check_inserted_twice(void)
{
	fi_addr_t first = a.addr, second, third;
	struct sockaddr_storage name, got;
	size_t len = sizeof name, room = sizeof got;

	REQUIRE(fi_getname(&a.ep->fid, &name, &len) == 0);
	REQUIRE(fi_av_insert(av, &name, 1, &second, 0, NULL) == 1 && fi_av_insert(av, &name, 1, &third, 0, NULL) == 1);
	REQUIRE(second != first && third != first && third != second && source_of_a() == first);
	REQUIRE(fi_av_remove(av, &second, 1, 0) == 0 && source_of_a() == first);
	REQUIRE(fi_av_remove(av, &first, 1, 0) == 0 && source_of_a() == third);
	REQUIRE(fi_av_lookup(av, third, &got, &room) == 0 && room == len && memcmp(&got, &name, len) == 0);
	REQUIRE(fi_av_lookup(av, first, &got, &room) == -FI_EINVAL);
	REQUIRE(fi_tinject(b.ep, out, 8, first, 9) == -FI_EINVAL);
	REQUIRE(fi_av_remove(av, &third, 1, 0) == 0 && source_of_a() == FI_ADDR_NOTAVAIL);
	REQUIRE(fi_av_insert(av, &name, 1, &a.addr, 0, NULL) == 1 && source_of_a() == a.addr);
}

/* Addresses that are removed make room: more of them pass than an address vector takes at a time. A removed peer whose
 * messages are still unacknowledged, or are to come, is no other peer's. */
static void check_removed(void)
{
	struct sockaddr_in in4 = { .sin_family = AF_INET, .sin_port = htons(4791) };
	struct fi_cq_tagged_entry c;
	struct sockaddr_storage name;
	size_t len = sizeof name;
	fi_addr_t number, first, last = 0;

	REQUIRE(fi_getname(&a.ep->fid, &name, &len) == 0);
	REQUIRE(fi_trecv(b.ep, in, 8192, NULL, a.addr, 10, 0, NULL) == 0);
	REQUIRE(fi_av_remove(av, &a.addr, 1, 0) == 0);
	REQUIRE(fi_tinject(a.ep, out, 8192, b.addr, 11) == 0);
	for (uint32_t i = 0; i < (1u << 20) + 20000; i++) {
		in4.sin_addr.s_addr = htonl(0x0a000000 + i);
		REQUIRE(fi_av_insert(av, &in4, 1, &number, 0, NULL) == 1 && fi_av_remove(av, &number, 1, 0) == 0);
		if (i == 0)
			first = number;
		last = number > last ? number : last;
	}
	REQUIRE(last == first);
	REQUIRE(fi_av_insert(av, &name, 1, &a.addr, 0, NULL) == 1);
	REQUIRE(fi_trecv(b.ep, in, 8192, NULL, a.addr, 11, 0, NULL) == 0 && next(&b, &a, &c, NULL) == 0 && c.tag == 11);
	REQUIRE(fi_tinject(a.ep, out, 8192, b.addr, 10) == 0 && next(&b, &a, &c, NULL) == 0 && c.tag == 10);
}

#define SWEEPS 3                         /* seconds: alive.c has looked at the peers that are waited for */

/* The endpoint E has sent a message, and is closed. Another one gets its address, which is inserted again. Nothing
 * fails that was posted since. REMOVED: the address was removed in between. */
static void reopen(struct end *e, bool removed)
{
	struct sockaddr_storage name, any;
	struct fi_cq_tagged_entry c;
	size_t len = sizeof name;

	end_open(e);
	REQUIRE(fi_getname(&e->ep->fid, &name, &len) == 0);
	REQUIRE(fi_trecv(b.ep, in, 8, NULL, e->addr, 12, 0, NULL) == 0 && fi_tinject(e->ep, out, 8, b.addr, 12) == 0);
	REQUIRE(next(&b, e, &c, NULL) == 0);
	end_close(e);
	REQUIRE(!removed || fi_av_remove(av, &e->addr, 1, 0) == 0);
	memcpy(&any, info->src_addr, len);
	memcpy(info->src_addr, &name, len);
	end_open(e);
	memcpy(info->src_addr, &any, len);
}

static void check_reopened(void)
{
	struct fi_cq_tagged_entry c;
	struct end e;

	for (int i = 0; i < 4; i++) {
		time_t until = time(NULL) + SWEEPS;

		reopen(&e, i & 1);
		REQUIRE(fi_trecv(b.ep, in, 8, NULL, e.addr, 13, 0, NULL) == 0);
		if (i & 2)               /* the link of b meets the new endpoint early */
			REQUIRE(fi_tinject(e.ep, out, 8, b.addr, 14) == 0);
		while (i & 2 && time(NULL) < until)
			REQUIRE(fi_cq_read(b.cq, &c, 1) == -FI_EAGAIN &&
				fi_cq_read(e.cq, &c, 1) == -FI_EAGAIN);
		REQUIRE(fi_tinject(e.ep, out, 8, b.addr, 13) == 0 && next(&b, &e, &c, NULL) == 0 && c.tag == 13);
		end_close(&e);
		REQUIRE(fi_av_remove(av, &e.addr, 1, 0) == 0);
	}
}


static void *waits_for_completion(void *arg)
{
	struct fi_cq_tagged_entry c;

	fi_cq_sread(arg, &c, 1, NULL, -1);
	return NULL;
}

static void *waits_for_count(void *arg)
{
	fi_cntr_wait(arg, UINT64_MAX, -1);
	return NULL;
}

static void *waits_for_event(void *arg)
{
	uint32_t event;
	uint64_t data;

	fi_eq_sread(arg, &event, &data, sizeof data, -1, 0);
	return NULL;
}

static void cancel_one(void *(*run)(void *), void *arg, bool later)
{
	struct timespec until;
	pthread_t thread;

	REQUIRE(pthread_create(&thread, NULL, run, arg) == 0);
	if (later)
		nanosleep(&(struct timespec){ 0, 50000000 }, NULL);
	REQUIRE(pthread_cancel(thread) == 0 && clock_gettime(CLOCK_REALTIME, &until) == 0);
	until.tv_sec += PATIENCE;
	REQUIRE(pthread_timedjoin_np(thread, NULL, &until) == 0);
}

/* A thread that is cancelled while it waits ends, and the object works as before. An event queue sleeps. */
static void check_cancelled(void)
{
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_UNSPEC, .flags = FI_WRITE };
	struct fi_cq_tagged_entry c;
	uint64_t data = 5;
	struct fid_eq *eq;
	uint32_t event;
	clock_t begin;

	REQUIRE(fi_eq_open(fabric, &attr, &eq, NULL) == 0);
	for (int i = 0; i < 10; i++) {
		cancel_one(waits_for_completion, b.cq, i % 2);
		cancel_one(waits_for_count, b.received, i % 2);
		cancel_one(waits_for_event, eq, i % 2);
	}
	REQUIRE(fi_trecv(b.ep, in, 8, NULL, a.addr, 3, 0, NULL) == 0 && fi_tinject(a.ep, out, 8, b.addr, 3) == 0);
	REQUIRE(fi_cq_sread(b.cq, &c, 1, NULL, PATIENCE * 1000) == 1);
	begin = clock();
	REQUIRE(fi_eq_sread(eq, &event, &data, sizeof data, 500, 0) == -FI_EAGAIN);
	REQUIRE(clock() - begin < CLOCKS_PER_SEC / 5);
	REQUIRE(fi_eq_write(eq, 7, &data, sizeof data, 0) == sizeof data);
	REQUIRE(fi_eq_sread(eq, &event, &data, sizeof data, -1, 0) == sizeof data && event == 7 && data == 5);
	REQUIRE(fi_close(&eq->fid) == 0);
}

/* A cancelled receive says what it was: a message's, or a tagged one's. */
static void check_cancelled_flags(void)
{
	struct fi_cq_tagged_entry c;

	REQUIRE(fi_recv(b.ep, in, 8, NULL, FI_ADDR_UNSPEC, &c) == 0 && fi_cancel(&b.ep->fid, &c) == 0);
	REQUIRE(next(&b, &a, &c, NULL) == FI_ECANCELED && c.flags == (FI_RECV | FI_MSG));
	REQUIRE(fi_trecv(b.ep, in, 8, NULL, FI_ADDR_UNSPEC, 3, 0, &c) == 0 && fi_cancel(&b.ep->fid, &c) == 0);
	REQUIRE(next(&b, &a, &c, NULL) == FI_ECANCELED && c.flags == (FI_RECV | FI_TAGGED));
}

/* With FI_SELECTIVE_COMPLETION, the receive of a claimed message has a completion only if it asks for one. */
static void check_claim_selective(void)
{
	const struct iovec iov = { in, 8 };
	struct fi_context ctx;
	const struct fi_msg_tagged m = { .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .tag = 4,
					 .context = &ctx };
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_TAGGED };
	struct fi_cq_tagged_entry c;
	struct end e = { 0 };
	uint8_t name[64];
	size_t len = sizeof name;

	REQUIRE(fi_endpoint(domain, info, &e.ep, NULL) == 0 && fi_cq_open(domain, &attr, &e.cq, NULL) == 0);
	REQUIRE(fi_ep_bind(e.ep, &av->fid, 0) == 0);
	REQUIRE(fi_ep_bind(e.ep, &e.cq->fid, FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION) == 0);
	REQUIRE(fi_enable(e.ep) == 0 && fi_getname(&e.ep->fid, name, &len) == 0);
	REQUIRE(fi_av_insert(av, name, 1, &e.addr, 0, NULL) == 1);
	for (int i = 0; i < 2; i++) {
		int rc;

		fill((uint8_t)(20 + i));
		REQUIRE(fi_tinject(a.ep, out, 8, e.addr, 4) == 0);
		do {
			REQUIRE(fi_trecvmsg(e.ep, &m, FI_PEEK | FI_CLAIM | FI_COMPLETION) == 0);
			rc = next(&e, &a, &c, NULL);
			REQUIRE(rc == 0 || rc == FI_ENOMSG);
		} while (rc);
		REQUIRE(fi_trecvmsg(e.ep, &m, FI_CLAIM | (i ? FI_COMPLETION : 0)) == 0);
		expect_in(8);
		REQUIRE(i == 0 || (next(&e, &a, &c, NULL) == 0 && c.len == 8));
		expect_none(&e);
	}
	REQUIRE(fi_close(&e.ep->fid) == 0 && fi_close(&e.cq->fid) == 0);
	REQUIRE(fi_av_remove(av, &e.addr, 1, 0) == 0);
}

static void *closer(void *arg)
{
	end_close(arg);
	return NULL;
}

/* An endpoint that waits for acknowledgements as it closes does not hold up the others: meanwhile messages pass. */
static void check_closing(void)
{
	static struct stranger deaf;
	struct end e = { 0 };
	struct fi_cq_tagged_entry c;
	pthread_t thread;
	time_t begin;
	int passed = 0;

	end_open(&e);
	stranger_open(&deaf);
	REQUIRE(fi_inject(e.ep, out, 8, deaf.addr) == 0);
	begin = time(NULL);
	REQUIRE(pthread_create(&thread, NULL, closer, &e) == 0);
	nanosleep(&(struct timespec){ 0, 100000000 }, NULL);
	while (time(NULL) - begin <= 1) {
		REQUIRE(fi_trecv(b.ep, in, 8, NULL, a.addr, 3, 0, NULL) == 0);
		REQUIRE(fi_tinject(a.ep, out, 8, b.addr, 3) == 0 && next(&b, &a, &c, NULL) == 0);
		passed++;
	}
	REQUIRE(passed >= 5);
	REQUIRE(pthread_join(thread, NULL) == 0);
	stranger_close(&deaf);
}

int main(int argc, char **argv)
{
	hints = fi_allocinfo();
	REQUIRE(hints && argc == 2);
	hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_DIRECTED_RECV | FI_MULTI_RECV | FI_SOURCE;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	ends_open(argv[1], FI_VERSION(1, 9), hints);
#define CHECK(what) doing = #what, check_##what(), puts("right: " #what)
	CHECK(sizes);
	CHECK(hints);
	CHECK(room);
	CHECK(many);
	CHECK(signal);
	CHECK(enable);
	CHECK(disabled);
	CHECK(counters);
	CHECK(fabric);
	CHECK(flags);
	CHECK(error);
	CHECK(inserted_twice);
	CHECK(removed);
	CHECK(reopened);
	CHECK(cancelled);
	CHECK(cancelled_flags);
	CHECK(claim_selective);
	CHECK(closing);
	CHECK(full);
	ends_close();
	fi_freeinfo(hints);
	puts("done");
	return 0;
}
