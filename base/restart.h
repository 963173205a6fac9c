/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that stand for a system call which the kernel restarts after a signal's handler (SA_RESTART, signal(7)). */
#ifndef DIW_BASE_RESTART_H
#define DIW_BASE_RESTART_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

/* Whether the system call would be restarted after the handler that ran. The signal is unknown: false if any handler
 * has no SA_RESTART. */
static inline bool diw_call_restarts(void)
{
	struct sigaction sa;

	for (int sig = 1; sig < NSIG; sig++)
		if (sigaction(sig, NULL, &sa) == 0 && sa.sa_handler != SIG_DFL && sa.sa_handler != SIG_IGN &&
		    !(sa.sa_flags & SA_RESTART))
			return false;
	return true;
}

#endif
