/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices made from network interfaces, contexts, and a device's capabilities. */
#include "verbs/of/of.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/ident.h"
#include "verbs/host/port.h"

#define MAX_DEVICES 256

static enum of_personality device_personality(void)
{
	const char *env = getenv("DIWARP_PERSONALITY");

	if (diw_port_is_rnic())
		return OF_RNIC;
	if (env && *env && strcmp(env, "ca") != 0)
		diw_log(DIW_LOG_TELL, "DIWARP_PERSONALITY=%s: neither ca nor rnic; ca is used", env);
	return OF_CA;
}

bool of_is_rnic(const struct ibv_context *c)
{
	return ((const struct of_device *)c->device)->personality == OF_RNIC;
}

/* ---- The list of devices ---- */

static void device_drop(struct of_device *d)
{
	if (atomic_fetch_sub(&d->refs, 1) == 1)
		free(d);
}

static struct of_device *device_new(const struct diw_dev_info *info, enum of_personality personality)
{
	struct of_device *d = calloc(1, sizeof *d);

	if (!d)
		return NULL;
	d->info = *info;
	d->personality = personality;
	atomic_init(&d->refs, 1);
	d->dev.node_type = personality == OF_RNIC ? IBV_NODE_RNIC : IBV_NODE_CA;
	d->dev.transport_type = personality == OF_RNIC ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
	/* There is no uverbs device, so the name must not look like one. */
	snprintf(d->dev.name, sizeof d->dev.name, "%s", info->name);
	snprintf(d->dev.dev_name, sizeof d->dev.dev_name, "%s", info->name);
	snprintf(d->dev.dev_path, sizeof d->dev.dev_path, "/sys/class/infiniband_verbs/%s", info->name);
	snprintf(d->dev.ibdev_path, sizeof d->dev.ibdev_path, "/sys/class/infiniband/%s", info->name);
	return d;
}

struct ibv_device **ibv_get_device_list(int *num)
{
	struct diw_dev_info *infos = calloc(MAX_DEVICES, sizeof *infos);
	struct ibv_device **list = calloc(MAX_DEVICES + 1, sizeof *list);
	enum of_personality personality = device_personality();
	int n = 0, found = infos && list ? diw_dev_list(infos, MAX_DEVICES) : -ENOMEM;

	if (num)
		*num = 0;
	for (int i = 0; i < found && i < MAX_DEVICES; i++) {
		struct of_device *d = infos[i].naddrs ? device_new(&infos[i], personality) : NULL;

		if (d)
			list[n++] = &d->dev;
		else if (infos[i].naddrs)
			found = -ENOMEM;
	}
	free(infos);
	if (found < 0) {
		if (list)
			ibv_free_device_list(list);
		return of_null(-found);
	}
	if (num)
		*num = n;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	if (!list)
		return;
	for (int i = 0; list[i]; i++)
		device_drop((struct of_device *)list[i]);
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *d)
{
	return d->name;
}

int ibv_get_device_index(struct ibv_device *d)
{
	return (int)((struct of_device *)d)->info.ifindex;
}

__be64 ibv_get_device_guid(struct ibv_device *dev)
{
	struct of_device *d = (struct of_device *)dev;
	uint8_t guid[8];
	__be64 be;

	diw_ident_guid(d->info.ifname, guid);
	memcpy(&be, guid, sizeof be);
	return be;
}

/* ---- Contexts ---- */

static int query_rt_values(struct ibv_context *c, struct ibv_values_ex *values)
{
	(void)c;
	if (values->comp_mask & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK)
		return EINVAL;
	/* The clock of completion time stamps. */
	if (values->comp_mask)
		clock_gettime(CLOCK_MONOTONIC, &values->raw_clock);
	return 0;
}

static void fill_context(struct of_context *ctx)
{
	struct ibv_context *c = &ctx->v.context;

	c->device = &ctx->device->dev;
	c->cmd_fd = -1;
	c->num_comp_vectors = 1;
	c->abi_compat = __VERBS_ABI_IS_EXTENDED;
	pthread_mutex_init(&c->mutex, NULL);
	c->ops.alloc_mw = of_alloc_mw;
	c->ops.bind_mw = of_bind_mw;
	c->ops.dealloc_mw = of_dealloc_mw;
	c->ops.poll_cq = of_poll_cq;
	c->ops.req_notify_cq = of_req_notify_cq;
	c->ops.post_srq_recv = of_post_srq_recv;
	c->ops.post_send = of_post_send;
	c->ops.post_recv = of_post_recv;
	/* Calls that are not set return EOPNOTSUPP: verbs.h does that. */
	ctx->v.sz = sizeof ctx->v;
	ctx->v.query_port = of_query_port;
	ctx->v.query_device_ex = of_query_device_ex;
	ctx->v.query_rt_values = query_rt_values;
	ctx->v.create_cq_ex = of_create_cq_ex;
	ctx->v.create_qp_ex = of_create_qp_ex;
	ctx->v.create_srq_ex = of_create_srq_ex;
	ctx->v.get_srq_num = of_get_srq_num;
	ctx->v.alloc_parent_domain = of_alloc_parent_domain;
	ctx->v.alloc_td = of_alloc_td;
	ctx->v.dealloc_td = of_dealloc_td;
}

struct ibv_context *ibv_open_device(struct ibv_device *dev)
{
	struct of_device *d = (struct of_device *)dev;
	/* A program of verbs may be a passive target or sleep in poll(2), so the device needs a progress thread. */
	const struct diw_dev_attr attr = { .progress = DIW_PROGRESS_THREAD };
	struct of_context *ctx = calloc(1, sizeof *ctx);
	int rc = ctx ? diw_dev_open(dev->name, &attr, &ctx->dev) : -ENOMEM;

