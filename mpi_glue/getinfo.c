/* SPDX-License-Identifier: BSD-2-Clause */
/* The provider: settings, fi_getinfo(), and the fabric. A fabric is all devices; a domain is one device. */
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/log.h"
#include "mpi_glue/port.h"

#define INFO_DEVS 64
#define INFO_CAPS_TX (FI_MSG | FI_TAGGED | FI_SEND | FI_RMA | FI_ATOMIC | FI_READ | FI_WRITE)
#define INFO_CAPS_RX \
	(FI_MSG | FI_TAGGED | FI_RECV | FI_DIRECTED_RECV | FI_MULTI_RECV | FI_SOURCE | FI_RMA | FI_ATOMIC | \
	 FI_REMOTE_READ | FI_REMOTE_WRITE)
#define INFO_CAPS_RMA (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define INFO_CAPS_DOMAIN (FI_LOCAL_COMM | FI_REMOTE_COMM)
#define INFO_CAPS (INFO_CAPS_TX | INFO_CAPS_RX | INFO_CAPS_DOMAIN)
/* Capabilities that an application gets without asking. */
#define INFO_CAPS_SECONDARY (FI_MULTI_RECV | FI_SOURCE | FI_LOCAL_COMM | FI_REMOTE_COMM)
/* Requests to a peer take effect in order, except that a Read may return data of a later Write. */
#define INFO_ORDER_RMA \
	(FI_ORDER_SAS | FI_ORDER_SAW | FI_ORDER_WAS | FI_ORDER_RAS | FI_ORDER_RMA_RAR | FI_ORDER_RMA_RAW | \
	 FI_ORDER_RMA_WAW)
#define INFO_ORDER_ATOMIC (FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW)
/* For Writes and atomic operations together: a Write may overtake an atomic operation, which is a message that the
 * target executes. */
#define INFO_ORDER_ANY (FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_WAW)

/* The newest version of the API, by the major number, whose structures begin as those of the headers. */
#define INFO_API_MAJOR 2u

static struct glue_settings settings;

/* The running libfabric may be newer than the headers, and its structures may be longer. Its newest fi_dupinfo()
 * allocates them. The link editor would bind the fi_dupinfo() of the headers' version. */
static struct fi_info *(*info_dup)(const struct fi_info *);
static void (*info_free)(struct fi_info *);

const struct glue_settings *diw_glue_settings(void)
{
	return &settings;
}

void diw_glue_fabric_use(struct fid_fabric *fabric)
{
	__atomic_add_fetch(&((struct glue_fabric *)fabric)->users, 1, __ATOMIC_RELAXED);
}

void diw_glue_fabric_unuse(struct fid_fabric *fabric)
{
	__atomic_sub_fetch(&((struct glue_fabric *)fabric)->users, 1, __ATOMIC_RELEASE);
}

static int info_fabric_close(struct fid *fid)
{
	if (__atomic_load_n(&((struct glue_fabric *)fid)->users, __ATOMIC_ACQUIRE))
		return -FI_EBUSY;
	free(fid);
	return 0;
}

static struct fi_ops info_fabric_fi_ops = {
	.size = sizeof(struct fi_ops), .close = info_fabric_close, .bind = diw_glue_no_bind,
	.control = diw_glue_no_control, .ops_open = diw_glue_no_ops,
};

static int info_no_passive_ep(struct fid_fabric *f, struct fi_info *i, struct fid_pep **p, void *ctx)
{
	(void)f, (void)i, (void)p, (void)ctx;
	return -FI_ENOSYS;
}

static int info_no_wait_open(struct fid_fabric *f, struct fi_wait_attr *a, struct fid_wait **w)
{
	(void)f, (void)a, (void)w;
	return -FI_ENOSYS;
}

/* Whether the application may sleep on the descriptors of these queues: not while a queue holds a completion. */
static int info_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
	int rc = 0;

	(void)fabric;
	for (int i = 0; i < count && rc == 0; i++)
		if (fids[i]->fclass == FI_CLASS_CQ)
			rc = diw_glue_cq_trywait((struct glue_cq *)fids[i]);
	return rc;
}

