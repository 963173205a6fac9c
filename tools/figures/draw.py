#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Draws an experiment, and prints each value that a study states for it beside ours.

usage: draw.py ID TITLE studies.csv ID.csv ID.svg

ID.csv has what was measured: place,unit,curve,x,y. The picture has a column of panels a place and a row a unit.
studies.csv has what the studies state: id,mark,x,value,unit,source. A mark is a circle in the panels of its unit, in
the colour of the curve of its name; a range of x, such as 1-2048, is a bar. Ours over a range is the mean; after
"max", the largest. An x that is no number is the name of a group of bars. More than MOST % is drawn as MOST %.
"""
import csv
import math
import re
import sys
from xml.sax.saxutils import escape

WIDE, HIGH, LEFT, TOP, BOTTOM, LEGEND = 400, 250, 52, 26, 34, 170
MOST = 400
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000", "#8c564b", "#7f7f7f",
	"#17becf", "#9467bd", "#bcbd22")


def is_number(text):
	return re.fullmatch(r"-?[0-9.]+(e[-+]?[0-9]+)?", text) is not None


def rounded(v):
	"""Three digits, with a K or an M of 1024 for powers of two."""
	return f"{v:.3g}" if abs(v) < 1000 else f"{v:.0f}"


def binary(v):
	for letter, unit in (("M", 1 << 20), ("K", 1 << 10)):
		if v >= unit:
			return f"{v / unit:.3g}{letter}"
	return f"{v:.3g}"


class Axis:
	"""Maps values to 0..1, and knows the axis' tics."""

	def __init__(self, values, log, base=10, least=None):
		self.log, self.base = log, base
		low, high = min(values), max(values)
		if log:
			self.low, self.high = math.log(low), math.log(max(high, low * 1.01))
			return
		low, high = min(low, least if least is not None else low), max(high, 0)
		step = 10 ** math.floor(math.log10((high - low) or 1))
		self.step = next(s for s in (step / 5, step / 2, step, 2 * step) if (high - low) / s <= 8)
		self.low, self.high = math.floor(low / self.step) * self.step, math.ceil(high / self.step) * self.step
		self.high = max(self.high, self.low + self.step)

	def at(self, v):
		return ((math.log(v) if self.log else v) - self.low) / (self.high - self.low)

	def tics(self):
		if not self.log:
			return [self.low + i * self.step for i in range(round((self.high - self.low) / self.step) + 1)]
		first = math.ceil(self.low / math.log(self.base) - 1e-9)
		last = math.floor(self.high / math.log(self.base) + 1e-9)
		tics = [self.base ** i for i in range(first, last + 1)]
		return tics[::3] if self.base == 2 and len(tics) > 8 else tics


class Mark:
	def __init__(self, row):
		self.curve, self.value = row["mark"], float(row["value"])
		self.unit, self.source = row["unit"], row["source"]
		self.x, self.most = row["x"].removesuffix(" max"), row["x"].endswith(" max")
		bounds = self.x.split("-")
		self.range = [float(b) for b in bounds] if all(map(is_number, bounds)) else None

	def ours(self, points):
		"""The measured value of this mark among (x, y), or None."""
		if self.range:
			found = [y for x, y in points if is_number(x) and self.range[0] <= float(x) <= self.range[-1]]
		else:
			found = [y for x, y in points if x == self.x]
		return (max(found) if self.most else sum(found) / len(found)) if found else None


