/* SPDX-License-Identifier: BSD-2-Clause */
/* For the programs that test the provider with a peer that keeps to no protocol: a native queue pair with the job's
 * Q_Key, of reliable datagrams or, as the endpoints are, RC. It sends headers of its own to endpoint b, and b's
 * messages to it are in its receives. */
#ifndef DIW_TESTS_FABRIC_STRANGER_H
#define DIW_TESTS_FABRIC_STRANGER_H

#include <arpa/inet.h>
#include <netinet/in.h>

#include "mpi_glue/greeting.h"
#include "mpi_glue/msg_hdr.h"
#include "tests/system/mpi/fabric_kit.h"
#include "verbs/diw_cm.h"

#define STRANGER_RECVS 64u
#define STRANGER_ROOM (16384u + 64u)     /* octets of a receive */

struct stranger {
	struct diw_dev *dev;
	struct diw_pd *pd;
	struct diw_cq *sends, *recvs;
	struct diw_qp *qp;
	struct diw_mr *mr;
	struct diw_cm *cm;               /* RC */
	uint64_t instances;              /* connections so far: instance and port of the greeting */
	struct diw_addr to;              /* of endpoint b */
	fi_addr_t addr;                  /* as b knows it */
	uint32_t qkey;
	uint8_t room[STRANGER_RECVS][STRANGER_ROOM];
};

static inline struct diw_addr addr_of(const struct sockaddr_storage *ss)
{
	const struct sockaddr_in *in4 = (const struct sockaddr_in *)ss;
	struct diw_addr addr;
	char host[INET_ADDRSTRLEN];

	REQUIRE(ss->ss_family == AF_INET && inet_ntop(AF_INET, &in4->sin_addr, host, sizeof host));
	REQUIRE(diw_addr_parse(host, ntohs(in4->sin_port), &addr) == 0);
	return addr;
}

/* Connects with the greeting of an endpoint that has a low port. Returns the outcome. */
static inline enum diw_cm_event_type stranger_connect(struct stranger *s)
{
	const struct greeting g = { .kind = GREETING_CONNECT, .port = (uint16_t)++s->instances, .qkey = s->qkey,
				    .instance = s->instances };
	struct diw_conn_attr attr = DIW_CONN_ATTR_INIT;
	uint8_t data[GREETING_LEN];
	struct diw_cm_event ev;

	diw_glue_greeting_encode(data, &g);
	attr.data = data;
	attr.data_len = GREETING_LEN;
	attr.connect.local = s->to;
	attr.connect.local.port = 0;
	REQUIRE(diw_connect(s->qp, s->cm, &s->to, &attr) == 0);
	REQUIRE(diw_cm_get(s->cm, &ev, PATIENCE * 1000000000ll) == 0);
	return ev.type;
}

/* RC: without a connection. */
static inline void stranger_prepare(struct stranger *s)
{
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	struct sockaddr_storage name = { 0 };
	size_t len = sizeof name;
	const char *key = getenv("FI_DIWARP_QKEY");    /* of diw run --mpi */

	s->qkey = key ? (uint32_t)strtoul(key, NULL, 0) : 0x4d504931;
	REQUIRE(diw_dev_open(info->domain_attr->name, NULL, &s->dev) == 0);
	REQUIRE(diw_pd_alloc(s->dev, &s->pd) == 0);
	REQUIRE(diw_cq_create(s->dev, 2048, NULL, NULL, &s->sends) == 0);
	REQUIRE(diw_cq_create(s->dev, 2048, NULL, NULL, &s->recvs) == 0);
	if (over_rc())
		REQUIRE(diw_cm_create(s->dev, &s->cm) == 0);
	attr.type = over_rc() ? DIW_QP_RC : DIW_QP_RD;
	attr.rc.confirm = true;
	attr.send_cq = s->sends;
	attr.recv_cq = s->recvs;
	attr.sq_depth = 2048;
	attr.max_inline = DIW_MAX_INLINE;
	attr.dgram.qkey = s->qkey;
	REQUIRE(diw_qp_create(s->pd, &attr, &s->qp) == 0);
	REQUIRE(diw_mr_reg(s->pd, s->room, sizeof s->room, DIW_ACCESS_LOCAL_WRITE, &s->mr) == 0);
	REQUIRE(fi_getname(&b.ep->fid, &name, &len) == 0);
	s->to = addr_of(&name);
}