static struct fi_ops_fabric info_fabric_ops = {
	.size = sizeof(struct fi_ops_fabric), .domain = diw_glue_domain_open, .passive_ep = info_no_passive_ep,
	.eq_open = diw_glue_eq_open, .wait_open = info_no_wait_open, .trywait = info_trywait,
};

static int info_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *ctx)
{
	struct glue_fabric *f = calloc(1, sizeof *f);

	if (!f)
		return -FI_ENOMEM;
	f->fid = (struct fid_fabric){ .fid = { FI_CLASS_FABRIC, ctx, &info_fabric_fi_ops }, .ops = &info_fabric_ops,
				      .api_version = attr->api_version };
	*fabric = &f->fid;
	return 0;
}

/* The order of operations between endpoints with these capabilities. */
static uint64_t info_order(uint64_t caps)
{
	return INFO_ORDER_RMA | (caps & FI_ATOMIC ? INFO_ORDER_ATOMIC : INFO_ORDER_ANY);
}

/* Octets up to which a write keeps behind an earlier read: only an atomic operation does. */
static uint64_t info_war_size(uint64_t caps)
{
	return caps & FI_ATOMIC ? settings.eager : 0;
}

static bool tx_exceeds(const struct fi_tx_attr *a)
{
	return a->size > GLUE_TX_SIZE || a->inject_size > settings.eager || a->iov_limit > GLUE_IOV ||
	       a->rma_iov_limit > GLUE_IOV;
}

static bool rx_exceeds(const struct fi_rx_attr *a)
{
	return a->size > GLUE_RX_SIZE || a->total_buffered_recv > settings.buffered || a->iov_limit > GLUE_IOV;
}

static bool ep_exceeds(const struct fi_ep_attr *a, uint64_t caps)
{
	return a->protocol_version > GLUE_VERSION || a->max_msg_size > GLUE_MSG_MAX || a->tx_ctx_cnt > 1 ||
	       a->rx_ctx_cnt > 1 || a->auth_key_size || a->max_order_raw_size > GLUE_MSG_MAX ||
	       a->max_order_waw_size > GLUE_MSG_MAX || a->max_order_war_size > info_war_size(caps);
}

static bool domain_exceeds(const struct fi_domain_attr *a)
{
	return a->cq_data_size > 8 || a->caps & ~INFO_CAPS_DOMAIN || a->auth_key_size || a->mr_iov_limit > 1 ||
	       a->max_err_data || a->max_ep_tx_ctx > 1 || a->max_ep_rx_ctx > 1 || a->max_ep_stx_ctx ||
	       a->max_ep_srx_ctx;
}

static bool addr_is_foreign(const struct sockaddr *sa)
{
	return sa && sa->sa_family != AF_INET && sa->sa_family != AF_INET6;
}

/* Whether the hints name an open fabric or domain of another provider, or a domain of another fabric. */
static bool opened_is_foreign(const struct fi_info *h)
{
	const struct fid_fabric *f = h->fabric_attr ? h->fabric_attr->fabric : NULL;
	const struct fid_domain *d = h->domain_attr ? h->domain_attr->domain : NULL;

	return (f && f->ops != &info_fabric_ops) ||
	       (d && (d->mr != &diw_glue_ops_mr || (f && &((const struct glue_domain *)d)->fabric->fid != f)));
}