class Picture:
	def __init__(self, rows, marks):
		self.marks, self.data = marks, {}
		self.places, self.units, self.names, self.curves = [], [], [], {}
		for place, unit, curve, x, y in rows:
			for known, key in ((self.places, place), (self.units, unit), (self.names, x),
					(self.curves.setdefault(unit, []), curve)):
				if key not in known:
					known.append(key)
			self.data.setdefault((place, unit, curve), []).append((x, float(y)))
		self.colours = {}
		for curve in (c for unit in self.units for c in self.curves[unit]):
			self.colours.setdefault(curve, COLOURS[len(self.colours) % len(COLOURS)])
		self.bars = not all(map(is_number, self.names))
		xs = [i + 1 for i in range(len(self.names))] if self.bars else [float(x) for x in self.names]
		log = not self.bars and min(xs) > 0 and max(xs) > 20 * min(xs)
		self.x = Axis([0.4, len(xs) + 0.6] if self.bars else xs, log, 2)
		if self.bars:
			self.x.low, self.x.high = 0.4, len(xs) + 0.6

	def svg(self, title):
		width, height = WIDE * len(self.places) + LEGEND, HIGH * len(self.units) + 24
		out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
			f'height="{height}" font-family="sans-serif" font-size="11">',
			f'<rect width="{width}" height="{height}" fill="white"/>',
			f'<text x="{LEFT}" y="16" font-size="13">{escape(title)}</text>']
		for u, unit in enumerate(self.units):
			for p, place in enumerate(self.places):
				out += self.panel(unit, place, WIDE * p + LEFT, 24 + HIGH * u + TOP)
			out += self.legend(unit, WIDE * len(self.places) + 6, 24 + HIGH * u + TOP)
		return "\n".join(out + ["</svg>", ""])

	def legend(self, unit, x, y):
		marked = {m.curve for m in self.marks if m.unit == unit}
		for i, curve in enumerate(self.curves[unit]):
			stroke = f'stroke="{self.colours[curve]}"'
			circle = f'<circle cx="{x + 15}" cy="{y + 14 * i - 4}" r="4" fill="none" {stroke}/>'
			yield (f'<path d="M{x} {y + 14 * i - 4}h30" {stroke} stroke-width="2"/>'
				f'{circle if curve in marked else ""}'
				f'<text x="{x + 34}" y="{y + 14 * i}">{escape(curve)}</text>')

	def panel(self, unit, place, x0, y0):
		w, h = WIDE - LEFT - 8, HIGH - TOP - BOTTOM
		marks = [m for m in self.marks if m.unit == unit and m.curve in self.curves[unit]]
		values = [self.shown(unit, y) for key, points in self.data.items() if key[1] == unit for _, y in points]
		values += [m.value for m in marks]
		log = "%" not in unit and min(values) > 0 and max(values) > 20 * min(values)
		axis = Axis(values, log, 10, 0)
		px = lambda v: round(x0 + w * self.x.at(v), 1)
		py = lambda v: round(y0 + h * (1 - axis.at(v)), 1)
		yield f'<text x="{x0 + w / 2}" y="{y0 - 6}" text-anchor="middle">{escape(place)}: {escape(unit)}</text>'
		yield f'<rect x="{x0}" y="{y0}" width="{w}" height="{h}" fill="none" stroke="#888"/>'
		for t in axis.tics():
			yield (f'<path d="M{x0} {py(t)}h{w}" stroke="{"#888" if t == 0 else "#ddd"}"/>'
				f'<text x="{x0 - 4}" y="{py(t) + 4}" text-anchor="end">{rounded(t)}</text>')
		for t in range(1, len(self.names) + 1) if self.bars else self.x.tics():
			name = escape(self.names[t - 1]) if self.bars else binary(t)
			yield f'<text x="{px(t)}" y="{y0 + h + 14}" text-anchor="middle">{name}</text>'
		for i, curve in enumerate(self.curves[unit]):
			points = [(x, self.shown(unit, y)) for x, y in self.data.get((place, unit, curve), [])]
			yield from (self.draw_bars(unit, i, points, px, py, axis) if self.bars
				else draw_line(self.colours[curve], points, px, py))
		for m in marks:
			yield self.draw_mark(m, px, py)

	def shown(self, unit, y):
		return min(y, MOST) if unit.startswith("%") else y

	def bar(self, unit, i, x):
		"""The left and right end of a bar."""
		w = 0.8 / len(self.curves[unit])
		left = self.names.index(x) + 0.6 + i * w
		return left, left + 0.9 * w

	def draw_bars(self, unit, i, points, px, py, axis):
		for x, y in points:
			left, right = map(px, self.bar(unit, i, x))
			foot = py(0) if not axis.log else py(math.exp(axis.low))
			yield (f'<rect x="{left}" y="{min(foot, py(y))}" width="{right - left:.1f}" '
				f'height="{abs(foot - py(y)):.1f}" fill="{self.colours[self.curves[unit][i]]}" '
				'fill-opacity="0.6"/>')

	def draw_mark(self, m, px, py):
		i, y, line = self.curves[m.unit].index(m.curve), py(m.value), ""
		stroke = f'stroke="{self.colours[m.curve]}"'
		if self.bars:
			if m.x not in self.names:
				return ""
			x = sum(map(px, self.bar(m.unit, i, m.x))) / 2
		else:
			a, b = (px(min(max(v, float(min(self.names, key=float))), float(max(self.names, key=float))))
				for v in (m.range[0], m.range[-1]))
			x, line = (a + b) / 2, f'<path d="M{a} {y}H{b}" {stroke} stroke-dasharray="4 2"/>'
		return f'{line}<circle cx="{x:.1f}" cy="{y}" r="5" fill="none" {stroke} stroke-width="2"/>'


def draw_line(colour, points, px, py):
	ends = [(px(float(x)), py(y)) for x, y in points]
	yield (f'<polyline points="{" ".join(f"{x},{y}" for x, y in ends)}" fill="none" stroke="{colour}" '
		f'stroke-width="1.5"/>')
	if ends:
		yield f'<path d="{"".join(f"M{x} {y}h0" for x, y in ends)}" stroke="{colour}" ' \
			'stroke-width="4" stroke-linecap="round"/>'


def main(name, title, studies, measured, svg):
	with open(studies, encoding="utf-8") as f:
		marks = [Mark(row) for row in csv.DictReader(f) if row["id"] == name]
	with open(measured, encoding="utf-8") as f:
		picture = Picture(list(csv.reader(f))[1:], marks)
	with open(svg, "w", encoding="utf-8") as f:
		f.write(picture.svg(f"{name}: {title}"))
	for m in marks:
		ours = [(place, m.ours(picture.data.get((place, m.unit, m.curve), []))) for place in picture.places]
		here = ", ".join(f"{place} {v:.3g}" for place, v in ours if v is not None) or "not measured"
		at = m.x + (" max" if m.most else "")
		print(f"{name:6} {m.curve:24} {at:20} {m.source}: {m.value:g} {m.unit}; here: {here}")


if __name__ == "__main__":
	if len(sys.argv) != 6:
		sys.exit(__doc__)
	main(*sys.argv[1:])
