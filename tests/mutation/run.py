#!/usr/bin/env python3
"""Breaks the code in known ways, one at a time, and expects a red test each time.

usage: run.py ROOT [--check] [NAME...]

Works in a copy of the tree under ROOT/build-mutation/; the real tree is never touched. A mutation is a file
mutations/NAME.mutation:

    breaks: what no longer holds, in a few words
    file: actors/closure_queue.cpp
    runner: unit_actors
    filter: *PS-B12*            (optional: doctest's --test-case, a comma between several)
    --- find
    text that stands exactly once in the file
    --- replace
    text that stands there instead

The last line is `N of N mutations caught`; anything else makes the run fail: a mutation that no test notices, that
does not compile, or whose text no longer stands in the file. With --check only the last is looked for (a ctest).
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass

TEST_TIMEOUT_S = 240
LEFT_OUT = re.compile(r"^(build.*|\.git|\.cache|__pycache__)$")


@dataclass(frozen=True)
class Mutation:
    name: str
    breaks: str
    file: str
    runner: str
    filter: str
    find: str
    replace: str


def read_mutation(path):
    text = path.read_text(encoding="utf-8")
    match = re.fullmatch(r"(.*?)^--- find\n(.*?)^--- replace\n(.*)", text, re.S | re.M)
    fields = dict(re.findall(r"^(\w+): *(.*?) *$", match.group(1), re.M)) if match else {}
    if not match or not {"breaks", "file", "runner"} <= set(fields):
        sys.exit(f"{path}: expected breaks:, file:, runner:, then `--- find` and `--- replace`")
    return Mutation(path.stem, fields["breaks"], fields["file"], fields["runner"], fields.get("filter", ""),
                    match.group(2).rstrip("\n"), match.group(3).rstrip("\n"))


def copy_tree(root, copy):
    """Makes `copy` equal to the tree, touching only files that differ, so that little is rebuilt."""
    wanted = set()
    for directory, names, files in os.walk(root):
        names[:] = [n for n in names if not LEFT_OUT.match(n)]
        for name in files:
            source = pathlib.Path(directory, name)
            relative = source.relative_to(root)
            wanted.add(relative)
            target = copy / relative
            if not target.exists() or target.read_bytes() != source.read_bytes():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
                shutil.copymode(source, target)
    for path in list(copy.rglob("*")):
        if path.is_file() and path.relative_to(copy) not in wanted:
            path.unlink()


class Workshop:
    def __init__(self, root):
        self.tree = root / "build-mutation" / "tree"
        self.build_dir = root / "build-mutation" / "build"
        copy_tree(root, self.tree)
        self.call(["cmake", "-S", self.tree, "-B", self.build_dir, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
                   "-DCMAKE_CXX_FLAGS_DEBUG=-O0", "-DTROUPE_WERROR=OFF", "-DTROUPE_BENCH=OFF", "-DTROUPE_EXAMPLES=OFF"])

    def call(self, command):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")

    def build(self, runner):
        """None, or the compiler's words."""
        done = subprocess.run(["cmake", "--build", self.build_dir, "--parallel", "--target", runner],
                              capture_output=True, text=True)
        return None if done.returncode == 0 else done.stdout[-3000:] + done.stderr[-1000:]

    def test(self, runner, test_filter):
        """(passed, the end of the output); a run beyond its time counts as red."""
        command = [self.build_dir / "tests" / runner, "--no-intro"]
        if test_filter:
            command.append(f"--test-case={test_filter}")
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=TEST_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return False, "did not end in time"
        # A filter that selects nothing passes too; that must not look like a baseline.
        ran = re.search(r"test cases:\s*(\d+) \|", done.stdout)
        if done.returncode == 0 and (not ran or ran.group(1) == "0"):
            sys.exit(f"{runner}: no test matches `{test_filter}`")
        return done.returncode == 0, done.stdout[-2000:] + done.stderr[-1000:]


def judge(shop, mutation):
    """None when a test turns red, else what went wrong."""
    path = shop.tree / mutation.file
    if not path.exists():
        return f"{mutation.file} does not exist"
    original = path.read_text(encoding="utf-8")
    if original.count(mutation.find) != 1:
        return f"its text stands {original.count(mutation.find)} times in {mutation.file}, not once"
    try:
        path.write_text(original.replace(mutation.find, mutation.replace), encoding="utf-8")
        words = shop.build(mutation.runner)
        if words is not None:
            return f"does not compile:\n{words}"
        passed, _ = shop.test(mutation.runner, mutation.filter)
        return "no test noticed" if passed else None
    finally:
        path.write_text(original, encoding="utf-8")


def check(root, mutations):
    """The suite's own test: every mutation still finds its text, once."""
    lost = [f"{m.name}: its text stands {found} times in {m.file}, not once"
            for m in mutations if (found := occurrences(root / m.file, m.find)) != 1]
    print("\n".join(lost or [f"{len(mutations)} mutations match their files"]))
    sys.exit(1 if lost else 0)


def occurrences(path, text):
    return path.read_text(encoding="utf-8").count(text) if path.exists() else 0


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    names = [n for n in sys.argv[2:] if n != "--check"]
    folder = pathlib.Path(__file__).resolve().parent / "mutations"
    mutations = [read_mutation(p) for p in sorted(folder.glob("*.mutation")) if not names or p.stem in names]
    if not mutations or len(mutations) < len(names):
        sys.exit(f"no such mutation among: {' '.join(p.stem for p in sorted(folder.glob('*.mutation')))}")
    if "--check" in sys.argv[2:]:
        check(root, mutations)
    shop = Workshop(root)
    for runner, test_filter in sorted({(m.runner, m.filter) for m in mutations}):
        words = shop.build(runner)
        if words is not None:
            sys.exit(f"{runner} does not build before any mutation:\n{words}")
        passed, output = shop.test(runner, test_filter)
        if not passed:
            sys.exit(f"{runner} is red before any mutation:\n{output}")
    caught = 0
    for mutation in mutations:
        problem = judge(shop, mutation)
        caught += problem is None
        print(f"{'caught' if problem is None else 'MISSED'}  {mutation.name}: {mutation.breaks}", flush=True)
        if problem is not None:
            print(f"        {problem}", flush=True)
    print(f"{caught} of {len(mutations)} mutations caught")
    return 0 if caught == len(mutations) else 1


if __name__ == "__main__":
    sys.exit(main())