/* The reason why the provider cannot satisfy the hints; NULL: it can. */
static const char *hints_refuse(const struct fi_info *h)
{
	const struct fi_domain_attr *d = h->domain_attr;
	uint64_t caps = h->caps ? h->caps : INFO_CAPS, order = info_order(caps);

	if (h->caps & ~INFO_CAPS)
		return "capabilities";
	if (h->addr_format != FI_FORMAT_UNSPEC && h->addr_format != FI_SOCKADDR && h->addr_format != FI_SOCKADDR_IN &&
	    h->addr_format != FI_SOCKADDR_IN6)
		return "address format";
	if (addr_is_foreign(h->src_addr) || addr_is_foreign(h->dest_addr))
		return "address family";
	if (h->ep_attr && ((h->ep_attr->type != FI_EP_UNSPEC && h->ep_attr->type != FI_EP_RDM) ||
			   ep_exceeds(h->ep_attr, caps) ||
			   (h->ep_attr->protocol != FI_PROTO_UNSPEC && h->ep_attr->protocol != FI_PROTO_IWARP_RDM)))
		return "endpoint attributes";
	if (h->tx_attr && (h->tx_attr->caps & ~INFO_CAPS || h->tx_attr->op_flags & ~GLUE_TX_FLAGS ||
			   h->tx_attr->msg_order & ~order || h->tx_attr->comp_order & ~FI_ORDER_NONE ||
			   tx_exceeds(h->tx_attr)))
		return "transmit attributes";
	if (h->rx_attr && (h->rx_attr->caps & ~INFO_CAPS || h->rx_attr->op_flags & ~GLUE_RX_FLAGS ||
			   h->rx_attr->msg_order & ~order || h->rx_attr->comp_order & ~FI_ORDER_NONE ||
			   rx_exceeds(h->rx_attr)))
		return "receive attributes";
	if (d && domain_exceeds(d))
		return "domain attributes";
	if (h->fabric_attr && h->fabric_attr->name && strcmp(h->fabric_attr->name, "diwarp") != 0)
		return "fabric";
	if (opened_is_foreign(h))
		return "open fabric or domain";
	return NULL;
}

/* Selects keys of the provider, which cannot be guessed, and addresses, if the application supports them. Before
 * version 1.5 the mode is BASIC, which stands for all three bits, or SCALABLE. */
static int info_mr_mode(uint32_t version, const struct fi_domain_attr *h)
{
	int mode = h ? h->mr_mode : FI_MR_UNSPEC;

	if (mode & FI_MR_BASIC || (mode == FI_MR_UNSPEC && FI_VERSION_LT(version, FI_VERSION(1, 5))))
		return FI_MR_BASIC;
	return mode & FI_MR_SCALABLE ? FI_MR_SCALABLE : mode & (FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY);
}

/* A thread only for those that ask for one. */
static enum fi_progress info_progress(const struct fi_domain_attr *h)
{
	return h && (h->data_progress == FI_PROGRESS_AUTO || h->control_progress == FI_PROGRESS_AUTO) ?
		FI_PROGRESS_AUTO : FI_PROGRESS_MANUAL;
}

static void info_fill_domain(struct fi_domain_attr *d, uint32_t version, const struct diw_dev_info *dev,
			     const struct fi_domain_attr *h)
{
	d->name = strdup(dev->name);
	d->threading = h && h->threading != FI_THREAD_UNSPEC ? h->threading : FI_THREAD_SAFE;
	d->control_progress = d->data_progress = info_progress(h);
	d->resource_mgmt = FI_RM_ENABLED;
	d->av_type = h ? h->av_type : FI_AV_UNSPEC;
	d->mr_mode = info_mr_mode(version, h);
	d->mr_key_size = d->mr_mode & (FI_MR_PROV_KEY | FI_MR_BASIC) ? 4 : 2;
	d->mr_iov_limit = 1;
	d->mr_cnt = dev->max_mr;
	d->cq_data_size = 8;
	d->cq_cnt = d->ep_cnt = d->cntr_cnt = dev->max_qp;
	d->tx_ctx_cnt = d->rx_ctx_cnt = dev->max_qp;
	d->max_ep_tx_ctx = d->max_ep_rx_ctx = 1;
	d->caps = INFO_CAPS_DOMAIN;
}

