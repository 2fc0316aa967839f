#!/usr/bin/env python3
"""Writes what `collectives --json` wrote as the tables of docs/performance.md.

usage: tables.py RESULTS.json [--docs FILE]

Prints them, or, with --docs, puts each group of them between its two marker comments in FILE (the text there before is
lost). A cell is Troupe's median in bold, a peer's median with the ratio in brackets, or that ratio alone; `-` stands
for what was not measured.
"""

import argparse
import json
import re
import sys

SIZES = {1 << 10: "1 KiB", 64 << 10: "64 KiB", 1 << 20: "1 MiB", 4 << 20: "4 MiB", 16 << 20: "16 MiB",
         64 << 20: "64 MiB"}
NOTHING = "-"


def time_text(us):
    """Three digits, from a thousand on all of them."""
    return f"{us:.3g}" if us < 999.5 else f"{us:,.0f}"


def ratio_text(ratio):
    return f"({ratio:.2f})" if ratio < 99.995 else f"({ratio:,.0f})"


class Results:
    """The rows of a report by name and peer."""

    def __init__(self, report):
        rows = [r for r in report["rows"] if "not_measured" not in r]
        self.rows = {(r["name"], r.get("peer")): r for r in rows}
        self.first = {}
        for r in rows:
            self.first.setdefault(r["name"], r)

    def ours(self, name, algorithm=False, bold=True):
        """Troupe's median, with the algorithm if asked for."""
        row = self.first.get(name)
        if row is None:
            return NOTHING
        time = time_text(row["median"])
        return (f"**{time}**" if bold else time) + (f' {row["params"]["algorithm"]}' if algorithm else "")

    def peer(self, name, peers, ratio_only=False):
        """The first of the peers that the row has."""
        row = next((self.rows[name, p] for p in peers.split() if (name, p) in self.rows), None)
        if row is None:
            return NOTHING
        ratio = ratio_text(row["ratio"])
        return ratio if ratio_only else f'{time_text(row["peer_median"])} {ratio}'

    def whole(self, operation):
        """[(n, bytes)] of the operation's rows, each once, fewest members first."""
        found = {(r["params"]["n"], r["params"].get("bytes", 0)) for name, r in self.first.items()
                 if name.startswith(operation + "_")}
        return sorted(found)

    def operations(self):
        """In the order in which they were measured."""
        names = (re.match(r"(\w+?)_(?:tcp|shm|inproc)_n\d", name) for name in self.first)
        return list(dict.fromkeys(m.group(1) for m in names if m))


def name_of(operation, transport, n, size):
    letters = {"KiB": "K", "MiB": "M"}
    text = f"{operation}_{transport}_n{n}"
    if not size:
        return text
    number, unit = SIZES[size].split()
    return f"{text}_{number}{letters[unit]}"


def table(head, rows):
    def line(cells):
        return f'| {" | ".join(cells)} |\n'

    return line(head) + "|---" * len(head) + "|\n" + "".join(map(line, rows))


def sums_over_tcp(results, n):
    pair = n == 2
    rows = []
    for members, size in results.whole("all_reduce"):
        if members != n:
            continue
        name = name_of("all_reduce", "tcp", n, size)
        fixed, bf16 = name + "_fixed", name + "_bf16"
        middle = [results.peer(name, "limit_raw_tcp")] if pair else [
            results.ours(fixed, algorithm=True), results.peer(fixed, "openmpi_tcp", ratio_only=True)]
        rows.append([SIZES[size], results.ours(name, algorithm=True), results.peer(name, "gloo_ring"),
                     results.peer(name, "gloo_hd"), results.peer(name, "openmpi_tcp"), *middle,
                     results.ours(bf16, bold=False), results.peer(bf16, "openmpi_tcp", ratio_only=True),
                     results.peer(bf16, "troupe_f32", ratio_only=True)])
    return table(["size", "rank order", "Gloo ring", "Gloo HD", "Open MPI",
                  *(["raw"] if pair else ["`fixed` order", "Open MPI"]), "bf16 wire", "Open MPI", "f32 wire"], rows)


def sums_in_memory(results):
    rows = []
    for n, size in results.whole("all_reduce"):
        slots, threads = (name_of("all_reduce", t, n, size) for t in ("shm", "inproc"))
        in_place = slots + "_zero_copy"
        rows.append([f"{n}, {SIZES[size]}", results.ours(slots), results.peer(slots, "openmpi_shm"),
                     results.ours(in_place), results.peer(in_place, "openmpi_shm", ratio_only=True),
                     results.peer(in_place, "limit_memory", ratio_only=True),
                     results.ours(threads), results.peer(threads, "limit_memory")])
    return table(["n, size", "through slots", "Open MPI", "in place", "Open MPI", "memory", "threads", "memory"], rows)


def other_operations(results):
    rows = []
    for operation in results.operations():
        if operation == "all_reduce":
            continue
        for n, size in results.whole(operation):
            tcp, shm, threads = (name_of(operation, t, n, size) for t in ("tcp", "shm", "inproc"))
            bound = "limit_memory limit_spin"
            rows.append([f"`{operation}`, {n}" + (f", {SIZES[size]}" if size else ""),
                         results.ours(tcp), results.peer(tcp, "gloo gloo_hd"), results.peer(tcp, "openmpi_tcp"),
                         results.peer(tcp, "limit_raw_tcp"),
                         results.ours(shm), results.peer(shm, "openmpi_shm"),
                         results.peer(shm, bound, ratio_only=True),
                         results.ours(threads), results.peer(threads, bound, ratio_only=True)])
    return table(["operation, n, size", "TCP", "Gloo", "Open MPI", "raw", "shared memory", "Open MPI", "memory",
                  "threads", "memory"], rows)


def groups_of(results):
    """What stands between each pair of markers, by their name."""
    return {
        "sums": f"TCP, n = 2:\n\n{sums_over_tcp(results, 2)}\nTCP, n = 4:\n\n{sums_over_tcp(results, 4)}\n"
                f"Shared memory and threads:\n\n{sums_in_memory(results)}",
        "others": other_operations(results),
    }


def markers(group):
    return f"<!-- collectives, {group}: written by bench/tables.py -->\n", f"<!-- collectives, {group}: end -->\n"


def put(page, group, text):
    """The page with that text between the group's markers."""
    begin, end = markers(group)
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        raise ValueError(f"no place for the tables: {begin.strip()} and, after it, {end.strip()} must be there once")
    before, rest = page.split(begin)
    return f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}"


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("results")
    options.add_argument("--docs", metavar="FILE")
    told = options.parse_args()
    with open(told.results, encoding="utf-8") as file:
        groups = groups_of(Results(json.load(file)))
    if told.docs is None:
        print("\n".join(groups.values()), end="")
        return
    with open(told.docs, encoding="utf-8") as file:
        page = file.read()
    try:
        for group, text in groups.items():
            page = put(page, group, text)
    except ValueError as why:
        sys.exit(f"{told.docs}: {why}")
    with open(told.docs, "w", encoding="utf-8") as file:
        file.write(page)


if __name__ == "__main__":
    main()
