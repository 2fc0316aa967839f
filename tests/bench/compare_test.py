#!/usr/bin/env python3
"""./dev bench --compare: two commits in turns, and what moved between them, on benchmarks made up for it."""

import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import compare  # noqa: E402


def report(*rows, **more):
    return {"rows": [{"unit": "us", "better": "less", **r} for r in rows], **more}


def pairs_of(base, here, **more):
    """One row `x` with these medians in the pairs."""
    return [(report({"name": "x", "median": b, **more}), report({"name": "x", "median": h, **more}))
            for b, h in zip(base, here)]


def only_row(reports, over=0.03):
    rows, _, _ = compare.compare(reports, over)
    assert len(rows) == 1
    return rows[0]


class WhatMoved(unittest.TestCase):
    def test_more_microseconds_are_worse_and_fewer_better(self):
        self.assertEqual(only_row(pairs_of([10] * 5, [11] * 5)).word, "worse")
        self.assertEqual(only_row(pairs_of([10] * 5, [9] * 5)).word, "better")

    def test_a_rate_points_the_other_way(self):
        self.assertEqual(only_row(pairs_of([10] * 5, [11] * 5, unit="1/s", better="more")).word, "better")

    def test_files_that_do_not_say_which_way_are_judged_by_the_unit(self):
        for unit, word in (("M rows/s", "better"), ("s/epoch", "worse"), ("GB/s", "better"), ("us/step", "worse")):
            old = pairs_of([10] * 5, [11] * 5, unit=unit)
            for pair in old:
                for one in pair:
                    del one["rows"][0]["better"]
            self.assertEqual(only_row(old).word, word, unit)

    def test_three_percent_are_not_moved_and_a_little_more_is(self):
        self.assertEqual(only_row(pairs_of([100] * 5, [102.9] * 5)).word, "")
        self.assertEqual(only_row(pairs_of([100] * 5, [103.1] * 5)).word, "worse")
        self.assertEqual(only_row(pairs_of([100] * 5, [103.1] * 5), over=0.05).word, "")

    def test_pairs_are_compared_and_not_runs_of_different_times(self):
        # The machine slows down by half, twice: within each pair nothing moved.
        row = only_row(pairs_of([10, 15, 22], [10, 15, 22]))
        self.assertEqual((row.moved, row.word), (0, ""))

    def test_pairs_that_agree_by_chance_are_no_proof(self):
        self.assertEqual(only_row(pairs_of([10] * 5, [11] * 5)).word, "worse")
        self.assertEqual(only_row(pairs_of([10] * 5, [11, 11, 9, 11, 11])).word, "unsure")
        self.assertEqual(only_row(pairs_of([10] * 3, [11] * 3)).word, "unsure")  # once in four
        self.assertEqual(only_row(pairs_of([10] * 9, [11] * 8 + [9])).word, "worse")
        self.assertEqual(only_row(pairs_of([10] * 9, [11] * 7 + [9] * 2)).word, "unsure")

    def test_the_chance_that_pairs_agree(self):
        self.assertEqual([compare.chance_of(a, n) for a, n in ((0, 1), (0, 3), (0, 5), (1, 5), (2, 4))],
                         [1.0, 0.25, 0.0625, 0.375, 1.0])

    def test_the_span_over_the_pairs_and_the_ratio(self):
        reports = [(report({"name": "x", "median": 10, "peer": "p", "ratio": 1.0}),
                    report({"name": "x", "median": m, "peer": "p", "ratio": r})) for m, r in ((11, 1.0), (13, 1.1), (12, 1.2))]
        row = only_row(reports)
        self.assertEqual([round(x, 3) for x in (row.low, row.moved, row.high, row.ratio_moved)], [0.1, 0.2, 0.3, 0.1])

    def test_the_first_row_of_a_name_stands_for_it(self):
        twice = report({"name": "x", "median": 10, "peer": "a"}, {"name": "x", "median": 10, "peer": "b"})
        self.assertEqual(len(compare.compare([(twice, twice)], 0.03)[0]), 1)

    def test_rows_of_one_commit_alone_and_rows_without_a_number(self):
        base = report({"name": "x", "median": 1}, {"name": "old", "median": 1}, {"name": "gpu", "not_measured": "none"})
        here = report({"name": "x", "median": 1}, {"name": "new", "median": 1}, {"name": "gpu", "not_measured": "none"})
        text, _ = compare.text_of("b", "abc", [(base, here)], 0.03)
        self.assertIn("1 rows: 0 moved by more than 3 %", text)
        self.assertIn("only in abc: old", text)
        self.assertIn("only in this tree: new", text)

    def test_a_busy_machine_is_said(self):
        quiet, busy = report({"name": "x", "median": 1}, busy=0.02), report({"name": "x", "median": 1}, busy=0.4)
        self.assertIn("other work took up to 40 %", compare.text_of("b", "abc", [(quiet, busy)], 0.03)[0])
        self.assertNotIn("other work", compare.text_of("b", "abc", [(quiet, quiet)], 0.03)[0])


# A project with one benchmark, as large as it must be: a script that is its own source.
CMAKE = """cmake_minimum_required(VERSION 3.22)
project(tiny LANGUAGES NONE)
add_custom_target(bench_one COMMAND ${CMAKE_COMMAND} -E make_directory bench COMMAND
  ${CMAKE_COMMAND} -E copy ${PROJECT_SOURCE_DIR}/bench/one.cpp bench/one)
"""
PRESETS = """{"version": 3, "configurePresets": [{"name": "release", "generator": "Ninja",
 "binaryDir": "${sourceDir}/build"}]}"""
