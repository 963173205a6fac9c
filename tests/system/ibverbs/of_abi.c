/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The objects of libibverbs.so.1 without traffic: their fields, their limits, and the results of invalid arguments.
 * usage: of_abi                 the checks
 *        of_abi nothing         start and end, to measure these
 *        of_abi rates LIBRARY   the rates of that libibverbs
 *        of_abi personality     the devices' own description
 *        of_abi private NAME... each of these functions returns and does not crash
 */
#include "tests/system/ibverbs/of_kit.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <net/if.h>
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* ---- Devices ---- */

static bool is_zero(const void *p, size_t n)
{
	const char *b = p;

	while (n && !*b++)
		n--;
	return n == 0;
}

static void test_list(void)
{
	int n = -1, lo = -1;
	struct ibv_device **list = ibv_get_device_list(&n);
	struct ibv_context *c;

	CHECK(list && n > 0 && !list[n], "a list of devices ends in NULL");
	for (int i = 0; i < n; i++)
		if (strcmp(list[i]->name, "diw_lo") == 0)
			lo = i;
	if (!CHECK(lo >= 0, "diw_lo is among them"))
		exit(1);
	CHECK(ibv_get_device_index(list[lo]) == (int)if_nametoindex("lo"), "its index is the interface's");
	CHECK(ibv_get_device_guid(list[lo]) != 0, "it has a GUID");
	CHECK(ibv_get_device_guid(list[lo]) == ibv_get_device_guid(list[lo]), "the same each time");
	CHECK(is_zero(list[lo] + 1, 1024), "providers who look behind a device see zeros");
	c = ibv_open_device(list[lo]);
	ibv_free_device_list(list);
	CHECK(c && strcmp(ibv_get_device_name(c->device), "diw_lo") == 0,
	      "a device outlives its list while it is open");
	CHECK(c->abi_compat == __VERBS_ABI_IS_EXTENDED && verbs_get_ctx(c)->sz == sizeof(struct verbs_context),
	      "the context is an extended one");
	CHECK(c->async_fd >= 0 && c->num_comp_vectors >= 1, "it has a descriptor of events and a completion vector");
	CHECK(ibv_close_device(c) == 0, "it closes");
	ibv_free_device_list(NULL);
	CHECK(true, "no list can be freed");
}

static void test_device(struct ibv_context *c)
{
	struct ibv_query_device_ex_input in = { .comp_mask = 1 };
	struct ibv_device_attr_ex ex;
	struct ibv_device_attr a;
	struct { struct ibv_device_attr a; uint64_t guard[4]; } small;
	struct ibv_values_ex v = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };

	CHECK(ibv_query_device(c, &a) == 0 && a.max_sge >= 2 && a.max_qp > 0 && a.phys_port_cnt == 1 &&
	      a.atomic_cap == IBV_ATOMIC_HCA && a.vendor_id, "a device's attributes");
	CHECK(ibv_query_device_ex(c, NULL, &ex) == 0 && memcmp(&ex.orig_attr, &a, sizeof a) == 0 &&
	      ex.phys_port_cnt_ex == 1 && ex.hca_core_clock == 1000000 && ex.completion_timestamp_mask == UINT64_MAX,
	      "the extended ones");
	memset(&small, 0xaa, sizeof small);
	CHECK(verbs_get_ctx(c)->query_device_ex(c, NULL, (void *)&small, sizeof small.a) == 0 &&
	      small.guard[0] == 0xaaaaaaaaaaaaaaaa, "a program that knows fewer gets fewer");
	CHECK(verbs_get_ctx(c)->query_device_ex(c, &in, &ex, sizeof ex) == EINVAL, "an unknown question: EINVAL");
	CHECK(ibv_query_rt_values_ex(c, &v) == 0 && v.raw_clock.tv_sec > 0, "its clock");
	v.comp_mask = 0xff;
	CHECK(ibv_query_rt_values_ex(c, &v) == EINVAL, "unknown values: EINVAL");
}

