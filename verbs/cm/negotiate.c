/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The contents of request and reply, and the terms that result from them (RFC 5044 section 7.1, RFC 6581 section 9).
 *
 * MPA has no field for RFC 7306. A peer without its opcodes answers them by a Terminate, so they cannot be tried in
 * band. Therefore an end that accepts them says so behind the application's private data (wire/private.h); a reply says
 * so only if the request did. Immediates, atomics and Send with immediate are used if both ends have said so; the same
 * holds for placement words. The field is left out if the private data would be longer with it than DATA_EVERYWHERE,
 * which every implementation accepts.
 */
#include "verbs/cm/int.h"

#include <errno.h>

#include "wire/private.h"

#define TAKES_ALL (DIW_TAKES_7306 | DIW_TAKES_SEND_IMM)
#define TAKES_WORDS (TAKES_ALL | DIW_TAKES_WORDS)
#define TAKES_NO_CRC (TAKES_WORDS | DIW_TAKES_NO_CRC)
#define DATA_EVERYWHERE 251u         /* with the 4 bytes of an enhanced frame, the length still fits one byte */

struct diw_cm_takes diw_cm_strip(struct diw_mpa_frame *f)
{
	unsigned takes = 0;

	if (diw_takes_get(f->data, f->len, &takes))
		f->len -= DIW_TAKES_LEN;
	return (struct diw_cm_takes){
		.rfc7306 = (takes & TAKES_ALL) == TAKES_ALL, .words = (takes & TAKES_WORDS) == TAKES_WORDS,
		.no_crc = (takes & TAKES_NO_CRC) == TAKES_NO_CRC,
	};
}

/* Encodes F with the application's data. TELL, unless it is 0, is announced if that fits; *ANNOUNCED says whether it
 * was. */
static int encode_frame(uint8_t *p, struct diw_mpa_frame f, const void *data, uint32_t len, unsigned tell,
			bool *announced)
{
	uint8_t buf[DIW_MPA_MAX_DATA];

	if (len > DIW_MPA_MAX_DATA - (f.enhanced ? DIW_MPA_ENHANCED_LEN : 0))
		return -EMSGSIZE;
	if (len)
		memcpy(buf, data, len);
	f.data = buf;
	f.len = len;
	*announced = tell && len + DIW_TAKES_LEN <= DATA_EVERYWHERE;
	if (*announced) {
		diw_takes_put(buf + len, tell);
		f.len += DIW_TAKES_LEN;
	}
	return (int)diw_mpa_frame_encode(p, &f);
}

static void offer_rtr(struct diw_mpa_frame *f, unsigned rtr)
{
	f->p2p = rtr != 0;
	f->rtr_fpdu = rtr & DIW_RTR_FPDU;
	f->rtr_write = rtr & DIW_RTR_WRITE;
	f->rtr_read = rtr & DIW_RTR_READ;
}

static unsigned rtr_of(const struct diw_mpa_frame *f)
{
	return (f->rtr_fpdu ? DIW_RTR_FPDU : 0) | (f->rtr_write ? DIW_RTR_WRITE : 0) | (f->rtr_read ? DIW_RTR_READ : 0);
}

/* A Write of no bytes costs the responder nothing. A Read needs an answer. The empty FPDU is supported by the fewest
 * peers. */
static uint8_t rtr_prefer(unsigned rtr)
{
	if (rtr & DIW_RTR_WRITE)
		return DIW_RTR_WRITE;
	return rtr & DIW_RTR_READ ? DIW_RTR_READ : rtr & DIW_RTR_FPDU;
}

static uint16_t depth_at_most(uint16_t own, uint16_t peer)
{
	return peer != DIW_MPA_NO_LIMIT && peer < own ? peer : own;
}

int diw_cm_request(uint8_t *p, const struct diw_cm_ask *ask, bool *announced, const void *data, uint32_t len)
{
	struct diw_mpa_frame f = {
		.markers = ask->markers, .crc = ask->crc, .revision = ask->revision,
		.enhanced = ask->revision >= 2, .ird = ask->ird, .ord = ask->ord,
	};

	offer_rtr(&f, ask->ord ? ask->rtr : ask->rtr & ~(unsigned)DIW_RTR_READ);
	return encode_frame(p, f, data, len, ask->plain ? 0 : ask->auto_crc ? TAKES_NO_CRC : TAKES_WORDS, announced);
}

