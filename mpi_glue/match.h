/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Matching of messages and receives by source and tag, in the order of posts and of arrivals. A receive names its
 * source or takes any, and ignores those bits of the tag that it says. Receives that name their source and ignore few
 * bits, and all messages, are found by a hash; other receives are a list in the order of the posts.
 */
#ifndef DIW_MPI_GLUE_MATCH_H
#define DIW_MPI_GLUE_MATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

#define MATCH_BUCKETS 1024u
#define MATCH_FEW 8                      /* ignored bits of a receive that the hash may leave out */

/* A posted receive, or a message that found none. */
struct match_key {
	struct diw_list hash;            /* in its bucket; unlinked: not hashed */
	struct diw_list order;           /* receives that are not hashed; all messages */
	const void *source;              /* NULL: any (receives only) */
	uint64_t tag, ignore;
	uint64_t number;                 /* of the post */
};

struct match {
	struct diw_list *posted, *unexpected;    /* MATCH_BUCKETS each */
	struct diw_list wild, arrived;   /* receives that are not hashed; messages by arrival */
	uint64_t mask;                   /* bits of tags that the hash leaves out */
	uint64_t seed, number;
	uint32_t nposted, nhashed;       /* receives; those that are hashed */
};

int diw_match_init(struct match *m, uint64_t seed);      /* -ENOMEM */
void diw_match_fini(struct match *m);
void diw_match_post(struct match *m, struct match_key *receive);
void diw_match_arrive(struct match *m, struct match_key *message);
/* The receive that was posted first, or the message that arrived first, among those that fit; NULL: none. It stays. */
struct match_key *diw_match_find_receive(const struct match *m, const void *source, uint64_t tag);
struct match_key *diw_match_find_message(const struct match *m, const void *source, uint64_t tag, uint64_t ignore);
/* Take out a receive or a message. */
void diw_match_unpost(struct match *m, struct match_key *receive);
void diw_match_take(struct match_key *message);
/* Calls EACH of every posted receive until it returns true; returns that receive, or NULL. */
struct match_key *diw_match_each(const struct match *m, bool (*each)(struct match_key *receive, void *arg), void *arg);

#endif