static void test_port(struct ibv_context *c)
{
	int (*old)(struct ibv_context *, uint8_t, void *) =
		(int (*)(struct ibv_context *, uint8_t, void *))dlvsym(RTLD_DEFAULT, "ibv_query_port", "IBVERBS_1.1");
	uint8_t before[sizeof(struct ibv_port_attr)];
	struct ibv_port_attr p;
	__be16 pkey;

	CHECK(ibv_query_port(c, 1, &p) == 0 && p.state == IBV_PORT_ACTIVE && p.link_layer == IBV_LINK_LAYER_ETHERNET &&
	      p.gid_tbl_len > 0 && p.pkey_tbl_len == 1 && p.active_mtu == IBV_MTU_4096, "port 1");
	CHECK(ibv_query_port(c, 0, &p) == EINVAL && ibv_query_port(c, 2, &p) == EINVAL, "no other: EINVAL");
	memset(before, 0xaa, sizeof before);
	CHECK(old && old(c, 1, before) == 0 && before[offsetof(struct ibv_port_attr, port_cap_flags2)] == 0xaa &&
	      before[offsetof(struct ibv_port_attr, link_layer)] == IBV_LINK_LAYER_ETHERNET,
	      "ibv_query_port of old programs writes no more than they know");
	CHECK(ibv_query_pkey(c, 1, 0, &pkey) == 0 && pkey == htons(0xffff), "the default partition");
	CHECK(ibv_query_pkey(c, 1, 1, &pkey) == -1 && ibv_query_pkey(c, 2, 0, &pkey) == -1, "no other");
	CHECK(ibv_get_pkey_index(c, 1, htons(0xffff)) == 0 && ibv_get_pkey_index(c, 1, htons(1)) == -1, "its index");
}

static void test_gids(struct ibv_context *c)
{
	static const uint8_t lo4[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 };
	struct ibv_gid_entry e, table[64];
	struct ibv_port_attr p;
	union ibv_gid gid;
	ssize_t n;

	ibv_query_port(c, 1, &p);
	CHECK(ibv_query_gid(c, 1, 0, &gid) == 0 && memcmp(gid.raw, lo4, 16) == 0, "GID 0 of lo is 127.0.0.1");
	CHECK(ibv_query_gid(c, 1, -1, &gid) == -1 && ibv_query_gid(c, 1, p.gid_tbl_len, &gid) == -1 &&
	      ibv_query_gid(c, 2, 0, &gid) == -1, "outside the table there is none");
	CHECK(ibv_query_gid_ex(c, 1, 0, &e, 0) == 0 && memcmp(e.gid.raw, lo4, 16) == 0 && e.port_num == 1 &&
	      e.ndev_ifindex == if_nametoindex("lo") && e.gid_type == IBV_GID_TYPE_ROCE_V2, "its entry, RoCE v2");
	CHECK(ibv_query_gid_ex(c, 1, (uint32_t)p.gid_tbl_len - 1, &e, 0) == ENODATA, "an empty place: ENODATA");
	CHECK(ibv_query_gid_ex(c, 1, (uint32_t)p.gid_tbl_len, &e, 0) == EINVAL &&
	      ibv_query_gid_ex(c, 2, 0, &e, 0) == EINVAL,
	      "outside: EINVAL");
	CHECK(ibv_query_gid_ex(c, 1, 0, &e, 1) == EOPNOTSUPP, "unknown flags: EOPNOTSUPP");
	n = ibv_query_gid_table(c, table, 64, 0);
	CHECK(n >= 4 && memcmp(table[3].gid.raw, lo4, 16) == 0 && table[3].gid_index == 3,
	      "GID 3 of lo is GID 0 once more");
	CHECK(n >= 1 && memcmp(table[0].gid.raw, lo4, 16) == 0, "the table");
	for (ssize_t i = 0; i < n; i++)
		if (ibv_query_gid(c, 1, (int)i, &gid) || memcmp(gid.raw, table[i].gid.raw, 16) != 0)
			n = -1;
	CHECK(n >= 1, "says the same as one by one");
	CHECK(ibv_query_gid_table(c, table, 0, 0) == -EINVAL, "no room for it: EINVAL");
}

/* ---- Domains and memory ---- */

