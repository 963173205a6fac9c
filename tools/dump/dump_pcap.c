/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads UDP datagrams and TCP segments with libpcap, live or from a file. */
#include <pcap/pcap.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/wire.h"
#include "tools/dump/dump.h"

#define SNAPLEN 262144
#define TICK_MS 100                  /* interval of checks whether a signal came */
#define BUFFER (32 << 20)            /* bytes; in libpcap's immediate mode it would hold 256 packets of any length */
#define BUFFER_MS 10                 /* captured packets are read after this time; an interrupt loses as much */
#define TYPE_IPV4 0x0800u
#define TYPE_IPV6 0x86ddu

struct dump_pcap {
	pcap_t *pcap;
	struct dump_notes *notes;
	struct dump_counts count;
	int link;
};

const struct dump_counts *dump_counts(struct dump_pcap *p)
{
	struct pcap_stat st;

	if (pcap_stats(p->pcap, &st) == 0)      /* only for live captures */
		p->count.missed = (uint64_t)st.ps_drop + st.ps_ifdrop;
	return &p->count;
}

/* ---- Opening ---- */

static int finish_open(struct dump_pcap *p, const char *what, struct dump_pcap **out)
{
	p->link = pcap_datalink(p->pcap);
	switch (p->link) {
	case DLT_RAW: case DLT_IPV4: case DLT_IPV6: case DLT_EN10MB: case DLT_LINUX_SLL: case DLT_LINUX_SLL2:
	case DLT_NULL: case DLT_LOOP:
		*out = p;
		return TOOL_OK;
	}
	tool_failed("%s: link type %d (%s) is not supported", what, p->link,
		    pcap_datalink_val_to_name(p->link) ? pcap_datalink_val_to_name(p->link) : "unknown");
	dump_close(p);
	return TOOL_FAILED;
}

static int live_failed(struct dump_pcap *p, const char *ifname, int rc)
{
	const char *what = pcap_statustostr(rc), *why = p->pcap ? pcap_geterr(p->pcap) : "";

	if (!strcmp(what, why))
		why = "";
	tool_failed("%s: %s%s%s%s", ifname, what, *why ? ": " : "", why,
		    rc == PCAP_ERROR_PERM_DENIED ?
		    " (an interface needs privilege; DIWARP_PCAP=FILE captures inside a program without)" : "");
	dump_close(p);
	return TOOL_FAILED;
}

int dump_open_live(const char *ifname, struct dump_pcap **out)
{
	struct dump_pcap *p = calloc(1, sizeof *p);
	struct bpf_program filter;
	char err[PCAP_ERRBUF_SIZE];
	int rc;

	if (!p)
		return tool_failed("out of memory");
	p->pcap = pcap_create(ifname, err);
	if (!p->pcap) {
		free(p);
		return tool_failed("%s: %s", ifname, err);
	}
	pcap_set_snaplen(p->pcap, SNAPLEN);
	pcap_set_timeout(p->pcap, BUFFER_MS);
	pcap_set_buffer_size(p->pcap, BUFFER);
	pcap_set_tstamp_precision(p->pcap, PCAP_TSTAMP_PRECISION_NANO);
	rc = pcap_activate(p->pcap);
	if (rc < 0)
		return live_failed(p, ifname, rc);
	if (pcap_compile(p->pcap, &filter, "udp or tcp", 1, PCAP_NETMASK_UNKNOWN) < 0)
		return live_failed(p, ifname, PCAP_ERROR);
	rc = pcap_setfilter(p->pcap, &filter);
	pcap_freecode(&filter);
	if (rc == 0)
		rc = pcap_setnonblock(p->pcap, 1, err);
	return rc < 0 ? live_failed(p, ifname, rc) : finish_open(p, ifname, out);
}

int dump_open_file(const char *path, struct dump_pcap **out)
{
	struct dump_pcap *p = calloc(1, sizeof *p);
	char err[PCAP_ERRBUF_SIZE];
	struct stat st;

	if (!p)
		return tool_failed("out of memory");
	if (!strcmp(path, "-") || stat(path, &st) < 0)
		st.st_mode = 0;
	if (S_ISDIR(st.st_mode)) {
		free(p);
		return tool_failed("%s: is a directory", path);
	}
	p->pcap = pcap_open_offline_with_tstamp_precision(path, PCAP_TSTAMP_PRECISION_NANO, err);
	if (!p->pcap) {
		free(p);
		return strstr(err, path) ? tool_failed("%s", err) : tool_failed("%s: %s", path, err);
	}
	p->notes = S_ISREG(st.st_mode) ? dump_notes_open(path) : NULL;  /* a pipe cannot be read twice */
	return finish_open(p, path, out);
}

void dump_close(struct dump_pcap *p)
{
	if (p->pcap)
		pcap_close(p->pcap);
	dump_notes_close(p->notes);
	free(p);
}

/* ---- Headers ---- */

struct bytes { const uint8_t *p; uint32_t n; };

static bool skip(struct bytes *b, uint32_t n)
{
	if (b->n < n)
		return false;
	b->p += n;
	b->n -= n;
	return true;
}

