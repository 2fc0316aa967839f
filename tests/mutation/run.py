#!/usr/bin/env python3
"""Breaks the code in known ways, one at a time, and expects a red test each time.

usage: run.py ROOT [--check | --sample] [--jobs N] [NAME...]

Works in a copy of the tree under ROOT/build-mutation/; the real tree is never touched. A mutation is a file
mutations/NAME.mutation:

    breaks: what no longer holds, in a few words
    file: actors/coordinator/closure_queue.cpp
    runner: unit_actors
    filter: *PS-B12*            (optional: doctest's --test-case, a comma between several)
    --- find
    text that stands exactly once in the file
    --- replace
    text that stands there instead

The last line is `N of N mutations caught`; anything else makes the run fail: a mutation that no test notices, that
does not compile, or whose text no longer stands in the file. With --check only the last is looked for (a ctest).

With --sample a few mutations of different folders are tried (SAMPLE), which is what .ci/run has time for. Their copy of
the tree is compiled with the flags of the release preset, so that all but the broken files comes from the compiler
cache once `./dev test` has filled it.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass

TEST_TIMEOUT_S = 240
# One of each of these folders: data, actors, strategies. Small sources, so that each takes seconds.
SAMPLE = ("idx_accepts_trailing_bytes", "queue_lifo", "slice_start_not_clamped")
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
        relative = path.relative_to(copy)
        if path.is_file() and relative not in wanted and not LEFT_OUT.match(relative.parts[0]):
            path.unlink()


class Workshop:
    """A copy of the tree and its build; `cached`: as the release preset compiles it."""

    def __init__(self, root, jobs, cached):
        self.jobs = jobs
        self.tree = root / "build-mutation" / ("sample" if cached else "tree")
        # The cache knows a source by its way from the build folder.
        self.build_dir = self.tree / "build" if cached else root / "build-mutation" / "build"
        self.variables = os.environ | ({"CCACHE_BASEDIR": str(self.tree), "CCACHE_NOHASHDIR": "1"} if cached else {})
        copy_tree(root, self.tree)
        flags = (["--preset", "release"] if cached else
                 ["-B", self.build_dir, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O0",
                  "-DTROUPE_WERROR=OFF"])
        self.call(["cmake", "-S", self.tree, *flags, "-DTROUPE_BENCH=OFF", "-DTROUPE_EXAMPLES=OFF"])

    def call(self, command):
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.tree, env=self.variables)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")

    def build(self, runner):
        """None, or the compiler's words."""
        done = subprocess.run(["cmake", "--build", self.build_dir, "--parallel", str(self.jobs), "--target", runner],
                              capture_output=True, text=True, cwd=self.tree, env=self.variables)
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
    options = argparse.ArgumentParser(prog="run.py", description=__doc__.split("\n")[0])
    options.add_argument("root", type=pathlib.Path)
    options.add_argument("names", nargs="*", metavar="NAME")
    options.add_argument("--check", action="store_true")
    options.add_argument("--sample", action="store_true")
    options.add_argument("--jobs", type=int, default=os.cpu_count())
    told = options.parse_intermixed_args()
    root = told.root.resolve()
    folder = pathlib.Path(__file__).resolve().parent / "mutations"
    known = [read_mutation(p) for p in sorted(folder.glob("*.mutation"))]
    names = [*told.names, *(SAMPLE if told.sample else ())]
    strange = sorted({*names, *SAMPLE} - {m.name for m in known})
    if strange:
        sys.exit(f"no such mutation: {', '.join(strange)}; there are: {' '.join(m.name for m in known)}")
    mutations = [m for m in known if not names or m.name in names]
    if told.check:
        check(root, mutations)
    shop = Workshop(root, told.jobs, told.sample)
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
