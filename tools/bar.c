/* SPDX-License-Identifier: BSD-2-Clause */
/* Progress bars and validity maps: block characters if the locale has them, else ASCII. */
#include <string.h>
#include <unistd.h>

#include "tools/tool.h"

#define BAR_PERIOD_NS (100 * DIW_MS)
#define MAP_ROW 64
#define MAP_ROWS 16
#define MAP_CELL_MIN 512u
#define MAP_RANGES 16

/* From no valid byte to all bytes valid. */
static const char *const cells_utf8[] = { "·", "░", "▒", "▓", "█" };
static const char *const cells_ascii[] = { ".", "-", "+", "*", "#" };

void bar_init(struct bar *b, const char *label)
{
	b->label = label;
	b->next_ns = 0;
	b->on = isatty(STDERR_FILENO);
}

void bar_draw(struct bar *b, uint64_t now, uint64_t done, uint64_t total, double gbps, uint64_t again)
{
	const char *const *cell = tool_utf8() ? cells_utf8 : cells_ascii;
	int width = tool_columns(stderr) - (int)strlen(b->label) - 44, fill;
	char buf[24];

	if (!b->on || (now < b->next_ns && done < total))
		return;
	b->next_ns = now + BAR_PERIOD_NS;
	if (width < 8)
		width = 8;
	fill = total ? (int)((double)done / (double)total * width) : width;
	fprintf(stderr, "\r%s ", b->label);
	for (int i = 0; i < width; i++)
		fputs(cell[i < fill ? 4 : 0], stderr);
	fprintf(stderr, " %3.0f %% %6.3f GB/s, again %-10s", total ? 100.0 * (double)done / (double)total : 100.0, gbps,
		fmt_bytes(again, buf));
	fflush(stderr);
}

void bar_end(struct bar *b)
{
	if (b->on && b->next_ns)
		fputs("\r\033[K", stderr);
}

/* The bytes of [off, off + len) in holes; *i moves past holes that end earlier. */
static uint64_t missing_in(uint64_t off, uint64_t len, const struct hole *holes, size_t n, size_t *i)
{
	uint64_t end = off + len, sum = 0;

	while (*i < n && holes[*i].off + holes[*i].len <= off)
		(*i)++;
	for (size_t k = *i; k < n && holes[k].off < end; k++) {
		uint64_t lo = holes[k].off > off ? holes[k].off : off;
		uint64_t hi = holes[k].off + holes[k].len < end ? holes[k].off + holes[k].len : end;

		sum += hi - lo;
	}
	return sum;
}

/* The lowest and highest levels mean exactly none and exactly all, so one missing byte is visible. */
static int level_of(uint64_t len, uint64_t missing)
{
	double valid = (double)(len - missing) / (double)len;

	if (!missing)
		return 4;
	return missing == len ? 0 : valid < 1.0 / 3 ? 1 : valid < 2.0 / 3 ? 2 : 3;
}

static void print_ranges(FILE *f, const struct hole *holes, size_t n)
{
	fprintf(f, "missing ranges (offset, length):\n");
	for (size_t i = 0; i < n && i < MAP_RANGES; i++)
		fprintf(f, "  %12llu  %10llu\n", (unsigned long long)holes[i].off, (unsigned long long)holes[i].len);
	if (n > MAP_RANGES)
		fprintf(f, "  and %zu more (--json lists all)\n", n - MAP_RANGES);
}

void map_bar(FILE *f, uint64_t size, const struct hole *holes, size_t n)
{
	const char *const *cell = tool_utf8() ? cells_utf8 : cells_ascii;
	uint64_t from = 0;
	size_t i = 0;

	fputs("  [", f);
	for (uint64_t k = 1; k <= MAP_ROW; k++) {
		uint64_t to = size * k / MAP_ROW;

		if (to > from)
			fputs(cell[level_of(to - from, missing_in(from, to - from, holes, n, &i))], f);
		from = to;
	}
	fputs("]\n", f);
}

void map_print(FILE *f, uint64_t size, const struct hole *holes, size_t n)
{
	const char *const *cell = tool_utf8() ? cells_utf8 : cells_ascii;
	uint64_t unit = MAP_CELL_MIN, len;
	size_t i = 0;
	char buf[24];

	while (unit * MAP_ROW * MAP_ROWS < size)
		unit *= 2;
	fprintf(f, "validity map, %s a cell: %s all valid  %s %s %s partly  %s nothing\n", fmt_bytes(unit, buf),
		cell[4], cell[3], cell[2], cell[1], cell[0]);
	for (uint64_t off = 0; off < size; off += unit) {
		if (off / unit % MAP_ROW == 0)
			fprintf(f, "%s  %12llu  ", off ? "\n" : "", (unsigned long long)off);
		len = size - off < unit ? size - off : unit;
		fputs(cell[level_of(len, missing_in(off, len, holes, n, &i))], f);
	}
	fputc('\n', f);
	if (n)
		print_ranges(f, holes, n);
}
