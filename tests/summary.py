#!/usr/bin/env python3
"""Sums the test cases of a ctest run and prints `N passed, N failed, N skipped` as the last line.

usage: summary.py RESULTS.xml COUNTS_DIR

A doctest runner leaves its counts in COUNTS_DIR/NAME; any other test counts as one case. A runner that
died, was killed or failed after its last case (a leak report, say) adds one failure of its own.
"""

import pathlib
import sys
import xml.etree.ElementTree as xml


def counts_of(test, counts_dir):
    """The (passed, failed, skipped) of one <testcase> of the results file."""
    status = test.get("status")
    ok = status == "run" and test.find("failure") is None
    path = counts_dir / test.get("name")
    if path.exists():
        passed, failed, skipped = map(int, path.read_text().split())
        return passed, failed if ok or failed else 1, skipped
    if test.find("skipped") is not None and status in ("disabled", "notrun"):
        # A runner that could not start (not built, missing) must never look like a skip.
        return (0, 0, 1) if status == "disabled" else (0, 1, 0)
    return (1, 0, 0) if ok else (0, 1, 0)


def main():
    results, counts_dir = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    total = [0, 0, 0]
    red = []
    if results.exists():
        for test in xml.parse(results).getroot().iter("testcase"):
            counts = counts_of(test, counts_dir)
            total = [a + b for a, b in zip(total, counts)]
            if counts[1]:
                red.append(f"{test.get('name')} ({counts[1]})")
    else:
        total[1] = 1
        red.append("ctest wrote no results")
    if red:
        print("red:", ", ".join(red))
    (counts_dir / "total").write_text(" ".join(map(str, total)) + "\n")
    print(f"{total[0]} passed, {total[1]} failed, {total[2]} skipped")
    return 1 if total[1] or sum(total) == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
