#!/usr/bin/env python3
"""Compares the benchmarks of another commit with those of this tree, run in turns.

usage: compare.py ROOT BASE [--pairs N] [--over PERCENT] [--jobs N] [--json FILE] [NAME...] [-- arguments]

BASE is checked out and built in a folder of its own, build/compare/COMMIT, which stays for the next time; or it is a
folder with a tree whose build/bench/ holds programs: then those are taken as they are. Of this tree build/bench/NAME
must be built (`./dev bench --compare` does it). Each benchmark runs as often as --pairs says (7) in both versions, base
first in one pair and second in the next, so that a machine that slows down meanwhile slows both. What a row moved by is
the median over the pairs of the quotient of its two medians. Printed is what moved by more than --over (3) percent:
`better` or `worse` when the pairs agree so far that chance gives it once in fourteen rows or more rarely (a sign test: all of
five to eight pairs, all but one of nine), else `unsure`. Arguments behind `--` go to the benchmarks, instead of
`--rounds 3`.

Ends with 0 when all were measured, whatever moved, and with 1 when a benchmark of either version did not run.
"""

import argparse
import dataclasses
import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

PROGRESS = pathlib.Path(__file__).resolve().parents[1] / "cmake" / "progress.py"
LIMIT_S = 1800  # of one run of one benchmark
CHANCE_MAX = 1 / 14  # that pairs agree although nothing moved


class Failed(Exception):
    """What went wrong, in words for the reader."""


# -- the other commit --


