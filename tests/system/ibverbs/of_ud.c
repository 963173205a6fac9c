/* SPDX-License-Identifier: BSD-2-Clause */
/* of_ud DEVICE GROUP: address handles of UD queue pairs and their effect on packets; groups and their receivers. */
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "of_pair.h"

#define GROUP_QPN 0xffffffu

static union ibv_gid group, other;
static struct side from, to[2];

static union ibv_gid gid_of(const char *host)
{
	struct in_addr v4;
	union ibv_gid g = { 0 };

	if (inet_pton(AF_INET, host, &v4) == 1) {
		g.raw[10] = g.raw[11] = 0xff;
		memcpy(g.raw + 12, &v4, 4);
	} else if (inet_pton(AF_INET6, host, g.raw) != 1) {
		printf("not ok - %s is an address\n", host);
		exit(1);
	}
	return g;
}

static bool is_v4(const union ibv_gid *g)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(g->raw, mapped, sizeof mapped) == 0;
}

/* The first GID of the device with that IP version; -1: none. */
static int index_of(bool v4)
{
	static const union ibv_gid none;
	union ibv_gid g;

	for (int i = 0; ibv_query_gid(dev, 1, i, &g) == 0 && memcmp(&g, &none, sizeof g); i++)
		if (is_v4(&g) == v4)
			return i;
	return -1;
}

static struct ibv_ah *handle(const union ibv_gid *dst, uint8_t tclass, uint8_t hops)
{
	struct ibv_ah_attr a = { .is_global = 1, .port_num = 1,
				 .grh = { .dgid = *dst, .traffic_class = tclass, .hop_limit = hops,
					  .sgid_index = (uint8_t)index_of(is_v4(dst)) } };

	return ibv_create_ah(pd, &a);
}

static void other_version(void)
{
	struct ibv_ah_attr a = { .is_global = 1, .port_num = 1, .grh = { .hop_limit = 1 } };

	for (int v4 = 0; v4 < 2; v4++) {
		if (index_of(!v4) < 0)
			continue;
		a.grh.sgid_index = (uint8_t)index_of(!v4);
		a.grh.dgid = gid_of(v4 ? "192.0.2.9" : "2001:db8::9");
		CHECK(REFUSED(ibv_create_ah(pd, &a), EINVAL), v4 ? "to IPv4 from an IPv6 GID: EINVAL" :
		      "to IPv6 from an IPv4 GID: EINVAL");
		a.grh.dgid = gid_of(v4 ? "239.192.71.1" : "ff15::1");
		CHECK(REFUSED(ibv_create_ah(pd, &a), EINVAL), "... nor to a group");
	}
}

/* UD and UC send from each GID of the device. */
static void by_each_gid(void)
{
	struct ibv_port_attr port;
	union ibv_gid first = gid;
	struct side a = { 0 }, b = { 0 };
	int families[2] = { 0 };

	ibv_query_port(dev, 1, &port);
	for (int i = 0; i < port.gid_tbl_len && ibv_query_gid(dev, 1, i, &gid) == 0; i++) {
		static const union ibv_gid none;
		union ibv_gid named;
		uint64_t id = 200 + (uint64_t)i;
		struct ibv_ah_attr answer;
		struct ibv_ah *ah;
		struct ibv_wc wc;

		if (memcmp(&gid, &none, sizeof gid) == 0)
			break;
		families[gid.raw[10] != 0xff]++;
		gid_index = (uint8_t)i;
		ah = handle(&gid, 0, 1);
		post_recv(&to[0], HALF, 140, id);
		CHECK(ah && post_ud(&from, ah, to[0].qp->qp_num, id) == 0 && next_is(&from, id, IBV_WC_SUCCESS) &&
		      next_wc(&to[0], &wc, 30) && wc.wr_id == id && wc.src_qp == from.qp->qp_num &&
		      memcmp(mem, mem + HALF + 40, 100) == 0, "UD: by a GID");
		/* Entries 1 to 3 repeat entry 0 on a device of one address. */
		CHECK(ibv_init_ah_from_wc(dev, 1, &wc, (void *)(mem + HALF), &answer) == 0 &&
		      ibv_query_gid(dev, 1, answer.grh.sgid_index, &named) == 0 &&
		      memcmp(&named, &gid, sizeof gid) == 0, "... which the header names");
		ibv_destroy_ah(ah);
		CHECK(pair_open(&a, &b, IBV_QPT_UC, 0) && post_recv(&b, HALF, 100, 1) == 0 &&
		      post_send(&a, 0, 100, 2) == 0 && next_is(&a, 2, IBV_WC_SUCCESS) && next_is(&b, 1, IBV_WC_SUCCESS),
		      "UC: by a GID");
		pair_close(&a, &b);
	}
	printf("# %d and %d GIDs\n", families[0], families[1]);
	gid = first;
	gid_index = 0;
}

