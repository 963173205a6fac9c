/* SPDX-License-Identifier: BSD-2-Clause */
/* Intrusive doubly linked circular list; an unlinked node points at itself. */
#ifndef DIW_BASE_LIST_H
#define DIW_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct diw_list { struct diw_list *next, *prev; };

#define diw_container(ptr, type, member) ((type *)(void *)((char *)(ptr) - offsetof(type, member)))

static inline void diw_list_init(struct diw_list *l) { l->next = l->prev = l; }
static inline bool diw_list_empty(const struct diw_list *l) { return l->next == l; }

static inline void diw_list_add_tail(struct diw_list *head, struct diw_list *n)
{
	n->prev = head->prev;
	n->next = head;
	head->prev->next = n;
	head->prev = n;
}

/* Does nothing on an unlinked node. */
static inline void diw_list_del(struct diw_list *n)
{
	n->next->prev = n->prev;
	n->prev->next = n->next;
	diw_list_init(n);
}

static inline struct diw_list *diw_list_first(const struct diw_list *head)
{
	/* The analyzer does not see that every node is unlinked before it is freed. */
	return head->next == head ? NULL : head->next;  /* NOLINT(clang-analyzer-unix.Malloc) */
}

#define diw_list_for_each_safe(pos, tmp, head) \
	for (pos = (head)->next, tmp = pos->next; pos != (head); pos = tmp, tmp = pos->next)

#endif
