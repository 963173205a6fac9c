/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Matching of messages and receives by source and tag, in the order of posts and of arrivals. A receive names its
 * source or takes any, and ignores some bits of the tag. Messages, and receives that name their source and ignore few
 * bits, are found by a hash. The other receives are in a list in the order of posts.
 */
#ifndef DIW_MPI_GLUE_MATCH_H
#define DIW_MPI_GLUE_MATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

#define MATCH_BUCKETS 1024u
#define MATCH_FEW 8                      /* the most ignored bits with which a receive is hashed */

/* A posted receive, or a message without a receive. */
struct match_key {
	struct diw_list hash;            /* in its bucket; unlinked: not hashed */
	struct diw_list order;           /* of receives that are not hashed; of all messages */
	const void *source;              /* NULL: any (only in receives) */
	uint64_t tag, ignore;
	uint64_t number;                 /* number of the post */
};

struct match {
	struct diw_list *posted, *unexpected;    /* MATCH_BUCKETS each */
	struct diw_list wild, arrived;   /* receives that are not hashed; messages in order of arrival */
	uint64_t mask;                   /* bits of tags that the hash ignores */
	uint64_t seed, number;
	uint32_t nposted, nhashed;       /* receives; hashed receives */
};

int diw_match_init(struct match *m, uint64_t seed);      /* -ENOMEM */
void diw_match_fini(struct match *m);
void diw_match_post(struct match *m, struct match_key *receive);
void diw_match_arrive(struct match *m, struct match_key *message);
/* The first posted receive, or the first arrived message, that matches; NULL: none. It is not removed. */
struct match_key *diw_match_find_receive(const struct match *m, const void *source, uint64_t tag);
struct match_key *diw_match_find_message(const struct match *m, const void *source, uint64_t tag, uint64_t ignore);
/* These remove a receive, or a message. */
void diw_match_unpost(struct match *m, struct match_key *receive);
void diw_match_take(struct match_key *message);
/* Calls EACH for every posted receive until it returns true. Returns that receive, or NULL. */
struct match_key *diw_match_each(const struct match *m, bool (*each)(struct match_key *receive, void *arg), void *arg);

#endif
