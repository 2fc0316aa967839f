#!/usr/bin/env python3
"""The chart of a benchmark: well-formed, a bar for each row with a ratio, nothing left out, nothing unescaped.

usage: chart_test.py
"""

import pathlib
import sys
import unittest
import xml.etree.ElementTree as xml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import chart  # noqa: E402

SVG = f"{{{chart.NAMESPACE}}}"


def row(name, ratio=None, peer="peer", **more):
    out = {"name": name, "params": {}, "unit": "us", "median": 10.0, "q1": 9.0, "min": 8.0, **more}
    return out | ({"peer": peer, "peer_median": 10.0 * ratio, "ratio": ratio} if ratio else {})


def report(*rows):
    return {"suite": "sums", "date": "2026-01-01", "machine": "2 x CPU", "quick": False, "rows": list(rows)}


def drawn(*rows):
    return xml.fromstring(chart.render(report(*rows)))


def bars(svg):
    """Bars alone: neither the ground nor the keys of the legend."""
    return [r for r in svg.iter(SVG + "rect") if r.get("class", "").startswith("p")]


def texts(svg):
    return [t.text for t in svg.iter(SVG + "text")]


class Chart(unittest.TestCase):
    def test_a_bar_a_row_in_the_colour_of_its_peer(self):
        svg = drawn(row("a", 2.0, "x"), row("a", 0.5, "y"), row("b", 3.0, "x"))
        self.assertEqual([b.get("class") for b in bars(svg)], ["p0", "p1", "p0"])
        keys = [r.get("class") for r in svg.iter(SVG + "rect") if "key" in r.get("class", "")]
        self.assertEqual(keys, ["key p0", "key p1"])
        for label in ("a", "b", "x", "y"):
            self.assertEqual(texts(svg).count(label), 1, label)

    def test_better_is_right_of_one_and_the_axis_is_logarithmic(self):
        svg = drawn(row("better", 4.0), row("worse", 0.25), row("much", 16.0))
        better, worse, much = bars(svg)
        begin = lambda b: float(b.get("x"))
        width = lambda b: float(b.get("width"))
        one = begin(better)
        self.assertAlmostEqual(begin(worse) + width(worse), one, delta=0.2)
        self.assertAlmostEqual(width(better), width(worse), delta=0.2)
        self.assertAlmostEqual(width(much), 2 * width(better), delta=0.3)

    def test_every_bar_and_every_text_lies_in_the_picture(self):
        svg = drawn(*[row(f"row {i}", 10.0 ** (i / 5 - 3), f"peer {i % 3}") for i in range(40)])
        height = float(svg.get("height"))
        for bar in bars(svg):
            self.assertGreaterEqual(float(bar.get("x")), chart.LABELS)
            self.assertLessEqual(float(bar.get("x")) + float(bar.get("width")), chart.LABELS + chart.PLOT)
            self.assertLess(float(bar.get("y")) + float(bar.get("height")), height)
        for t in svg.iter(SVG + "text"):
            self.assertLess(float(t.get("y")), height)

    def test_what_has_no_ratio_is_said_in_words(self):
        svg = drawn({"name": "gone", "params": {}, "unit": "us", "not_measured": "no Gloo here"}, row("alone"))
        self.assertEqual(bars(svg), [])
        self.assertIn("not measured: no Gloo here", texts(svg))
        self.assertIn("10 us", texts(svg))

    def test_names_with_markup_are_text(self):
        svg = drawn(row("<b>&\"'", 2.0, "<peer & co>"))
        self.assertIn("<b>&\"'", texts(svg))
        self.assertIn("<peer & co>", texts(svg))

    def test_a_report_without_rows_is_a_picture_all_the_same(self):
        svg = drawn()
        self.assertEqual(bars(svg), [])
        self.assertIn("sums: Troupe and its peers", texts(svg))

    def test_both_colour_schemes_have_a_colour_for_every_peer(self):
        self.assertEqual(len(set(chart.LIGHT)), len(chart.LIGHT))
        self.assertEqual(len(chart.LIGHT), len(set(chart.DARK)))
        self.assertIn("prefers-color-scheme:dark", chart.style())

    def test_the_charts_in_docs_are_well_formed(self):
        charts = sorted((pathlib.Path(chart.__file__).parents[1] / "docs" / "charts").glob("*.svg"))
        self.assertTrue(charts)
        for path in charts:
            svg = xml.parse(path).getroot()
            self.assertTrue(bars(svg), path)
            self.assertLess(path.stat().st_size, 65536, path)


if __name__ == "__main__":
    unittest.main()
