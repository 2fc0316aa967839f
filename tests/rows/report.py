#!/usr/bin/env python3
"""Which rows of the specifications have a test named after them, and which have not, and why.

usage: report.py ROOT

Reads the lists beside this file (rows.txt and skipped.txt: parameter servers, `PS-`; sync_rows.txt and
sync_skipped.txt: synchronous strategies, `SYNC-`) and the titles of every test under ROOT/tests. Fails when a row has
neither a test nor a reason, when it has both, or when a reason, or a test where the list has all rows, names a row
that does not exist.
"""

import dataclasses
import pathlib
import re
import sys

TITLE = re.compile(r'(?:TEST_CASE|SUBCASE|TEST_CASE_TEMPLATE|TEST_CASE_FIXTURE)\s*\(((?:\s*"(?:\\.|[^"\\])*"|[^")])*)', re.S)


@dataclasses.dataclass(frozen=True)
class Specification:
    prefix: str
    row: str  # what an ID looks like
    lists: str  # what the names of its files begin with
    whole: bool  # the list has all rows: a test of another one is a mistake, not merely told
    bare: str = "(?!)"  # IDs that may stand without the prefix

    def names(self):
        """PS-H4/H5 and PS-H4/PS-H5 name two rows, as does SYNC-SPL-9/10; PS-Z1..Z10 and SYNC-ASH-1..10 name ten."""
        more = rf"(?:(?:/|\.\.)(?:{self.prefix})?(?:{self.row}|\d+))*"
        return re.compile(rf"(?:(?<!\w){self.prefix}|(?<![\w-])(?={self.bare}))({self.row}{more})(?!\w)")


SPECIFICATIONS = [
    Specification("PS-", r"(?:T-[A-Z]+\d+|PART-[A-Z0-9]+|SLICE-[A-Z]+|CLS\d+|[A-Z]+\d+)", "", True, "T-"),
    Specification("SYNC-", r"(?:[A-Z]+\d?-(?:[A-Z]?\d+[a-z]?|[A-Z])|[A-Z]\d+(?!-))", "sync_", True),
]


def read_list(path, row_form):
    rows = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        row, _, text = line.partition(" ")
        if not re.fullmatch(row_form, row) or not text.strip() or row in rows:
            sys.exit(f"{path}:{number}: expected `ID text`, each ID once: {line!r}")
        rows[row] = text.strip()
    return rows


def expand(names):
    """H4/H5 -> H4, H5; SPL-9/10 -> SPL-9, SPL-10; Z1..Z3 -> Z1, Z2, Z3."""
    stem = re.match(r"(.*?)\d*[a-z]?(?:/|\.\.|$)", names).group(1)
    for part in names.split("/"):
        first, _, last = part.partition("..")
        first = stem + first if first.isdigit() else first
        if not last:
            yield first
            continue
        start, low = re.fullmatch(r"(.*?)(\d+)", first).groups()
        high = re.fullmatch(r".*?(\d+)", last).group(1)
        for number in range(int(low), int(high) + 1):
            yield f"{start}{number}"


def rows_of_tests(root, specification):
    """{row: [file, ...]} over the titles of every test."""
    found, form = {}, specification.names()
    for path in sorted((root / "tests").rglob("*.cpp")):
        for title in TITLE.finditer(path.read_text(encoding="utf-8")):
            for names in form.finditer(title.group(1)):
                for row in expand(names.group(1).replace(specification.prefix, "")):
                    found.setdefault(row, []).append(path.relative_to(root).as_posix())
    return found


def report(root, lists, specification):
    """Prints one specification's state; how many problems it has."""
    prefix = specification.prefix
    rows = read_list(lists / f"{specification.lists}rows.txt", specification.row)
    skipped = read_list(lists / f"{specification.lists}skipped.txt", specification.row)
    tests = rows_of_tests(root, specification)
    bare = [row for row in rows if row not in tests and row not in skipped]
    problems = len(bare)
    if skipped:
        print("no test, with a reason:")
        for row, reason in skipped.items():
            print(f"  {prefix}{row:8} {rows.get(row, '?')}: {reason}")
            if row not in rows or row in tests:
                problems += 1
                print(f"  {prefix}{row:8} {'is no row' if row not in rows else 'has a test: ' + tests[row][0]}")
    if bare:
        print("no test, no reason:")
        for row in bare:
            print(f"  {prefix}{row:8} {rows[row]}")
    beyond = sorted(set(tests) - set(rows))
    if beyond and specification.whole:
        problems += len(beyond)
        for row in beyond:
            print(f"  {prefix}{row:8} is no row, but has a test: {tests[row][0]}")
    elif beyond:
        print("tests of rows beyond this list:", " ".join(prefix + row for row in beyond))
    covered = sum(row in tests for row in rows)
    print(f"{prefix[:-1]} rows: {len(rows)}, with a test {covered}, with a reason {len(skipped)}, with neither {len(bare)}")
    return problems


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    lists = pathlib.Path(__file__).parent
    return 1 if sum(report(root, lists, each) for each in SPECIFICATIONS) else 0


if __name__ == "__main__":
    sys.exit(main())
