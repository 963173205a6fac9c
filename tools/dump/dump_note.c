/* SPDX-License-Identifier: BSD-2-Clause */
/* diw dump: reads the notes that the library writes beside each packet of its captures. */
#include <byteswap.h>
#include <stdlib.h>
#include <string.h>

#include "tools/dump/dump.h"

#define SECTION 0x0a0d0d0au
#define MAGIC 0x1a2b3c4du
#define MAX_BLOCK (16u << 20)
enum { OLD_PACKET = 2, SIMPLE_PACKET = 3, PACKET = 6 };
enum { OPT_COMMENT = 1, OPT_FLAGS = 2 };

struct dump_notes {
	FILE *f;
	bool swapped;
	uint8_t *block;
	uint32_t room;
};

static uint32_t note_get32(const struct dump_notes *n, const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof v);
	return n->swapped ? bswap_32(v) : v;
}

static uint16_t note_get16(const struct dump_notes *n, const uint8_t *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof v);
	return n->swapped ? bswap_16(v) : v;
}

/* Reads the next block: its type into *type, its body into n->block. Returns its length; 0: the end, or a malformed
 * block. */
static uint32_t next_block(struct dump_notes *n, uint32_t *type)
{
	uint8_t head[12];
	uint32_t len;
	size_t more;

	if (fread(head, 1, 12, n->f) != 12)
		return 0;
	memcpy(type, head, 4);
	if (*type == SECTION) {                 /* this value is the same in both byte orders */
		n->swapped = false;
		n->swapped = note_get32(n, head + 8) != MAGIC;
	}
	*type = note_get32(n, head);
	len = note_get32(n, head + 4);
	if (len < 12 || len > MAX_BLOCK || len % 4)
		return 0;
	if (len > n->room) {
		uint8_t *bigger = realloc(n->block, len);

		if (!bigger)
			return 0;
		n->block = bigger;
		n->room = len;
	}
	more = len - 12;
	memcpy(n->block, head + 8, 4);
	return fread(n->block + 4, 1, more, n->f) == more ? len - 8 : 0;
}

static void block_options(const struct dump_notes *n, const uint8_t *p, uint32_t left, enum dump_dir *dir,
			  char *comment,
			  size_t room)
{
	while (left >= 4) {
		uint16_t code = note_get16(n, p), len = note_get16(n, p + 2);
		uint32_t padded = (len + 3u) & ~3u;

		if (!code || padded > left - 4)
			return;
		if (code == OPT_COMMENT && !*comment)
			snprintf(comment, room, "%.*s", (int)len, (const char *)p + 4);
		else if (code == OPT_FLAGS && len == 4)
			*dir = (note_get32(n, p + 4) & 3) == 1 ? DUMP_IN :
			       (note_get32(n, p + 4) & 3) == 2 ? DUMP_OUT : *dir;
		p += 4 + padded;
		left -= 4 + padded;
	}
}

bool dump_notes_next(struct dump_notes *n, enum dump_dir *dir, char *comment, size_t room)
{
	uint32_t type, len, data;

	*dir = DUMP_DIR_UNKNOWN;
	*comment = '\0';
	do {
		len = next_block(n, &type);
		if (!len)
			return false;
	} while (type != PACKET && type != OLD_PACKET && type != SIMPLE_PACKET);
	if (type != PACKET || len < 24)
		return true;
	data = note_get32(n, n->block + 12);
	if (data <= len - 24)
		data = (data + 3u) & ~3u;
	if (data <= len - 24)
		block_options(n, n->block + 20 + data, len - 24 - data, dir, comment, room);
	for (char *p = comment; *p; p++)
		if ((unsigned char)*p < ' ' || (unsigned char)*p >= 0x7f)
			*p = '?';    /* a file may be hostile: escapes are removed, 8-bit ones too, since JSON is
				      * UTF-8 */
	return true;
}

struct dump_notes *dump_notes_open(const char *path)
{
	struct dump_notes *n = calloc(1, sizeof *n);
	uint32_t type = 0;

	if (!n)
		return NULL;
	n->f = fopen(path, "rbe");
	if (!n->f || fread(&type, 1, 4, n->f) != 4 || type != SECTION || fseek(n->f, 0, SEEK_SET) < 0) {
		dump_notes_close(n);
		return NULL;
	}
	return n;
}

void dump_notes_close(struct dump_notes *n)
{
	if (!n)
		return;
	if (n->f)
		fclose(n->f);
	free(n->block);
	free(n);
}
