#!/usr/bin/env python3
"""The reader of the pages' commands finds what a reader would type, and sees what fails."""

import contextlib
import io
import pathlib
import tempfile
import time
import unittest

import commands

DEV = "./dev COMMAND [arguments]\n\n  train [arguments]    x\n  test   y\n  cat <<'NEXT'\n\nNext:\n  build/troupe train --help\n      z\nNEXT\n"


def commands_of(text):
    blocks, complaints = commands.blocks_of("page.md", text)
    return [c for b in blocks for c in b.commands], complaints


class Pages(unittest.TestCase):
    def test_lines_of_a_shell_block_without_their_comments(self):
        text = "```sh\n./dev help     # everything\n\n# alone\necho 'a # b' a#b\n```\n"
        self.assertEqual(commands_of(text)[0], ["./dev help", "echo 'a # b' a#b"])

    def test_a_command_over_several_lines(self):
        text = "```sh\nexport A='{\"x\": 1,\n           \"y\": 2}'\nprogram --one \\\n  --two\nlast\n```\n"
        self.assertEqual(commands_of(text)[0], ["export A='{\"x\": 1, \"y\": 2}'", "program --one --two", "last"])

    def test_a_console_block_has_commands_and_their_output(self):
        self.assertEqual(commands_of("```console\n$ git apply x\noutput\n$ ls  # y\n```\n")[0], ["git apply x", "ls"])

    def test_other_blocks_have_none_and_a_block_without_a_language_is_wrong(self):
        self.assertEqual(commands_of("```cpp\n./dev test\n```\n"), ([], []))
        found, wrong = commands_of("text\n\n```\nbuild/troupe x\n```\n")
        self.assertEqual((found, len(wrong)), ([], 1))
        self.assertIn("page.md:3:", wrong[0])

    def test_a_block_within_a_list(self):
        self.assertEqual(commands_of("- one:\n  ```sh\n  build/x --a\n  ```\n")[0], ["build/x --a"])

    def test_pieces_of_a_sentence(self):
        text = "Say `build/troupe train\nfashion_mnist`, or `troupe-sim list marks`; `troupe serve` and `build/x` are names."
        self.assertEqual(commands_of(text)[0], ["build/troupe train fashion_mnist", "build/troupe-sim list marks"])

    def test_a_command_of_dev_that_does_not_exist(self):
        self.assertEqual(commands.unknown_to_dev("p.md", "`./dev train`, `./dev test --x`", DEV), [])
        self.assertEqual(commands.unknown_to_dev("p.md", "`./dev trian`", DEV), ["p.md: there is no `./dev trian`"])

    def test_the_closing_lines_of_train(self):
        self.assertEqual(commands.closing_lines(DEV), ["build/troupe train --help"])

    def test_a_file_that_a_page_tells_to_write(self):
        text = "Put this into `c.json`:\n\n```json\n{1}\n```\n\n```sh\nx --file c.json\n```\n"
        blocks, _ = commands.blocks_of("page.md", text)
        self.assertEqual(blocks[0].files, {"c.json": "{1}\n"})

    def test_the_pages_of_the_tree_can_be_read(self):
        root = pathlib.Path(__file__).resolve().parents[2]
        blocks, complaints = commands.read_tree(root)
        plan, wrong = commands.read_plan((root / "tests" / "docs" / "plan.txt").read_text())
        self.assertEqual(complaints + wrong + commands.unused(plan, blocks), [])
        self.assertGreater(len(blocks), 20)


class Plans(unittest.TestCase):
    def test_what_runs_in_a_shorter_form_and_what_does_not_run(self):
        plan, wrong = commands.read_plan("# x\na --long\n  as: a --short\n  why: time\nb\n  not run: it installs\n")
        self.assertEqual(wrong, [])
        self.assertEqual((plan["a --long"].runs, plan["b"].runs, plan["b"].reason), ("a --short", "", "it installs"))

    def test_no_reason_twice_and_another_program(self):
        for text, word in (("a\n", "no reason"), ("a\n  why: x\na\n  why: x\n", "twice"), ("a\n  because: x\n", "expected"),
                           ("a --x\n  as: true\n  why: x\n", "not `a --x` in a shorter form")):
            self.assertTrue(any(word in w for w in commands.read_plan(text)[1]), text)

    def test_an_entry_that_no_page_has(self):
        plan, _ = commands.read_plan("gone\n  not run: x\n")
        self.assertEqual(commands.unused(plan, [commands.Block("p", 1, ["there"])]), ["plan.txt: `gone` stands on no page"])


