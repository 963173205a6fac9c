/* SPDX-License-Identifier: BSD-2-Clause */
/* Capture of a device's packets as DIWARP_PCAP says. */
#ifndef DIW_VERBS_CAPTURE_H
#define DIW_VERBS_CAPTURE_H

#include "llp/capture.h"
#include "verbs/dev.h"

/* Puts a capturing dgram around *D. NULL: DIWARP_PCAP is not set, or capturing is not possible, which is logged. */
struct diw_capture *diw_dev_capture(struct diw_dev *dev, struct diw_dgram **d);
/* The same for a stream that was ACCEPTED, or that connects. */
void diw_dev_capture_stream(struct diw_dev *dev, bool accepted, struct diw_stream **s);

#endif
