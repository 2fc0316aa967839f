#!/usr/bin/env python3
"""Draws what a benchmark wrote with --json as one SVG.

usage: chart.py RESULTS.json CHART.svg [--only PATTERN]

A bar a row: the ratio to the peer, on a logarithmic axis, to the right of 1 where Troupe is better. Rows of one name
stand together, once for each peer, each peer in its own colour; a limit of the machine, which nobody can beat by much,
is an outline. A row with an aim has a mark there. A row that was not measured says why. The colours follow the
viewer's choice of light or dark. --only: rows whose name has the regular expression, for reports too long for one
picture.
"""

import argparse
import dataclasses
import json
import math
import re
from xml.sax.saxutils import escape

NAMESPACE = "http://www.w3.org/2000/svg"
WIDTH = 860
LETTER = 6.6  # width of a letter, at most on average
BAR = 11
GAP = 7
TOP = 56  # of the legend
LEGEND_LINE = 16

# One a peer, in the order in which they appear: readable on white and on black.
LIGHT = ("#2a6fb0", "#c4622d", "#3c8d4f", "#8a5bb5", "#b03a5b", "#6b7280", "#9a7d0a", "#1f8a8a", "#5b6d1f", "#7c4a2d")
DARK = ("#6fb1ee", "#f0945c", "#72c686", "#c39af0", "#ee7f9d", "#a9b1bd", "#dcc04a", "#5fd0d0", "#b5cf5f", "#d9a07c")


def style():
    """The style sheet: classes p0, p1, ... are the peers'."""
    def sheet(ink, faint, ground, colours):
        peers = "".join(f".p{i}{{fill:{c};stroke:{c}}}" for i, c in enumerate(colours))
        return (f".ground{{fill:{ground}}}text{{fill:{ink}}}.faint{{stroke:{faint}}}.one,.aim{{stroke:{ink}}}"
                f".aim{{fill:{ground}}}{peers}")

    return (
        "<style>text{font:11px sans-serif}.title{font-size:15px;font-weight:bold}.note{font-style:italic}"
        + sheet("#1f2328", "#d8dce1", "#ffffff", LIGHT)
        + ".limit{fill-opacity:0.15}"
        + "@media (prefers-color-scheme:dark){"
        + sheet("#e6edf3", "#3a414a", "#0d1117", DARK)
        + "}</style>"
    )


def text(x, y, content, anchor="start", kind=""):
    kind = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{kind}>{escape(content)}</text>'


def width_of(content):
    return LETTER * len(content)


def short(x):
    """1234567 as 1.23 M, 0.00123 as 0.00123."""
    for step, unit in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if x >= step:
            scale = 1e3 if unit == " k" else step
            return f"{x / scale:.3g}{unit}"
    return f"{x:.4g}" if x < 1000 else f"{x:.0f}"


def value_of(row):
    """What stands to the right of a bar."""
    ours = f'{short(row["median"])} {row["unit"]}'
    if not row.get("ratio"):
        return ours
    ratio = f'{row["ratio"]:.3g}' if row["ratio"] < 1000 else short(row["ratio"])
    return f'{ratio} ({ours} to {short(row["peer_median"])})'


