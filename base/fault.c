/* SPDX-License-Identifier: BSD-2-Clause */
/* Faults of peers: the counter that each fault increments, and its name. */
#include "base/fault.h"

#include <stddef.h>

void diw_fault_count(struct diw_counters *c, uint16_t fault)
{
	switch (fault) {
#define X(name, code, counter, text) case code: c->counter++; break;
	DIW_FAULTS(X)
#undef X
	}
}

const char *diw_fault_counter(uint16_t fault)
{
	switch (fault) {
#define X(name, code, counter, text) case code: return #counter;
	DIW_FAULTS(X)
#undef X
	}
	return NULL;
}