static void test_domains(struct ibv_context *c, struct ibv_context *other)
{
	struct ibv_parent_domain_init_attr a = { 0 };
	struct ibv_td_init_attr ta = { 0 };
	struct ibv_pd *pd = ibv_alloc_pd(c), *theirs = ibv_alloc_pd(other), *parent;
	struct ibv_td *td = ibv_alloc_td(c, &ta);
	static char buf[64];
	struct ibv_mr *mr;

	CHECK(pd && pd->context == c && td, "domains");
	CHECK(REFUSED(ibv_alloc_parent_domain(c, &a), EINVAL), "a parent domain of nothing: EINVAL");
	a.pd = theirs;
	CHECK(REFUSED(ibv_alloc_parent_domain(c, &a), EINVAL), "... of another context's: EINVAL");
	a = (struct ibv_parent_domain_init_attr){ .pd = pd, .td = td, .comp_mask = 8 };
	CHECK(REFUSED(ibv_alloc_parent_domain(c, &a), EOPNOTSUPP), "... with an unknown attribute: EOPNOTSUPP");
	a.comp_mask = 0;
	parent = ibv_alloc_parent_domain(c, &a);
	CHECK(parent && ibv_dealloc_pd(pd) == EBUSY && ibv_dealloc_td(td) == EBUSY, "it holds what it is made of");
	mr = ibv_reg_mr(parent, buf, sizeof buf, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr && mr->pd == parent && ibv_dealloc_pd(parent) == EBUSY, "a region holds it");
	CHECK(ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(parent) == 0, "freed from above");
	CHECK(ibv_dealloc_td(td) == 0 && ibv_dealloc_pd(pd) == 0 && ibv_dealloc_pd(theirs) == 0, "... to below");
	ta.comp_mask = 1;
	CHECK(REFUSED(ibv_alloc_td(c, &ta), EINVAL), "an unknown attribute of a thread domain: EINVAL");
}

static void test_regions(struct ibv_context *c)
{
	const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_HUGETLB;
	struct ibv_pd *pd = ibv_alloc_pd(c);
	static char buf[8192];
	char *gone = mmap(NULL, 65536, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;

	munmap(gone + 4096, 4096);
	mr = ibv_reg_mr(pd, buf, sizeof buf, all);
	CHECK(mr && mr->addr == buf && mr->length == sizeof buf && mr->pd == pd && mr->context == c && mr->lkey &&
	      mr->rkey,
	      "a region");
	errno = 0;
	CHECK(ibv_dealloc_pd(pd) == EBUSY && errno == EBUSY, "its domain stays: EBUSY");
	CHECK(ibv_dereg_mr(mr) == 0, "deregistered");
	mr = ibv_reg_mr_iova2(pd, buf, sizeof buf, 0, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING);
	CHECK(mr && ibv_dereg_mr(mr) == 0, "relaxed ordering is ignored");
	mr = ibv_reg_mr_iova(pd, buf, sizeof buf, 0x123456789000, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr && ibv_dereg_mr(mr) == 0, "an address of its own");
	CHECK(REFUSED(ibv_reg_mr(pd, buf, sizeof buf, IBV_ACCESS_REMOTE_WRITE), EINVAL),
	      "remote write without local: EINVAL");
	CHECK(REFUSED(ibv_reg_mr(pd, buf, sizeof buf, IBV_ACCESS_REMOTE_ATOMIC), EINVAL),
	      "atomic without local: EINVAL");
	CHECK(REFUSED(ibv_reg_mr(pd, buf, sizeof buf, 1 << 19), EINVAL), "unknown access: EINVAL");
	CHECK(REFUSED(ibv_reg_mr(pd, buf, 0, 0), EINVAL), "no bytes: EINVAL");
	CHECK(REFUSED(ibv_reg_mr(pd, buf, (size_t)1 << 60, 0), EINVAL), "more than max_mr_size: EINVAL");
	CHECK(REFUSED(ibv_reg_mr(pd, NULL, 4096, 0), EFAULT), "no memory: EFAULT");
	CHECK(REFUSED(ibv_reg_mr(pd, gone, 65536, 0), EFAULT), "with a hole: EFAULT");
	CHECK(REFUSED(ibv_reg_mr(pd, buf, 64, IBV_ACCESS_ON_DEMAND), EOPNOTSUPP), "paging on demand: EOPNOTSUPP");
	CHECK(REFUSED(ibv_reg_dmabuf_mr(pd, 0, 64, 0, 0, 0), EOPNOTSUPP), "of a dma-buf: EOPNOTSUPP");
	munmap(gone, 65536);
	CHECK(ibv_dealloc_pd(pd) == 0, "nothing of it is left");
}

static void test_rereg(struct ibv_context *c, struct ibv_context *other)
{
	struct ibv_pd *pd = ibv_alloc_pd(c), *pd2 = ibv_alloc_pd(c), *theirs = ibv_alloc_pd(other);
	static char a[4096], b[8192];
	struct ibv_mr *mr = ibv_reg_mr(pd, a, sizeof a, IBV_ACCESS_LOCAL_WRITE);
	uint32_t key = mr->rkey;

	CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, b, sizeof b, 0) == 0 && mr->addr == b &&
	      mr->length == sizeof b && mr->rkey == key && mr->pd == pd,
	      "registered anew elsewhere, with the same key");
	CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, pd2, NULL, 0, 0) == 0 && mr->pd == pd2 && mr->addr == b,
	      "in another domain");
	CHECK(ibv_dealloc_pd(pd) == 0 && ibv_dealloc_pd(pd2) == EBUSY, "which it holds now");
	CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE) ==
	      IBV_REREG_MR_ERR_INPUT && errno == EINVAL, "with access that makes no sense: not at all");
	CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, theirs, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT && mr->pd == pd2,
	      "in another context's domain: not at all");
	CHECK(ibv_rereg_mr(mr, 0, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT &&
	      ibv_rereg_mr(mr, 64, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT, "for no reason: not at all");
	CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 4096, 0) == IBV_REREG_MR_ERR_INPUT,
	      "without memory: not at all");
	CHECK(ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(pd2) == 0 && ibv_dealloc_pd(theirs) == 0, "and gone");
}