	if (rc == 0) {
		rc = of_async_open(ctx);
		if (rc < 0)
			diw_dev_close(ctx->dev);
	}
	if (rc < 0) {
		free(ctx);
		return of_null(-rc);
	}
	diw_dev_query(ctx->dev, &d->info);
	ctx->ngids = diw_ident_gids(d->info.naddrs);
	for (int i = 0; i < ctx->ngids; i++)
		ctx->gids[i] = d->info.addrs[diw_ident_gid(i, d->info.naddrs)];
	ctx->device = d;
	atomic_fetch_add(&d->refs, 1);
	pthread_mutex_init(&ctx->lock, NULL);
	pthread_mutex_init(&ctx->names, NULL);
	ctx->guard.locks[0] = &ctx->lock;
	ctx->guard.locks[2] = &ctx->names;
	ctx->guard.locks[3] = &ctx->loop.rouse_lock;
	ctx->loop = (struct diw_loop)DIW_LOOP_INIT(ctx->loop, &ctx->lock);
	diw_fork_guard_add(&ctx->guard);
	fill_context(ctx);
	return &ctx->v.context;
}

int ibv_close_device(struct ibv_context *c)
{
	struct of_context *ctx = of_context(c);
	int rc;

	/* Threads of the program may still use objects that it has not destroyed. These objects stay, and so does the
	 * context. */
	if (ctx->nqps || ctx->nsrqs)
		return 0;
	rc = diw_dev_close(ctx->dev);
	if (rc == -EBUSY)
		return 0;
	if (rc < 0) {
		errno = -rc;
		return -1;
	}
	diw_fork_guard_del(&ctx->guard);
	of_async_close(ctx);
	device_drop(ctx->device);
	pthread_mutex_destroy(&ctx->names);
	pthread_mutex_destroy(&ctx->lock);
	pthread_mutex_destroy(&c->mutex);
	free(ctx);
	return 0;
}

/* A device belongs to a process: no descriptor exists by which another process could share it. */
struct ibv_context *ibv_import_device(int cmd_fd)
{
	(void)cmd_fd;
	return of_null(EOPNOTSUPP);
}

/* ---- Capabilities ---- */

/* The number of IPv4 groups that a device's socket for groups may join. */
static int max_groups(void)
{
	FILE *f = fopen("/proc/sys/net/ipv4/igmp_max_memberships", "re");
	int n = 20;                             /* the kernel's default */

	if (f) {
		if (fscanf(f, "%d", &n) != 1)
			n = 20;
		fclose(f);
	}
	return n < DIW_MAX_GROUPS ? n : DIW_MAX_GROUPS;
}

static void fill_attr(struct ibv_context *c, struct ibv_device_attr *a)
{
	const struct diw_dev_info *info = &of_context(c)->device->info;
	const int groups = max_groups();

	*a = (struct ibv_device_attr){
		.node_guid = ibv_get_device_guid(c->device), .sys_image_guid = ibv_get_device_guid(c->device),
		.max_mr_size = 1ull << 48, .page_size_cap = 0xfffff000,
		.vendor_id = 0x646977, .vendor_part_id = 1,     /* "diw" */
		.max_qp = (int)info->max_qp, .max_qp_wr = OF_MAX_QP_WR,
		.device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_RC_RNR_NAK_GEN |
				    IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
				    IBV_DEVICE_MEM_MGT_EXTENSIONS,
		.max_sge = OF_MAX_SGE, .max_sge_rd = OF_MAX_SGE, .max_cq = (int)info->max_cq, .max_cqe = OF_MAX_CQE,
		.max_mr = (int)info->max_mr, .max_pd = (int)info->max_pd, .max_qp_rd_atom = OF_MAX_RD_ATOM,
		.max_res_rd_atom = OF_MAX_RD_ATOM * (int)info->max_qp, .max_qp_init_rd_atom = OF_MAX_RD_ATOM,
		.atomic_cap = IBV_ATOMIC_HCA, .max_mw = (int)info->max_mr, .max_ah = OF_MAX_AH,
		.max_mcast_grp = groups, .max_mcast_qp_attach = (int)info->max_qp,
		.max_total_mcast_qp_attach = groups * (int)info->max_qp,
		.max_srq = (int)info->max_srq, .max_srq_wr = OF_MAX_SRQ_WR, .max_srq_sge = OF_MAX_SGE,
		.max_pkeys = 1, .phys_port_cnt = 1,
	};
	snprintf(a->fw_ver, sizeof a->fw_ver, "%s", DIW_VERSION);
}

int of_query_device_ex(struct ibv_context *c, const struct ibv_query_device_ex_input *in,
		       struct ibv_device_attr_ex *attr, size_t size)
{
	struct ibv_device_attr_ex a = {
		.completion_timestamp_mask = UINT64_MAX, .hca_core_clock = 1000000,     /* kHz: time stamps are in ns */
		.phys_port_cnt_ex = 1,
	};

	if ((in && in->comp_mask) || size < sizeof a.orig_attr)
		return EINVAL;
	fill_attr(c, &a.orig_attr);
	a.device_cap_flags_ex = a.orig_attr.device_cap_flags;
	memset(attr, 0, size);
	memcpy(attr, &a, size < sizeof a ? size : sizeof a);
	return 0;
}

int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *attr)
{
	fill_attr(c, attr);
	return 0;
}