/* Skips the link's header; false if the packet is not IP. */
static bool link_header(int link, struct bytes *b)
{
	const uint8_t *p = b->p;
	unsigned type = 0;

	switch (link) {
	case DLT_EN10MB:
		if (!skip(b, 14))
			return false;
		type = diw_get16(p + 12);
		while (type == 0x8100 || type == 0x88a8) {      /* VLAN tags */
			p = b->p;
			if (!skip(b, 4))
				return false;
			type = diw_get16(p + 2);
		}
		return type == TYPE_IPV4 || type == TYPE_IPV6;
	case DLT_LINUX_SLL:
		return skip(b, 16) && ((type = diw_get16(p + 14)) == TYPE_IPV4 || type == TYPE_IPV6);
	case DLT_LINUX_SLL2:
		return skip(b, 20) && ((type = diw_get16(p)) == TYPE_IPV4 || type == TYPE_IPV6);
	case DLT_NULL: case DLT_LOOP:
		return skip(b, 4);
	}
	return true;
}

enum { TCP = 6, UDP = 17 };          /* IP's protocol numbers */
enum found { FOUND, NEITHER, FRAGMENT, CUT };

static enum found ipv4(struct bytes *b, struct dump_datagram *d)
{
	const uint8_t *p = b->p;
	uint32_t head = (p[0] & 15u) * 4, total;

	if (b->n < 20 || head < 20)
		return NEITHER;
	total = diw_get16(p + 2);
	if (total == 0)                 /* a super-buffer that is too long for the field */
		total = b->n;
	if ((p[9] != UDP && p[9] != TCP) || total < head)
		return NEITHER;
	if (diw_get16(p + 6) & 0x3fff)
		return FRAGMENT;
	if (b->n < total)
		return CUT;
	b->n = total;
	d->src.ip[10] = d->src.ip[11] = d->dst.ip[10] = d->dst.ip[11] = 0xff;
	memcpy(d->src.ip + 12, p + 12, 4);
	memcpy(d->dst.ip + 12, p + 16, 4);
	d->tcp = p[9] == TCP;
	skip(b, head);
	return FOUND;
}

static enum found ipv6(struct bytes *b, struct dump_datagram *d)
{
	const uint8_t *p = b->p;
	uint8_t next;
	uint32_t len;

	if (b->n < 40)
		return NEITHER;
	next = p[6];
	len = diw_get16(p + 4);
	memcpy(d->src.ip, p + 8, 16);
	memcpy(d->dst.ip, p + 24, 16);
	skip(b, 40);
	if (len == 0)
		len = b->n;
	if (b->n < len)
		return next == UDP || next == TCP ? CUT : NEITHER;
	b->n = len;
	while (next == 0 || next == 43 || next == 60) {         /* hop-by-hop, routing, destination options */
		p = b->p;
		if (b->n < 8 || !skip(b, (p[1] + 1u) * 8))
			return NEITHER;
		next = p[0];
	}
	d->tcp = next == TCP;
	return next == UDP || next == TCP ? FOUND : next == 44 ? FRAGMENT : NEITHER;
}

static enum found udp(const struct bytes *b, struct dump_datagram *d)
{
	uint32_t len = diw_get16(b->p + 4);

	if (len == 0)                   /* a super-buffer that is too long for the field, or a jumbogram */
		len = b->n;
	if (len < 8 || len > b->n)
		return NEITHER;
	d->data = b->p + 8;
	d->len = len - 8;
	return FOUND;
}

static enum found tcp_segment(const struct bytes *b, struct dump_datagram *d)
{
	uint32_t head;

	if (b->n < 20)
		return NEITHER;
	head = (b->p[12] >> 4) * 4u;
	if (head < 20 || head > b->n)
		return NEITHER;
	d->seq = diw_get32(b->p + 4);
	d->ack = diw_get32(b->p + 8);
	d->flags = b->p[13];
	d->data = b->p + head;
	d->len = b->n - head;
	return FOUND;
}

static enum found find_payload(const struct dump_pcap *p, struct bytes b, struct dump_datagram *d)
{
	enum found found = NEITHER;

	if (!link_header(p->link, &b) || !b.n)
		return NEITHER;
	if (b.p[0] >> 4 == 4)
		found = ipv4(&b, d);
	else if (b.p[0] >> 4 == 6)
		found = ipv6(&b, d);
	if (found != FOUND)
		return found;
	if (b.n < 8)
		return NEITHER;
	d->src.port = diw_get16(b.p);
	d->dst.port = diw_get16(b.p + 2);
	return d->tcp ? tcp_segment(&b, d) : udp(&b, d);
}

int dump_next(struct dump_pcap *p, struct dump_datagram *d)
{
	struct pcap_pkthdr *h;
	const uint8_t *data;
	int rc;

	while (!tool_stopped) {
		rc = pcap_next_ex(p->pcap, &h, &data);
		if (rc == 0) {
			poll(&(struct pollfd){ pcap_get_selectable_fd(p->pcap), POLLIN, 0 }, 1, TICK_MS);
			continue;
		}
		if (rc == PCAP_ERROR_BREAK || (rc < 0 && tool_stopped))
			return 0;
		if (rc < 0) {
			tool_failed("%s", pcap_geterr(p->pcap));
			return -1;
		}
		*d = (struct dump_datagram){ .ns = (uint64_t)h->ts.tv_sec * DIW_S + (uint64_t)h->ts.tv_usec };
		if (p->notes && !dump_notes_next(p->notes, &d->dir, d->dropped, sizeof d->dropped)) {
			dump_notes_close(p->notes);
			p->notes = NULL;
		}
		p->count.packets++;
		switch (find_payload(p, (struct bytes){ data, h->caplen }, d)) {
		case FOUND: return 1;
		case FRAGMENT: p->count.fragments++; break;
		case CUT: p->count.cut++; break;
		case NEITHER: p->count.neither++; break;
		}
	}
	return 0;
}