static void what_is_refused(void)
{
	union ibv_gid unicast = gid;
	struct ibv_ah *ah = handle(&group, 0, 1);
	struct ibv_qp_attr a;
	struct side rc = { 0 };

	CHECK(ibv_attach_mcast(from.qp, &unicast, 0) == EINVAL && ibv_detach_mcast(from.qp, &unicast, 0) == EINVAL,
	      "a GID that is no group: EINVAL");
	CHECK(ibv_attach_mcast(from.qp, NULL, 0) == EINVAL, "none: EINVAL");
	CHECK(ibv_detach_mcast(from.qp, &group, 0) == EINVAL, "not attached: EINVAL");
	side_open(&rc, IBV_QPT_RC, 0, NULL);
	CHECK(ibv_attach_mcast(rc.qp, &group, 0) == EINVAL, "RC has no groups: EINVAL");
	to_init(&rc);
	a = attr_of(IBV_QPS_RTR, &group, 1 << 16 | 4791);
	CHECK(ibv_modify_qp(rc.qp, &a, rtr_mask(IBV_QPT_RC)) == EINVAL, "... nor one for its peer");
	side_close(&rc);
	CHECK(ah && post_ud(&from, ah, to[0].qp->qp_num, 1) == EINVAL,
	      "a group with the number of one queue pair: EINVAL");
	ibv_destroy_ah(ah);
	ah = handle(&gid, 0, 1);
	CHECK(ah && post_ud(&from, ah, GROUP_QPN, 1) == EINVAL, "the groups' number with an address: EINVAL");
	ibv_destroy_ah(ah);
}

/* The header's destination is DST. An IPv4 header is in the last 20 of the 40 bytes, an IPv6 header in all 40. */
static bool header_names(const uint8_t *h, const union ibv_gid *dst)
{
	return h[0] >> 4 == 6 ? memcmp(h + 24, dst->raw, 16) == 0 :
				h[20] == 0x45 && memcmp(h + 36, dst->raw + 12, 4) == 0;
}

static void hears(struct side *s, uint32_t at, uint64_t id, const char *what)
{
	struct ibv_ah_attr answer;
	struct ibv_wc wc;

	CHECK(next_wc(s, &wc, 30) && wc.status == IBV_WC_SUCCESS && wc.wr_id == id && wc.byte_len == 140 &&
	      memcmp(mem, mem + at + 40, 100) == 0, what);
	CHECK((wc.wc_flags & IBV_WC_GRH) && header_names(mem + at, &group), "... its header names the group");
	CHECK(wc.src_qp == from.qp->qp_num && ibv_init_ah_from_wc(dev, 1, &wc, (void *)(mem + at), &answer) == 0 &&
	      answer.is_global && answer.grh.sgid_index < 16, "... and who sent it, who can be answered");
}

static void who_hears(void)
{
	struct ibv_ah *ah = handle(&group, 0, 1), *elsewhere = handle(&other, 0, 1);

	CHECK(ah && elsewhere, "handles to groups");
	for (int i = 0; i < 2; i++)
		CHECK(ibv_attach_mcast(to[i].qp, &group, 0) == 0 && ibv_attach_mcast(to[i].qp, &group, 0) == 0,
		      "attached, and again");
	for (int i = 0; i < 2; i++)
		post_recv(&to[i], HALF + 4096 * i, 140, 10 + i);
	CHECK(post_ud(&from, elsewhere, GROUP_QPN, 2) == 0 && next_is(&from, 2, IBV_WC_SUCCESS),
	      "a message to another group");
	CHECK(post_ud(&from, ah, GROUP_QPN, 3) == 0 && next_is(&from, 3, IBV_WC_SUCCESS), "one to the group");
	for (int i = 0; i < 2; i++)
		hears(&to[i], HALF + 4096 * i, 10 + i, "each that is attached hears the second");
	CHECK(ibv_detach_mcast(to[0].qp, &group, 0) == 0 && ibv_detach_mcast(to[0].qp, &group, 0) == EINVAL,
	      "detached, once");
	for (int i = 0; i < 2; i++)
		post_recv(&to[i], HALF + 4096 * i, 140, 20 + i);
	CHECK(post_ud(&from, ah, GROUP_QPN, 4) == 0, "another message");
	hears(&to[1], HALF + 4096, 21, "is heard by who is still attached");
	CHECK(none(&to[0]), "and by nobody else");
	ibv_destroy_ah(elsewhere);
	ibv_destroy_ah(ah);
}

static void how_many(void)
{
	struct ibv_device_attr attr;
	union ibv_gid g = group;
	int n, rc = 0;

	CHECK(ibv_query_device(dev, &attr) == 0 && attr.max_mcast_grp > 0 && attr.max_mcast_qp_attach > 0 &&
	      attr.max_total_mcast_qp_attach >= attr.max_mcast_grp, "the device says how many groups it may be in");
	for (n = 1; n < attr.max_mcast_grp && rc == 0; n++) {   /* to[1] has joined one group already */
		g.raw[15]++;
		rc = ibv_attach_mcast(from.qp, &g, 0);
	}
	CHECK(rc == 0, "so many it can be in");
}