def commit_of(root, base):
    done = subprocess.run(["git", "-C", str(root), "rev-parse", "--verify", "--quiet", f"{base}^{{commit}}"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"{base} is no commit of this repository, and no folder with a built tree")
    return done.stdout.strip()


def check_out(root, commit, folder):
    """The commit's files in `folder`, whole or not at all; nothing is done when they are there."""
    if folder.is_dir():
        return
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    archive = subprocess.Popen(["git", "-C", str(root), "archive", commit], stdout=subprocess.PIPE)
    unpacked = subprocess.run(["tar", "-x", "-C", str(part)], stdin=archive.stdout)
    archive.stdout.close()
    if archive.wait() != 0 or unpacked.returncode != 0:
        raise Failed(f"cannot check {commit[:12]} out into {folder}")
    part.rename(folder)


def build(folder, names, jobs):
    """Builds benchmarks of a checkout with its own release preset; tests and examples stay out."""
    variables = os.environ | {"CCACHE_BASEDIR": str(folder), "CCACHE_NOHASHDIR": "1",
                              "NINJA_STATUS": "troupe-step %f %t "}
    configure = ["cmake", "--preset", "release", "--log-level=NOTICE", "-DTROUPE_TESTS=OFF", "-DTROUPE_EXAMPLES=OFF"]
    if subprocess.run(configure, cwd=folder, env=variables, stdout=subprocess.DEVNULL).returncode != 0:
        raise Failed(f"{folder} cannot be configured: {' '.join(configure)}")
    compile_ = ["cmake", "--build", "build", "--parallel", str(jobs), "--target", *(f"bench_{n}" for n in names)]
    making = subprocess.Popen(compile_, cwd=folder, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    subprocess.run([sys.executable, str(PROGRESS)], stdin=making.stdout)
    making.stdout.close()
    if making.wait() != 0:
        raise Failed(f"{folder} does not build: {' '.join(compile_)}")


def programs_of_base(root, base, names, jobs):
    """(what to call it, the folder of its programs); builds what is not there."""
    tree = pathlib.Path(base)
    if tree.is_dir() and (tree / "build" / "bench").is_dir():
        return tree.resolve().name, tree.resolve() / "build" / "bench"
    commit = commit_of(root, base)
    folder = root / "build" / "compare" / commit[:12]
    check_out(root, commit, folder)
    known = [n for n in names if (folder / "bench" / f"{n}.cpp").is_file()]
    if known:
        print(f"compare: building {', '.join(known)} of {commit[:12]} in {folder}", flush=True)
        build(folder, known, jobs)
    return commit[:12], folder / "build" / "bench"


# -- runs in turns --


def run(program, arguments, who):
    """The report of one run."""
    if not os.access(program, os.X_OK):
        raise Failed(f"there is no {program.name} in {who}")
    with tempfile.TemporaryDirectory(prefix="troupe-compare-") as folder:
        results = pathlib.Path(folder, "results.json")
        try:
            done = subprocess.run([str(program), "--json", str(results), *arguments], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors="replace", timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            raise Failed(f"{program.name} of {who} did not end within {LIMIT_S} s") from None
        if done.returncode != 0 or not results.exists():
            said = (done.stdout.strip().splitlines() or ["nothing"])[-1]
            raise Failed(f"{program.name} of {who} ended with {done.returncode}: {said}")
        return json.loads(results.read_text(encoding="utf-8"))


def run_pairs(name, versions, pairs, arguments, tell):
    """[(report of the base, report of this tree)]; `versions`: their [(name, folder)], in that order."""
    out = []
    for pair in range(pairs):
        reports = {}
        for who, folder in versions if pair % 2 == 0 else versions[::-1]:
            tell(f"compare: {name}, pair {pair + 1} of {pairs}: {who}")
            reports[who] = run(folder / name, arguments, who)
        out.append((reports[versions[0][0]], reports[versions[1][0]]))
    return out


# -- what moved --


@dataclasses.dataclass
class Row:
    name: str
    unit: str
    base: float  # median of the runs' medians
    here: float
    moved: float  # 0.04: four percent more
    low: float  # the least that a pair moved it
    high: float
    ratio_moved: float  # of the ratio to the peer; None without one
    word: str  # better, worse, unsure; empty when it did not move

    def as_json(self):
        return dataclasses.asdict(self)


def rows_by_name(report):
    """The first row of each name that was measured: one for each peer says the same of ours."""
    out = {}
    for row in report["rows"]:
        if row.get("median", 0) > 0:
            out.setdefault(row["name"], row)
    return out


def more_is_better(row):
    if "better" in row:
        return row["better"] == "more"
    return row["unit"].endswith("/s")  # files of older commits do not say


def chance_of(against, pairs):
    """That so few pairs or fewer disagree with the others where each is a coin's toss."""
    return min(1.0, 2 * sum(math.comb(pairs, k) for k in range(against + 1)) / 2**pairs)


def word_of(quotients, moved, over, more):
    """What to call a move; empty when it is none."""
    if abs(moved) <= over:
        return ""
    against = sum(1 for q in quotients if (q > 1) != (moved > 0))
    if chance_of(against, len(quotients)) > CHANCE_MAX:
        return "unsure"
    return "better" if (moved > 0) == more else "worse"


def compare_row(name, pairs, over):
    """One row of all pairs in which both have it."""
    base, here = [b for b, _ in pairs], [h for _, h in pairs]
    quotients = [h["median"] / b["median"] for b, h in pairs]
    ratios = [h["ratio"] / b["ratio"] for b, h in pairs
              if b.get("ratio") and h.get("ratio") and b.get("peer") == h.get("peer")]
    moved = statistics.median(quotients) - 1
    return Row(name, here[0]["unit"], statistics.median(r["median"] for r in base),
               statistics.median(r["median"] for r in here), moved, min(quotients) - 1, max(quotients) - 1,
               statistics.median(ratios) - 1 if ratios else None,
               word_of(quotients, moved, over, more_is_better(here[0])))


def compare(reports, over):
    """([Row], names that only the base has, names that only this tree has)."""
    found = [(rows_by_name(b), rows_by_name(h)) for b, h in reports]
    base = dict.fromkeys(n for b, _ in found for n in b)
    here = dict.fromkeys(n for _, h in found for n in h)
    rows = []
    for name in here:
        pairs = [(b[name], h[name]) for b, h in found if name in b and name in h]
        if pairs:
            rows.append(compare_row(name, pairs, over))
    return rows, [n for n in base if n not in here], [n for n in here if n not in base]


def percent(x):
    return "" if x is None else f"{100 * x:+.1f} %"


def short(x):
    for step, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(x) >= step:
            return f"{x / step:.4g} {letter}"
    return f"{x:.4g}"


def table(rows, who):
    head = ["row", "unit", who, "this tree", "moved", "over the pairs", "ratio moved", ""]
    lines = [head] + [[r.name, r.unit, short(r.base), short(r.here), percent(r.moved),
                       f"{percent(r.low)} to {percent(r.high)}", percent(r.ratio_moved), r.word] for r in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join("  ".join(c.ljust(w) if i in (0, 1, 7) else c.rjust(w)
                               for i, (c, w) in enumerate(zip(line, widths))).rstrip() for line in lines)


def busiest(reports):
    """The most that other work took in a run, 0 to 1; None where no run says."""
    shares = [r["busy"] for pair in reports for r in pair if "busy" in r]
    return max(shares) if shares else None


def text_of(name, who, reports, over):
    """What is printed of one benchmark, and its rows."""
    rows, gone, new = compare(reports, over)
    moved = [r for r in rows if r.word]
    lines = [f"== {name}: {len(reports)} pairs of {who} and this tree"]
    busy = busiest(reports)
    if busy is not None and busy >= 0.1:
        lines.append(f"! other work took up to {100 * busy:.0f} % of the processors: read `ratio moved` first")
    if moved:
        lines.append(table(moved, who))
    counts = ", ".join(f"{n} {word}" for word in ("better", "worse", "unsure")
                       if (n := sum(r.word == word for r in moved)))
    lines.append(f"{len(rows)} rows: {len(moved)} moved by more than {100 * over:g} %" + (f" ({counts})" * bool(counts)))
    for names, where in ((gone, who), (new, "this tree")):
        if names:
            lines.append(f"only in {where}: {', '.join(names)}")
    return "\n".join(lines), rows


def main(arguments=None):
    arguments = sys.argv[1:] if arguments is None else arguments
    given = arguments[arguments.index("--") + 1:] if "--" in arguments else ["--rounds", "3"]
    options = argparse.ArgumentParser(prog="compare.py", description=__doc__.split("\n")[0])
    options.add_argument("root", type=pathlib.Path)
    options.add_argument("base")
    options.add_argument("names", nargs="*")
    options.add_argument("--pairs", type=int, default=7)
    options.add_argument("--over", type=float, default=3, metavar="PERCENT")
    options.add_argument("--jobs", type=int, default=os.cpu_count())
    options.add_argument("--json", type=pathlib.Path)
    told = options.parse_intermixed_args(arguments[:arguments.index("--")] if "--" in arguments else arguments)
    if told.pairs < 1:
        options.error(f"--pairs {told.pairs}: at least one pair is needed")
    root = told.root.resolve()
    names = told.names or sorted(p.stem for p in (root / "bench").glob("*.cpp"))
    failures, everything = [], {}
    try:
        who, programs = programs_of_base(root, told.base, names, told.jobs)
    except Failed as problem:
        sys.exit(f"compare: {problem}")
    for name in names:
        versions = [(who, programs), ("this tree", root / "build" / "bench")]
        try:
            reports = run_pairs(name, versions, told.pairs, given, lambda text: print(text, file=sys.stderr, flush=True))
        except Failed as problem:
            failures.append(str(problem))
            print(f"== {name}: not compared: {problem}", flush=True)
            continue
        text, rows = text_of(name, who, reports, told.over / 100)
        everything[name] = [r.as_json() for r in rows]
        print(text, flush=True)
    if told.json:
        told.json.write_text(json.dumps({"base": who, "benchmarks": everything, "failed": failures}, indent=1) + "\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
