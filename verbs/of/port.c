/* SPDX-License-Identifier: BSD-2-Clause */
/* A device's only port: its interface, and its addresses as GIDs. */
#include <arpa/inet.h>

#include "base/addr.h"
#include "base/ident.h"
#include "verbs/of/of.h"

#undef ibv_query_port

void of_gid_from_addr(union ibv_gid *gid, const struct diw_addr *a)
{
	memcpy(gid->raw, a->ip, sizeof gid->raw);
}

void of_addr_from_gid(struct diw_addr *a, const union ibv_gid *gid, const struct of_context *ctx)
{
	memset(a, 0, sizeof *a);
	memcpy(a->ip, gid->raw, sizeof a->ip);
	if (gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80)        /* link-local: on the same link */
		a->scope = ctx->device->info.ifindex;
}

/* The largest MTU that the interface carries in one packet, beside IP, UDP and RDMAP. */
static enum ibv_mtu active_mtu(uint32_t mtu)
{
	static const uint32_t bytes[] = { [IBV_MTU_256] = 256, 512, 1024, 2048, 4096 };
	int m = IBV_MTU_4096;

	while (m > IBV_MTU_256 && bytes[m] + 100 > mtu)
		m--;
	return (enum ibv_mtu)m;
}

int of_query_port(struct ibv_context *c, uint8_t port, struct ibv_port_attr *attr, size_t size)
{
	const struct diw_dev_info *info = &((const struct of_device *)c->device)->info;
	struct ibv_port_attr a = {
		.state = info->up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN, .max_mtu = IBV_MTU_4096,
		.active_mtu = active_mtu(info->mtu), .gid_tbl_len = OF_MAX_GIDS,
		.port_cap_flags = diw_ident_port_caps(of_is_rnic(c)),
		.max_msg_sz = OF_MAX_MSG, .pkey_tbl_len = 1, .lid = diw_ident_lid(&of_context(c)->gids[0]),
		.max_vl_num = 1,
		/* 1X at 10 Gb/s: the actual rate is not known. 5 is LinkUp, 3 Disabled. */
		.active_width = 1, .active_speed = 4, .phys_state = info->up ? 5 : 3,
		.link_layer = IBV_LINK_LAYER_ETHERNET,
	};

	if (port != OF_PORT)
		return of_result(diw_fail(EINVAL, "ibv_query_port: port %u: there is only %d", port, OF_PORT));
	memset(attr, 0, size);
	memcpy(attr, &a, size < sizeof a ? size : sizeof a);
	return 0;
}

/* For programs that were compiled before the structure grew. */
int ibv_query_port(struct ibv_context *c, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	return of_query_port(c, port, (struct ibv_port_attr *)(void *)attr,
			     offsetof(struct ibv_port_attr, port_cap_flags2));
}

/* ---- GIDs: a table with room for the most addresses of a device; entries behind the last one are empty ---- */

static void gid_entry(const struct of_context *ctx, uint32_t i, struct ibv_gid_entry *e)
{
	*e = (struct ibv_gid_entry){
		.gid_index = i, .port_num = OF_PORT, .ndev_ifindex = ctx->device->info.ifindex,
		.gid_type = ctx->device->personality == OF_RNIC ? IBV_GID_TYPE_IB : IBV_GID_TYPE_ROCE_V2,
	};
	of_gid_from_addr(&e->gid, &ctx->gids[i]);
}

int ibv_query_gid(struct ibv_context *c, uint8_t port, int index, union ibv_gid *gid)
{
	const struct of_context *ctx = of_context(c);

	if (port != OF_PORT || index < 0 || index >= OF_MAX_GIDS) {
		errno = diw_fail(EINVAL, "ibv_query_gid: port %u, index %d: port %d has %d places", port, index,
				 OF_PORT, OF_MAX_GIDS);
		return -1;
	}
	of_gid_from_addr(gid, &ctx->gids[index]);       /* zeros if the entry is empty */
	return 0;
}

/* Private to rdma-core, for ibv_devinfo: 0 is "IB or RoCE v1", 1 is RoCE v2. */
enum gid_type_sysfs { GID_SYSFS_IB_ROCE_V1, GID_SYSFS_ROCE_V2 };
#pragma GCC visibility push(default)
int ibv_query_gid_type(struct ibv_context *c, uint8_t port, unsigned index, enum gid_type_sysfs *type);
#pragma GCC visibility pop

int ibv_query_gid_type(struct ibv_context *c, uint8_t port, unsigned index, enum gid_type_sysfs *type)
{
	if (port != OF_PORT || index >= OF_MAX_GIDS) {
		errno = EINVAL;
		return -1;
	}
	*type = of_is_rnic(c) ? GID_SYSFS_IB_ROCE_V1 : GID_SYSFS_ROCE_V2;
	return 0;
}
OF_PRIVATE_NAME(ibv_query_gid_type)

int _ibv_query_gid_ex(struct ibv_context *c, uint32_t port, uint32_t index, struct ibv_gid_entry *e, uint32_t flags,
		      size_t size)
{
	const struct of_context *ctx = of_context(c);
	struct ibv_gid_entry mine;

	if (flags)
		return EOPNOTSUPP;
	if (port != OF_PORT || index >= OF_MAX_GIDS || size < sizeof mine)
		return EINVAL;
	if (index >= (uint32_t)ctx->ngids)
		return ENODATA;
	gid_entry(ctx, index, &mine);
	memset(e, 0, size);
	memcpy(e, &mine, sizeof mine);
	return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *c, struct ibv_gid_entry *e, size_t max, uint32_t flags, size_t size)
{
	const struct of_context *ctx = of_context(c);
	struct ibv_gid_entry mine;

	if (flags)
		return -EOPNOTSUPP;
	if (size < sizeof mine || max < (size_t)ctx->ngids)
		return -EINVAL;
	memset(e, 0, max * size);
	for (int i = 0; i < ctx->ngids; i++) {
		gid_entry(ctx, (uint32_t)i, &mine);
		memcpy((char *)e + (size_t)i * size, &mine, sizeof mine);
	}
	return ctx->ngids;
}

/* ---- Partitions: only the default one ---- */

int ibv_query_pkey(struct ibv_context *c, uint8_t port, int index, __be16 *pkey)
{
	(void)c;
	if (port != OF_PORT || index != 0) {
		errno = diw_fail(EINVAL, "ibv_query_pkey: port %u, index %d: port %d has one", port, index, OF_PORT);
		return -1;
	}
	*pkey = htons(DIW_PKEY);
	return 0;
}

int ibv_get_pkey_index(struct ibv_context *c, uint8_t port, __be16 pkey)
{
	__be16 mine;

	if (ibv_query_pkey(c, port, 0, &mine))
		return -1;
	if (mine == pkey)
		return 0;
	errno = EINVAL;
	return -1;
}