BENCH = """#!{python}
import json, sys
open({log!r}, "a").write("{who} " + " ".join(sys.argv[3:]) + "\\n")
json.dump({{"rows": [{{"name": "x", "unit": "us", "better": "less", "median": {median}}}]}}, open(sys.argv[2], "w"))
{after}
"""


class TwoCommits(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name, "tree")
        self.log = pathlib.Path(folder.name, "log")
        (self.root / "bench").mkdir(parents=True)
        (self.root / "CMakeLists.txt").write_text(CMAKE)
        (self.root / "CMakePresets.json").write_text(PRESETS)
        self.git("init", "-q")
        self.commit("old", 10)
        self.base = self.git("rev-parse", "HEAD").strip()

    def git(self, *what):
        return subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", "-C", self.root, *what], check=True,
                              capture_output=True, text=True).stdout

    def write(self, who, median, after=""):
        path = self.root / "bench" / "one.cpp"
        path.write_text(BENCH.format(python=sys.executable, log=str(self.log), who=who, median=median, after=after))
        path.chmod(0o755)

    def commit(self, who, median, after=""):
        self.write(who, median, after)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", who)

    def here(self, median, after=""):
        """This tree's own program, with what is not committed."""
        self.write("new", median, after)
        built = self.root / "build" / "bench"
        built.mkdir(parents=True, exist_ok=True)
        (built / "one").write_text((self.root / "bench" / "one.cpp").read_text())
        (built / "one").chmod(0o755)

    def run_it(self, base, *more):
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            try:
                code = compare.main([str(self.root), base, *more])
            except SystemExit as end:
                code = end.code
        return code, out.getvalue()

    def runs(self):
        return [line.split()[0] for line in self.log.read_text().splitlines()]

    def test_the_base_is_built_elsewhere_and_both_run_in_turns(self):
        self.here(11)
        code, text = self.run_it(self.base, "--pairs", "5", "one")
        self.assertEqual(code, 0, text)
        self.assertEqual(self.runs(), ["old", "new", "new", "old", "old", "new", "new", "old", "old", "new"])
        self.assertIn("+10.0 %", text)
        self.assertIn("worse", text)
        folder = self.root / "build" / "compare" / self.base[:12]
        self.assertTrue((folder / "build" / "bench" / "one").exists())
        # This tree is as it was: neither its files nor its commit are touched.
        self.assertIn("new", (self.root / "bench" / "one.cpp").read_text())
        self.assertEqual(self.git("rev-parse", "HEAD").strip(), self.base)

    def test_all_benchmarks_unless_named_and_few_rounds_unless_told(self):
        self.here(10)
        self.run_it("HEAD", "--pairs", "1")
        self.run_it("HEAD", "--pairs", "1", "one", "--", "--quick", "--only", "x")
        said = self.log.read_text().splitlines()
        self.assertEqual(said, ["old --rounds 3", "new --rounds 3", "old --quick --only x", "new --quick --only x"])

    def test_numbers_go_to_a_file(self):
        self.here(9)
        path = self.root / "out.json"
        self.run_it("HEAD", "--pairs", "5", "--json", str(path), "one")
        row = json.loads(path.read_text())["benchmarks"]["one"][0]
        self.assertEqual((row["name"], row["word"], round(row["moved"], 2)), ("x", "better", -0.1))

    def test_a_folder_with_a_built_tree_is_taken_as_it_is(self):
        self.here(20)
        other = self.root.parent / "other" / "build" / "bench"
        other.mkdir(parents=True)
        (other / "one").write_text((self.root / "bench" / "one.cpp").read_text().replace("new", "its"))
        (other / "one").chmod(0o755)
        code, text = self.run_it(str(other.parents[1]), "--pairs", "1", "one")
        self.assertEqual((code, self.runs()), (0, ["its", "new"]), text)
        self.assertFalse((self.root / "build" / "compare").exists())

    def test_a_base_that_ends_with_1_is_named_and_the_others_are_compared(self):
        self.commit("old", 10, after="sys.exit('push_pull: no memory to share')")
        self.here(10)
        code, text = self.run_it("HEAD", "--pairs", "1", "one")
        self.assertEqual(code, 1)
        self.assertIn("one: not compared: one of", text)
        self.assertIn("ended with 1: push_pull: no memory to share", text)

    def test_a_commit_that_does_not_exist_and_a_benchmark_that_does_not(self):
        self.here(10)
        code, _ = self.run_it("no-such-commit", "one")
        self.assertIn("no-such-commit is no commit of this repository", code)
        code, text = self.run_it("HEAD", "--pairs", "1", "two")
        self.assertEqual(code, 1)
        self.assertIn("there is no two in", text)

    def test_a_base_that_does_not_build_is_said(self):
        (self.root / "CMakeLists.txt").write_text(CMAKE + "add_custom_target(bench_two COMMAND false)\n")
        (self.root / "bench" / "two.cpp").write_text("")
        self.commit("old", 10)
        self.here(10)
        code, _ = self.run_it("HEAD", "--pairs", "1", "two")
        self.assertIn("does not build", code)
        self.assertFalse(self.log.exists())

    def test_a_checkout_that_was_cut_off_is_made_again(self):
        self.here(10)
        part = self.root / "build" / "compare" / (self.base[:12] + ".part")
        part.mkdir(parents=True)
        (part / "half").write_text("")
        code, text = self.run_it("HEAD", "--pairs", "1", "one")
        self.assertEqual(code, 0, text)
        self.assertFalse(part.exists())
        self.assertFalse((part.with_name(self.base[:12]) / "half").exists())


if __name__ == "__main__":
    os.environ.pop("GIT_DIR", None)
    unittest.main()