static void test_windows(struct ibv_context *c)
{
	struct ibv_pd *pd = ibv_alloc_pd(c);
	struct ibv_mw *one = ibv_alloc_mw(pd, IBV_MW_TYPE_1), *two = ibv_alloc_mw(pd, IBV_MW_TYPE_2);

	CHECK(one && two && one->type == IBV_MW_TYPE_1 && two->type == IBV_MW_TYPE_2 && one->rkey != two->rkey,
	      "windows");
	CHECK(REFUSED(ibv_alloc_mw(pd, 3), EINVAL), "of no such type: EINVAL");
	CHECK(ibv_dealloc_pd(pd) == EBUSY, "they hold their domain");
	CHECK(ibv_dealloc_mw(one) == 0 && ibv_dealloc_mw(two) == 0 && ibv_dealloc_pd(pd) == 0, "freed");
}

/* ---- Completion queues and channels ---- */

static void test_queues(struct ibv_context *c, struct ibv_context *other)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(c), *theirs = ibv_create_comp_channel(other);
	struct ibv_device_attr a;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	int ctx;

	ibv_query_device(c, &a);
	cq = ibv_create_cq(c, 10, &ctx, ch, 0);
	CHECK(cq && cq->cqe >= 10 && cq->cq_context == &ctx && cq->channel == ch && cq->context == c,
	      "a completion queue");
	CHECK(ibv_poll_cq(cq, 1, &wc) == 0, "is empty");
	CHECK(ibv_poll_cq(cq, -1, &wc) < 0, "fewer than none are not taken");
	CHECK(ibv_destroy_comp_channel(ch) == EBUSY, "its channel stays: EBUSY");
	CHECK(ibv_resize_cq(cq, 1000) == 0 && cq->cqe >= 1000, "it grows");
	CHECK(ibv_resize_cq(cq, 0) == EINVAL && ibv_resize_cq(cq, a.max_cqe + 1) == EINVAL, "to what there is: EINVAL");
	CHECK(REFUSED(ibv_create_cq(c, 0, NULL, NULL, 0), EINVAL) &&
	      REFUSED(ibv_create_cq(c, -1, NULL, NULL, 0), EINVAL),
	      "of no entries: EINVAL");
	CHECK(REFUSED(ibv_create_cq(c, a.max_cqe + 1, NULL, NULL, 0), EINVAL), "of too many: EINVAL");
	CHECK(REFUSED(ibv_create_cq(c, 1, NULL, NULL, c->num_comp_vectors), EINVAL) &&
	      REFUSED(ibv_create_cq(c, 1, NULL, NULL, -1), EINVAL), "on a vector that is not: EINVAL");
	CHECK(REFUSED(ibv_create_cq(c, 1, NULL, theirs, 0), EINVAL), "with another context's channel: EINVAL");
	CHECK(ibv_close_device(c) == 0 && ibv_poll_cq(cq, 1, &wc) == 0, "a context that closes leaves what is in use");
	CHECK(ibv_destroy_cq(cq) == 0 && ibv_destroy_comp_channel(ch) == 0 && ibv_destroy_comp_channel(theirs) == 0,
	      "destroyed");
}

