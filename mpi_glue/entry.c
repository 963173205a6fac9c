/* SPDX-License-Identifier: BSD-2-Clause */
/* libfabric's entries for messages. Each describes its message in one form, and calls diw_glue_send() or
 * diw_glue_recv(). */
#include "mpi_glue/glue.h"

static struct glue_ep *ep_of(struct fid_ep *fid)
{
	return (struct glue_ep *)fid;
}

static void *entry_bytes(const void *buf)
{
	return (void *)(uintptr_t)buf;
}

#define ENTRY_IOV struct iovec iov = { entry_bytes(buf), len }
#define ENTRY_MSG(...) const struct glue_msg m = { .iov = &iov, .iovs = len > 0, __VA_ARGS__ }

static ssize_t msg_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src, void *ctx)
{
	ENTRY_IOV;
	ENTRY_MSG(.addr = src, .ctx = ctx);

	(void)desc;
	return diw_glue_recv(ep_of(ep), &m, ep_of(ep)->rx_flags);
}

static ssize_t msg_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t src,
			 void *ctx)
{
	const struct glue_msg m = { .iov = iov, .iovs = count, .addr = src, .ctx = ctx };

	(void)desc;
	return diw_glue_recv(ep_of(ep), &m, ep_of(ep)->rx_flags);
}

static ssize_t msg_recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	const struct glue_msg m = { .iov = msg->msg_iov, .iovs = msg->iov_count, .addr = msg->addr,
				   .ctx = msg->context };

	return diw_glue_recv(ep_of(ep), &m, flags);
}

static ssize_t msg_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dst, void *ctx)
{
	ENTRY_IOV;
	ENTRY_MSG(.addr = dst, .ctx = ctx);

	(void)desc;
	return diw_glue_send(ep_of(ep), &m, ep_of(ep)->tx_flags);
}

static ssize_t msg_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t dst,
			 void *ctx)
{
	const struct glue_msg m = { .iov = iov, .iovs = count, .addr = dst, .ctx = ctx };

	(void)desc;
	return diw_glue_send(ep_of(ep), &m, ep_of(ep)->tx_flags);
}

static ssize_t msg_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	const struct glue_msg m = { .iov = msg->msg_iov, .iovs = msg->iov_count, .addr = msg->addr, .ctx = msg->context,
				    .imm = msg->data, .flags = flags & FI_REMOTE_CQ_DATA ? GLUE_IMM : 0 };

	return diw_glue_send(ep_of(ep), &m, flags);
}

static ssize_t msg_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dst)
{
	ENTRY_IOV;
	ENTRY_MSG(.addr = dst);

	return diw_glue_send(ep_of(ep), &m, GLUE_INJECT);
}

static ssize_t msg_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t dst,
			    void *ctx)
{
	ENTRY_IOV;
	ENTRY_MSG(.addr = dst, .ctx = ctx, .imm = data, .flags = GLUE_IMM);

	(void)desc;
	return diw_glue_send(ep_of(ep), &m, ep_of(ep)->tx_flags);
}

static ssize_t msg_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data, fi_addr_t dst)
{
	ENTRY_IOV;
	ENTRY_MSG(.addr = dst, .imm = data, .flags = GLUE_IMM);

	return diw_glue_send(ep_of(ep), &m, GLUE_INJECT);
}

struct fi_ops_msg diw_glue_ops_msg = {
	.size = sizeof(struct fi_ops_msg), .recv = msg_recv, .recvv = msg_recvv, .recvmsg = msg_recvmsg,
	.send = msg_send, .sendv = msg_sendv, .sendmsg = msg_sendmsg, .inject = msg_inject, .senddata = msg_senddata,
	.injectdata = msg_injectdata,
};

static ssize_t tagged_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src, uint64_t tag,
			   uint64_t ignore, void *ctx)
{
	ENTRY_IOV;
	ENTRY_MSG(.addr = src, .ctx = ctx, .tag = tag, .ignore = ignore, .flags = GLUE_TAGGED);

	(void)desc;
	return diw_glue_recv(ep_of(ep), &m, ep_of(ep)->rx_flags);
}

static ssize_t tagged_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t src,
			    uint64_t tag, uint64_t ignore, void *ctx)
{
	const struct glue_msg m = { .iov = iov, .iovs = count, .addr = src, .ctx = ctx, .tag = tag, .ignore = ignore,
				    .flags = GLUE_TAGGED };

	(void)desc;
	return diw_glue_recv(ep_of(ep), &m, ep_of(ep)->rx_flags);
}

static ssize_t tagged_recvmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
	const struct glue_msg m = { .iov = msg->msg_iov, .iovs = msg->iov_count, .addr = msg->addr, .ctx = msg->context,
				    .tag = msg->tag, .ignore = msg->ignore, .flags = GLUE_TAGGED };

	return diw_glue_recv(ep_of(ep), &m, flags);
}

static ssize_t tagged_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dst, uint64_t tag,
			   void *ctx)
{
	ENTRY_IOV;
	ENTRY_MSG(.addr = dst, .ctx = ctx, .tag = tag, .flags = GLUE_TAGGED);

	(void)desc;
	return diw_glue_send(ep_of(ep), &m, ep_of(ep)->tx_flags);
}

static ssize_t tagged_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t dst,
			    uint64_t tag, void *ctx)
{
	const struct glue_msg m = { .iov = iov, .iovs = count, .addr = dst, .ctx = ctx, .tag = tag,
				   .flags = GLUE_TAGGED };

	(void)desc;
	return diw_glue_send(ep_of(ep), &m, ep_of(ep)->tx_flags);
}

static ssize_t tagged_sendmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
	const struct glue_msg m = { .iov = msg->msg_iov, .iovs = msg->iov_count, .addr = msg->addr, .ctx = msg->context,
				    .tag = msg->tag, .imm = msg->data,
				    .flags = GLUE_TAGGED | (flags & FI_REMOTE_CQ_DATA ? GLUE_IMM : 0) };

	return diw_glue_send(ep_of(ep), &m, flags);
}

static ssize_t tagged_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dst, uint64_t tag)
{
	ENTRY_IOV;
	ENTRY_MSG(.addr = dst, .tag = tag, .flags = GLUE_TAGGED);

	return diw_glue_send(ep_of(ep), &m, GLUE_INJECT);
}

static ssize_t tagged_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t dst,
			       uint64_t tag, void *ctx)
{
	ENTRY_IOV;
	ENTRY_MSG(.addr = dst, .ctx = ctx, .tag = tag, .imm = data, .flags = GLUE_TAGGED | GLUE_IMM);

	(void)desc;
	return diw_glue_send(ep_of(ep), &m, ep_of(ep)->tx_flags);
}

static ssize_t tagged_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data, fi_addr_t dst,
				 uint64_t tag)
{
	ENTRY_IOV;
	ENTRY_MSG(.addr = dst, .tag = tag, .imm = data, .flags = GLUE_TAGGED | GLUE_IMM);

	return diw_glue_send(ep_of(ep), &m, GLUE_INJECT);
}

struct fi_ops_tagged diw_glue_ops_tagged = {
	.size = sizeof(struct fi_ops_tagged), .recv = tagged_recv, .recvv = tagged_recvv, .recvmsg = tagged_recvmsg,
	.send = tagged_send, .sendv = tagged_sendv, .sendmsg = tagged_sendmsg, .inject = tagged_inject,
	.senddata = tagged_senddata, .injectdata = tagged_injectdata,
};
