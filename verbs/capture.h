/* SPDX-License-Identifier: BSD-2-Clause */
/* What DIWARP_PCAP asks to be captured of a device. */
#ifndef DIW_VERBS_CAPTURE_H
#define DIW_VERBS_CAPTURE_H

#include "llp/capture.h"
#include "verbs/dev.h"

/* Capture around *D, whose place it takes; NULL: DIWARP_PCAP does not ask for it, or it cannot be had (told). */
struct diw_capture *diw_dev_capture(struct diw_dev *dev, struct diw_dgram **d);
/* The same around a stream that was ACCEPTED, or connects. */
void diw_dev_capture_stream(struct diw_dev *dev, bool accepted, struct diw_stream **s);

#endif
