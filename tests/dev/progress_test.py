#!/usr/bin/env python3
"""What ./dev train says while it builds: lines of a build in, with a clock of the test's own."""

import pathlib
import subprocess
import sys
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "cmake" / "progress.py"
sys.path.insert(0, str(SCRIPT.parent))
import progress  # noqa: E402


def step(done, total, what="Building CXX object CMakeFiles/troupe_library.dir/core/tensor.cpp.o"):
    return f"troupe-step {done} {total} {what}"


class Screen:
    """A Progress on a terminal or in a file, and what was written there."""

    def __init__(self, terminal=False, width=200):
        self.time, self.text = 0.0, ""
        self.progress = progress.Progress(self.write, terminal, width, lambda: self.time)

    def write(self, text):
        self.text += text

    def line(self, text, after_s=0.0):
        self.time += after_s
        self.progress.line(text)

    def build(self, steps, total, seconds_each):
        for i in steps:
            self.line(step(i, total), seconds_each)


class Words(unittest.TestCase):
    def test_what_is_compiled(self):
        for said, words in (
            ("Building CXX object CMakeFiles/troupe_library.dir/core/tensor.cpp.o", "core/tensor.cpp"),
            ("Building CXX object tools/CMakeFiles/troupe_tools.dir/cli.cpp.o", "tools/cli.cpp"),
            ("Building CXX object CMakeFiles/troupe_actors.dir/Unity/unity_3_cxx.cxx.o", "troupe_actors, part 4"),
            ("Building CXX object CMakeFiles/troupe_library.dir/Unity/unity_actors_queue_cxx.cxx.o",
             "troupe, room actors_queue"),
            ("Building CXX object CMakeFiles/troupe_library.dir/cmake_pch.hxx.gch.o", "the headers of troupe"),
            ("Linking CXX executable troupe", "linking troupe"),
            ("Linking CXX static library libtroupe.a", "linking libtroupe.a"),
            ("Generating kernels/x.o", "Generating kernels/x.o"),
        ):
            self.assertEqual(progress.what_of(said), words)

    def test_durations(self):
        self.assertEqual([progress.duration(s) for s in (0.2, 59, 61, 150, 3900)],
                         ["1 s", "59 s", "1 min", "2 min", "1 h 5 min"])


class InAFile(unittest.TestCase):
    def test_plain_lines_now_and_then_and_one_at_the_end(self):
        screen = Screen()
        screen.build(range(1, 101), 100, 1)
        screen.progress.end()
        lines = screen.text.splitlines()
        self.assertEqual(lines[0], "dev: compiled 1 of 100: core/tensor.cpp")
        self.assertEqual(lines[-1], "dev: compiled 100 of 100 in 2 min")
        self.assertTrue(8 <= len(lines) <= 13, lines)
        self.assertNotIn("\r", screen.text)
        self.assertNotIn("\033", screen.text)

    def test_the_time_left(self):
        screen = Screen()
        screen.build(range(1, 51), 100, 2)
        self.assertIn("about 2 min left", screen.progress.status())
        screen.build(range(51, 91), 100, 2)
        self.assertIn("about 20 s left", screen.progress.status())

    def test_no_guess_from_the_first_steps(self):
        screen = Screen()
        screen.build(range(1, 3), 100, 9)
        self.assertNotIn("left", screen.text)

    def test_what_was_cached_does_not_make_the_rest_look_fast(self):
        screen = Screen()
        screen.build(range(1, 51), 100, 0.01)
        screen.build(range(51, 81), 100, 4)
        left = screen.progress.pace.left_s(screen.time, 100)
        self.assertTrue(50 <= left <= 90, left)

    def test_a_step_that_takes_long_makes_the_guess_longer(self):
        screen = Screen()
        screen.build(range(1, 51), 100, 1)
        before = screen.progress.pace.left_s(screen.time, 100)
        self.assertGreater(screen.progress.pace.left_s(screen.time + 60, 100), before)

    def test_a_build_that_begins_anew_after_cmake(self):
        screen = Screen()
        screen.build(range(1, 2), 1, 30)
        screen.build(range(1, 41), 80, 1)
        self.assertIn("compiled 40 of 80", screen.progress.status())
        self.assertTrue(30 <= screen.progress.pace.left_s(screen.time, 80) <= 50)

    def test_warnings_and_errors_pass_through_and_a_failed_build_is_not_done(self):
        screen = Screen()
        screen.line(step(1, 2))
        for text in ("FAILED: core/tensor.o", "tensor.cpp:1:1: error: no", "", "ninja: build stopped: subcommand failed."):
            screen.line(text)
        screen.line(step(2, 2))
        screen.progress.end()
        self.assertIn("FAILED: core/tensor.o\ntensor.cpp:1:1: error: no\n\nninja: build stopped", screen.text)
        self.assertNotIn(" in ", screen.text)

    def test_nothing_to_do_is_nothing_to_say(self):
        screen = Screen()
        screen.line("ninja: no work to do.")
        screen.progress.end()
        self.assertEqual(screen.text, "")


class OnATerminal(unittest.TestCase):
    def test_one_line_is_written_over(self):
        screen = Screen(terminal=True)
        screen.build(range(1, 4), 3, 1)
        self.assertEqual(screen.text.count("\n"), 0)
        self.assertEqual(screen.text.count("\r\033[K"), 3)
        screen.progress.end()
        self.assertTrue(screen.text.endswith("\r\033[Kdev: compiled 3 of 3 in 3 s\n"))

    def test_it_is_no_wider_than_the_terminal(self):
        screen = Screen(terminal=True, width=20)
        screen.line(step(1, 3))
        self.assertEqual(screen.text, "\r\033[K" + "dev: compiled 1 of 3: core/tensor.cpp"[:19])

    def test_an_error_is_no_part_of_the_line(self):
        screen = Screen(terminal=True)
        screen.line(step(1, 3))
        screen.line("x.cpp: warning: y")
        self.assertTrue(screen.text.endswith("\r\033[Kx.cpp: warning: y\n"))

    def test_the_time_left_goes_on_without_steps(self):
        screen = Screen(terminal=True)
        screen.build(range(1, 11), 20, 1)
        screen.time += 30
        screen.text = ""
        screen.progress.tick()
        self.assertIn("left", screen.text)


class AsAProgram(unittest.TestCase):
    def test_it_reads_a_pipe_and_a_last_line_without_an_end(self):
        done = subprocess.run([sys.executable, SCRIPT], input=step(1, 2) + "\nnote\n" + step(2, 2), text=True,
                              capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[:2], ["dev: compiled 1 of 2: core/tensor.cpp", "note"])
        self.assertTrue(lines[2].startswith("dev: compiled 2 of 2 in "))


if __name__ == "__main__":
    unittest.main()
