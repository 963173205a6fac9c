/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the UDP dgrams (llp/udp.c, llp/uring.c) share. */
#ifndef DIW_LLP_UDP_H
#define DIW_LLP_UDP_H

#include <limits.h>
#include <netinet/udp.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"
#include "llp/dgram.h"

#ifndef SOL_UDP
#define SOL_UDP 17
#endif
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define DIW_UDP_PMTU_SLOTS 64u

/* Path MTUs that turned out smaller than the interface's; direct-mapped, the newest wins. All zero but ifmtu: empty. */
struct diw_udp_pmtu {
	uint32_t ifmtu;              /* of the interface, IP bytes */
	bool used;
	struct {
		struct diw_addr host;    /* port 0 */
		uint64_t expires;
		uint32_t mtu;
	} slot[DIW_UDP_PMTU_SLOTS];
};

/* UDP payload that reaches DST without IP fragments. */
uint32_t diw_udp_pmtu_payload(const struct diw_udp_pmtu *p, const struct diw_addr *dst, uint64_t now);
/* Ask the kernel about the path from SRC (NULL: whichever it takes) to DST; true when it is smaller than we knew. */
bool diw_udp_pmtu_learn(struct diw_udp_pmtu *p, const struct diw_addr *src, const struct diw_addr *dst, uint64_t now);

#define DIW_UDP_RX_ROOM (65536u + 128u)      /* the largest super-buffer that IPv4 or IPv6 can carry, and some */
#define DIW_UDP_ANSWER_SLOTS 256u

struct diw_udp_answer {
	struct diw_addr peer;        /* the sender to a wildcard socket, */
	uint8_t local[16];           /* asked this address, */
	unsigned ifindex;            /* on this interface: link-local only */
};

struct diw_udp {
	struct diw_dgram d;
	int (*call)(struct diw_udp *u, uint32_t len);   /* the kernel takes u->tx at u->tx_fd; 0 or -errno */
	int fd;
	int hot_fd;                  /* connected to the one peer that most bursts go to; -1 none */
	int tx_fd;                   /* of the two, for tx_peer */
	int family;
	bool connected, any, gso, group;
	unsigned ifindex;            /* of the device, 0 none: by which multicasts leave, and groups are joined */
	uint32_t max_segs;
	uint64_t now;                /* of the last call that had a clock */

	/* Send: everything but iovec and segment size stays from call to call while the destination does. */
	struct msghdr tx;
	struct diw_dest tx_peer;
	uint32_t tx_streak;          /* bursts to tx_peer in a row */
	struct sockaddr_storage tx_name;
	socklen_t tx_namelen;
	size_t tx_infolen;           /* of the control messages behind the segment size's: source address, header */
	union {
		struct cmsghdr align;
		uint8_t b[CMSG_SPACE(sizeof(uint16_t)) + CMSG_SPACE(sizeof(struct in6_pktinfo)) +
			  2 * CMSG_SPACE(sizeof(int))];
	} tx_control;

	struct diw_dest hot_peer;
	uint8_t hot_local[16];       /* `any`: from which address, */
	bool hot_other;              /* and the peer has asked another meanwhile */
	bool hot_named;              /* what came to hot_fd before it was connected may still be there */
	uint32_t rcvbuf;             /* as asked for */
	unsigned rx_turn;
	bool rx_other;               /* the last look at fd, beside hot_fd, found something */
	uint64_t rx_other_ns;        /* and when it was */
	struct msghdr rx;            /* the last message's name, or none of the hot peer, and control messages */
	struct iovec rx_iov, rx_burst;
	struct sockaddr_storage rx_name;
	union {
		struct cmsghdr align;
		uint8_t b[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct in_pktinfo)) +
			  CMSG_SPACE(sizeof(struct in6_pktinfo))];
	} rx_control;

	uint64_t icmp_at;            /* an ICMP message is told from then on */
	struct diw_dgram_burst kept; /* what the socket did not take of a burst that it began to send; len 0: nothing */
	struct iovec kept_iov;
	struct diw_udp_pmtu pmtu;
	struct diw_udp_answer answer[DIW_UDP_ANSWER_SLOTS];
	struct diw_udp_answer from;  /* instead of those, if it is told */
	bool from_told;
	struct iovec slice[IOV_MAX];
	uint8_t kept_buf[DIW_DGRAM_MAX];
	uint8_t rx_buf[DIW_UDP_RX_ROOM];
};

/* ---- The seam's calls that do not care how messages reach the kernel (llp/udp_tx.c) ---- */

int diw_udp_send(struct diw_dgram *d, const struct diw_dgram_burst *b, int n, uint64_t now);
uint64_t diw_udp_deadline(struct diw_dgram *d);
uint32_t diw_udp_mtu(struct diw_dgram *d, const struct diw_addr *dst);
void diw_udp_from(struct diw_dgram *d, const struct diw_addr *local);
int diw_udp_tx_kept(struct diw_udp *u);      /* what was kept of a burst: 0 gone, -EAGAIN */
bool diw_udp_learn_mtu(struct diw_udp *u, const struct diw_addr *dst);   /* true: it became smaller */

/* Of a socket with `any`: the address that PEER has asked, or NULL. */
const struct diw_udp_answer *diw_udp_asked(const struct diw_udp *u, const struct diw_addr *peer);

/* ---- What ICMP said (llp/udp_err.c) ---- */

/* Take what is in FD's error queue; true: there was an ICMP message, which is what the last call failed for. */
bool diw_udp_errors(struct diw_udp *u, int fd);

/* ---- What came, described by u->rx (llp/udp_rx.c) ---- */

void diw_udp_rx_burst(struct diw_udp *u, struct diw_dgram_burst *b, void *data, uint32_t len);
int diw_udp_rx_given(struct diw_udp *u, struct diw_dgram_burst *b);       /* 1 */
void diw_udp_rx_error(struct diw_udp *u, int err, bool hot);

/* ---- System calls on non-blocking sockets (llp/udp_sys.c) ---- */

ssize_t diw_sys_sendmsg(int fd, const struct msghdr *m);
ssize_t diw_sys_sendto(int fd, const void *buf, size_t len, const struct sockaddr *to, socklen_t tolen);
ssize_t diw_sys_recvmsg(int fd, struct msghdr *m);
ssize_t diw_sys_errmsg(int fd, struct msghdr *m);        /* of the error queue */

/* ---- Sockets (llp/udp_open.c) ---- */

int diw_udp_member(struct diw_dgram *d, const struct diw_addr *group, bool join);
/* Fills U, all zero but how it works, and opens, binds, connects its socket as asked. */
int diw_udp_socket(struct diw_udp *u, const struct diw_dgram_attr *attr);
/* A second socket on the same port, connected to PEER, or the one that is there connected to it anew: the kernel then
 * looks for the route once and not a datagram, 0.3 us of a half round trip of 3. Its arrivals come to it as well.
 * False: the kernel does not do it, and nothing has changed. */
bool diw_udp_hot(struct diw_udp *u, const struct diw_dest *peer);
/* What came to its socket before it was connected has been received. */
void diw_udp_hot_alone(struct diw_udp *u);
/* The socket's own family: a dual-stack socket knows an IPv4 peer by its mapped address. */
socklen_t diw_udp_name(const struct diw_udp *u, const struct diw_addr *a, struct sockaddr_storage *ss);

#endif
