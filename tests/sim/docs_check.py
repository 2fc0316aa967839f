#!/usr/bin/env python3
"""Holds docs/simulation.md, and what the manual quotes, to the tree.

usage: docs_check.py ROOT TROUPE_SIM

- Every bug of core/planted.hpp has a row in the table of planted bugs, with the text of core/planted.cpp, that says
  which seed found it; that seed, modulo the number of scenarios, still is the scenario that the row names; the rule is
  one of `troupe-sim list invariants`.
- In every page of docs/, what stands behind `<!-- from FILE -->` is that file.

Prints what is wrong, one line each, and exits with 1 when something is. Begins with its own test: each check finds a
bad sample.
"""

import pathlib
import re
import subprocess
import sys

BEGIN = "<!-- planted bugs: written by ./dev planted -->"
END = "<!-- end of planted bugs -->"
PAGES_THAT_QUOTE = {"docs/parameter_servers.md": 1, "docs/simulation.md": 1, "docs/strategies.md": 1}
MARK = re.compile(r"^<!-- from ", re.M)
QUOTE = re.compile(r"<!-- from (\S+) -->\n```\w*\n(.*?)^```$", re.S | re.M)


def enumerators(header):
    """The planted bugs of core/planted.hpp, but `none`."""
    body = re.search(r"enum class planted_bug[^{]*\{(.*?)\};", header, re.S).group(1)
    return [name for name in re.findall(r"^\s*(\w+)(?: = \d+)?,", body, re.M) if name != "none"]


def texts(source):
    """{bug: what is wrong} of core/planted.cpp."""
    pairs = re.findall(r'\{planted_bug::\w+,\s*"(\w+)",\s*((?:"[^"]*"\s*)+)\}', source)
    return {name: "".join(re.findall(r'"([^"]*)"', text)) for name, text in pairs}


def rows_of(docs):
    """{bug: [what, seed, scenario, rule]} of the table."""
    table = docs.split(BEGIN)[1].split(END)[0]
    rows = {}
    for line in table.splitlines():
        cells = [cell.strip().strip("`") for cell in line.strip().strip("|").split("|")]
        if len(cells) == 5 and cells[0] not in ("bug", "---"):
            rows[cells[0]] = cells[1:]
    return rows


def planted_complaints(bugs, what, rows, scenarios, rules):
    for bug in bugs:
        if bug not in rows:
            yield f"{bug}: no row in the table of planted bugs"
            continue
        text, seed, scenario, rule = rows[bug]
        if text != what.get(bug):
            yield f"{bug}: the row says '{text}', core/planted.cpp says '{what.get(bug)}'"
        if not seed.isdigit():
            yield f"{bug}: '{seed}', no seed has found it"
            continue
        if scenarios[int(seed) % len(scenarios)] != scenario:
            yield f"{bug}: seed {seed} is one of {scenarios[int(seed) % len(scenarios)]} now, not of {scenario}"
        if rule.split()[0] not in rules:  # "signal 11"
            yield f"{bug}: there is no rule {rule}"
    for bug in rows:
        if bug not in bugs:
            yield f"{bug}: a row without a bug in core/planted.hpp"


def quote_complaints(docs, read, wanted=0):
    quotes = QUOTE.findall(docs)
    if len(quotes) < wanted or len(quotes) != len(MARK.findall(docs)):
        yield f"{len(quotes)} quoted files, {len(MARK.findall(docs))} marks, at least {wanted} wanted"
    for name, text in quotes:
        if read(name) != text:
            yield f"{name}: the text in the manual is another one"


def names(program, *what):
    """First words of `troupe-sim list`: its names, in order."""
    out = subprocess.run([program, "list", *what], check=True, capture_output=True, text=True).stdout
    return [line.split()[0] for line in out.splitlines()]


def self_test():
    bugs, what, scenarios, rules = ["a", "b"], {"a": "A", "b": "B"}, ["one", "two"], ["INV-X"]
    good = {"a": ["A", "3", "two", "INV-X"], "b": ["B", "2", "one", "INV-X"]}
    bad = [
        {"a": good["a"]},
        {**good, "b": ["B", "not found", "", ""]},
        {**good, "b": ["B", "2", "two", "INV-X"]},
        {**good, "b": ["B", "2", "one", "INV-Y"]},
        {**good, "b": ["C", "2", "one", "INV-X"]},
        {**good, "c": ["C", "2", "one", "INV-X"]},
    ]
    assert not list(planted_complaints(bugs, what, good, scenarios, rules))
    for rows in bad:
        assert len(list(planted_complaints(bugs, what, rows, scenarios, rules))) == 1, rows
    assert enumerators("enum class planted_bug : std::uint8_t {\n  none = 0,\n  a, ///< x\n  b,   ///< y, z\n};") == bugs
    assert texts('{planted_bug::a, "a", "A"},\n  {planted_bug::b, "b",\n   "B" "C"},') == {"a": "A", "b": "BC"}
    docs = f"{BEGIN}\n| bug | w | s | s | r |\n|---|---|---|---|---|\n| `a` | A | 3 | `two` | INV-X |\n{END}\n"
    assert rows_of(docs) == {"a": good["a"]}
    quoted = "<!-- from f.cpp -->\n```cpp\nint x;\n```\n"
    assert not list(quote_complaints(quoted, lambda name: "int x;\n"))
    assert list(quote_complaints(quoted, lambda name: "int y;\n"))
    assert list(quote_complaints("", lambda name: "", wanted=1))
    assert list(quote_complaints("<!-- from f.cpp -->\nint x;\n", lambda name: "int x;\n"))


def main():
    self_test()
    root, program = pathlib.Path(sys.argv[1]), sys.argv[2]
    read = lambda name: (root / name).read_text()
    docs = read("docs/simulation.md")
    bugs = enumerators(read("core/planted.hpp"))
    what = texts(read("core/planted.cpp"))
    complaints = list(planted_complaints(bugs, what, rows_of(docs), names(program), names(program, "invariants")))
    complaints = [f"docs/simulation.md: {complaint}" for complaint in complaints]
    quoted = 0
    for page in sorted((root / "docs").rglob("*.md")):
        name = page.relative_to(root).as_posix()
        quoted += len(QUOTE.findall(read(name)))
        complaints += [f"{name}: {text}" for text in quote_complaints(read(name), read, PAGES_THAT_QUOTE.get(name, 0))]
    for complaint in complaints:
        print(complaint)
    print(f"docs: {len(bugs)} planted bugs, {quoted} quoted files, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
