/* SPDX-License-Identifier: BSD-2-Clause */
/* Definitions that the files of the UDP dgrams (llp/udp*.c, llp/uring*.c) share. */
#ifndef DIW_LLP_UDP_H
#define DIW_LLP_UDP_H

#include <limits.h>
#include <netinet/udp.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"
#include "llp/dgram.h"

#define DIW_UDP_PMTU_SLOTS 64u

/* Paths with a smaller MTU than the interface's. A direct-mapped table: the newest entry of a slot wins. A table of
 * zeros, except ifmtu, is empty. */
struct diw_udp_pmtu {
	uint32_t ifmtu;              /* the interface's, IP bytes */
	bool used;
	struct {
		struct diw_addr host;    /* port 0 */
		uint64_t expires;
		uint32_t mtu;
	} slot[DIW_UDP_PMTU_SLOTS];
};

/* The UDP payload that reaches DST without IP fragments. */
uint32_t diw_udp_pmtu_payload(const struct diw_udp_pmtu *p, const struct diw_addr *dst, uint64_t now);
/* Asks the kernel for the MTU of the path from SRC (NULL: any source) to DST. True: it is smaller than was known. */
bool diw_udp_pmtu_learn(struct diw_udp_pmtu *p, const struct diw_addr *src, const struct diw_addr *dst, uint64_t now);

#define DIW_UDP_RX_ROOM (65536u + 128u)      /* the largest super-buffer that IPv4 or IPv6 can carry, and some more */
#define DIW_UDP_ANSWER_SLOTS 256u

struct diw_udp_answer {
	struct diw_addr peer;        /* the sender to a wildcard socket */
	uint8_t local[16];           /* the local address that it sent to */
	unsigned ifindex;            /* the interface; link-local only */
};

/* How a socket is read. Lone datagrams need no GRO: read by recvfrom(2) they cost 0.2 us less than by recvmsg(2), whose
 * control message has the segment size. */
struct diw_udp_reads {
	bool plain;                  /* by recvfrom(2), without GRO */
	bool waited;                 /* the socket was found empty since its last datagram */
	uint32_t run;                /* of datagrams that the other way would suit */
	uint64_t ns;                 /* when the last datagram was read */
};

struct diw_udp {
	struct diw_dgram d;
	int (*call)(struct diw_udp *u, uint32_t len);   /* passes u->tx to the kernel at u->tx_fd; 0 or -errno */
	int fd;
	uint64_t inode;              /* of FD */
	int hot_fd;                  /* connected to the peer that most bursts go to; -1: none */
	int tx_fd;                   /* the socket for tx_peer: fd or hot_fd */
	int family;
	bool connected, any, gso, group;
	unsigned ifindex;            /* the device's interface for multicasts and groups, 0: none */
	uint32_t max_segs;
	uint64_t now;                /* the `now` of the last call that had one */

	/* Send. Everything except iovec and segment size stays the same until the destination changes. */
	struct msghdr tx;
	struct diw_dest tx_peer;
	uint32_t tx_streak;          /* consecutive bursts to tx_peer */
	struct sockaddr_storage tx_name;
	size_t tx_infolen;           /* octets of the control messages behind the segment size's: source address, header
				      * fields */
	union {
		struct cmsghdr align;
		uint8_t b[CMSG_SPACE(sizeof(uint16_t)) + CMSG_SPACE(sizeof(struct in6_pktinfo)) +
			  2 * CMSG_SPACE(sizeof(int))];
	} tx_control;

	struct diw_dest hot_peer;
	uint8_t hot_local[16];       /* `any`: the local address of hot_fd */
	bool hot_other;              /* the peer has sent to another local address since */
	bool hot_named;              /* datagrams that came to hot_fd before it was connected may still be queued */
	uint32_t rcvbuf;             /* bytes asked for */
	struct diw_udp_reads reads[2];       /* of fd and hot_fd */
	bool rx_hot;                 /* the last datagram came to hot_fd */
	bool rx_owed;                /* the other socket is the first to be read */
	uint64_t rx_ns, rx_other_ns; /* the last read; the last one of the other socket */
	uint64_t rx_both_until;      /* both are read every time */
	bool rx_large;               /* the last datagram was worth a look before it is read */
	uint32_t rx_wholes, rx_in_vain;      /* datagrams to come that are read without a look; that many after the next
				      * look that finds no place */
	struct msghdr rx;            /* the last message: its name, or none from the hot peer, and its control
				      * messages */
	struct iovec rx_iov, rx_burst;
	struct sockaddr_storage rx_name;
	union {
		struct cmsghdr align;
		uint8_t b[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct in_pktinfo)) +
			  CMSG_SPACE(sizeof(struct in6_pktinfo))];
	} rx_control;

	uint64_t icmp_at;            /* the earliest time at which an ICMP message is logged again */
	struct diw_dgram_burst kept; /* the part of a burst that the socket did not take after it had begun to send it;
				      * len 0: none */
	struct iovec kept_iov;
	struct diw_udp_pmtu pmtu;
	struct diw_udp_answer answer[DIW_UDP_ANSWER_SLOTS];
	struct diw_udp_answer from;  /* the source address that was set, which takes precedence over those */
	bool from_told;
	struct iovec slice[IOV_MAX];
	uint8_t kept_buf[DIW_DGRAM_MAX];
	uint8_t rx_buf[DIW_UDP_RX_ROOM];
};

