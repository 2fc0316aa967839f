#!/usr/bin/env python3
"""Has the simulator find every planted bug, and writes the table of what found it.

usage: planted.py TROUPE_SIM [--seeds N] [--jobs N] [--docs FILE] [--bug NAME ...]

TROUPE_SIM is of a build with TROUPE_PLANT_BUGS. For each bug a swarm over all scenarios stops at the
first failing seed, of at most --seeds (2000); the same seeds with no bug awake must be well. With
--docs the table replaces what stands between the markers in that file. Ends with `N of N planted bugs
found` and exits with 1 when one was not.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import time

BEGIN = "<!-- planted bugs: written by ./dev planted -->"
END = "<!-- end of planted bugs -->"
FAILED = re.compile(r"^failed: (\S+) seed (\d+) ([^:]+): ?(.*)$", re.M)


def bugs_of(program):
    """[(name, text)] of the build."""
    out = subprocess.run([program, "list", "bugs"], check=True, capture_output=True, text=True).stdout
    return [tuple(line.split(None, 1)) for line in out.splitlines()]


def first_failure(program, arguments, first, seeds, options, failures):
    """{scenario, seed, rule} of the first failing seed in [first, first + seeds); None: all are well."""
    command = [program, *arguments, "swarm", "--first-seed", str(first), "--seeds", str(seeds), "--until-failure"]
    command += ["--jobs", str(options.jobs), "--failures", failures]
    out = subprocess.run(command, capture_output=True, text=True)
    if out.returncode not in (0, 1):
        sys.exit(f"planted.py: {' '.join(command)}: {out.stderr.strip()}")
    found = sorted(FAILED.findall(out.stdout), key=lambda each: int(each[1]))
    return {"scenario": found[0][0], "seed": int(found[0][1]), "rule": found[0][2]} if found else None


def hunt(program, name, options, failures):
    """The first failing seed that is well without the bug, with `seconds`; None when there is none."""
    begin = time.monotonic()
    first = 1
    while first <= options.seeds:
        found = first_failure(program, ["--bug", name], first, options.seeds + 1 - first, options, failures)
        if not found:
            return None
        other = first_failure(program, [], found["seed"], 1, options, failures)
        if not other:
            return {**found, "seconds": time.monotonic() - begin}
        print(f"{name}: seed {found['seed']} of {found['scenario']} fails without it too: {other['rule']}")
        first = found["seed"] + 1
    return None


def table(rows):
    lines = ["| bug | what is wrong | found by seed | scenario | rule |", "|---|---|---|---|---|"]
    for (name, text), found in rows:
        if found:
            lines.append(f"| `{name}` | {text} | {found['seed']} | `{found['scenario']}` | {found['rule']} |")
        else:
            lines.append(f"| `{name}` | {text} | not found | | |")
    return "\n".join(lines)


def write_docs(path, text):
    old = path.read_text()
    head, rest = old.split(BEGIN)
    tail = rest.split(END)[1]
    path.write_text(f"{head}{BEGIN}\n{text}\n{END}{tail}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--seeds", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--docs", type=pathlib.Path)
    parser.add_argument("--bug", action="append", default=[])
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as failures:
        for name, text in bugs_of(options.program):
            if options.bug and name not in options.bug:
                continue
            found = hunt(options.program, name, options, failures)
            rows.append(((name, text), found))
            if found:
                print(f"{name}: seed {found['seed']} of {found['scenario']}, {found['rule']}, {found['seconds']:.0f} s")
            else:
                print(f"{name}: not found in {options.seeds} seeds")
            sys.stdout.flush()
        most = max((found["seed"] for _, found in rows if found), default=1)
        other = first_failure(options.program, [], 1, most, options, failures)
    if options.docs:
        write_docs(options.docs, table(rows))
    count = sum(found is not None for _, found in rows)
    well = "all are well" if not other else f"seed {other['seed']} breaks {other['rule']}"
    print(f"up to seed {most} without a bug: {well}")
    print(f"{count} of {len(rows)} planted bugs found")
    return 0 if not other and count == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
