/* SPDX-License-Identifier: BSD-2-Clause */
/* diw cp and recv with --group: the queue pair of each end, and the loops in which they wait. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/addr.h"
#include "tools/cp/group_recv.h"
#include "tools/cp/group_send.h"

#define DEVICES 64
#define WC_BATCH 64
#define BYE_NS (500 * DIW_MS)        /* the longest time that BYEs wait for earlier messages */

static bool group_suits(const struct diw_addr *own, const struct diw_addr *group)
{
	bool link_local = own->ip[0] == 0xfe && (own->ip[1] & 0xc0) == 0x80;

	return diw_addr_is_v4(own) == diw_addr_is_v4(group) && !link_local;
}

/* The device's address to which a queue pair for GROUP is bound. */
static int group_local(const char *dev, const struct diw_addr *group, struct diw_addr *local)
{
	struct diw_dev_info list[DEVICES];
	char buf[DIW_ADDR_STRLEN];
	int n, rc;

	if (!dev) {
		rc = local_addr_for(group, local);
		return !rc ? 0 : tool_failed("%s: %s: choose a device by --dev", diw_addr_str(group, buf),
					     strerror(-rc));
	}
	n = diw_dev_list(list, DEVICES);
	for (int i = 0; i < n && i < DEVICES; i++)
		for (int k = 0; k < list[i].naddrs && strcmp(list[i].name, dev) == 0; k++)
			if (group_suits(&list[i].addrs[k], group)) {
				*local = list[i].addrs[k];
				return 0;
			}
	return tool_failed("device %s has no address for %s", dev, diw_addr_str(group, buf));
}

/* Opens a queue pair of the group's IP version on the device that leads to the group. *ADDR is the group with its
 * port. */
static int group_open(struct xfer_port *p, const struct group_options *o, struct diw_qp_attr *attr,
		      struct diw_addr *addr)
{
	int rc = opt_host(o->group, DIW_GROUP_PORT, addr);

	if (rc)
		return rc;
	if (!diw_addr_is_multicast(addr))
		return tool_usage("--group %s: not a multicast address (224.0.0.0/4 or ff00::/8)", o->group);
	rc = group_local(o->dev, addr, &attr->dgram.local);
	if (rc)
		return rc;
	attr->dgram.record_timeout_ns = (int64_t)GROUP_RECORD_NS;
	return xfer_open(p, o->dev, o->dev ? NULL : addr, attr);
}

/* ---- diw cp ---- */

static void group_send_flush(struct group_send *s)
{
	uint64_t until = diw_clock_ns() + BYE_NS;
	struct diw_wc wc[WC_BATCH];
	struct diw_qp_info info;

	do
		diw_cq_wait(s->port.ep.cq, wc, WC_BATCH, DIW_MS);
	while (diw_qp_query(s->port.ep.qp, &info) == 0 && info.sq_pending && diw_clock_ns() < until);
}

static int group_send_loop(struct group_send *s)
{
	struct diw_wc wc[WC_BATCH];
	bool more = false;
	int n, rc = 0;

	group_send_start(s, diw_clock_ns());
	while (!rc && !tool_stopped && !group_send_is_over(s)) {
		n = diw_cq_wait(s->port.ep.cq, wc, WC_BATCH, more ? 0 : DIW_MS);
		if (n < 0)
			return tool_failed("waiting for a completion: %s", strerror(-n));
		rc = group_send_turn(s, wc, n, &more, diw_clock_ns());
	}
	if (s->phase != GROUP_GATHERING)
		bar_end(&s->bar);
	group_send_bye(s);
	group_send_flush(s);
	return tool_stopped ? tool_failed("interrupted") : rc;
}

static int group_send_run(struct group_send *s, struct diw_qp_attr *attr)
{
	int rc;

	attr->rate_limit = s->o->rate;
	rc = group_open(&s->port, s->o, attr, &s->to.addr);
	s->to.qp = s->port.ep.qp;
	if (!rc)
		rc = outgoing_open(&s->out);
	if (!rc)
		rc = group_send_init(s);
	if (!rc)
		rc = group_send_loop(s);
	if (!rc)
		rc = group_send_report(s);
	group_send_fini(s);
	xfer_close(&s->port);
	outgoing_close(&s->out);
	return rc;
}

int group_copy(const struct group_options *o, const char *file, const char *name, struct diw_qp_attr *attr)
{
	struct group_send *s = calloc(1, sizeof *s);
	int rc;

	if (!s)
		return tool_failed("out of memory");
	s->o = o;
	s->out = (struct outgoing){ .path = file, .fd = -1 };
	s->name = name;
	rc = group_send_run(s, attr);
	free(s);
	return rc;
}

/* ---- diw recv ---- */

static int group_recv_loop(struct group_recv *r)
{
	struct diw_wc wc[WC_BATCH];
	int n;

	while (!tool_stopped && !group_recv_is_over(r, diw_clock_ns())) {
		n = diw_cq_wait(r->port.ep.cq, wc, WC_BATCH, (int64_t)group_recv_pause(r));
		if (n < 0)
			return tool_failed("waiting for a completion: %s", strerror(-n));
		group_recv_turn(r, wc, n, diw_clock_ns());
	}
	group_recv_fini(r);
	endpoint_report_errors(&r->port.ep);
	return (r->o->count ? r->files < r->o->count : r->bad > 0) ? TOOL_FAILED : TOOL_OK;
}

static int group_recv_run(struct group_recv *r, struct diw_qp_attr *attr)
{
	char buf[DIW_ADDR_STRLEN];
	struct diw_addr group;
	int rc = group_open(&r->port, r->o, attr, &group);

	if (!rc) {
		rc = group_recv_init(r);
		if (!rc)
			rc = diw_qp_attach(r->port.ep.qp, &group);
		if (rc)
			rc = tool_failed("%s: %s", diw_addr_str(&group, buf), strerror(-rc));
	}
	if (!rc && !r->o->json) {
		printf("receiving from group %s\n", diw_addr_str(&group, buf));
		fflush(stdout);
	}
	if (!rc)
		rc = group_recv_loop(r);
	xfer_close(&r->port);
	return rc;
}

int group_receive(const struct group_options *o, struct diw_qp_attr *attr)
{
	struct group_recv *r = calloc(1, sizeof *r);
	int rc;

	if (!r)
		return tool_failed("out of memory");
	r->o = o;
	rc = group_recv_run(r, attr);
	free(r);
	return rc;
}
