#!/usr/bin/env python3
"""Shows which rows a title names, and that each mistake in the lists is told."""

import pathlib
import tempfile

import report

PS, SYNC = report.SPECIFICATIONS


def rows_in(specification, title):
    names = specification.names().finditer(title)
    return [row for each in names for row in report.expand(each.group(1).replace(specification.prefix, ""))]


def problems(rows, skipped, title):
    """Of a tree with these lists and one test."""
    with tempfile.TemporaryDirectory() as directory:
        root = pathlib.Path(directory)
        (root / "sync_rows.txt").write_text(rows)
        (root / "sync_skipped.txt").write_text(skipped)
        (root / "tests").mkdir()
        (root / "tests" / "a_test.cpp").write_text(f'TEST_CASE("{title}") {{}}\n')
        return report.report(root, root, SYNC)


for specification, title, expected in [
    (PS, "PS-H4/H5 PS-Z1..Z3 and T-C16", ["H4", "H5", "Z1", "Z2", "Z3", "T-C16"]),
    (PS, "PS-T-F2 PS-PART-MIN SYNC-S1", ["T-F2", "PART-MIN"]),
    (SYNC, "SYNC-RUN-2 SYNC-REG-9 x", ["RUN-2", "REG-9"]),
    (SYNC, "SYNC-SPL-9/10 SYNC-ASH-1..3", ["SPL-9", "SPL-10", "ASH-1", "ASH-2", "ASH-3"]),
    (SYNC, "SYNC-S1/S3 SYNC-V1-2 SYNC-V1: V1", ["S1", "S3", "V1-2", "V1"]),
    (SYNC, "SYNC-UPD-R1 SYNC-COL-A SYNC-INP-6b SYNC-GRP-C1", ["UPD-R1", "COL-A", "INP-6b", "GRP-C1"]),
    (SYNC, "SYNC-STEPS SYNC part 2, row 7 PS-H4", []),
]:
    assert rows_in(specification, title) == expected, (title, rows_in(specification, title))

TWO = "RUN-1 a\nRUN-2 b\n"
assert problems(TWO, "RUN-2 why\n", "SYNC-RUN-1 x") == 0
assert problems(TWO, "", "SYNC-RUN-1 x") == 1  # neither
assert problems(TWO, "RUN-2 why\n", "SYNC-RUN-1..2 x") == 1  # both
assert problems(TWO, "RUN-3 why\n", "SYNC-RUN-1/2 x") == 1  # a reason for no row
assert problems(TWO, "", "SYNC-RUN-1..3 x") == 1  # a test of no row
print("rows: titles and lists are read as they should")
