/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Functions of libibverbs for providers' libraries (libmlx5, libefa, ...). A program may load such a library, which
 * binds all names at that time. None of these libraries has a device here, so each function fails, and none may crash.
 * Parameters are ignored.
 */
#include "verbs/of/of.h"

/* These return a positive errno. */
#define CALLS(X) \
	X(advise_mr) X(alloc_dm) X(alloc_dmah) X(alloc_mw) X(alloc_pd) X(attach_mcast) X(close_xrcd) X(create_ah) \
	X(create_comp_cntr) X(create_counters) X(create_cq) X(create_cq_ex) X(create_cq_ex2) X(create_flow) \
	X(create_flow_action_esp) X(create_qp) X(create_qp_ex) X(create_qp_ex2) X(create_rwq_ind_table) \
	X(create_srq) X(create_srq_ex) X(create_wq) X(dealloc_mw) X(dealloc_pd) X(dereg_mr) X(destroy_ah) \
	X(destroy_comp_cntr) X(destroy_counters) X(destroy_cq) X(destroy_flow) X(destroy_flow_action) \
	X(destroy_qp) X(destroy_rwq_ind_table) X(destroy_srq) X(destroy_wq) X(detach_mcast) X(export_dmabuf_fd) \
	X(free_dm) X(free_dmah) X(get_context) X(inc_comp_cntr) X(inc_err_comp_cntr) X(modify_cq) \
	X(modify_flow_action_esp) X(modify_qp) X(modify_qp_ex) X(modify_srq) X(modify_wq) X(open_qp) X(open_xrcd) \
	X(poll_cq) X(post_recv) X(post_send) X(post_srq_recv) X(qp_attach_comp_cntr) X(query_comp_cntr_caps) \
	X(query_context) X(query_device_any) X(query_mr) X(query_port) X(query_port_speed) \
	X(query_qp) X(query_srq) X(read_comp_cntr) X(read_counters) X(read_err_comp_cntr) X(reg_dm_mr) \
	X(reg_dmabuf_mr) X(reg_mr) X(reg_mr_ex) X(req_notify_cq) X(rereg_mr) X(resize_cq) X(set_comp_cntr) \
	X(set_err_comp_cntr)

#define DEFINE(name) \
	int ibv_cmd_##name(void); \
	int ibv_cmd_##name(void) { return EOPNOTSUPP; } \
	OF_PRIVATE_NAME(ibv_cmd_##name)

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
#define DECLARE_REGISTER(n) void verbs_register_driver_##n(void);
OF_NUMBERS(DECLARE_REGISTER)
int ibv_read_ibdev_sysfs_file(void);
const char *of_wr_opcode_str(int opcode) __asm__("ibv_wr_opcode_str");
void *ibv_dmabuf_heap_cc_shared_init(void);
void *ibv_dmabuf_heap_alloc(void);
void ibv_dmabuf_heap_free(void);
void ibv_dmabuf_heap_destroy(void);
#pragma GCC visibility pop

bool verbs_allow_disassociate_destroy;

int execute_ioctl(void) { return EOPNOTSUPP; }
unsigned __ioctl_final_num_attrs(void) { return 0; }
void *_verbs_init_and_alloc_context(void) { return of_null(EOPNOTSUPP); }
struct ibv_context *verbs_open_device(void) { return of_null(EOPNOTSUPP); }

static int private_refuse(void)
{
	errno = EOPNOTSUPP;
	return -1;
}

int ibv_read_ibdev_sysfs_file(void) { return private_refuse(); }

/* These do nothing: no provider's context, queue or driver exists. */
void __verbs_log(void) {}
void verbs_init_cq(void) {}
void verbs_set_ops(void) {}
void verbs_uninit_context(void) {}
#define DEFINE_REGISTER(n) void verbs_register_driver_##n(void) {}
OF_NUMBERS(DEFINE_REGISTER)

/* There is no heap of DMA buffers. */
void *ibv_dmabuf_heap_cc_shared_init(void) { return of_null(EOPNOTSUPP); }
void *ibv_dmabuf_heap_alloc(void) { return of_null(EOPNOTSUPP); }
void ibv_dmabuf_heap_free(void) {}
void ibv_dmabuf_heap_destroy(void) {}

const char *of_wr_opcode_str(int opcode)
{
	static const char *const names[] = {
		"IBV_WR_RDMA_WRITE", "IBV_WR_RDMA_WRITE_WITH_IMM", "IBV_WR_SEND", "IBV_WR_SEND_WITH_IMM",
		"IBV_WR_RDMA_READ", "IBV_WR_ATOMIC_CMP_AND_SWP", "IBV_WR_ATOMIC_FETCH_AND_ADD", "IBV_WR_LOCAL_INV",
		"IBV_WR_BIND_MW", "IBV_WR_SEND_WITH_INV", "IBV_WR_TSO", "IBV_WR_DRIVER1", [14] = "IBV_WR_FLUSH",
		"IBV_WR_ATOMIC_WRITE",
	};
	const char *name = opcode >= 0 && opcode < (int)(sizeof names / sizeof *names) ? names[opcode] : NULL;

	return name ? name : "unknown";
}

OF_PRIVATE_NAME(__ioctl_final_num_attrs)
OF_PRIVATE_NAME(__verbs_log)
OF_PRIVATE_NAME(_verbs_init_and_alloc_context)
OF_PRIVATE_NAME(execute_ioctl)
OF_PRIVATE_NAME(ibv_dmabuf_heap_alloc)
OF_PRIVATE_NAME(ibv_dmabuf_heap_cc_shared_init)
OF_PRIVATE_NAME(ibv_dmabuf_heap_destroy)
OF_PRIVATE_NAME(ibv_dmabuf_heap_free)
OF_PRIVATE_NAME(ibv_read_ibdev_sysfs_file)
OF_PRIVATE_NAME(ibv_wr_opcode_str)
OF_PRIVATE_NAME(verbs_allow_disassociate_destroy)
OF_PRIVATE_NAME(verbs_init_cq)
OF_PRIVATE_NAME(verbs_open_device)
OF_PRIVATE_NAME(verbs_set_ops)
OF_PRIVATE_NAME(verbs_uninit_context)
