/* SPDX-License-Identifier: BSD-2-Clause */
/* Every suite of this directory: suite_NAME() in test_NAME.c. No include guard: X is what the includer says. */
X(crc)
X(seal)
X(impair)
X(impair_rx)
X(impair_spec)
X(udp)
X(udp_hot)
X(threads)
X(verbs)
X(stress)
X(range)
X(stag)