static inline void stranger_open(struct stranger *s)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	struct diw_qp_info qp;

	stranger_prepare(s);
	if (over_rc())
		REQUIRE(stranger_connect(s) == DIW_CM_ESTABLISHED);
	REQUIRE(diw_qp_query(s->qp, &qp) == 0);
	memcpy(&at.sin_addr, qp.local.ip + 12, 4);
	at.sin_port = htons(over_rc() ? (uint16_t)s->instances : qp.local.port);
	REQUIRE(fi_av_insert(av, &at, 1, &s->addr, 0, NULL) == 1);
}

static inline void stranger_free(struct stranger *s)
{
	REQUIRE(diw_qp_destroy(s->qp) == 0 && diw_cq_destroy(s->sends) == 0 && diw_cq_destroy(s->recvs) == 0);
	if (over_rc())
		REQUIRE(diw_cm_destroy(s->cm) == 0);
	REQUIRE(diw_mr_dereg(s->mr) == 0 && diw_pd_free(s->pd) == 0 && diw_dev_close(s->dev) == 0);
}

static inline void stranger_close(struct stranger *s)
{
	stranger_free(s);
	REQUIRE(fi_av_remove(av, &s->addr, 1, 0) == 0);
}

static inline int stranger_try(const struct stranger *s, const uint8_t *p, uint32_t len)
{
	struct diw_sge sge = { (void *)(uintptr_t)p, len, 0 };
	struct diw_send_wr wr = { .opcode = DIW_WR_SEND, .sge = &sge, .num_sge = 1, .qkey = s->qkey,
				  .flags = DIW_SEND_INLINE | DIW_SEND_SIGNALED, .dst.addr = s->to };

	return diw_post_send(s->qp, &wr, NULL);
}

/* Its next completion in CQ. Meanwhile the endpoints make progress, and b's completions stay in their queue. */
static inline struct diw_wc stranger_next(struct diw_cq *cq)
{
	time_t until = time(NULL) + PATIENCE;
	struct diw_wc wc = { .status = DIW_WC_TIMEOUT };

	while (diw_cq_poll(cq, &wc, 1, 0) == 0 && time(NULL) < until)
		fi_cq_readfrom(a.cq, NULL, 0, NULL);
	REQUIRE(wc.status == DIW_WC_SUCCESS);
	return wc;
}

/* Sends LEN octets, and waits until b's queue pair has them. */
static inline void stranger_send(const struct stranger *s, const uint8_t *p, uint32_t len)
{
	REQUIRE(stranger_try(s, p, len) == 0);
	stranger_next(s->sends);
}

/* Posts N receives. Without a receive the stranger acknowledges no Send. */
static inline void stranger_listen(struct stranger *s, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct diw_sge sge = { s->room[i], STRANGER_ROOM, s->mr->stag };
		struct diw_recv_wr wr = { .wr_id = i, .sge = &sge, .num_sge = 1 };

		REQUIRE(diw_post_recv(s->qp, &wr, NULL) == 0);
	}
}

/* The next message of KIND that b sends; a listening stranger only. */
static inline const uint8_t *stranger_hear(struct stranger *s, uint8_t kind)
{
	struct diw_wc wc = stranger_next(s->recvs);
	const uint8_t *p = s->room[wc.wr_id];

	REQUIRE(p[0] == (GLUE_VERSION << 4 | kind));
	return p;
}

static inline bool stranger_hears_nothing(const struct stranger *s)
{
	struct diw_wc wc;

	for (int i = 0; i < 1000; i++) {
		if (diw_cq_poll(s->recvs, &wc, 1, 0) != 0)
			return false;
		fi_cq_readfrom(a.cq, NULL, 0, NULL);
	}
	return true;
}

#endif
