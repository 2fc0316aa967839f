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


def aims(svg):
    """The diamonds, by the x of their upper corner."""
    return [float(p.get("d")[1:].split()[0]) for p in svg.iter(SVG + "path")]


def aims_of_legend(svg):
    """Those in the line of the legend."""
    key = next(t for t in svg.iter(SVG + "text") if t.text == "the aim")
    return [x for x in aims(svg) if abs(x + 9 - float(key.get("x"))) < 1]


def extent(t):
    """Left and right end of a text, and its line."""
    x, long = float(t.get("x")), chart.width_of(t.text)
    left = {"start": x, "middle": x - long / 2, "end": x - long}[t.get("text-anchor")]
    return left, left + long, float(t.get("y"))


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
        svg = drawn(*[row(f"row {i}", 10.0 ** (i / 5 - 3), f"a rather long peer {i % 9}") for i in range(40)])
        height = float(svg.get("height"))
        for bar in bars(svg):
            self.assertGreaterEqual(float(bar.get("x")), 0)
            self.assertLessEqual(float(bar.get("x")) + float(bar.get("width")), chart.WIDTH)
            self.assertLess(float(bar.get("y")) + float(bar.get("height")), height)
        for t in svg.iter(SVG + "text"):
            left, right, y = extent(t)
            self.assertGreaterEqual(left, 0, t.text)
            self.assertLessEqual(right, chart.WIDTH, t.text)
            self.assertLess(y, height, t.text)

    def test_no_text_lies_on_a_text_or_a_bar(self):
        svg = drawn(*[row("reduce_scatter_inproc_n4_16M_with_a_long_name_" + str(i), 10.0 ** (i - 3),
                          f"peer_{i % 9}_of_many", median=123456.0) for i in range(9)])
        lines = {}
        for t in svg.iter(SVG + "text"):
            lines.setdefault(float(t.get("y")), []).append(extent(t)[:2])
        for line in lines.values():
            line.sort()
            for before, behind in zip(line, line[1:]):
                self.assertLessEqual(before[1], behind[0])
        for bar in bars(svg):
            begin = float(bar.get("x"))
            end = begin + float(bar.get("width"))
            for left, right in lines[float(bar.get("y")) + chart.BAR - 2]:
                self.assertTrue(right <= begin or end <= left, (left, right, begin, end))

    def test_an_aim_is_a_mark_at_its_ratio(self):
        svg = drawn(row("met", 4.0, aim=2.0), row("missed", 0.5, aim=4.0), row("none", 3.0))
        met, missed, _ = bars(svg)
        end = float(met.get("x")) + float(met.get("width"))
        one = float(met.get("x"))
        legend, *marks = sorted(aims(svg), key=lambda x: x not in aims_of_legend(svg))
        self.assertEqual(len(marks), 2)
        self.assertAlmostEqual(marks[0], (one + end) / 2, delta=0.2)
        self.assertAlmostEqual(marks[1], end, delta=0.2)
        self.assertGreater(marks[1], float(missed.get("x")) + float(missed.get("width")))
        self.assertIn("the aim", texts(svg))
        self.assertNotIn("the aim", texts(drawn(row("none", 3.0))))

    def test_an_aim_beyond_all_ratios_is_in_the_picture(self):
        svg = drawn(row("far", 1.1, aim=50.0))
        self.assertLess(max(aims(svg)), chart.WIDTH)

    def test_a_limit_of_the_machine_is_an_outline(self):
        svg = drawn(row("a", 2.0, "gloo"), row("a", 0.5, "limit_memory"))
        self.assertEqual([b.get("class") for b in bars(svg)], ["p0", "p1 limit"])

    def test_a_pattern_chooses_rows(self):
        whole = report(row("all_reduce_tcp"), row("gather_tcp"), row("gather_shm"))
        names = lambda pattern: [r["name"] for r in chart.only(whole, pattern)["rows"]]
        self.assertEqual(names("^gather"), ["gather_tcp", "gather_shm"])
        self.assertEqual(names("^(?!gather)"), ["all_reduce_tcp"])
        self.assertEqual(len(names("")), 3)

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
