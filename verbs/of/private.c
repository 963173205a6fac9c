/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What providers' libraries (libmlx5, libefa, ...) want of libibverbs. Programs bring them along, and they bind all
 * names when they are loaded; but they have no device here, so each of these fails, and none may crash. Their
 * parameters do not matter to them.
 */
#include "verbs/of/of.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define REGISTER_DRIVER JOIN(verbs_register_driver_, OF_PRIVATE)

/* Return a positive errno. */
#define CALLS(X) \
	X(advise_mr) X(alloc_dm) X(alloc_mw) X(alloc_pd) X(attach_mcast) X(close_xrcd) X(create_ah) \
	X(create_counters) X(create_cq) X(create_cq_ex) X(create_flow) X(create_flow_action_esp) X(create_qp) \
	X(create_qp_ex) X(create_qp_ex2) X(create_rwq_ind_table) X(create_srq) X(create_srq_ex) X(create_wq) \
	X(dealloc_mw) X(dealloc_pd) X(dereg_mr) X(destroy_ah) X(destroy_counters) X(destroy_cq) X(destroy_flow) \
	X(destroy_flow_action) X(destroy_qp) X(destroy_rwq_ind_table) X(destroy_srq) X(destroy_wq) \
	X(detach_mcast) X(free_dm) X(get_context) X(modify_cq) X(modify_flow_action_esp) X(modify_qp) \
	X(modify_qp_ex) X(modify_srq) X(modify_wq) X(open_qp) X(open_xrcd) X(poll_cq) X(post_recv) X(post_send) \
	X(post_srq_recv) X(query_context) X(query_device_any) X(query_mr) X(query_port) X(query_qp) \
	X(query_srq) X(read_counters) X(reg_dm_mr) X(reg_dmabuf_mr) X(reg_mr) X(req_notify_cq) X(rereg_mr) \
	X(resize_cq)

#define DEFINE(name) \
	int ibv_cmd_##name(void); \
	int ibv_cmd_##name(void) { return EOPNOTSUPP; }

#pragma GCC visibility push(default)
CALLS(DEFINE)

extern bool verbs_allow_disassociate_destroy;
int execute_ioctl(void);
unsigned __ioctl_final_num_attrs(void);
void __verbs_log(void);
void *_verbs_init_and_alloc_context(void);
struct ibv_context *verbs_open_device(void);
void verbs_init_cq(void);
void verbs_set_ops(void);
void verbs_uninit_context(void);
void REGISTER_DRIVER(void);
int ibv_read_ibdev_sysfs_file(void);
#pragma GCC visibility pop

bool verbs_allow_disassociate_destroy;

int execute_ioctl(void) { return EOPNOTSUPP; }
unsigned __ioctl_final_num_attrs(void) { return 0; }
void *_verbs_init_and_alloc_context(void) { return of_null(EOPNOTSUPP); }
struct ibv_context *verbs_open_device(void) { return of_null(EOPNOTSUPP); }

static int refuse(void)
{
	errno = EOPNOTSUPP;
	return -1;
}

int ibv_read_ibdev_sysfs_file(void) { return refuse(); }

/* Nothing to do: there is no provider's context, queue or driver that it could be about. */
void __verbs_log(void) {}
void verbs_init_cq(void) {}
void verbs_set_ops(void) {}
void verbs_uninit_context(void) {}
void REGISTER_DRIVER(void) {}