/* ---- Calls of the seam that are the same for both ways to the kernel (llp/udp_tx.c) ---- */

int diw_udp_send(struct diw_dgram *d, const struct diw_dgram_burst *b, int n, uint64_t now);
uint64_t diw_udp_deadline(struct diw_dgram *d);
uint32_t diw_udp_mtu(struct diw_dgram *d, const struct diw_addr *dst);
bool diw_udp_own(struct diw_dgram *d, const struct diw_addr *addr);      /* llp/udp.c */
void diw_udp_from(struct diw_dgram *d, const struct diw_addr *local);
int diw_udp_tx_kept(struct diw_udp *u);      /* sends the kept part of a burst; 0: sent, -EAGAIN: still kept */
bool diw_udp_learn_mtu(struct diw_udp *u, const struct diw_addr *dst);   /* true: the MTU became smaller */

/* For a socket with `any`: the local address that PEER has sent to, or NULL. */
const struct diw_udp_answer *diw_udp_asked(const struct diw_udp *u, const struct diw_addr *peer);

/* ---- ICMP messages (llp/udp_err.c) ---- */

/* Reads FD's error queue. True: there was an ICMP message, which is why the last call failed. */
bool diw_udp_errors(struct diw_udp *u, int fd);

/* ---- The received message that u->rx describes (llp/udp_rx.c) ---- */

void diw_udp_rx_burst(struct diw_udp *u, struct diw_dgram_burst *b, void *data, uint32_t len);
int diw_udp_rx_given(struct diw_udp *u, struct diw_dgram_burst *b);       /* returns 1 */
void diw_udp_rx_error(struct diw_udp *u, int err, bool hot);

/* ---- Datagrams that are received in place (llp/udp_place.c) ---- */

/* Whether the next datagram may be received in place. */
bool diw_udp_place_due(const struct diw_udp *u);
/* Receives the next datagram of FD, which u->rx describes afterwards, if it has a place. The result is recvmsg(2)'s; 0:
 * it has no place, and is still there. NAMED: u->rx has its source. */
ssize_t diw_udp_place(struct diw_udp *u, int fd, bool named);
/* A datagram, or several of SEG octets, were received. */
void diw_udp_place_learn(struct diw_udp *u, uint32_t seg);

/* ---- System calls on non-blocking sockets (llp/udp_sys.c) ---- */

ssize_t diw_sys_sendmsg(int fd, const struct msghdr *m);
ssize_t diw_sys_sendto(int fd, const void *buf, size_t len, const struct sockaddr *to, socklen_t tolen);
ssize_t diw_sys_recvmsg(int fd, struct msghdr *m, int flags);
ssize_t diw_sys_recvfrom(int fd, void *buf, size_t len, int flags, struct sockaddr *from, socklen_t *fromlen);
ssize_t diw_sys_errmsg(int fd, struct msghdr *m);        /* reads the error queue */

/* ---- Sockets (llp/udp_open.c) ---- */

int diw_udp_member(struct diw_dgram *d, const struct diw_addr *group, bool join);
/* Completes U, in which only the mode of operation is set: opens, binds and connects its socket as ATTR says. */
int diw_udp_socket(struct diw_udp *u, const struct diw_dgram_attr *attr);
/* Opens a second socket on the same port, connected to PEER, or connects the existing one to PEER. On a connected
 * socket the kernel looks up the route once instead of for each datagram, which saves 0.3 us of a half round trip of 3
 * us. Datagrams from PEER arrive there, too. False: the kernel cannot do it; U is unchanged. */
bool diw_udp_hot(struct diw_udp *u, const struct diw_dest *peer);
/* Sets whether FD has GRO, if it may be used at all (diw_udp_offload()). */
void diw_udp_gro(int fd, bool on);
void diw_udp_end(struct diw_udp *u);            /* llp/udp.c: closes the sockets */
/* All datagrams that came to hot_fd before it was connected have been received. */
void diw_udp_hot_alone(struct diw_udp *u);
/* The address in the socket's family: a dual-stack socket has the v4-mapped address of an IPv4 peer. */
socklen_t diw_udp_name(const struct diw_udp *u, const struct diw_addr *a, struct sockaddr_storage *ss);

#endif