class Runs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        top = pathlib.Path(folder.name)
        self.root, build, scratch = top / "tree", top / "made", top / "scratch"
        for path in (self.root / "build", self.root / "docs", build, scratch):
            path.mkdir(parents=True)
        (self.root / "docs" / "page").write_text("x")
        self.program(build / "troupe", '[ "$3" = down ] && exit 7; echo "$@" >> log; exit 0')
        self.folder = commands.Folder(scratch, self.root, build)

    @staticmethod
    def program(path, body):
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    @staticmethod
    def runs(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
        except (FileNotFoundError, ProcessLookupError):
            return False

    def run_all(self, blocks, plan=""):
        with contextlib.redirect_stdout(io.StringIO()):
            return commands.run_all(blocks, commands.read_plan(plan)[0], self.folder)

    def log(self):
        return (self.folder.path / "log").read_text().splitlines()

    def test_a_command_that_fails_is_named_with_what_it_said(self):
        wrong = self.run_all([commands.Block("p.md", 4, ["true", "echo words; exit 3"])])
        self.assertEqual(len(wrong), 1)
        self.assertTrue(wrong[0].startswith("p.md:4: `echo words; exit 3` ended with 3\nwords"), wrong)

    def test_a_command_that_does_not_end(self):
        self.addCleanup(setattr, commands, "LIMIT_S", commands.LIMIT_S)
        commands.LIMIT_S = 0.3
        self.assertIn("did not end within", self.run_all([commands.Block("p.md", 1, ["exec tail -f /dev/null"])])[0])

    def test_what_a_command_left_running_is_ended(self):
        self.assertEqual(self.run_all([commands.Block("p.md", 1, ["tail -f /dev/null & echo $! > pid"])]), [])
        pid = int((self.folder.path / "pid").read_text())
        until = time.monotonic() + 30
        while self.runs(pid):
            self.assertLess(time.monotonic(), until)

    def test_it_runs_among_the_trees_files_and_writes_elsewhere(self):
        self.assertEqual(self.run_all([commands.Block("p.md", 1, ["cat docs/page && build/troupe a b && echo y > new"])]), [])
        self.assertFalse((self.root / "new").exists())
        self.assertEqual(self.log(), ["a b"])

    def test_servers_of_one_block_run_together_and_see_the_file(self):
        # Each waits for the other's word: one after the other they would never end.
        self.program(self.folder.path / "build" / "troupe", 'echo > "$3"; while [ ! -e "$4" ]; do :; done; cat "$5"')
        served = ["build/troupe serve --task a b c.json", "build/troupe serve --task b a c.json"]
        blocks = [commands.Block("p.md", 1, served, {"c.json": "127.0.0.1:1"})]
        self.assertEqual(self.run_all(blocks), [])

    def test_each_command_runs_once_and_the_plan_is_kept(self):
        blocks = [commands.Block("p.md", 1, ["build/troupe long", "build/troupe never"]),
                  commands.Block("q.md", 1, ["build/troupe long"])]
        plan = "build/troupe long\n  as: build/troupe short\n  why: time\nbuild/troupe never\n  not run: x\n"
        self.assertEqual(self.run_all(blocks, plan), [])
        self.assertEqual(self.log(), ["short"])

    def test_exports_hold_for_the_rest_of_their_block(self):
        blocks = [commands.Block("p.md", 1, ["export A=1", '[ "$A" = 1 ]']), commands.Block("p.md", 2, ['[ -z "$A" ]'])]
        self.assertEqual(self.run_all(blocks), [])

    def test_ports_are_free_ones_and_the_same_where_they_were_the_same(self):
        text = commands.free_ports("127.0.0.1:1 127.0.0.1:2 127.0.0.1:1 10.0.0.1:3")
        a, b, c, d = text.split()
        self.assertTrue(a == c and a != b and d == "10.0.0.1:3" and not a.endswith(":1"))


if __name__ == "__main__":
    unittest.main()
