#!/usr/bin/env python3
"""The quick runs of the benchmarks see what is missing: programs that end badly, rows without results."""

import json
import pathlib
import stat
import sys
import tempfile
import unittest

import quick_run

ROWS = "# of all\nfake\n  one\n  two   # with a word\n  gpu?\nother\n  three\n"


def row(name, **more):
    return {"name": name, "unit": "us", "median": 10.0, **more}


def wrong_with(*rows):
    return list(quick_run.complaints({"rows": list(rows)}, quick_run.rows_of(ROWS)["fake"]))


class QuickRun(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.rows = pathlib.Path(self.folder.name, "rows.txt")
        self.rows.write_text(ROWS)

    def program(self, body, name="fake"):
        path = pathlib.Path(self.folder.name, name)
        path.write_text(f"#!{sys.executable}\nimport json, os, sys\n{body}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    def writes(self, *rows, after=""):
        return self.program(f"json.dump({{'rows': {json.dumps(rows)}}}, open(sys.argv[3], 'w'))\n{after}")

    def test_the_list_of_rows(self):
        self.assertEqual(quick_run.rows_of(ROWS),
                         {"fake": {"one": False, "two": False, "gpu": True}, "other": {"three": False}})

    def test_a_whole_run_is_right(self):
        good = [row("one"), row("two", peer="p", peer_median=3.0, ratio=0.3), {"name": "gpu", "not_measured": "none"}]
        self.assertEqual(wrong_with(*good), [])
        self.assertEqual(quick_run.check(self.writes(*good), self.rows), [])

    def test_it_is_run_with_quick(self):
        program = self.program("sys.exit(0 if sys.argv[1] == '--quick' else 3)")
        self.assertIn("no results", quick_run.check(program, self.rows)[0])

    def test_a_missing_row_and_a_new_one(self):
        self.assertEqual(wrong_with(row("one"), row("gpu")), ["two: no such row in the results"])
        self.assertIn("does not list", wrong_with(row("one"), row("two"), row("gpu"), row("four"))[0])

    def test_a_row_without_a_number(self):
        for median in (0, -1, float("nan"), float("inf"), None):
            self.assertIn("its median is", wrong_with(row("one", median=median), row("two"), row("gpu"))[0])

    def test_every_row_of_a_name_is_looked_at(self):
        self.assertEqual(len(wrong_with(row("one"), row("one", median=0), row("two"), row("gpu"))), 1)

    def test_a_peer_without_a_number(self):
        bad = row("one", peer="p", peer_median=0.0, ratio=0.0)
        self.assertEqual(wrong_with(bad, row("two"), row("gpu")), ["one: p has 0.0, the ratio is 0.0"])

    def test_a_wrong_result_is_no_result(self):
        bad = row("one", note="gloo: members differ; ")
        self.assertEqual(wrong_with(bad, row("two"), row("gpu")), ["one: gloo: members differ; "])

    def test_what_is_not_measured_without_leave_or_reason(self):
        gone = {"name": "two", "not_measured": "a rank failed"}
        self.assertEqual(wrong_with(row("one"), gone, row("gpu")), ["two: not measured: a rank failed"])
        self.assertTrue(wrong_with(row("one"), row("two"), {"name": "gpu", "not_measured": ""}))

    def test_push_pull_ended_with_1_and_nobody_looked(self):
        program = self.program("print('no memory to share with the workers'); sys.exit(1)")
        self.assertEqual(quick_run.check(program, self.rows), ["ended with 1"])

    def test_a_program_that_crashes_after_its_results(self):
        program = self.writes(row("one"), row("two"), row("gpu"), after="os.kill(os.getpid(), 11)")
        self.assertEqual(quick_run.check(program, self.rows), ["ended with -11"])

    def test_a_benchmark_that_nobody_listed(self):
        program = self.program("sys.exit(0)", "unheard_of")
        self.assertIn("lists no rows of unheard_of", quick_run.check(program, self.rows)[0])

    def test_the_list_in_the_tree_has_every_benchmark(self):
        here = pathlib.Path(__file__).resolve()
        listed = quick_run.rows_of((here.parent / "rows.txt").read_text())
        there = {p.stem for p in (here.parents[2] / "bench").glob("*.cpp")}
        self.assertEqual(set(listed), there)
        self.assertTrue(all(listed.values()))


if __name__ == "__main__":
    unittest.main()
