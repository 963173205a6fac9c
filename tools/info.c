/* SPDX-License-Identifier: BSD-2-Clause */
/* diw info: tells of this machine, and lists its devices. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tool.h"

#define MAX_DEVS 64

static const char *progress_name(const struct diw_dev_info *d)
{
	return d->progress_spins ? "spin" : d->progress_thread ? "thread" : "inline";
}

/* The address without its port, which is 0. */
static const char *ip_str(const struct diw_addr *a, char *buf)
{
	char *end;

	diw_addr_str(a, buf);
	end = strrchr(buf, ':');
	if (end)
		*end = '\0';
	if (buf[0] == '[') {
		memmove(buf, buf + 1, strlen(buf));
		end = strchr(buf, ']');
		if (end)
			*end = '\0';
	}
	return buf;
}

static void device_json(const struct diw_dev_info *d)
{
	const struct { const char *key; uint32_t value; } limits[] = {
		{ "max_qp", d->max_qp }, { "max_cq", d->max_cq }, { "max_mr", d->max_mr }, { "max_pd", d->max_pd },
		{ "max_srq", d->max_srq }, { "max_wr", d->max_wr }, { "max_sge", d->max_sge },
		{ "max_inline", d->max_inline }, { "max_cqe", d->max_cqe }, { "max_send", d->max_send },
		{ "max_rdma", d->max_rdma }, { "max_read", d->max_read },
	};
	cJSON *o = cJSON_CreateObject(), *a;
	char buf[DIW_ADDR_STRLEN];

	cJSON_AddStringToObject(o, "device", d->name);
	cJSON_AddStringToObject(o, "interface", d->ifname);
	cJSON_AddNumberToObject(o, "ifindex", d->ifindex);
	cJSON_AddBoolToObject(o, "up", d->up);
	cJSON_AddNumberToObject(o, "mtu", d->mtu);
	cJSON_AddNumberToObject(o, "mulpdu", d->mulpdu);
	a = cJSON_AddArrayToObject(o, "addresses");
	for (int i = 0; i < d->naddrs; i++)
		cJSON_AddItemToArray(a, cJSON_CreateString(ip_str(&d->addrs[i], buf)));
	cJSON_AddStringToObject(o, "llp", d->llp);
	cJSON_AddItemToObject(o, "llp_error",
			      d->llp_errno ? cJSON_CreateString(strerror(d->llp_errno)) : cJSON_CreateNull());
	cJSON_AddBoolToObject(o, "gso", d->gso);
	cJSON_AddBoolToObject(o, "gro", d->gro);
	cJSON_AddStringToObject(o, "crc_engine", d->crc_engine);
	cJSON_AddStringToObject(o, "progress", progress_name(d));
	cJSON_AddNumberToObject(o, "rcvbuf", d->rcvbuf);
	for (size_t i = 0; i < TOOL_COUNT(limits); i++)
		cJSON_AddNumberToObject(o, limits[i].key, limits[i].value);
	cJSON_AddItemToObject(o, "machine", machine_json());
	json_print(o);
}

static void print_human(const struct diw_dev_info *d)
{
	char buf[DIW_ADDR_STRLEN], a[24], b[24], c[24];

	printf("%s\n", d->name);
	printf("  %-16s %s, index %u, %s\n", "interface", d->ifname, d->ifindex, d->up ? "up" : "down");
	for (int i = 0; i < d->naddrs; i++)
		printf("  %-16s %s\n", i ? "" : "addresses", ip_str(&d->addrs[i], buf));
	printf("  %-16s %u B, MULPDU %u B\n", "MTU", d->mtu, d->mulpdu);
	printf("  %-16s %s, UDP_SEGMENT %s, UDP_GRO %s\n", "lower layer", d->llp, d->gso ? "proved" : "not available",
	       d->gro ? "proved" : "not available");
	if (d->llp_errno)
		printf("  %-16s not used: %s\n", "io_uring", strerror(d->llp_errno));
	printf("  %-16s %s\n", "CRC-32 engine", d->crc_engine);
	printf("  %-16s %s%s\n", "progress", progress_name(d),
	       d->progress_thread ? ", and inline while the program polls" : "");
	printf("  %-16s %s\n", "receive buffer", fmt_bytes(d->rcvbuf, a));
	printf("  %-16s Send %s, Write and Write-Record %s, Read %s\n", "largest message", fmt_bytes(d->max_send, a),
	       fmt_bytes(d->max_rdma, b), fmt_bytes(d->max_read, c));
	printf("  %-16s %u QP, %u CQ of %u, %u MR, %u PD, %u SRQ; %u WR a queue, %u SGE, %u B inline\n", "limits",
	       d->max_qp, d->max_cq, d->max_cqe, d->max_mr, d->max_pd, d->max_srq, d->max_wr, d->max_sge,
	       d->max_inline);
}

/* How a device makes progress is known only when it is open. */
static void look_at_device(struct diw_dev_info *d)
{
	struct diw_dev *dev;

	if (diw_dev_open(d->name, NULL, &dev))
		return;
	diw_dev_query(dev, d);
	diw_dev_close(dev);
}

static int info_run(int argc, char **argv)
{
	static const struct option opts[] = { { "json", no_argument, NULL, 'j' }, { 0 } };
	struct diw_dev_info *list;
	bool json = false;
	int opt, n;

	while ((opt = getopt_long(argc, argv, "", opts, NULL)) != -1) {
		if (opt != 'j')
			return tool_bad_option(argv);
		json = true;
	}
	if (optind < argc)
		return tool_usage("'%s': info takes no argument", argv[optind]);
	list = calloc(MAX_DEVS, sizeof *list);
	if (!list)
		return tool_failed("out of memory");
	if (!json)
		machine_print();
	n = diw_dev_list(list, MAX_DEVS);
	for (int i = 0; i < n && i < MAX_DEVS; i++) {
		look_at_device(&list[i]);
		json ? device_json(&list[i]) : print_human(&list[i]);
	}
	free(list);
	return n > 0 ? TOOL_OK :
	       n < 0 ? tool_failed("list of devices: %s", strerror(-n)) : tool_failed("no network interface is up");
}

const struct tool_cmd cmd_info = {
	.name = "info", .run = info_run, .args = "[--json]",
	.brief = "Shows devices, addresses, limits, and which offloads and CRC engine were found to work",
	.help = "  --json    one JSON object a device\n",
};
