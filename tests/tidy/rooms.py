#!/usr/bin/env python3
"""The rooms of actors/ and strategies/: who uses whom, and whether rooms.txt allows it.

usage: rooms.py ROOT [--build BUILD] [--picture FILE] [--check]

Prints the rooms, the arrows between them (by includes; with --build also by symbols of the library's object files, which
no include shows) and the circles of rooms and of files. --picture writes the rooms as SVG; --check fails when
docs/rooms.svg is not what would be written. Exits with 1 on an arrow that rooms.txt doesn't allow or on a circle of
rooms. Object files are one a room in a unity build and one a file without (TROUPE_UNITY=OFF), when circles of files are
shown by symbols too.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
from collections import defaultdict

TABLE = "tests/tidy/rooms.txt"
PICTURE = "docs/rooms.svg"
INCLUDE = re.compile(r"^\s*#\s*include\s*<troupe/([^>]+)>", re.M)


class Table:
    """rooms.txt: the rooms in order, and what each may use."""

    def __init__(self, text):
        self.may_use = {}
        self.faults = []
        for number, line in enumerate(text.splitlines(), 1):
            line = line.split("#")[0].strip()
            if not line:
                continue
            room, colon, uses = line.partition(":")
            folder = room.split("/")[0]
            used = [f"{folder}/{name}" for name in uses.split()]
            if not colon or room in self.may_use:
                self.faults.append((number, f"expected `room: rooms that it uses`, each room once: {line!r}"))
                continue
            for name in used:
                if name not in self.may_use:
                    self.faults.append((number, f"{room} uses {name}, which is no room of a line above"))
            self.may_use[room] = set(used)

    @property
    def folders(self):
        return {room.split("/")[0] for room in self.may_use}

    def room_of(self, path):
        """The room of a file; its folder where that has none; None for what lies in a folder without a line."""
        parts = path.split("/")
        if parts[0] not in self.folders:
            return parts[0]
        room = "/".join(parts[:2]) if len(parts) > 2 else parts[0]
        return room if room in self.may_use else None

    def allows(self, user, used):
        """Of two rooms of one folder."""
        return user == used or used in self.may_use.get(user, ())


def circles(arrows):
    """The strongly connected parts of more than one node, each sorted, of {node: nodes that it uses}."""
    index, low, stack, on_stack, out = {}, {}, [], set(), []

    def visit(start):
        work = [(start, iter(sorted(arrows.get(start, ()))))]
        index[start] = low[start] = len(index)
        stack.append(start)
        on_stack.add(start)
        while work:
            node, rest = work[-1]
            for following in rest:
                if following not in index:
                    index[following] = low[following] = len(index)
                    stack.append(following)
                    on_stack.add(following)
                    work.append((following, iter(sorted(arrows.get(following, ())))))
                    break
                if following in on_stack:
                    low[node] = min(low[node], index[following])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    part = []
                    while True:
                        part.append(stack.pop())
                        on_stack.discard(part[-1])
                        if part[-1] == node:
                            break
                    if len(part) > 1:
                        out.append(sorted(part))

    for node in sorted(arrows):
        if node not in index:
            visit(node)
    return sorted(out)


def include_arrows(tree, table, folders):
    """{(room, room): [text]} by the includes of the library's folders."""
    arrows = defaultdict(list)
    for path, text in sorted(tree.items()):
        if path.split("/")[0] not in folders or not path.endswith((".hpp", ".cpp")):
            continue
        for name in INCLUDE.findall(text):
            here, there = table.room_of(path), table.room_of(name)
            if name in tree and here and there and here != there:
                arrows[here, there].append(f"{path} includes {name}")
    return arrows


def unit_of(path):
    return re.sub(r"\.(hpp|cpp)$", "", path.replace("/detail/", "/"))


def file_circles(tree, folders):
    """Circles of units, a unit being a header with its source, by includes."""
    uses = defaultdict(set)
    for path, text in tree.items():
        if path.split("/")[0] in folders and path.endswith((".hpp", ".cpp")):
            uses[unit_of(path)] |= {unit_of(name) for name in INCLUDE.findall(text) if name in tree} - {unit_of(path)}
    return circles(uses)


def objects_of(build, target="troupe_library"):
    """{object file: the path of its source below the root, or the name of its unity unit}."""
    out = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        match = re.search(rf"-o (\S*CMakeFiles/{target}\.dir/(\S+)\.o)\b", entry["command"])
        if match:
            name = match[2]
            unity = re.fullmatch(r"Unity/unity_(\w+)_cxx\.cxx", name)
            out[pathlib.Path(entry["directory"], match[1])] = unity[1] if unity else name
    return out