static void test_extended_queue(struct ibv_context *c)
{
	struct ibv_cq_init_attr_ex a = { .cqe = 10, .wc_flags = IBV_WC_STANDARD_FLAGS };
	struct ibv_poll_cq_attr p = { 0 };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(c, &a);

	CHECK(cq && ibv_start_poll(cq, &p) == ENOENT, "an extended one, empty: ENOENT");
	p.comp_mask = 1;
	CHECK(ibv_start_poll(cq, &p) == EINVAL, "an unknown attribute: EINVAL");
	CHECK(cq->read_slid && cq->read_completion_ts && cq->read_completion_wallclock_ns, "no call of it is missing");
	CHECK(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0, "destroyed");
	a.wc_flags = IBV_WC_EX_WITH_TM_INFO;
	CHECK(REFUSED(ibv_create_cq_ex(c, &a), EOPNOTSUPP), "with tag matching: EOPNOTSUPP");
	a.wc_flags = 1ull << 40;
	CHECK(REFUSED(ibv_create_cq_ex(c, &a), EINVAL), "with unknown fields: EINVAL");
	a = (struct ibv_cq_init_attr_ex){ .cqe = 10, .comp_mask = 64 };
	CHECK(REFUSED(ibv_create_cq_ex(c, &a), EOPNOTSUPP), "with an unknown attribute: EOPNOTSUPP");
	a = (struct ibv_cq_init_attr_ex){ .cqe = 10, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD };
	CHECK(REFUSED(ibv_create_cq_ex(c, &a), EINVAL), "with no domain: EINVAL");
}

/* ---- Address handles, and features that do not exist ---- */

static void test_handles(struct ibv_context *c)
{
	struct ibv_pd *pd = ibv_alloc_pd(c);
	struct ibv_ah_attr a = { .is_global = 1, .port_num = 1 };
	struct ibv_ah *ah;

	CHECK(REFUSED(ibv_create_ah(pd, &a), EINVAL), "an address handle to nowhere: EINVAL");
	ibv_query_gid(c, 1, 0, &a.grh.dgid);
	ah = ibv_create_ah(pd, &a);
	CHECK(ah && ah->pd == pd && ah->context == c && ibv_dealloc_pd(pd) == EBUSY, "to a GID; it holds its domain");
	CHECK(ibv_destroy_ah(ah) == 0, "destroyed");
	a.grh.sgid_index = 99;
	CHECK(REFUSED(ibv_create_ah(pd, &a), EINVAL), "from a GID that is not: EINVAL");
	a.grh.sgid_index = 0;
	a.port_num = 2;
	CHECK(REFUSED(ibv_create_ah(pd, &a), EINVAL), "from another port: EINVAL");
	CHECK(ibv_dealloc_pd(pd) == 0, "nothing of it is left");
}

static void test_not_there(struct ibv_context *c)
{
	struct ibv_pd *pd = ibv_alloc_pd(c);
	struct ibv_xrcd_init_attr xa = { 0 };
	struct ibv_alloc_dm_attr da = { .length = 64 };

	CHECK(REFUSED(ibv_open_xrcd(c, &xa), EOPNOTSUPP), "XRC: EOPNOTSUPP");
	CHECK(REFUSED(ibv_alloc_dm(c, &da), EOPNOTSUPP), "device memory: EOPNOTSUPP");
	CHECK(REFUSED(ibv_alloc_null_mr(pd), EOPNOTSUPP), "the null region: EOPNOTSUPP");
	CHECK(ibv_advise_mr(pd, 0, 0, NULL, 0) == EOPNOTSUPP, "advice: EOPNOTSUPP");
	CHECK(REFUSED(ibv_create_counters(c, NULL), EOPNOTSUPP), "counters: EOPNOTSUPP");
	CHECK(REFUSED(ibv_import_device(0), EOPNOTSUPP) && REFUSED(ibv_import_pd(c, 0), EOPNOTSUPP) &&
	      REFUSED(ibv_import_mr(pd, 0), EOPNOTSUPP) && REFUSED(ibv_import_dm(c, 0), EOPNOTSUPP),
	      "imports: EOPNOTSUPP");
	CHECK(ibv_fork_init() == 0 && ibv_is_fork_initialized() == IBV_FORK_UNNEEDED, "fork needs no support");
	CHECK(strcmp(ibv_wc_status_str(IBV_WC_SUCCESS), "success") == 0 && ibv_wc_status_str((enum ibv_wc_status)999) &&
	      ibv_event_type_str((enum ibv_event_type)-5) && ibv_node_type_str((enum ibv_node_type)-1) &&
	      ibv_port_state_str((enum ibv_port_state)77), "every number has a name");
	CHECK(ibv_dealloc_pd(pd) == 0, "nothing is left");
}

