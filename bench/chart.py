#!/usr/bin/env python3
"""Draws what a benchmark wrote with --json as one SVG.

usage: chart.py RESULTS.json CHART.svg

A bar a row: the ratio to the peer, on a logarithmic axis, to the right of 1 where Troupe is better. Rows of one name
stand together, once for each peer, each peer in its own colour. A row that was not measured says why. The colours
follow the viewer's choice of light or dark.
"""

import json
import math
import sys
from xml.sax.saxutils import escape

NAMESPACE = "http://www.w3.org/2000/svg"
WIDTH = 860
LABELS = 250  # room for the names on the left
VALUES = 190  # room for the numbers on the right
BAR = 11
GAP = 7
TOP = 74
PLOT = WIDTH - LABELS - VALUES

# One a peer, in the order in which they appear: readable on white and on black.
LIGHT = ("#2a6fb0", "#c4622d", "#3c8d4f", "#8a5bb5", "#b03a5b", "#6b7280", "#9a7d0a", "#1f8a8a")
DARK = ("#6fb1ee", "#f0945c", "#72c686", "#c39af0", "#ee7f9d", "#a9b1bd", "#dcc04a", "#5fd0d0")


def style():
    """The style sheet: classes p0, p1, ... are the peers'."""
    def sheet(ink, faint, ground, colours):
        peers = "".join(f".p{i}{{fill:{colour}}}" for i, colour in enumerate(colours))
        return f".ground{{fill:{ground}}}text{{fill:{ink}}}.faint{{stroke:{faint}}}.one{{stroke:{ink}}}{peers}"

    return (
        "<style>text{font:11px sans-serif}.title{font-size:15px;font-weight:bold}.note{font-style:italic}"
        + sheet("#1f2328", "#d8dce1", "#ffffff", LIGHT)
        + "@media (prefers-color-scheme:dark){"
        + sheet("#e6edf3", "#3a414a", "#0d1117", DARK)
        + "}</style>"
    )


def text(x, y, content, anchor="start", kind=""):
    kind = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{kind}>{escape(content)}</text>'


def short(x):
    """1234567 as 1.23 M, 0.00123 as 0.00123."""
    for step, unit in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if x >= step:
            scale = 1e3 if unit == " k" else step
            return f"{x / scale:.3g}{unit}"
    return f"{x:.4g}" if x < 1000 else f"{x:.0f}"


def ticks(low, high):
    """1, 2 and 5 of each power of ten between the two; powers of ten alone when there are many."""
    steps = (1, 2, 5) if math.log10(high / low) <= 2 else (1,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [s * 10.0**p for p in powers for s in steps if low <= s * 10.0**p <= high * 1.0001]


def bounds(ratios):
    """The axis: the ratios and 1, with some air, at least a factor of two either way."""
    low = min([0.5, *ratios]) / 1.2
    high = max([2.0, *ratios]) * 1.2
    return low, high


def groups_of(rows):
    """[(name, rows of that name)] in the order in which the names appear."""
    groups = {}
    for row in rows:
        groups.setdefault(row["name"], []).append(row)
    return list(groups.items())


def value_of(row):
    """What stands to the right of a bar."""
    ours = f'{short(row["median"])} {row["unit"]}'
    if not row.get("ratio"):
        return ours
    return f'{row["ratio"]:.3g} ({ours} to {short(row["peer_median"])})'


def draw_axis(low, high, position, bottom):
    out = []
    for tick in ticks(low, high):
        x = position(tick)
        kind = "one" if tick == 1 else "faint"
        out.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}" class="{kind}"/>')
        out.append(text(x, bottom + 14, f"{tick:g}", "middle"))
    out.append(text(LABELS + PLOT / 2, bottom + 32,
                    "ratio of the medians, logarithmic: above 1 Troupe is better", "middle"))
    return out


def draw_row(row, y, position, colour_of):
    """The bar of a row, or why there is none."""
    middle = y + BAR - 2
    if "not_measured" in row:
        return [text(LABELS + 6, middle, f'not measured: {row["not_measured"]}', kind="note")]
    right = WIDTH - VALUES + 8
    if not row.get("ratio"):
        return [text(right, middle, value_of(row))]
    begin, end = sorted((position(1), position(row["ratio"])))
    bar = (f'<rect x="{begin:.1f}" y="{y:.1f}" width="{max(1.0, end - begin):.1f}" height="{BAR - 1}" '
           f'class="p{colour_of[row["peer"]]}"/>')
    return [bar, text(right, middle, value_of(row))]


def draw_legend(colour_of, y):
    out, x = [text(LABELS, y, "against:", "end")], LABELS + 10
    for peer, colour in colour_of.items():
        out.append(f'<rect x="{x}" y="{y - 9}" width="10" height="10" class="key p{colour}"/>')
        out.append(text(x + 14, y, peer))
        x += 30 + 7 * len(peer)
    return out


def render(report):
    """The SVG of one report as text."""
    rows = report["rows"]
    peers = dict.fromkeys(row["peer"] for row in rows if row.get("ratio"))
    colour_of = {peer: i % len(LIGHT) for i, peer in enumerate(peers)}
    low, high = bounds([row["ratio"] for row in rows if row.get("ratio")])

    def position(ratio):
        return LABELS + PLOT * math.log(ratio / low) / math.log(high / low)

    body, y = [], TOP + GAP
    for name, group in groups_of(rows):
        body.append(text(LABELS - 8, y + BAR - 2, name, "end"))
        for row in group:
            body += draw_row(row, y, position, colour_of)
            y += BAR
        y += GAP
    about = f'{report["date"]}, {report["machine"]}' + (", quick" if report.get("quick") else "")
    head = [text(12, 24, f'{report["suite"]}: Troupe and its peers', kind="title"), text(12, 42, about)]
    if colour_of:
        head += draw_legend(colour_of, 62)
    height = y + 44
    return "\n".join([
        f'<svg xmlns="{NAMESPACE}" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
        f'<title>{escape(report["suite"])}</title>', style(),
        f'<rect class="ground" width="{WIDTH}" height="{height}"/>',
        *head, *draw_axis(low, high, position, y), *body, "</svg>", ""])


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip().split("\n\n")[1])
    with open(sys.argv[1], encoding="utf-8") as file:
        report = json.load(file)
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(render(report))


if __name__ == "__main__":
    main()
