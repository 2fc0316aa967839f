#!/usr/bin/env python3
"""Runs a benchmark with --quick: it must end with 0 and leave a result for each of its rows.

usage: quick_run.py PROGRAM ROWS.txt

ROWS.txt lists the rows of every benchmark: its name at the line's start, below it a row a line, indented. A `?` behind
a row: it may say why it was not measured (no GPU here) instead of a number. The numbers themselves are nobody's to
test. Prints what is wrong, one line each, and exits with 1 when something is.
"""

import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

LIMIT_S = 280


def rows_of(text):
    """{benchmark: {row: may be unmeasured}}."""
    suites, rows = {}, None
    for line in text.splitlines():
        line = line.split("#")[0].rstrip()
        if not line:
            continue
        if not line[0].isspace():
            rows = suites.setdefault(line, {})
        else:
            rows[line.strip().rstrip("?").strip()] = line.endswith("?")
    return suites


def is_number(x):
    return isinstance(x, (int, float)) and math.isfinite(x) and x > 0


def complaints(report, rows):
    """What is wrong with a report, given the rows that the benchmark has."""
    found = {}
    for row in report["rows"]:
        found.setdefault(row["name"], []).append(row)
    for name, may_miss in rows.items():
        for row in found.get(name, [{}]):
            if not row:
                yield f"{name}: no such row in the results"
            elif "not_measured" in row and not (may_miss and row["not_measured"]):
                yield f"{name}: not measured: {row['not_measured']}"
            elif "not_measured" not in row and not is_number(row.get("median")):
                yield f"{name}: its median is {row.get('median')}"
            elif row.get("peer") and not (is_number(row.get("peer_median")) and is_number(row.get("ratio"))):
                yield f"{name}: {row['peer']} has {row.get('peer_median')}, the ratio is {row.get('ratio')}"
            elif row.get("note"):  # a wrong result, a process that died
                yield f"{name}: {row['note']}"
    for name in found:
        if name not in rows:
            yield f"{name}: a row that tests/bench/rows.txt does not list"


def run(program, results):
    """None when the program ended with 0, else what became of it. Its results lie in `results` then."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith("TROUPE_BENCH_")}
    try:
        done = subprocess.run([program, "--quick", "--json", results], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=LIMIT_S, env=variables)
    except subprocess.TimeoutExpired:
        return f"did not end within {LIMIT_S} s"
    print(done.stdout, end="", flush=True)
    return None if done.returncode == 0 else f"ended with {done.returncode}"


def check(program, rows_file):
    """All complaints about one run of the program."""
    name = pathlib.Path(program).name
    suites = rows_of(pathlib.Path(rows_file).read_text(encoding="utf-8"))
    if not suites.get(name):
        return [f"{rows_file} lists no rows of {name}"]
    with tempfile.TemporaryDirectory(prefix="troupe-bench-") as folder:
        results = pathlib.Path(folder, "results.json")
        problem = run(program, str(results))
        if problem:
            return [problem]
        try:
            report = json.loads(results.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            return [f"no results: {error}"]
    return list(complaints(report, suites[name]))


def main():
    wrong = check(*sys.argv[1:])
    for complaint in wrong:
        print(f"{pathlib.Path(sys.argv[1]).name}: {complaint}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