def room_of_object(name, table):
    """The room of what objects_of names: actors_shards is actors/shards, core_values is core."""
    if "/" in name:
        return table.room_of(name)
    fits = [room for room in table.may_use if name == room.replace("/", "_") or name.startswith(room.replace("/", "_") + "_")]
    return max(fits, key=len) if fits else name.split("_")[0]


def symbols(file):
    """(symbols defined once and for all, symbols wanted) of an object file. Templates and inline functions are in
    every object that uses them and tell nothing."""
    defined, wanted = set(), set()
    for line in subprocess.run(["nm", "-P", str(file)], check=True, capture_output=True, text=True).stdout.splitlines():
        name, kind = line.split()[:2]
        if kind in "TDBR":
            defined.add(name)
        elif kind == "U":
            wanted.add(name)
    return defined, wanted


def link_arrows(build, table):
    """({(room, room): [symbol]}, {(object, object): [symbol]}) by the symbols of the library's object files."""
    of_object = {name: symbols(file) for file, name in objects_of(build).items() if file.exists()}
    if not of_object:
        sys.exit(f"{build}: no object files of the library: build it first")
    home = {symbol: name for name, (defined, _) in of_object.items() for symbol in defined}
    rooms, files = defaultdict(list), defaultdict(list)
    for name, (_, wanted) in sorted(of_object.items()):
        for symbol in sorted(wanted & home.keys()):
            here, there = room_of_object(name, table), room_of_object(home[symbol], table)
            files[name, home[symbol]].append(symbol)
            if here != there:
                rooms[here, there].append(symbol)
    return rooms, files


def readable(names):
    return subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True).stdout.splitlines()


def refused(arrows, table, may_include):
    """The arrows that neither the table nor the order of the folders allows."""
    for (here, there), why in sorted(arrows.items()):
        folders = here.split("/")[0], there.split("/")[0]
        if folders[0] == folders[1]:
            allowed = table.allows(here, there)
        else:
            allowed = folders[1] in may_include.get(folders[0], ())
        if not allowed:
            yield here, there, why


# -- the picture ---------------------------------------------------------------------------------------------------

BOX = (138, 30)
GAP = (22, 46)


def ranks(rooms, uses):
    """How far above the floor each room stands: above all that it uses."""
    rank = {}

    def of(room):
        if room not in rank:
            rank[room] = 1 + max((of(used) for used in uses.get(room, ()) if used in rooms), default=-1)
        return rank[room]

    for room in rooms:
        of(room)
    return rank


def implied(uses):
    """Arrows that a longer way says too."""

    def reach(room, seen):
        for used in uses.get(room, ()):
            if used not in seen:
                seen.add(used)
                reach(used, seen)
        return seen

    return {
        (room, used) for room in uses for used in uses[room]
        if any(used in reach(other, set()) for other in uses[room] if other != used)
    }


def panel(folder, table, arrows, left, top):
    """(lines of SVG, width, height) of one folder's rooms."""
    rooms = [room for room in table.may_use if room.startswith(folder + "/")]
    uses = defaultdict(set)
    for here, there in arrows:
        if here in rooms and there in rooms:
            uses[here].add(there)
    rank = ranks(rooms, uses)
    rows = [[room for room in rooms if rank[room] == level] for level in range(max(rank.values()) + 1)]
    width = max(len(row) for row in rows) * (BOX[0] + GAP[0]) - GAP[0]
    height = len(rows) * (BOX[1] + GAP[1]) - GAP[1]
    at = {}
    for level, row in enumerate(rows):
        y = top + 34 + (len(rows) - 1 - level) * (BOX[1] + GAP[1])
        if level:  # under the boxes that it uses, as far as the others leave room
            row.sort(key=lambda room: (sum(at[used][0] for used in uses[room]) / max(1, len(uses[room])), room))
        free = width - len(row) * BOX[0]
        for number, room in enumerate(row):
            x = left + number * BOX[0] + free * (number + 1) / (len(row) + 1)
            at[room] = (round(x), y)
    lines = [f'<text x="{left}" y="{top + 14}" class="folder">{folder}/</text>']
    weak = implied(uses)
    for here, there in sorted(((a, b) for a in uses for b in uses[a]), key=lambda arrow: (arrow not in weak, arrow)):
        (x1, y1), (x2, y2) = at[here], at[there]
        x1, y1, x2 = x1 + BOX[0] // 2, y1 + BOX[1], x2 + BOX[0] // 2
        middle = (y1 + y2) // 2
        kind = "implied" if (here, there) in weak else "arrow"
        lines.append(f'<path class="{kind}" d="M{x1} {y1} C{x1} {middle} {x2} {middle} {x2} {y2 - 2}"/>')
    for room in rooms:
        x, y = at[room]
        lines.append(f'<rect x="{x}" y="{y}" width="{BOX[0]}" height="{BOX[1]}" rx="4"/>')
        lines.append(f'<text x="{x + BOX[0] // 2}" y="{y + 20}" text-anchor="middle">{room.split("/")[1]}</text>')
    return lines, width, height + 34


