#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compares the page of diw perf report, as a browser has read it, with the rows of the runs.

usage: perf_page.py DOM DIR [DIR2]

Every row of every measurement has its figures in the table, in the columns of its run. Every measurement of which a
number varies has a plot, whose legend names curves. The page refers to nothing outside.
"""
import html.parser
import json
import math
import pathlib
import sys

STATS = {"median": ("stats", "median"), "least": ("stats", "min"), "most": ("stats", "max"),
         "p99 us": ("lat_us_p99",), "lost": ("lost",), "cpu s": ("cpu_s",)}
COSTS = {"p50 ns": ("ns_p50",), "p99 ns": ("ns_p99",), "mean ns": ("ns_mean",), "user ns": ("user_ns",),
         "count": ("count",)}
GROUPS = {"sum GB/s": ("GBps_aggregate",), "sent GB/s": ("GBps_sent",), "least GB/s": ("GBps_min",),
          "x one": ("scaling",), "stalls": ("stalls",), "cpu s": ("cpu_s",)}


class Page(html.parser.HTMLParser):
	"""tables[section]: rows, each a list of cells' texts. plots[section]: texts in the SVG."""

	def __init__(self):
		super().__init__()
		self.tables, self.plots, self.outside = {}, {}, []
		self.section = None
		self.rows = self.cell = self.text = None

	def handle_starttag(self, tag, attrs):
		attrs = dict(attrs)
		self.outside += [v for k, v in attrs.items() if k in ("src", "href", "xlink:href") and v[0] != "#"]
		self.outside += [tag] if tag == "script" else []
		if tag == "section":
			self.section = attrs["id"]
		elif tag == "table" and self.section:
			self.rows = self.tables.setdefault(self.section, [])
		elif tag == "tr" and self.rows is not None:
			self.rows.append([])
		elif tag in ("td", "th") and self.rows:
			self.cell = ""
		elif tag == "svg" and self.section:
			self.plots.setdefault(self.section, [])
		elif tag == "text" and self.section in self.plots:
			self.text = ""

	def handle_data(self, data):
		if self.cell is not None:
			self.cell += data
		if self.text is not None:
			self.text += data

	def handle_endtag(self, tag):
		if tag in ("td", "th") and self.cell is not None:
			self.rows[-1].append(self.cell)
			self.cell = None
		elif tag == "text" and self.text is not None:
			self.plots[self.section].append(self.text.strip())
			self.text = None
		elif tag == "table":
			self.rows = None
		elif tag == "section":
			self.section = None


def value(row, path):
	for key in path:
		row = row.get(key) if row else None
	return row


def same(text, number):
	if number is None:
		return text == "-"
	return text != "-" and math.isclose(float(text), number, rel_tol=1e-3, abs_tol=1e-12)


def figures(row, columns):
	return [value(row, path) for path in columns.values()]


def rows_of(directory, name):
	path = pathlib.Path(directory) / f"{name}.jsonl"
	return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def check_measurement(page, name, dirs):
	"""Each row of a run has a row of the table: the same figures, in the run's columns."""
	runs = [rows_of(d, name) for d in dirs]
	first = runs[0][0]
	columns = STATS if "stats" in first else GROUPS if "GBps_aggregate" in first else COSTS
	head = next(r for r in page.tables[name] if next(iter(columns)) in r)
	body = [r for r in page.tables[name] if len(r) == len(head) and r != head]
	for run, rows in enumerate(runs):
		at = [[i for i, h in enumerate(head) if h == column][run] for column in columns]
		left = [[r[i] for i in at] for r in body]
		for row in rows:
			wanted = figures(row, columns)
			found = next((r for r in left if all(map(same, r, wanted))), None)
			if found is None:
				sys.exit(f"{name}: run {run + 1}: no row of the table has {wanted}")
			left.remove(found)
		if any(cell not in ("-", "") for r in left for cell in r):
			sys.exit(f"{name}: run {run + 1}: the table has more rows than the run: {left}")
	return sum(map(len, runs))


def main(dom, *dirs):
	page = Page()
	page.feed(pathlib.Path(dom).read_text(encoding="utf-8"))
	if page.outside:
		sys.exit(f"not self-contained: {page.outside}")
	names = sorted(p.stem for p in pathlib.Path(dirs[0]).glob("*.jsonl"))
	if sorted(page.tables) != names:
		sys.exit(f"tables of {sorted(page.tables)}, not of {names}")
	count = sum(check_measurement(page, name, dirs) for name in names)
	for name in ("lat", "bw", "loss", "cpu", "sge", "qps", "outstanding", "streams", "load", "group", "mr"):
		if len(page.plots.get(name, [])) < 5:
			sys.exit(f"{name}: no plot with its curves and axes, but {page.plots.get(name)}")
	print(f"{count} rows and {len(page.plots)} plots")


if __name__ == "__main__":
	main(*sys.argv[1:])
