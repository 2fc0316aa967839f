#!/usr/bin/env python3
"""What must not compile does not.

usage: check.py COMPILER INCLUDE_DIRECTORIES SOURCE...

Each source compiles as it is. With -DWRONG every line that ends in `// wrong` gets an error of its own, and
no other line does. INCLUDE_DIRECTORIES are separated by semicolons, as CMake lists are.
"""

import pathlib
import re
import subprocess
import sys


def compiled(compiler, directories, source, *flags):
    includes = [f"-I{each}" for each in directories.split(";") if each]
    return subprocess.run([compiler, "-std=c++20", "-fsyntax-only", *includes, *flags, str(source)],
                          capture_output=True, text=True, check=False)


def findings(compiler, directories, source):
    right = compiled(compiler, directories, source)
    if right.returncode != 0:
        yield f"{source}: does not compile as it is:\n{right.stderr[:2000]}"
        return
    text = pathlib.Path(source).read_text().splitlines()
    marked = {n for n, line in enumerate(text, 1) if line.endswith("// wrong")}
    if not marked:
        yield f"{source}: no line is marked"
    wrong = compiled(compiler, directories, source, "-DWRONG")
    name = re.escape(str(source))
    refused = {int(m[1]) for m in re.finditer(rf"^{name}:(\d+):\d+: error: ", wrong.stderr, re.M)}
    for n in sorted(marked - refused):
        yield f"{source}:{n}: compiles: {text[n - 1].strip()}"
    for n in sorted(refused - marked):
        yield f"{source}:{n}: is not marked and does not compile: {text[n - 1].strip()}"


def main():
    compiler, directories, *sources = sys.argv[1:]
    if not sources:
        sys.exit("no sources")
    found = [x for source in sources for x in findings(compiler, directories, source)]
    print("\n".join(found) if found else f"{len(sources)} sources: what must not compile does not")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
