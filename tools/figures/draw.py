#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Draws an experiment by gnuplot, and prints each value that a study states for it beside ours.

usage: draw.py ID TITLE studies.csv ID.csv ID.svg

ID.csv has what was measured: place,unit,curve,x,y. The picture has a column of panels a place and a row a unit.
studies.csv has what the studies state: id,mark,x,value,unit,source. A mark is a circle in the panels of its unit, in
the colour of the curve of its name; a range of x, such as 1-2048, has a broken line. Ours over a range is the mean;
after "max", the largest. An x that is no number is the name of a group of bars. More than MOST % is drawn as MOST %.
"""
import csv
import re
import shutil
import subprocess
import sys

WIDE, HIGH, LEFT, RIGHT, TOP, BOTTOM, HEAD, LEGEND = 400, 250, 56, 12, 26, 30, 24, 190     # pixels
MOST = 400
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000", "#8c564b", "#7f7f7f",
	"#17becf", "#9467bd", "#bcbd22")


def is_number(text):
	return re.fullmatch(r"-?[0-9.]+(e[-+]?[0-9]+)?", text) is not None


def binary(v):
	for letter, unit in (("M", 1 << 20), ("K", 1 << 10)):
		if v >= unit:
			return f"{v / unit:.3g}{letter}"
	return f"{v:.3g}"


def quoted(text):
	"""TEXT as a string of gnuplot, in which nothing is special."""
	return "'" + text.replace("'", "''") + "'"


def spreads(values):
	"""Whether a logarithmic axis shows them better."""
	return min(values) > 0 and max(values) > 20 * min(values)


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
		self.xs = sorted({float(x) for x in self.names}) if not self.bars else []
		self.width = WIDE * len(self.places) + LEGEND
		self.height = HIGH * len(self.units) + HEAD

	def commands(self, title):
		out = [f"set terminal svg size {self.width},{self.height} noenhanced font 'sans-serif,10' "
				"background 'white'",
			"set multiplot", "set grid ytics lc rgb '#dddddd'", "set border 3 lc rgb '#888888'",
			"set tics nomirror font ',8'", "unset mxtics", "unset mytics",
			"set xzeroaxis lc rgb '#888888'",
			f"set label 1 {quoted(title)} at screen {LEFT / self.width}, screen {1 - 14 / self.height} "
				"font ',12'",
			"set style fill solid 0.6 noborder",
			f"set boxwidth {self.bar_width():.4f} absolute" if self.bars else ""]
		for u, unit in enumerate(self.units):
			for p, place in enumerate(self.places):
				out += self.panel(u, unit, p, place)
				out.append("unset label 1")
		return "\n".join(out + ["unset multiplot", ""])

	def margins(self, u, p):
		left, top = WIDE * p + LEFT, HEAD + HIGH * u + TOP
		bottom = HEAD + HIGH * (u + 1) - BOTTOM
		for side, at, all_of in (("l", left, self.width), ("r", WIDE * (p + 1) - RIGHT, self.width),
				("t", self.height - top, self.height), ("b", self.height - bottom, self.height)):
			yield f"set {side}margin at screen {at / all_of:.5f}"

	def panel(self, u, unit, p, place):
		marks = [m for m in self.marks if m.unit == unit and m.curve in self.curves[unit]]
		values = [self.shown(unit, y) for key, points in self.data.items() if key[1] == unit for _, y in points]
		values += [m.value for m in marks]
		log = "%" not in unit and spreads(values)
		yield from self.margins(u, p)
		yield f"set title {quoted(place + ': ' + unit)} offset 0,-0.7"
		yield "set logscale y\nset yrange [*:*]" if log else (
			f"unset logscale y\nset yrange [{min(0, *values):.6g}:*]")
		yield from self.x_axis()
		if p + 1 == len(self.places):
			yield (f"set key at screen {(WIDE * len(self.places) + 4) / self.width:.5f}, screen "
				f"{1 - (HEAD + HIGH * u + TOP - 6) / self.height:.5f} left top Left reverse samplen 2")
		else:
			yield "unset key"
		yield from self.plot(unit, place, marks)

	def x_axis(self):
		if self.bars:
			tics = [f"{quoted(name)} {i + 1}" for i, name in enumerate(self.names)]
			yield f"set xrange [0.4:{len(self.names) + 0.6}]"
		elif spreads(self.xs):
			tics = [2 ** i for i in range(31) if self.xs[0] <= 2 ** i <= self.xs[-1]]
			tics = [f"'{binary(t)}' {t}" for t in (tics[::3] if len(tics) > 8 else tics)]
			yield f"set logscale x 2\nset xrange [{self.xs[0] / 1.2}:{self.xs[-1] * 1.2}]"
		else:
			tics = []
			yield "set xrange [*:*]"
		yield f"set xtics ({', '.join(tics)})" if tics else "set xtics autofreq"

	def plot(self, unit, place, marks):
		blocks, parts = [], []

		def add(points, how):
			lines = "".join(f"{x:.6g} {y:.6g}\n" for x, y in points)
			blocks.append(f"$d{len(blocks)} << EOD\n{lines}EOD")
			parts.append(f"$d{len(blocks) - 1} {how}")

		for curve in self.curves[unit]:
			points = [(self.x_of(unit, curve, x), self.shown(unit, y))
				for x, y in self.data.get((place, unit, curve), [])]
			how = "boxes" if self.bars else "lines lw 1.5"
			colour = f"lc rgb '{self.colours[curve]}'"
			if points:
				add(points, f"with {how} {colour} title {quoted(curve)}")
			else:
				parts.append(f"NaN with {how} {colour} title {quoted(curve)}")
		for m in marks:
			ends = self.mark_ends(m)
			colour = f"lc rgb '{self.colours[m.curve]}'"
			if len(ends) > 1:
				add([(x, m.value) for x in ends], f"with lines {colour} dt 2 notitle")
			if ends:
				middle = ((ends[0] * ends[-1]) ** 0.5 if spreads(self.xs or [0])
					else (ends[0] + ends[-1]) / 2)
				add([(middle, m.value)], f"with points pt 6 ps 1.1 lw 2 {colour} notitle")
		yield from blocks
		yield "plot " + ", ".join(parts)

	def shown(self, unit, y):
		return min(y, MOST) if unit.startswith("%") else y

	def bar_width(self):
		return 0.72 / max(len(curves) for curves in self.curves.values())

	def x_of(self, unit, curve, x):
		if not self.bars:
			return float(x)
		curves = self.curves[unit]
		return self.names.index(x) + 1 + (curves.index(curve) - (len(curves) - 1) / 2) * 0.8 / len(curves)

	def mark_ends(self, m):
		if self.bars:
			return [self.x_of(m.unit, m.curve, m.x)] if m.x in self.names else []
		return sorted({min(max(v, self.xs[0]), self.xs[-1]) for v in m.range or []})


def main(name, title, studies, measured, svg):
	gnuplot = shutil.which("gnuplot") or shutil.which("gnuplot-nox")
	if not gnuplot:
		sys.exit("draw.py: no gnuplot (Debian's gnuplot-nox)")
	with open(studies, encoding="utf-8") as f:
		marks = [Mark(row) for row in csv.DictReader(f) if row["id"] == name]
	with open(measured, encoding="utf-8") as f:
		picture = Picture(list(csv.reader(f))[1:], marks)
	with open(svg, "w", encoding="utf-8") as f:
		drawn = subprocess.run([gnuplot], input=picture.commands(f"{name}: {title}"), text=True, check=True,
			stdout=subprocess.PIPE).stdout
		f.write(re.sub(r"<g [^>]*>\s*</g>\n", "", drawn))     # of gnuplot's groups, half are empty
	for m in marks:
		ours = [(place, m.ours(picture.data.get((place, m.unit, m.curve), []))) for place in picture.places]
		here = ", ".join(f"{place} {v:.3g}" for place, v in ours if v is not None) or "not measured"
		at = m.x + (" max" if m.most else "")
		print(f"{name:6} {m.curve:24} {at:20} {m.source}: {m.value:g} {m.unit}; here: {here}")


if __name__ == "__main__":
	if len(sys.argv) != 6:
		sys.exit(__doc__)
	main(*sys.argv[1:])
