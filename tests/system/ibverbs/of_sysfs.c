/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The files that `diw run --dev` shows below /sys/class agree with the answers of libibverbs. The library names without
 * a version, by which some programs open the libraries, lead to ours. usage: of_sysfs DEVICE INTERFACE
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <endian.h>
#include <link.h>
#include <stdarg.h>
#include <unistd.h>

#include "tests/system/ibverbs/of_kit.h"

static const char *device;

/* The line of a file of the device; "(none)" if there is no file. */
__attribute__((format(printf, 1, 2)))
static const char *line_of(const char *format, ...)
{
	static char line[128];
	char name[96], path[256];
	va_list ap;
	FILE *f;

	va_start(ap, format);
	vsnprintf(name, sizeof name, format, ap);
	va_end(ap);
	snprintf(path, sizeof path, "/sys/class/infiniband/%s/%s", device, name);
	f = fopen(path, "re");
	if (!f || !fgets(line, sizeof line, f))
		snprintf(line, sizeof line, "(none)\n");
	if (f)
		fclose(f);
	if (line[strcspn(line, "\n")] != '\n')
		return "(no whole line)";
	line[strcspn(line, "\n")] = '\0';
	return line;
}

static bool same(const char *is, const char *wanted)
{
	if (strcmp(is, wanted) == 0)
		return true;
	printf("'%s', not '%s'\n", is, wanted);
	return false;
}

/* Groups of four hexadecimal digits. */
static const char *in_words(const void *words, int n)
{
	static char text[64];
	const uint8_t *b = words;

	for (int i = 0, at = 0; i < n; i++, b += 2)
		at += snprintf(text + at, sizeof text - (size_t)at, "%s%02x%02x", i ? ":" : "", b[0], b[1]);
	return text;
}

static void test_node(struct ibv_context *c)
{
	struct ibv_device_attr a;
	const bool rnic = c->device->node_type == IBV_NODE_RNIC;

	ibv_query_device(c, &a);
	CHECK(same(line_of("node_type"), rnic ? "4: RNIC" : "1: CA"), "node_type");
	CHECK(same(line_of("node_guid"), in_words(&a.node_guid, 4)), "node_guid");
	CHECK(same(line_of("sys_image_guid"), in_words(&a.sys_image_guid, 4)), "sys_image_guid");
	CHECK(same(line_of("fw_ver"), a.fw_ver), "fw_ver");
	CHECK(same(line_of("node_desc"), device), "node_desc");
}

static void test_port(struct ibv_context *c)
{
	struct ibv_port_attr a;
	char text[64];

	ibv_query_port(c, 1, &a);
	snprintf(text, sizeof text, "%d: %s", (int)a.state, a.state == IBV_PORT_ACTIVE ? "ACTIVE" : "DOWN");
	CHECK(same(line_of("ports/1/state"), text), "state");
	snprintf(text, sizeof text, "%d: %s", a.phys_state, a.phys_state == 5 ? "LinkUp" : "Disabled");
	CHECK(same(line_of("ports/1/phys_state"), text), "phys_state");
	snprintf(text, sizeof text, "0x%08x", a.port_cap_flags);
	CHECK(same(line_of("ports/1/cap_mask"), text), "cap_mask");
	snprintf(text, sizeof text, "0x%x", a.lid);
	CHECK(same(line_of("ports/1/lid"), text), "lid");
	CHECK(same(line_of("ports/1/lid_mask_count"), "0") && a.lmc == 0, "lid_mask_count");
	CHECK(same(line_of("ports/1/sm_lid"), "0x0") && a.sm_lid == 0, "sm_lid");
	CHECK(same(line_of("ports/1/sm_sl"), "0") && a.sm_sl == 0, "sm_sl");
	CHECK(same(line_of("ports/1/link_layer"), "Ethernet") && a.link_layer == IBV_LINK_LAYER_ETHERNET, "link_layer");
	CHECK(same(line_of("ports/1/rate"), "10 Gb/sec (1X QDR)") && a.active_width == 1 && a.active_speed == 4,
	      "rate");
}

static void test_tables(struct ibv_context *c, const char *ifname)
{
	const char *type = c->device->node_type == IBV_NODE_RNIC ? "IB/RoCE v1" : "RoCE v2";
	struct ibv_port_attr a;
	union ibv_gid gid;
	struct ibv_gid_entry e;
	char text[16];
	__be16 pkey;
	int gids = 0, attrs = 0, valid = 0;

	ibv_query_port(c, 1, &a);
	for (int i = 0; i < a.gid_tbl_len; i++) {
		gids += ibv_query_gid(c, 1, i, &gid) == 0 && same(line_of("ports/1/gids/%d", i), in_words(&gid, 8));
		if (ibv_query_gid_ex(c, 1, (uint32_t)i, &e, 0) == 0) {
			valid++;
			attrs += same(line_of("ports/1/gid_attrs/ndevs/%d", i), ifname) &&
				 same(line_of("ports/1/gid_attrs/types/%d", i), type);
		} else {
			attrs += !same(line_of("ports/1/gid_attrs/types/%d", i), type);
		}
	}
	CHECK(a.gid_tbl_len > 0 && gids == a.gid_tbl_len, "gids");
	CHECK(valid > 0 && attrs == a.gid_tbl_len, "gid_attrs of the valid ones, and of no other");
	ibv_query_pkey(c, 1, 0, &pkey);
	snprintf(text, sizeof text, "0x%04x", ntohs(pkey));
	CHECK(same(line_of("ports/1/pkeys/0"), text) && a.pkey_tbl_len == 1, "pkeys");
}

/* LIBRARY is loaded already, or is opened, and lies in the directory of this program's libibverbs. */
static bool is_beside(const char *library)
{
	void *handle = dlopen(library, RTLD_NOW);
	struct link_map *map;
	Dl_info verbs;

	if (!handle || dlinfo(handle, RTLD_DI_LINKMAP, &map) ||
	    !dladdr(dlsym(RTLD_DEFAULT, "ibv_open_device"), &verbs)) {
		printf("%s\n", dlerror());
		return false;
	}
	return strrchr(map->l_name, '/') - map->l_name == strrchr(verbs.dli_fname, '/') - verbs.dli_fname &&
	       strncmp(map->l_name, verbs.dli_fname, (size_t)(strrchr(map->l_name, '/') - map->l_name)) == 0;
}

int main(int argc, char **argv)
{
	struct ibv_context *c;

	if (argc != 3)
		return 2;
	device = argv[1];
	c = open_named(device);
	test_node(c);
	test_port(c);
	test_tables(c, argv[2]);
	CHECK(dlopen("libibverbs.so", RTLD_NOW | RTLD_NOLOAD), "libibverbs.so is the library that is loaded");
	CHECK(access("/usr/include/rdma/rdma_cma.h", F_OK) || is_beside("librdmacm.so"),
	      "librdmacm.so is the one beside it");
	CHECK(ibv_close_device(c) == 0, "it closes");
	return failed;
}
