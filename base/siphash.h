/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SipHash-2-4 (Aumasson, Bernstein: SipHash, a fast short-input PRF): a keyed hash of a few bytes whose values reveal
 * nothing about the key. The tokens that a peer must not be able to guess are made by it. The library depends on no
 * cryptographic library.
 */
#ifndef DIW_BASE_SIPHASH_H
#define DIW_BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t diw_siphash(const uint64_t key[2], const void *data, size_t len);

#endif
