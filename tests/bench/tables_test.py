#!/usr/bin/env python3
"""The tables of the collective operations: each cell from its row, none made up, in the right place of the page.

usage: tables_test.py
"""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import tables  # noqa: E402


def row(name, n, size, median, peer, peer_median, algorithm="direct"):
    return {"name": name, "params": {"n": n, "bytes": size, "algorithm": algorithm}, "unit": "us", "median": median,
            "peer": peer, "peer_median": peer_median, "ratio": peer_median / median}


def lines(rows, make):
    """The table's lines below its head, as lists of cells."""
    text = make(tables.Results({"rows": rows}))
    return [[c.strip() for c in line.strip("|").split("|")] for line in text.splitlines()[2:]]


class Tables(unittest.TestCase):
    def test_numbers_have_three_digits_or_all_of_a_thousand(self):
        self.assertEqual([tables.time_text(x) for x in (0.2184, 5.629, 48.96, 999.4, 999.6, 19042.5)],
                         ["0.218", "5.63", "49", "999", "1,000", "19,042"])
        self.assertEqual([tables.ratio_text(x) for x in (0.949, 99.994, 99.996, 1234.5)],
                         ["(0.95)", "(99.99)", "(100)", "(1,234)"])

    def test_a_sum_over_tcp_stands_beside_its_peers(self):
        rows = [row("all_reduce_tcp_n2_1K", 2, 1024, 5.0, "gloo_hd", 50.0, "exchange"),
                row("all_reduce_tcp_n2_1K", 2, 1024, 5.0, "openmpi_tcp", 10.0, "exchange"),
                row("all_reduce_tcp_n4_1K", 4, 1024, 9.0, "openmpi_tcp", 9.0)]
        self.assertEqual(lines(rows, lambda r: tables.sums_over_tcp(r, 2)),
                         [["1 KiB", "**5** exchange", "-", "50 (10.00)", "10 (2.00)", "-", "-", "-", "-"]])
        self.assertEqual(len(lines(rows, lambda r: tables.sums_over_tcp(r, 4))[0]), 10)

    def test_variants_of_a_sum_have_columns_of_their_own(self):
        size = 1 << 20
        rows = [row("all_reduce_tcp_n4_1M", 4, size, 400.0, "openmpi_tcp", 600.0),
                row("all_reduce_tcp_n4_1M_fixed", 4, size, 300.0, "openmpi_tcp", 600.0, "halving_doubling"),
                row("all_reduce_tcp_n4_1M_bf16", 4, size, 200.0, "openmpi_tcp", 600.0),
                row("all_reduce_tcp_n4_1M_bf16", 4, size, 200.0, "troupe_f32", 400.0),
                row("all_reduce_shm_n4_1M", 4, size, 40.0, "openmpi_shm", 60.0),
                row("all_reduce_shm_n4_1M_zero_copy", 4, size, 20.0, "openmpi_shm", 60.0),
                row("all_reduce_inproc_n4_1M", 4, size, 20.0, "limit_memory", 10.0)]
        self.assertEqual(lines(rows, lambda r: tables.sums_over_tcp(r, 4))[0][5:],
                         ["**300** halving_doubling", "(2.00)", "200", "(3.00)", "(2.00)"])
        self.assertEqual(lines(rows, tables.sums_in_memory),
                         [["4, 1 MiB", "**40**", "60 (1.50)", "**20**", "(3.00)", "-", "**20**", "10 (0.50)"]])

    def test_other_operations_stand_by_members_and_a_barrier_has_no_size(self):
        barrier = row("barrier_shm_n2", 2, 0, 2.0, "limit_spin", 1.0)
        rows = [row("gather_tcp_n4_1K", 4, 1024, 9.0, "gloo", 90.0), row("all_reduce_tcp_n2_1K", 2, 1024, 5.0, "gloo", 5),
                barrier, row("gather_tcp_n2_16M", 2, 16 << 20, 1300.0, "limit_raw_tcp", 650.0)]
        got = lines(rows, tables.other_operations)
        self.assertEqual([line[0] for line in got], ["`gather`, 2, 16 MiB", "`gather`, 4, 1 KiB", "`barrier`, 2"])
        self.assertEqual(got[0][1:5], ["**1,300**", "-", "-", "650 (0.50)"])
        self.assertEqual(got[2], ["`barrier`, 2", "-", "-", "-", "-", "**2**", "-", "(0.50)", "-", "-"])

    def test_what_was_not_measured_is_no_number(self):
        rows = [row("all_reduce_tcp_n2_1K", 2, 1024, 5.0, "gloo_hd", 50.0),
                {"name": "all_reduce_tcp_n2", "params": {}, "unit": "us", "not_measured": "a rank failed"}]
        self.assertEqual(len(lines(rows, lambda r: tables.sums_over_tcp(r, 2))), 1)

    def test_a_page_gets_a_group_between_its_markers_and_keeps_the_rest(self):
        begin, end = tables.markers("sums")
        page = f"before\n{begin}old\n{end}behind\n"
        once = tables.put(page, "sums", "new\n")
        self.assertEqual(once, f"before\n{begin}\nnew\n\n{end}behind\n")
        self.assertEqual(tables.put(once, "sums", "new\n"), once)
        for broken in ("no marker\n", f"{end}{begin}", page + begin):
            with self.assertRaisesRegex(ValueError, "must be there once"):
                tables.put(broken, "sums", "new\n")

    def test_the_page_in_docs_has_a_place_for_every_group(self):
        page = (pathlib.Path(tables.__file__).parents[1] / "docs" / "performance.md").read_text(encoding="utf-8")
        for group in tables.groups_of(tables.Results({"rows": []})):
            self.assertIn("\nnew\n", tables.put(page, group, "new\n"))


if __name__ == "__main__":
    unittest.main()