/* A bare socket at the device's first address, in place of a queue pair. *QPN is its port. */
static int bare_socket(uint32_t *qpn)
{
	const struct timeval patience = { .tv_sec = 30 };
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t len = sizeof a;
	int fd = socket(AF_INET, SOCK_DGRAM, 0), one = 1;

	memcpy(&a.sin_addr, gid.raw + 12, 4);
	if (bind(fd, (struct sockaddr *)&a, sizeof a) || getsockname(fd, (struct sockaddr *)&a, &len))
		return -1;
	*qpn = ntohs(a.sin_port);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	setsockopt(fd, IPPROTO_IP, IP_RECVTOS, &one, sizeof one);
	setsockopt(fd, IPPROTO_IP, IP_RECVTTL, &one, sizeof one);
	return fd;
}

static bool next_carries(int fd, int tos, int ttl)
{
	uint8_t data[512], control[256];
	struct iovec iov = { data, sizeof data };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
			    .msg_controllen = sizeof control };
	int is_tos = -1, is_ttl = -1;

	if (recvmsg(fd, &m, 0) <= 0)
		return false;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS)
			is_tos = *CMSG_DATA(c);
		else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TTL)
			memcpy(&is_ttl, CMSG_DATA(c), sizeof is_ttl);
	}
	if (is_tos != tos || is_ttl != ttl)
		printf("# traffic class %d, hop limit %d, where %d and %d were expected\n", is_tos, is_ttl, tos, ttl);
	return is_tos == tos && is_ttl == ttl;
}

/* A UC queue pair sends to the socket. Its packet has the traffic class and hop limit of its address vector. */
static bool connected_carries(int fd, uint32_t qpn, uint8_t tclass, uint8_t hops, int tos, int ttl)
{
	struct ibv_qp_attr a = attr_of(IBV_QPS_RTR, &gid, qpn);
	struct side uc = { 0 };
	bool good;

	a.ah_attr.grh.traffic_class = tclass;
	a.ah_attr.grh.hop_limit = hops;
	good = side_open(&uc, IBV_QPT_UC, 0, NULL) && to_init(&uc) == 0 &&
	       ibv_modify_qp(uc.qp, &a, rtr_mask(IBV_QPT_UC)) == 0 && to_rts(&uc) == 0 &&
	       post_send(&uc, 0, 100, 1) == 0 && next_is(&uc, 1, IBV_WC_SUCCESS) && next_carries(fd, tos, ttl);
	side_close(&uc);
	return good;
}

static void packets(void)
{
	static const struct { int tclass, hops, tos, ttl; const char *what; } rows[] = {
		{ 0, 0, 0, 64, "neither: as the system has them" },
		{ 0xb8, 7, 0xb8, 7, "a traffic class and a hop limit are in the packets" },
		{ 0, 0xff, 0, 0xff, "the largest hop limit" },
		{ 0xbb, 64, 0xb8, 64, "of the class DSCP alone: no congestion marks" },
	};
	uint32_t qpn = 0;
	int fd = bare_socket(&qpn);

	CHECK(fd >= 0, "a socket that looks at packets");
	for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct ibv_ah *ah = handle(&gid, (uint8_t)rows[i].tclass, (uint8_t)rows[i].hops);

		CHECK(ah && post_ud(&from, ah, qpn, 30 + i) == 0 && next_is(&from, 30 + i, IBV_WC_SUCCESS) &&
		      next_carries(fd, rows[i].tos, rows[i].ttl), rows[i].what);
		ibv_destroy_ah(ah);
		CHECK(connected_carries(fd, qpn, (uint8_t)rows[i].tclass, (uint8_t)rows[i].hops, rows[i].tos,
					rows[i].ttl), "... and of UC");
	}
	close(fd);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	open_all_of(argv[1]);
	group = other = gid_of(argv[2]);
	other.raw[15]--;
	for (uint32_t i = 0; i < 100; i++)
		mem[i] = (uint8_t)(i * 5 + 1);
	CHECK(pair_open(&from, &to[0], IBV_QPT_UD, 0) && side_open(&to[1], IBV_QPT_UD, 0, NULL) &&
	      to_init(&to[1]) == 0 && to_rtr(&to[1], 0) == 0, "three queue pairs");
	packets();
	by_each_gid();
	other_version();
	what_is_refused();
	who_hears();
	how_many();
	CHECK(pair_close(&from, &to[0]) == 0 && side_close(&to[1]) == 0, "destroyed, attached as they are");
	CHECK(close_all() == 0, "everything is closed");
	return failed;
}
