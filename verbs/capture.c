/* SPDX-License-Identifier: BSD-2-Clause */
/* DIWARP_PCAP for a device: puts capture layers around its datagrams and streams. */
#include "verbs/capture.h"

#include "base/clock.h"
#include "base/log.h"

/* The file, or NULL if there is none; and the device's clock. */
static struct diw_pcapng *capture_file(struct diw_dev *dev, struct diw_capture_clock *clock)
{
	const char *path = diw_capture_path();
	struct diw_pcapng *file = path ? diw_capture_file(path) : NULL;

	if (!file)
		return NULL;
	*clock = (struct diw_capture_clock){ .now = dev->engine.clock, .ctx = dev->engine.clock_ctx,
		.epoch_ns = diw_clock_realtime_ns() - diw_engine_now(&dev->engine) };
	return file;
}

struct diw_capture *diw_dev_capture(struct diw_dev *dev, struct diw_dgram **d)
{
	struct diw_capture_clock clock;
	struct diw_pcapng *file = capture_file(dev, &clock);
	struct diw_capture *c = NULL;

	if (file && diw_capture_open(file, clock.epoch_ns, *d, &c, d) < 0)
		diw_log(DIW_LOG_TELL, "DIWARP_PCAP: no memory; a queue pair is not captured");
	return c;
}

void diw_dev_capture_stream(struct diw_dev *dev, bool accepted, struct diw_stream **s)
{
	struct diw_capture_clock clock;
	struct diw_pcapng *file = capture_file(dev, &clock);

	if (file && diw_capture_stream(file, &clock, accepted, s) < 0)
		diw_log(DIW_LOG_TELL, "DIWARP_PCAP: no memory; a connection is not captured");
}
