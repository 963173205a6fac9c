/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that libibverbs, librdmacm and rsockets refuse; log.sh checks the lines of DIWARP_LOG. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>

#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>

static int failures;

static void refused(const char *what, bool was)
{
	if (was)
		return;
	printf("%s was not refused\n", what);
	failures++;
}

static void verbs(struct ibv_context *c)
{
	struct ibv_pd *pd = ibv_alloc_pd(c);
	struct ibv_cq *cq = ibv_create_cq(c, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr a = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD,
				      .cap = { .max_send_wr = 1000000, .max_recv_wr = 1 } };
	struct ibv_qp_attr m = { .qp_state = IBV_QPS_INIT, .port_num = 2 };
	struct ibv_qp *qp;
	char byte;

	refused("max_send_wr", !ibv_create_qp(pd, &a));
	a.cap.max_send_wr = 1;
	a.send_cq = NULL;
	refused("send_cq", !ibv_create_qp(pd, &a));
	a.send_cq = cq;
	refused("cqe", !ibv_create_cq(c, 0, NULL, NULL, 0));
	refused("access", !ibv_reg_mr(pd, &byte, 1, IBV_ACCESS_REMOTE_WRITE));
	qp = ibv_create_qp(pd, &a);
	refused("mask", ibv_modify_qp(qp, &m, IBV_QP_STATE) == EINVAL);
	refused("port", ibv_modify_qp(qp, &m, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_QKEY) == EINVAL);
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
	ibv_dealloc_pd(pd);
}

static void connections(void)
{
	struct sockaddr_in nowhere = { .sin_family = AF_INET, .sin_addr.s_addr = inet_addr("192.0.2.9") };
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *id;

	if (rdma_create_id(ch, &id, NULL, RDMA_PS_TCP) != 0)
		return;
	refused("rdma_bind_addr", rdma_bind_addr(id, (struct sockaddr *)&nowhere) < 0);
	refused("rdma_connect", rdma_connect(id, NULL) < 0);
	rdma_destroy_id(id);
	rdma_destroy_event_channel(ch);
	refused("rsocket", rsocket(AF_UNIX, SOCK_STREAM, 0) < 0);
}

int main(void)
{
	int n;
	struct ibv_context **c = rdma_get_devices(&n);

	if (!c || !n)
		return 2;
	verbs(c[0]);
	connections();
	rdma_free_devices(c);
	return failures > 0;
}
