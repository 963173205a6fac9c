/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * diw run --dev: a device in /sys/class, with the files, names and formats that the kernel has for rxe and siw
 * (drivers/infiniband/core/sysfs.c). The files are written once, before the program starts, and agree with our
 * libibverbs.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ident.h"
#include "tools/run/run.h"
#include "tools/tool.h"

#define PORT "ports/1/"
#define GID_LINE 40

/* The directory of a device. After the first error, which is kept, nothing more is done. */
struct place {
	const char *dir;
	int errnum;
};

static void put_dir(struct place *p, const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof path, "%s/%s", p->dir, name);
	if (!p->errnum && mkdir(path, 0755))
		p->errnum = errno;
}

static void put_link(struct place *p, const char *target, const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof path, "%s/%s", p->dir, name);
	if (!p->errnum && symlink(target, path))
		p->errnum = errno;
}

/* Writes a file of one line; the name is formatted. */
__attribute__((format(printf, 3, 4)))
static void put_attribute(struct place *p, const char *line, const char *name, ...)
{
	char path[PATH_MAX], text[128];
	const int len = snprintf(text, sizeof text, "%s\n", line);
	int at = snprintf(path, sizeof path, "%s/", p->dir), fd;
	va_list ap;

	if (p->errnum)
		return;
	va_start(ap, name);
	vsnprintf(path + at, sizeof path - (size_t)at, name, ap);
	va_end(ap);
	errno = EIO;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
	if (fd < 0 || write(fd, text, (size_t)len) != len)
		p->errnum = errno;
	if (fd >= 0)
		close(fd);
}

static void put_number(struct place *p, const char *format, uint32_t value, const char *name)
{
	char line[32];

	snprintf(line, sizeof line, format, value);
	put_attribute(p, line, "%s", name);
}

static void put_words(char line[GID_LINE], const uint8_t *words, int n)
{
	for (int i = 0, at = 0; i < n; i++)
		at += snprintf(line + at, (size_t)(GID_LINE - at), "%s%04x", i ? ":" : "", diw_get16(words + 2 * i));
}

/* ---- Counters ---- */

/* Counters of InfiniBand's performance management, which neither rxe nor diwarp has. Kernels before 5.14 show the files
 * for any device, with this text in them. */
static void put_counters(struct place *p)
{
	static const char *const names[] = {
		"symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors",
		"port_rcv_remote_physical_errors", "port_rcv_switch_relay_errors", "port_xmit_discards",
		"port_xmit_constraint_errors", "port_rcv_constraint_errors", "local_link_integrity_errors",
		"excessive_buffer_overrun_errors", "VL15_dropped", "port_xmit_data", "port_rcv_data",
		"port_xmit_packets", "port_rcv_packets", "port_xmit_wait",
	};

	put_dir(p, PORT "counters");
	for (size_t i = 0; i < TOOL_COUNT(names); i++)
		put_attribute(p, "N/A (no PMA)", PORT "counters/%s", names[i]);
}

/* The counters of rxe; siw has none. A device begins with the process that opens it, and so do its counters, which are
 * therefore 0 here; `diw stat` shows their values. */
static void put_hw_counters(struct place *p)
{
	static const char *const names[] = {
		"sent_pkts", "rcvd_pkts", "duplicate_request", "out_of_seq_request", "rcvd_rnr_err", "send_rnr_err",
		"rcvd_seq_err", "ack_deferred", "retry_exceeded_err", "retry_rnr_exceeded_err", "completer_retry_err",
		"send_err", "link_downed", "rdma_sends", "rdma_recvs",
	};

	put_dir(p, PORT "hw_counters");
	for (size_t i = 0; i < TOOL_COUNT(names); i++)
		put_attribute(p, "0", PORT "hw_counters/%s", names[i]);
	put_attribute(p, "10", PORT "hw_counters/lifespan");
}

/* ---- The port ---- */