static void info_fill_ep(struct fi_info *i, const struct fi_info *h)
{
	uint64_t caps = h && h->caps ? h->caps | INFO_CAPS_SECONDARY : INFO_CAPS;

	/* all directions, unless one is named */
	if (caps & (FI_MSG | FI_TAGGED) && !(caps & (FI_SEND | FI_RECV)))
		caps |= FI_SEND | FI_RECV;
	if (caps & (FI_RMA | FI_ATOMIC) && !(caps & INFO_CAPS_RMA))
		caps |= INFO_CAPS_RMA;
	i->caps = caps;
	i->ep_attr->type = FI_EP_RDM;
	i->ep_attr->protocol = FI_PROTO_IWARP_RDM;
	i->ep_attr->protocol_version = GLUE_VERSION;
	i->ep_attr->max_msg_size = GLUE_MSG_MAX;
	i->ep_attr->mem_tag_format = h && h->ep_attr && h->ep_attr->mem_tag_format ? h->ep_attr->mem_tag_format : ~0ull;
	i->ep_attr->tx_ctx_cnt = i->ep_attr->rx_ctx_cnt = 1;
	i->ep_attr->max_order_raw_size = i->ep_attr->max_order_waw_size = GLUE_MSG_MAX;
	i->ep_attr->max_order_war_size = info_war_size(caps);
	*i->tx_attr = (struct fi_tx_attr){
		.caps = caps & INFO_CAPS_TX, .op_flags = h && h->tx_attr ? h->tx_attr->op_flags : 0,
		.msg_order = info_order(caps), .inject_size = settings.eager, .size = GLUE_TX_SIZE,
		.iov_limit = GLUE_IOV, .rma_iov_limit = GLUE_IOV,
	};
	*i->rx_attr = (struct fi_rx_attr){
		.caps = caps & INFO_CAPS_RX, .op_flags = h && h->rx_attr ? h->rx_attr->op_flags : 0,
		.msg_order = info_order(caps), .size = GLUE_RX_SIZE, .iov_limit = GLUE_IOV,
		.total_buffered_recv = settings.buffered,
	};
}

static int info_set_addr(void **addr, size_t *len, const struct diw_addr *a)
{
	struct sockaddr_storage ss;

	*len = diw_addr_to_sockaddr(a, &ss);
	*addr = calloc(1, *len);
	if (!*addr)
		return -FI_ENOMEM;
	memcpy(*addr, &ss, *len);
	return 0;
}

/* The query of fi_getinfo(): addresses of both ends, zero for any. */
struct info_query {
	uint32_t version;                /* of the API */
	const struct fi_info *hints;
	struct diw_addr src, dst;
	bool named;                      /* dst is a host */
};

static struct fi_info *info_of_dev(const struct diw_dev_info *dev, const struct diw_addr *local,
				   const struct info_query *q)
{
	struct fi_info *i = info_dup(NULL);
	struct diw_addr src = *local;

	if (!i)
		return NULL;
	src.port = q->src.port;
	info_fill_ep(i, q->hints);
	info_fill_domain(i->domain_attr, q->version, dev, q->hints ? q->hints->domain_attr : NULL);
	if (q->hints && q->hints->domain_attr)
		i->domain_attr->domain = q->hints->domain_attr->domain;
	if (q->hints && q->hints->fabric_attr)
		i->fabric_attr->fabric = q->hints->fabric_attr->fabric;
	i->fabric_attr->name = strdup("diwarp");
	i->fabric_attr->prov_version = diw_glue_provider.version;
	i->addr_format = diw_addr_is_v4(local) ? FI_SOCKADDR_IN : FI_SOCKADDR_IN6;
	if (info_set_addr(&i->src_addr, &i->src_addrlen, &src) < 0 ||
	    (q->named && info_set_addr(&i->dest_addr, &i->dest_addrlen, &q->dst) < 0)) {
		info_free(i);
		return NULL;
	}
	return i;
}

static bool info_addr_is_any(const struct diw_addr *a)
{
	return diw_addr_ip_is_zero(a) || (diw_addr_is_v4(a) && memcmp(a->ip + 12, "\0\0\0", 4) == 0);
}

static bool info_wants_family(const struct info_query *q, const struct diw_addr *a)
{
	uint32_t format = q->hints ? q->hints->addr_format : FI_FORMAT_UNSPEC;

	if (q->named && diw_addr_is_v4(&q->dst) != diw_addr_is_v4(a))
		return false;
	return format == FI_SOCKADDR_IN ? diw_addr_is_v4(a) : format == FI_SOCKADDR_IN6 ? !diw_addr_is_v4(a) : true;
}

/* Whether the hints name no open domain, or one of DEV. */
static bool info_wants_dev(const struct fi_info *h, const struct diw_dev_info *dev)
{
	const struct fid_domain *d = h && h->domain_attr ? h->domain_attr->domain : NULL;
	struct diw_dev_info opened;

	return !d || (diw_dev_query(((const struct glue_domain *)d)->dev, &opened) == 0 &&
		      strcmp(opened.name, dev->name) == 0);
}

