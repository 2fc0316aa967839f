#!/usr/bin/env python3
"""Holds docs/limits.md to core/limits.hpp.

usage: limits_check.py ROOT

Every constant of the header has a row in the page's table with its value, and every row has a constant. Prints what is
wrong, one line each, and exits with 1 when something is. Begins with its own test: each check finds a bad sample.
"""

import pathlib
import re
import sys

TIMES = {"nanoseconds": "ns", "microseconds": "us", "milliseconds": "ms", "seconds": "s", "minutes": "min", "hours": "h"}
SIZES = {0: "B", 10: "KiB", 20: "MiB", 30: "GiB", 40: "TiB"}


def constants(header):
    """{name: value as the page spells it} of the header."""
    out = {}
    pattern = r"inline constexpr [\w:]+ (\w+) = ([^;]+);"
    for name, value in re.findall(pattern, header):
        time = re.fullmatch(r"std::chrono::(\w+)\{(\d+)\}", value)
        size = re.fullmatch(r"std::uint64_t\{(\d+)\} << (\d+)", value)
        if time:
            out[name] = f"{time.group(2)} {TIMES[time.group(1)]}"
        elif size:
            shift = int(size.group(2)) // 10 * 10
            out[name] = f"{int(size.group(1)) << (int(size.group(2)) - shift)} {SIZES[shift]}"
        else:
            out[name] = value
    return out


def rows(page):
    """{name: default} of the page's table."""
    return dict(re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", page, re.M))


def differences(header, page):
    told, there = rows(page), constants(header)
    out = [f"{name}: not in docs/limits.md" for name in there if name not in told]
    out += [f"{name}: not in core/limits.hpp" for name in told if name not in there]
    out += [
        f"{name}: core/limits.hpp says {there[name]}, docs/limits.md {told[name]}"
        for name in there
        if name in told and told[name] != there[name]
    ]
    return out


def self_test():
    header = "inline constexpr duration a = std::chrono::seconds{3};\ninline constexpr std::uint64_t b = std::uint64_t{2} << 31;\n"
    good = "| limit | default |\n|---|---|\n| `a` | 3 s | x |\n| `b` | 4 GiB | y |\n"
    assert not differences(header, good)
    assert differences(header, good.replace("3 s", "4 s"))
    assert differences(header, good.replace("| `b` | 4 GiB | y |\n", ""))
    assert differences(header, good + "| `c` | 1 s | z |\n")


def main():
    self_test()
    root = pathlib.Path(sys.argv[1])
    wrong = differences((root / "core/limits.hpp").read_text(), (root / "docs/limits.md").read_text())
    print("\n".join(wrong) if wrong else "limits: the page and the header agree")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