/* For empty entries the kernel has attribute files, too, which cannot be read. These are omitted here. */
static void put_gids(struct place *p, const struct diw_dev_info *info, bool rnic)
{
	static const uint8_t none[16];
	const int n = diw_ident_gids(info->naddrs);
	char line[GID_LINE];

	put_dir(p, PORT "gids");
	put_dir(p, PORT "gid_attrs");
	put_dir(p, PORT "gid_attrs/ndevs");
	put_dir(p, PORT "gid_attrs/types");
	for (int i = 0; i < DIW_MAX_DEV_ADDRS; i++) {
		put_words(line, i < n ? info->addrs[diw_ident_gid(i, info->naddrs)].ip : none, 8);
		put_attribute(p, line, PORT "gids/%d", i);
	}
	for (int i = 0; i < n; i++) {
		put_attribute(p, info->ifname, PORT "gid_attrs/ndevs/%d", i);
		put_attribute(p, rnic ? "IB/RoCE v1" : "RoCE v2", PORT "gid_attrs/types/%d", i);
	}
}

static void put_port(struct place *p, const struct diw_dev_info *info, bool rnic)
{
	put_dir(p, "ports");
	put_dir(p, "ports/1");
	put_number(p, "0x%08x", diw_ident_port_caps(rnic), PORT "cap_mask");
	put_number(p, "0x%x", diw_ident_lid(&info->addrs[0]), PORT "lid");
	put_attribute(p, "0", PORT "lid_mask_count");
	put_attribute(p, "0x0", PORT "sm_lid");
	put_attribute(p, "0", PORT "sm_sl");
	put_attribute(p, "Ethernet", PORT "link_layer");
	put_attribute(p, info->up ? "4: ACTIVE" : "1: DOWN", PORT "state");
	put_attribute(p, info->up ? "5: LinkUp" : "3: Disabled", PORT "phys_state");
	put_attribute(p, "10 Gb/sec (1X QDR)", PORT "rate");
	put_dir(p, PORT "pkeys");
	put_number(p, "0x%04x", DIW_PKEY, PORT "pkeys/0");
	put_gids(p, info, rnic);
	put_counters(p);
	if (!rnic)
		put_hw_counters(p);
}

/* ---- Classes ---- */

static void put_device(struct place *p, const struct diw_dev_info *info, bool rnic)
{
	char line[GID_LINE], target[64];
	uint8_t guid[8];

	put_dir(p, "");
	put_attribute(p, rnic ? RUN_NODE_RNIC : RUN_NODE_CA, "node_type");
	diw_ident_guid(info->ifname, guid);
	put_words(line, guid, 4);
	put_attribute(p, line, "node_guid");
	put_attribute(p, line, "sys_image_guid");
	put_attribute(p, info->name, "node_desc");
	put_attribute(p, DIW_VERSION, "fw_ver");
	if (!rnic)
		put_attribute(p, info->ifname, "parent");
	snprintf(target, sizeof target, "NAME=%s", info->name);
	put_attribute(p, target, "uevent");
	put_link(p, "../../infiniband", "subsystem");
	put_dir(p, "device");
	put_dir(p, "device/net");
	snprintf(target, sizeof target, "/sys/class/net/%s", info->ifname);
	snprintf(line, sizeof line, "device/net/%s", info->ifname);
	put_link(p, target, line);
	put_port(p, info, rnic);
}

/* The uverbs device; its number is that of the node in /dev. */
static void put_verbs(struct place *p, const struct diw_dev_info *info, bool rnic)
{
	char target[64];

	put_dir(p, "");
	put_attribute(p, info->name, "ibdev");
	put_attribute(p, rnic ? "1" : "2", "abi_version");
	put_attribute(p, "1:3", "dev");
	put_link(p, "../../infiniband_verbs", "subsystem");
	snprintf(target, sizeof target, "../../infiniband/%s/device", info->name);
	put_link(p, target, "device");
}

bool run_put_verbs_abi(void)
{
	struct place p = { .dir = RUN_VERBS };

	put_attribute(&p, "6", "abi_version");
	errno = p.errnum;
	return !errno;
}

bool run_put_device(const struct diw_dev_info *info, bool rnic)
{
	char device[64], verbs[64];
	struct place p = { .dir = device }, v = { .dir = verbs };

	snprintf(device, sizeof device, RUN_CLASS "/%s", info->name);
	snprintf(verbs, sizeof verbs, RUN_VERBS "/%s", info->name);
	put_device(&p, info, rnic);
	put_verbs(&v, info, rnic);
	errno = p.errnum ? p.errnum : v.errnum;
	return !errno;
}