def picture(table, arrows):
    """The rooms as SVG: each above the rooms that it uses; thin lines where a longer way leads there too."""
    body, top, widest = [], 16, 0
    for folder in sorted({room.split("/")[0] for room in table.may_use if "/" in room}, reverse=True):
        lines, width, height = panel(folder, table, arrows, 16, top)
        body += lines
        top += height + 36
        widest = max(widest, width)
    style = (
        "text{font:13px sans-serif;fill:#222}.folder{font-weight:bold}rect{fill:#eef3fa;stroke:#3b6ea5}"
        ".arrow{fill:none;stroke:#3b6ea5;stroke-width:1.3;marker-end:url(#tip)}"
        ".implied{fill:none;stroke:#bbb;stroke-width:.7}"
    )
    tip = '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#3b6ea5"/></marker>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{widest + 32}" height="{top}" viewBox="0 0 {widest + 32} {top}">'
    return "\n".join([head, f"<style>{style}</style><defs>{tip}</defs>", '<rect x="0" y="0" width="100%" height="100%" style="fill:#fff;stroke:none"/>', *body, "</svg>"]) + "\n"


# -- the report ----------------------------------------------------------------------------------------------------


def print_arrows(title, arrows, table):
    inner = {pair: why for pair, why in arrows.items() if pair[0].split("/")[0] == pair[1].split("/")[0]}
    print(f"{title}: {len(inner)} arrows between rooms")
    for room in table.may_use:
        used = sorted(((there, len(why)) for (here, there), why in inner.items() if here == room))
        if used:
            print(f"  {room} -> " + ", ".join(f"{there.split('/')[1]} ({count})" for there, count in used))


def judge(title, arrows, table, may_include, show):
    """Prints what is not allowed and the circles of rooms; how many there are."""
    faults = 0
    for here, there, why in refused(arrows, table, may_include):
        faults += 1
        print(f"not allowed, {title}: {here} -> {there}: " + "; ".join(show(why[:6])) + (" ..." if len(why) > 6 else ""))
    uses = defaultdict(set)
    for here, there in arrows:
        uses[here].add(there)
    found = circles(uses)
    for circle in found:
        print(f"circle of rooms, {title}: " + ", ".join(circle))
    print(f"{title}: {len(found)} circles of rooms")
    return faults + len(found)


def main():
    import tidy

    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--picture", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    told = parser.parse_args()
    tree = tidy.read_tree(told.root)
    table = Table(tree[TABLE])
    faults = len(table.faults)
    for number, text in table.faults:
        print(f"{TABLE}:{number}: {text}")
    count = defaultdict(int)
    for path in tree:
        if path.endswith((".hpp", ".cpp")) and path.split("/")[0] in table.folders:
            count[table.room_of(path)] += 1
    print(f"{sum('/' in room for room in table.may_use)} rooms (files): "
          + ", ".join(f"{room} ({count[room]})" for room in table.may_use))
    included = include_arrows(tree, table, tidy.LIBRARY)
    print_arrows("by includes", included, table)
    faults += judge("by includes", included, table, tidy.MAY_INCLUDE, lambda why: why)
    both = dict(included)
    for circle in file_circles(tree, (*tidy.LIBRARY, "sim")):
        print("circle of files, by includes: " + ", ".join(circle))
    if told.build:
        linked, files = link_arrows(told.build, table)
        print_arrows("by symbols", linked, table)
        faults += judge("by symbols", linked, table, tidy.MAY_INCLUDE, readable)
        if any("/" in name and name.split("/")[0] in table.folders for pair in files for name in pair):
            uses = defaultdict(set)
            for here, there in files:
                uses[here].add(there)
            for circle in circles(uses):
                print("circle of files, by symbols: " + ", ".join(circle))
        for pair, why in linked.items():
            both.setdefault(pair, why)
        faults += judge("by both", both, table, tidy.MAY_INCLUDE, lambda why: why) if faults == 0 else 0
    drawn = picture(table, included)
    if told.picture:
        told.picture.write_text(drawn)
    if told.check and tree.get(PICTURE) != drawn:
        faults += 1
        print(f"{PICTURE} is not what the includes say: run tests/tidy/rooms.py . --picture {PICTURE}")
    print(f"rooms: {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
