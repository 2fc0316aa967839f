#!/usr/bin/env python3
"""Which rows of the specification have a test named after them, and which have not, and why.

usage: report.py ROOT

Reads rows.txt and skipped.txt beside this file and the titles of every test under ROOT/tests. Fails when a row has
neither a test nor a reason, when it has both, or when a test or a reason names a row that does not exist.
"""

import pathlib
import re
import sys

ROW = r"(?:T-[A-Z]+\d+|PART-[A-Z0-9]+|SLICE-[A-Z]+|CLS\d+|[A-Z]+\d+)"
TITLE = re.compile(r'(?:TEST_CASE|SUBCASE|TEST_CASE_TEMPLATE|TEST_CASE_FIXTURE)\s*\(((?:\s*"(?:\\.|[^"\\])*"|[^")])*)', re.S)
# Scenario rows (T-F2) may stand without the prefix. PS-H4/H5 and PS-H4/PS-H5 name two rows; PS-Z1..Z10 names ten.
NAMES = re.compile(rf"(?:PS-|(?<![\w-])(?=T-))({ROW}(?:(?:/|\.\.)(?:PS-)?{ROW})*)")


def read_list(path):
    rows = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        row, _, text = line.partition(" ")
        if not re.fullmatch(ROW, row) or not text.strip() or row in rows:
            sys.exit(f"{path}:{number}: expected `ID text`, each ID once: {line!r}")
        rows[row] = text.strip()
    return rows


def expand(names):
    """H4/H5 -> H4, H5; Z1..Z3 -> Z1, Z2, Z3."""
    for part in names.replace("PS-", "").split("/"):
        first, _, last = part.partition("..")
        if not last:
            yield first
            continue
        stem, low = re.fullmatch(r"(.*?)(\d+)", first).groups()
        high = re.fullmatch(r".*?(\d+)", last).group(1)
        for number in range(int(low), int(high) + 1):
            yield f"{stem}{number}"


def rows_of_tests(root):
    """{row: [file, ...]} over the titles of every test."""
    found = {}
    for path in sorted((root / "tests").rglob("*.cpp")):
        for title in TITLE.finditer(path.read_text(encoding="utf-8")):
            for names in NAMES.finditer(title.group(1)):
                for row in expand(names.group(1)):
                    found.setdefault(row, []).append(path.relative_to(root).as_posix())
    return found


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    here = pathlib.Path(__file__).parent
    rows, skipped, tests = read_list(here / "rows.txt"), read_list(here / "skipped.txt"), rows_of_tests(root)
    bare = [row for row in rows if row not in tests and row not in skipped]
    problems = len(bare)
    if skipped:
        print("no test, with a reason:")
        for row, reason in skipped.items():
            print(f"  PS-{row:8} {rows.get(row, '?')}: {reason}")
            if row not in rows or row in tests:
                problems += 1
                print(f"  PS-{row:8} {'is no row' if row not in rows else 'has a test: ' + tests[row][0]}")
    if bare:
        print("no test, no reason:")
        for row in bare:
            print(f"  PS-{row:8} {rows[row]}")
    # Other rows of the specification may have tests as well; they are told, not counted.
    beyond = sorted(set(tests) - set(rows))
    if beyond:
        print("tests of rows beyond this list:", " ".join(f"PS-{row}" for row in beyond))
    covered = sum(row in tests for row in rows)
    print(f"rows: {len(rows)}, with a test {covered}, with a reason {len(skipped)}, with neither {len(bare)}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
