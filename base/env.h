/* SPDX-License-Identifier: BSD-2-Clause */
/* Environment variables whose value is one of a few words. */
#ifndef DIW_BASE_ENV_H
#define DIW_BASE_ENV_H

/* The index in WORDS, a list that ends with NULL, of the value of the variable NAME. UNSET if it is unset or empty.
 * OTHER if its value is no such word, which is logged. */
int diw_env_word(const char *name, const char *const words[], int unset, int other);

#endif
