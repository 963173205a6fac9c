/* SPDX-License-Identifier: BSD-2-Clause */
/* In the place of libfabric.so.1 for fabric_newer: a libfabric of the version that FABRIC_VERSION names (MAJOR.MINOR).
 * It has two fi_dupinfo(). The older one, of the time of the headers, ends the program. The newer one allocates a
 * longer structure. */
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>
#include <stdio.h>
#include <stdlib.h>

struct longer { struct fi_domain_attr attr; uint64_t later[8]; };

#define OLD(name) name "@FABRIC_1.3"
#define NEW(name) name "@@FABRIC_1.99"
__asm__(".symver dupinfo_old, " OLD("fi_dupinfo"));
__asm__(".symver dupinfo_new, " NEW("fi_dupinfo"));
__asm__(".symver freeinfo_old, " OLD("fi_freeinfo"));
__asm__(".symver freeinfo_new, " NEW("fi_freeinfo"));

static void end(const char *name)
{
	printf("wrong: %s() of the older structures was called\n", name);
	exit(1);
}

struct fi_info *dupinfo_old(const struct fi_info *info)
{
	(void)info;
	end("fi_dupinfo");
	return NULL;
}

void freeinfo_old(struct fi_info *info)
{
	(void)info;
	end("fi_freeinfo");
}

struct fi_info *dupinfo_new(const struct fi_info *info)
{
	struct fi_info *i = calloc(1, sizeof *i);
	struct longer *longer = calloc(1, sizeof *longer);

	if (info || !i || !longer)
		abort();
	i->tx_attr = calloc(1, sizeof *i->tx_attr);
	i->rx_attr = calloc(1, sizeof *i->rx_attr);
	i->ep_attr = calloc(1, sizeof *i->ep_attr);
	i->domain_attr = &longer->attr;
	i->fabric_attr = calloc(1, sizeof *i->fabric_attr);
	return i;
}

void freeinfo_new(struct fi_info *info)
{
	(void)info;              /* the program ends soon */
}

uint32_t fi_version(void)
{
	unsigned major = 0, minor = 0;

	sscanf(getenv("FABRIC_VERSION"), "%u.%u", &major, &minor);
	return FI_VERSION(major, minor);
}

const char *fi_strerror(int errnum)
{
	(void)errnum;
	return "";
}

int fi_log_enabled(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys)
{
	(void)prov, (void)level, (void)subsys;
	return 0;
}

void fi_log(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys, const char *func,
	    int line, const char *fmt, ...)
{
	(void)prov, (void)level, (void)subsys, (void)func, (void)line, (void)fmt;
}

int fi_param_define(const struct fi_provider *prov, const char *name, enum fi_param_type type, const char *help, ...)
{
	(void)prov, (void)name, (void)type, (void)help;
	return 0;
}

int fi_param_get(struct fi_provider *prov, const char *name, void *value)
{
	(void)prov, (void)name, (void)value;
	return -FI_ENODATA;
}