/* ---- The other modes ---- */

static int compare_rates(const char *path)
{
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	int (*mult)(enum ibv_rate), (*mbps)(enum ibv_rate);
	enum ibv_rate (*of_mult)(int), (*of_mbps)(int);
	int differ = 0;

	if (!lib || !(mult = (int (*)(enum ibv_rate))dlsym(lib, "ibv_rate_to_mult")) || mult == ibv_rate_to_mult ||
	    !(mbps = (int (*)(enum ibv_rate))dlsym(lib, "ibv_rate_to_mbps")) ||
	    !(of_mult = (enum ibv_rate (*)(int))dlsym(lib, "mult_to_ibv_rate")) ||
	    !(of_mbps = (enum ibv_rate (*)(int))dlsym(lib, "mbps_to_ibv_rate"))) {
		printf("not ok - %s is another libibverbs (%s)\n", path, lib ? "no" : dlerror());
		return 1;
	}
	for (int i = 0; i < 1300000; i++) {
		bool same = i > 64 || (mult((enum ibv_rate)i) == ibv_rate_to_mult((enum ibv_rate)i) &&
				       mbps((enum ibv_rate)i) == ibv_rate_to_mbps((enum ibv_rate)i));

		if (!same || of_mult(i) != mult_to_ibv_rate(i) || of_mbps(i) != mbps_to_ibv_rate(i)) {
			printf("%d: %d %d %d %d, not %d %d %d %d\n", i, ibv_rate_to_mult((enum ibv_rate)i),
			       ibv_rate_to_mbps((enum ibv_rate)i), mult_to_ibv_rate(i), mbps_to_ibv_rate(i),
			       mult((enum ibv_rate)i), mbps((enum ibv_rate)i), of_mult(i), of_mbps(i));
			differ++;
		}
	}
	CHECK(differ == 0, "rates are the same as the system's");
	return failed;
}

/* Called as providers do, with any arguments. */
static int call_private(int n, char **names)
{
	void *lib = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);
	int answers = 0;

	for (int i = 0; i < n; i++) {
		int (*fn)(void *, void *, void *, void *) =
			(int (*)(void *, void *, void *, void *))dlsym(lib, names[i]);

		if (!fn)
			printf("no %s\n", names[i]);
		else if (fn(NULL, NULL, NULL, NULL) == EOPNOTSUPP || strncmp(names[i], "ibv_cmd_", 8) != 0)
			answers++;
		else
			printf("%s does not say EOPNOTSUPP\n", names[i]);
	}
	CHECK(answers == n, "private calls fail cleanly");
	return failed;
}

static int tell_personality(void)
{
	struct ibv_context *c = open_lo();
	struct ibv_gid_entry e;

	ibv_query_gid_ex(c, 1, 0, &e, 0);
	printf("%d %d %u\n", c->device->node_type, c->device->transport_type, e.gid_type);
	return ibv_close_device(c);
}

int main(int argc, char **argv)
{
	struct ibv_context *c, *other;

	if (argc > 1 && strcmp(argv[1], "nothing") == 0)
		return ibv_fork_init();
	if (argc > 2 && strcmp(argv[1], "rates") == 0)
		return compare_rates(argv[2]);
	if (argc > 2 && strcmp(argv[1], "private") == 0)
		return call_private(argc - 2, argv + 2);
	if (argc > 1)
		return tell_personality();
	test_list();
	c = open_lo();
	other = open_lo();
	CHECK(c->device != other->device && ibv_get_device_guid(c->device) == ibv_get_device_guid(other->device),
	      "the same device opens twice");
	test_device(c);
	test_port(c);
	test_gids(c);
	test_domains(c, other);
	test_regions(c);
	test_rereg(c, other);
	test_windows(c);
	test_queues(c, other);
	test_extended_queue(c);
	test_handles(c);
	test_not_there(c);
	CHECK(ibv_close_device(c) == 0 && ibv_close_device(other) == 0, "nothing holds the contexts");
	return failed;
}