/* The address of DEV that an endpoint binds to; NULL: the device does not match. */
static const struct diw_addr *info_local(const struct diw_dev_info *dev, const struct info_query *q)
{
	const char *name = q->hints && q->hints->domain_attr ? q->hints->domain_attr->name : NULL;

	if (!dev->up || (name && strcmp(name, dev->name) != 0) || !info_wants_dev(q->hints, dev) ||
	    (settings.iface && strcmp(settings.iface, dev->ifname) != 0))
		return NULL;
	for (int i = 0; i < dev->naddrs; i++) {
		const struct diw_addr *a = &dev->addrs[i];

		if (info_wants_family(q, a) &&
		    (info_addr_is_any(&q->src) || memcmp(a->ip, q->src.ip, sizeof a->ip) == 0))
			return a;
	}
	return NULL;
}

/* Asks the kernel for the source address of its route to q->dst. */
static void info_route(struct info_query *q)
{
	struct sockaddr_storage ss;
	socklen_t len = diw_addr_to_sockaddr(&q->dst, &ss);
	int fd = socket(ss.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return;
	if (connect(fd, (struct sockaddr *)&ss, len) == 0) {
		len = sizeof ss;
		if (getsockname(fd, (struct sockaddr *)&ss, &len) == 0) {
			diw_addr_from_sockaddr(&q->src, (struct sockaddr *)&ss);
			q->src.port = 0;
		}
	}
	close(fd);
}

static int info_query_init(struct info_query *q, uint32_t version, const char *node, const char *service,
			   uint64_t flags, const struct fi_info *hints)
{
	struct addrinfo *ai, ask = {
		.ai_socktype = SOCK_DGRAM,
		.ai_flags = (flags & FI_SOURCE ? AI_PASSIVE : 0) | (flags & FI_NUMERICHOST ? AI_NUMERICHOST : 0),
	};

	*q = (struct info_query){ .version = version, .hints = hints };
	if (hints && hints->src_addr)
		diw_addr_from_sockaddr(&q->src, hints->src_addr);
	if (hints && hints->dest_addr) {
		diw_addr_from_sockaddr(&q->dst, hints->dest_addr);
		q->named = true;
	}
	if (node || service) {
		ask.ai_family = hints && hints->addr_format == FI_SOCKADDR_IN6 ? AF_INET6 :
				!node || (hints && hints->addr_format == FI_SOCKADDR_IN) ? AF_INET : AF_UNSPEC;
		if (getaddrinfo(node, service, &ask, &ai) != 0)
			return -FI_ENODATA;
		if (flags & FI_SOURCE || !node) {
			diw_addr_from_sockaddr(&q->src, ai->ai_addr);
		} else {
			diw_addr_from_sockaddr(&q->dst, ai->ai_addr);
			q->named = true;
		}
		freeaddrinfo(ai);
	}
	if (q->named && info_addr_is_any(&q->src))
		info_route(q);
	return 0;
}

static int info_get(uint32_t version, const char *node, const char *service, uint64_t flags,
		    const struct fi_info *hints, struct fi_info **info)
{
	struct diw_dev_info *devs;
	struct info_query q;
	struct fi_info **end = info;
	const char *why = hints ? hints_refuse(hints) : NULL;
	int n, rc;

	*info = NULL;
	if (why) {
		FI_INFO(&diw_glue_provider, FI_LOG_CORE, "the hints ask for %s that the provider does not have\n", why);
		return -FI_ENODATA;
	}
	rc = info_query_init(&q, version, node, service, flags, hints);
	if (rc < 0)
		return rc;
	devs = calloc(INFO_DEVS, sizeof *devs);
	n = devs ? diw_dev_list(devs, INFO_DEVS) : 0;
	for (int i = 0; i < n && i < INFO_DEVS; i++) {
		const struct diw_addr *local = info_local(&devs[i], &q);

		if (local && (*end = info_of_dev(&devs[i], local, &q)))
			end = &(*end)->next;
	}
	free(devs);
	return *info ? 0 : -FI_ENODATA;
}

static void info_cleanup(void)
{
}

struct fi_provider diw_glue_provider = {
	.version = FI_VERSION(0, 1), .name = "diwarp", .getinfo = info_get, .fabric = info_fabric_open,
	.cleanup = info_cleanup,
};

/* Takes the version of the running libfabric: fi_getinfo() skips a provider of an older version than the application
 * requests. */
static bool info_bind_library(void)
{
	uint32_t library = fi_version();

	*(void **)&info_dup = dlsym(RTLD_DEFAULT, "fi_dupinfo");
	*(void **)&info_free = dlsym(RTLD_DEFAULT, "fi_freeinfo");
	diw_glue_provider.fi_version = FI_MAJOR(library) <= INFO_API_MAJOR ?
		library : FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
	return info_dup && info_free;
}

/* A setting that cannot be obeyed. The ranks of a job need the same settings, and the Q_Key protects them, so another
 * value in its place would be worse than no provider. */
static bool setting_refuse(const char *name, const char *why)
{
	diw_log(DIW_LOG_TELL, "the setting %s of the libfabric provider (FI_DIWARP_*): %s; the provider is not offered",
		name, why);
	return false;
}

static char *setting_text(const char *name, const char *help)
{
	char *text = NULL;

	fi_param_define(&diw_glue_provider, name, FI_PARAM_STRING, "%s", help);
	return fi_param_get_str(&diw_glue_provider, name, &text) == 0 ? text : NULL;
}

/* *V is the default, and stays so if the setting is not made. libfabric would take a text that is no number for 0. */
static bool setting_size(const char *name, const char *help, size_t *v, size_t min, size_t max)
{
	const char *text = setting_text(name, help);
	char why[80], *end;
	size_t n;

	if (!text)
		return true;
	errno = 0;
	n = strtoull(text, &end, 0);
	if (errno == 0 && end != text && !*end && !strchr(text, '-') && n >= min && n <= max) {
		*v = n;
		return true;
	}
	snprintf(why, sizeof why, "not a number from %zu to %zu", min, max);
	return setting_refuse(name, why);
}

static bool setting_mode(const char *mode)
{
	static const struct { const char *name; enum glue_mode mode; const struct glue_port_ops *port; } modes[] = {
		{ "write-record", GLUE_MODE_WRITE_RECORD, &diw_glue_port_rd },
		{ "read", GLUE_MODE_READ, &diw_glue_port_rd }, { "sendrecv", GLUE_MODE_SENDRECV, &diw_glue_port_rd },
		{ "rc", GLUE_MODE_WRITE_RECORD, &diw_glue_port_rc }, { "rc,read", GLUE_MODE_READ, &diw_glue_port_rc },
		{ "rc,sendrecv", GLUE_MODE_SENDRECV, &diw_glue_port_rc },
	};
	size_t i = 0, n = sizeof modes / sizeof *modes;

	while (mode && i < n && strcmp(mode, modes[i].name) != 0)
		i++;
	if (i == n)
		return setting_refuse("mode", "none of write-record, read, sendrecv, rc, rc,read, and rc,sendrecv");
	settings.port = modes[i].port;
	settings.mode = modes[i].mode;
	return true;
}

static bool settings_read(void)
{
	size_t qkey = 0x4d504931;
	bool good = setting_mode(setting_text("mode", "long messages by write-record (the default), read, or sendrecv: "
					      "by Sends alone; rc; rc,read; rc,sendrecv: over RC queue pairs"));

	settings.eager = 16384;
	settings.buffered = 256u << 20;
	good &= setting_size("eager", "octets of the longest message that is sent without a rendezvous",
			     &settings.eager, 512, 1u << 20);
	good &= setting_size("buffered", "octets that unexpected messages may hold, an endpoint", &settings.buffered,
			     1u << 20, (size_t)1 << 36);
	good &= setting_size("qkey", "the Q_Key of all endpoints of a job", &qkey, 0, UINT32_MAX);
	settings.qkey = (uint32_t)qkey;
	settings.iface = setting_text("iface", "the one network interface that is used");
	return good;
}

FI_EXT_INI
{
	return info_bind_library() && settings_read() ? &diw_glue_provider : NULL;
}