def ticks(low, high):
    """1, 2 and 5 of each power of ten between the two; powers of ten alone when there are many."""
    steps = (1, 2, 5) if math.log10(high / low) <= 2 else (1,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [s * 10.0**p for p in powers for s in steps if low <= s * 10.0**p <= high * 1.0001]


@dataclasses.dataclass
class Layout:
    """Where things stand: names, then bars between `left` and `right`, then numbers."""

    left: float
    right: float
    low: float  # the ratio at `left`
    high: float
    top: float

    @staticmethod
    def of(rows, top):
        names = max([80.0, *(width_of(r["name"]) for r in rows)])
        values = max([80.0, *(width_of(value_of(r)) for r in rows if "not_measured" not in r)])
        ratios = [x for r in rows for x in (r.get("ratio"), r.get("aim")) if x]
        # With some air, at least a factor of two either way.
        return Layout(names + 20, WIDTH - values - 20, min([0.5, *ratios]) / 1.2, max([2.0, *ratios]) * 1.2, top)

    def position(self, ratio):
        part = math.log(ratio / self.low) / math.log(self.high / self.low)
        return self.left + (self.right - self.left) * part


def groups_of(rows):
    """[(name, rows of that name)] in the order in which the names appear."""
    groups = {}
    for row in rows:
        groups.setdefault(row["name"], []).append(row)
    return list(groups.items())


def draw_axis(at, bottom):
    out = []
    for tick in ticks(at.low, at.high):
        x = at.position(tick)
        kind = "one" if tick == 1 else "faint"
        out.append(f'<line x1="{x:.1f}" y1="{at.top:.0f}" x2="{x:.1f}" y2="{bottom}" class="{kind}"/>')
        out.append(text(x, bottom + 14, f"{tick:g}", "middle"))
    out.append(text((at.left + at.right) / 2, bottom + 32,
                    "ratio of the medians, logarithmic: above 1 Troupe is better", "middle"))
    return out


def kind_of(peer, colour_of):
    return f"p{colour_of[peer]}" + (" limit" if peer.startswith("limit_") else "")


def draw_aim(x, y):
    """A diamond, as high as a bar."""
    half = BAR / 2 - 1
    return f'<path d="M{x:.1f} {y:.1f}l{half} {half}l-{half} {half}l-{half} -{half}z" class="aim"/>'


def draw_row(row, y, at, colour_of):
    """The bar of a row, or why there is none."""
    middle = y + BAR - 2
    if "not_measured" in row:
        return [text(at.left + 6, middle, f'not measured: {row["not_measured"]}', kind="note")]
    out = [text(at.right + 8, middle, value_of(row))]
    if not row.get("ratio"):
        return out
    begin, end = sorted((at.position(1), at.position(row["ratio"])))
    out.append(f'<rect x="{begin:.1f}" y="{y:.1f}" width="{max(1.0, end - begin):.1f}" height="{BAR - 2}" '
               f'class="{kind_of(row["peer"], colour_of)}"/>')
    if row.get("aim"):
        out.append(draw_aim(at.position(row["aim"]), y + 0.5))
    return out


def draw_legend(keys, y):
    """Keys, as many a line as have room; the elements, and the last line's y."""
    out, x = [text(12, y, "against:")], 12 + width_of("against: ")
    for name, key in keys:
        if x + 14 + width_of(name) > WIDTH - 12:
            x, y = 12 + width_of("against: "), y + LEGEND_LINE
        out += [key(x, y), text(x + 14, y, name)]
        x += 28 + width_of(name)
    return out, y


def keys_of(rows, colour_of):
    """What the legend tells: [(name, draws its key)]."""
    def swatch(kind):
        return lambda x, y: f'<rect x="{x:.1f}" y="{y - 9:.1f}" width="10" height="9" class="key {kind}"/>'

    keys = [(peer, swatch(kind_of(peer, colour_of))) for peer in colour_of]
    if any(row.get("aim") for row in rows):
        keys.append(("the aim", lambda x, y: draw_aim(x + 5, y - 9)))
    return keys


def render(report):
    """The SVG of one report as text."""
    rows = report["rows"]
    peers = dict.fromkeys(row["peer"] for row in rows if row.get("ratio"))
    colour_of = {peer: i % len(LIGHT) for i, peer in enumerate(peers)}
    legend, y = draw_legend(keys_of(rows, colour_of), TOP + 6) if colour_of else ([], TOP)
    at = Layout.of(rows, y + 12)
    body, y = [], y + 12 + GAP
    for name, group in groups_of(rows):
        body.append(text(at.left - 8, y + BAR - 2, name, "end"))
        for row in group:
            body += draw_row(row, y, at, colour_of)
            y += BAR
        y += GAP
    about = f'{report["date"]}, {report["machine"]}' + (", quick" if report.get("quick") else "")
    head = [text(12, 24, f'{report["suite"]}: Troupe and its peers', kind="title"), text(12, 42, about), *legend]
    height = y + 44
    return "\n".join([
        f'<svg xmlns="{NAMESPACE}" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
        f'<title>{escape(report["suite"])}</title>', style(),
        f'<rect class="ground" width="{WIDTH}" height="{height}"/>',
        *head, *draw_axis(at, y), *body, "</svg>", ""])


def only(report, pattern):
    """The report with those rows alone whose names have the pattern."""
    return report | {"rows": [row for row in report["rows"] if re.search(pattern, row["name"])]}


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("results")
    options.add_argument("chart")
    options.add_argument("--only", metavar="PATTERN", default="")
    told = options.parse_args()
    with open(told.results, encoding="utf-8") as file:
        report = only(json.load(file), told.only)
    with open(told.chart, "w", encoding="utf-8") as file:
        file.write(render(report))


if __name__ == "__main__":
    main()