void diw_cm_request_crc(uint8_t *p, struct diw_cm_ask *ask, bool announced, bool near)
{
	if (!ask->auto_crc)
		return;
	ask->crc = !(announced && near);
	if (ask->crc)
		p[DIW_MPA_FLAGS_AT] |= DIW_MPA_C;
	else
		p[DIW_MPA_FLAGS_AT] &= (uint8_t)~DIW_MPA_C;
}

/* Chooses a ready-to-receive message that both ends support. If there is none, the reply lists those of this end, and
 * the initiator ends the connection. */
static uint8_t choose_rtr(const struct diw_cm_ask *ask, const struct diw_mpa_frame *req)
{
	unsigned own = ask->rtr;

	if (!req->enhanced || !req->p2p)
		return 0;
	if (!ask->ird || !req->ord)
		own &= ~(unsigned)DIW_RTR_READ;
	return rtr_prefer(own & rtr_of(req) ? own & rtr_of(req) : own);
}

int diw_cm_reply(uint8_t *p, const struct diw_cm_ask *ask, const struct diw_mpa_frame *req, struct diw_cm_takes takes,
		 bool near, const void *data, uint32_t len, struct diw_cm_terms *terms)
{
	bool drop = ask->auto_crc && takes.no_crc && near;
	struct diw_mpa_frame f = {
		.reply = true, .markers = ask->markers, .crc = (ask->crc && !drop) || req->crc,
		.revision = req->revision, .enhanced = req->enhanced, .ird = ask->ird, .ord = ask->ord,
		/* Reserved bits are sent as zero (RFC 5044 section 7.1.1), except this one to a peer that has set it.
		 * siw sets it to ask for FPDUs of 64 KiB instead of one TCP segment; this end accepts any length. */
		.large = req->large,
	};

	if (f.enhanced) {
		f.ird = depth_at_most(ask->ird, req->ord);
		f.ord = depth_at_most(ask->ord, req->ird);
	}
	*terms = (struct diw_cm_terms){
		.crc = f.crc, .tx_markers = req->markers, .rx_markers = ask->markers, .rtr = choose_rtr(ask, req),
		.ird = f.ird, .ord = f.ord,
	};
	offer_rtr(&f, terms->rtr);
	len = (uint32_t)encode_frame(p, f, data, len, takes.rfc7306 && !ask->plain ? TAKES_WORDS : 0,
				     &terms->rfc7306);
	terms->words = terms->rfc7306 && takes.words;
	return (int)len;
}

int diw_cm_refusal(uint8_t *p, const struct diw_mpa_frame *req, const void *data, uint32_t len)
{
	struct diw_mpa_frame f = {
		.reply = true, .reject = true, .crc = req->crc, .revision = req->revision, .enhanced = req->enhanced,
	};
	bool announced;

	return encode_frame(p, f, data, len, 0, &announced);
}

void diw_cm_agree(const struct diw_cm_ask *ask, struct diw_cm_terms *terms)
{
	*terms = (struct diw_cm_terms){
		.crc = ask->crc && !ask->auto_crc, .tx_markers = ask->markers, .rx_markers = ask->markers,
		.rfc7306 = !ask->plain, .words = !ask->plain,
		.ird = ask->ird, .ord = depth_at_most(ask->ord, ask->ird),
	};
}

uint16_t diw_cm_judge(const struct diw_cm_ask *ask, bool announced, struct diw_mpa_frame *rep,
		      struct diw_cm_terms *terms)
{
	unsigned rtr = ask->rtr;

	*terms = (struct diw_cm_terms){
		.crc = ask->crc || rep->crc, .tx_markers = rep->markers, .rx_markers = ask->markers,
		.ird = ask->ird, .ord = ask->ord,
	};
	if (rep->revision != ask->revision || rep->enhanced != (ask->revision >= 2))
		return DIW_FAULT_MPA_FRAME;
	if (announced) {
		struct diw_cm_takes takes = diw_cm_strip(rep);

		terms->rfc7306 = takes.rfc7306;
		terms->words = takes.words;
	}
	if (!rep->enhanced)
		return 0;
	if (rep->ord != DIW_MPA_NO_LIMIT && rep->ord > ask->ird)
		return DIW_FAULT_MPA_IRD;
	terms->ird = depth_at_most(ask->ird, rep->ord);
	terms->ord = depth_at_most(ask->ord, rep->ird);
	if (!rep->p2p)
		return 0;
	if (!terms->ord)                        /* a Read of no bytes counts as a Read */
		rtr &= ~(unsigned)DIW_RTR_READ;
	terms->rtr = rtr_prefer(rtr & rtr_of(rep));
	return terms->rtr ? 0 : DIW_FAULT_MPA_RTR;
}
