#!/usr/bin/env python3
"""Writes one source that compiles several test files as one unit, so that CAF and doctest are parsed once.

usage: batch.py OUTPUT FILE...

Everything that the files include comes first, outside of any namespace; then each file in a namespace of
its own, where its includes find their guards set. Helpers of two files may so have the same name. A file
that includes under a condition can't be treated so, and is refused by name: compile it alone.
Files are named from the root of the tree, which must be an include folder: so the unit is the same text in every
clone, and one compiler cache serves them all.
"""

import os
import pathlib
import re
import sys

INCLUDE = re.compile(r"^\s*#\s*include\s*([<\"])([^>\"]+)[>\"]")
ROOT = pathlib.Path(__file__).resolve().parents[1]
CONDITION = re.compile(r"^\s*#\s*(if|ifdef|ifndef|endif)\b")


def from_root(path):
    return os.path.relpath(os.path.realpath(path), ROOT)


def includes_of(path):
    """The includes of a file, those in quotes by their path from the root."""
    depth = 0
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if condition := CONDITION.match(line):
            depth += -1 if condition[1] == "endif" else 1
        elif include := INCLUDE.match(line):
            if depth:
                raise SystemExit(f"{path}:{number}: an include under a condition: this file is compiled alone")
            near = path.parent / include[2]
            if include[1] == '"' and near.exists():
                found.append(f'"{from_root(near)}"')
            else:
                found.append(f"{include[1]}{include[2]}{'>' if include[1] == '<' else include[1]}")
    return found


def batch(files):
    """The text of the unit."""
    lines = []
    for path in files:
        lines += [include for include in includes_of(path) if include not in lines]
    text = [f"#include {include}" for include in lines]
    for path in files:
        name = re.sub(r"\W", "_", path.stem)
        text.append(f'namespace {name} {{\n#include "{from_root(path)}"\n}} // namespace {name}')
    return "\n".join(text) + "\n"


def main():
    output = pathlib.Path(sys.argv[1])
    text = batch([pathlib.Path(os.path.abspath(name)) for name in sys.argv[2:]])
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(text)


if __name__ == "__main__":
    main()
