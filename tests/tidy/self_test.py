#!/usr/bin/env python3
"""Shows that each rule of the tidy test fires on a bad sample and stays silent on a good one."""

import pathlib
import sys
import tempfile
from unittest import mock

import rooms
import tidy

README = "# Folder\n\nHere.\nNever here.\nStart at.\n"
HEADER = "#pragma once\n"
GOOD = {
    "core/README.md": README,
    "core/a.hpp": HEADER + "// sleeps: std::this_thread::sleep_for is banned in code, not in words\n",
    "core/detail/b.hpp": HEADER,
    "core/detail/c.hpp": HEADER + "#include <troupe/core/detail/b.hpp>\n",
    "core/c.cpp": "#include <troupe/core/detail/b.hpp>\n",
    "tests/README.md": README,
    "tests/unit/core/b_test.cpp": "#include <troupe/core/detail/b.hpp>\n",
    "actors/README.md": README,
    rooms.TABLE: "# rooms\nactors/support:\nactors/queue: support\nactors/worker: support\nstrategies: \n",
    "actors/support/README.md": README,
    "actors/support/s.hpp": HEADER,
    "actors/queue/README.md": README,
    "actors/queue/queue.hpp": HEADER + "#include <troupe/actors/support/s.hpp>\nclass closure_queue {\n};\nclass later;\n",
    "actors/queue/queue.cpp": "#include <troupe/actors/queue/queue.hpp>\n",
    "actors/queue/a.cpp": '#include <troupe/core/a.hpp>\nconst char* const text = "std::thread";\nint big = 1\'000\'000;\n',
    "sim/README.md": README,
    "sim/a.hpp": HEADER + "class later {\n};\nclass closure_queue;\n",
    "examples/README.md": README,
    "examples/simulate/test.cpp": "#include <troupe/sim/a.hpp>\n",
    "kernels/README.md": README,
    "strategies/README.md": README,
    "core/loop.cpp": "void g() {\n  for (auto x :\n       {1, 2}) {\n    for (int i = 0;\n         i < 3; ++i) {\n      ++x;\n    }\n  }\n}\n" + "int x;\n" * 70,
    "core/short.cpp": "void f(int x,\n       int y) {\n  ++x;\n}\n" + "int x;\n" * 70,
    "core/ids.hpp": HEADER + "/// UTF-8 of RFC-1952, CRC-32, rows 3 to 5, SHA-256; INV is a word\nconst char* const id = \"INV-X1\"; // an id in code\n",
    "core/rows.cpp": "// a source may say row PS-L4\n",
    "tests/unit/core/row_helpers.hpp": HEADER + "/// rows PS-L4 and SYNC-CTX-1\n",
    "strategies/api.hpp": HEADER + "#include <troupe/core/a.hpp>\n",
}

LONG_FUNCTION = "void f(int x) {\n" + "  ++x;\n" * 70 + "}\n"

# rule -> [(path, text that breaks the rule)]
BAD = {
    "include-direction": [
        ("core/x.cpp", "#include <troupe/actors/a.hpp>\n"),
        ("kernels/x.cpp", "#include <troupe/data/a.hpp>\n"),
        ("actors/x.cpp", "#include <troupe/strategies/api.hpp>\n"),
        ("actors/y.cpp", "#include <troupe/sim/world.hpp>\n"),
        ("examples/x.cpp", "#include <troupe/core/a.hpp>\n"),
        ("bench/x.cpp", "#include <troupe/sim/a.hpp>\n"),
    ],
    "include-detail": [
        ("core/x.hpp", HEADER + "#include <troupe/core/detail/b.hpp>\n"),
        ("actors/x.cpp", "#include <troupe/core/detail/b.hpp>\n"),
        ("tests/unit/actors/x_test.cpp", "#include <troupe/core/detail/b.hpp>\n"),
    ],
    "include-spelling": [
        ("core/x.cpp", '#include "a.hpp"\n'),
        ("core/x.cpp", "#include <core/a.hpp>\n"),
        ("core/x.cpp", "#include <troupe/a.hpp>\n"),
        ("core/x.cpp", "#include <troupe/core/../core/a.hpp>\n"),
    ],
    "include-missing": [("core/x.cpp", "#include <troupe/core/none.hpp>\n")],
    "include-weight": [
        ("actors/x.cpp", "#include <caf/all.hpp>\n"),
        ("core/x.hpp", HEADER + "#include <nlohmann/json.hpp>\n"),
        ("kernels/x.hpp", HEADER + "#include <Eigen/Core>\n"),
        ("transport/x.cpp", "#include <boost/asio.hpp>\n"),
        ("kernels/x.cpp", "#include <caf/actor.hpp>\n"),
    ],
    "room-arrow": [
        ("actors/support/x.cpp", "#include <troupe/actors/queue/queue.hpp>\n"),
        ("actors/worker/x.hpp", HEADER + "#include <troupe/actors/queue/queue.hpp>\n"),
    ],
    "room-unknown": [("actors/x.cpp", "int x;\n"), ("actors/attic/x.cpp", "int x;\n")],
    "room-table": [
        (rooms.TABLE, "actors/queue: support\nactors/support:\n"),
        (rooms.TABLE, "actors/queue: queue\n"),
        (rooms.TABLE, "actors/queue\n"),
        (rooms.TABLE, "actors/queue:\nactors/queue:\n"),
    ],
    "stand-in": [
        ("sim/x.cpp", "class closure_queue final : base {\n};\n"),
        ("sim/x.cpp", "using a = caf::typed_actor<int>;\n"),
    ],
    "pragma-once": [("core/x.hpp", "struct x {};\n")],
    "address": [("docs/x.md", "see ht" + "tps://example.org/a\n"), ("dev", "curl ht" + "tp://mirror/x\n")],
    "machine-path": [("docs/x.md", "lies in /ho" + "me/me/troupe\n")],
    "todo": [("core/x.cpp", "// TO" + "DO: later\n"), ("docs/x.md", "FIX" + "ME\n")],
    "row-id": [
        ("core/x.hpp", HEADER + "/// At the end (row PS-L4).\n"),
        ("sim/x.hpp", HEADER + "int x; ///< INV-X2\n"),
        ("strategies/detail/x.hpp", HEADER + "/* rows SYNC-CTX-10 to 12 */\n"),
        ("tools/x.hpp", HEADER + "/// How batches are cut (rows\n/// SPL-3).\n"),
        ("core/x.hpp", HEADER + "/// All of it (rows SYNC-RUN).\n"),
        ("core/x.hpp", HEADER + "/// As the two (row E13).\n"),
        ("core/x.hpp", HEADER + "/// As the two (row\n/// E13).\n"),
        ("core/x.hpp", HEADER + "/// Source: part 1.R of the specification.\n"),
    ],
    "readme": [("tools/x.cpp", "int x;\n"), ("bench/README.md", "\n\n"), ("actors/queue/README.md", "\n")],
    "file-length": [("core/x.cpp", "int x;\n" * 500)],
    "function-length": [
        ("core/x.cpp", LONG_FUNCTION),
        ("core/x.cpp", "void f(int x,\n       int y) {\n" + "  ++x;\n" * 70 + "}\n"),
    ],
}


def rules_fired(extra):
    tree = dict(GOOD)
    tree.update(extra)
    return {finding.rule for finding in tidy.check_tree(tree)}


def check_exceptions():
    """Exceptions hide exactly their rule and path, need a reason, and unused ones are told."""
    failures = []
    findings = list(tidy.check_tree(dict(GOOD, **{"core/x.cpp": "thread_local int a;\nstd::thread b;\n"})))
    standing, unused = tidy.apply_exceptions(findings, [("thread-local", "core/*"), ("clock", "core/*")])
    if {f.rule for f in standing} != {"thread"}:
        failures.append(f"exceptions: {[str(f) for f in standing]}")
    if unused != [("clock", "core/*")]:
        failures.append(f"exceptions: unused {unused}")
    for bad in ("thread core/x.cpp\n", "no-such-rule core/x.cpp because\n"):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, "exceptions.txt")
            path.write_text(bad)
            try:
                tidy.read_exceptions(path)
                failures.append(f"exceptions: accepted {bad!r}")
            except SystemExit:
                pass
    return failures


def check_rooms_script():
    """What rooms.py says of a small tree and of made-up object files."""
    failures = []
    table = rooms.Table(GOOD[rooms.TABLE])
    expected = (
        ("circles", rooms.circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}), [["b", "c"]]),
        ("circles of none", rooms.circles({"a": {"b", "c"}, "b": {"c"}}), []),
        ("a unity unit", rooms.room_of_object("actors_queue", table), "actors/queue"),
        ("a part of a room", rooms.room_of_object("actors_queue_2", table), "actors/queue"),
        ("a unit of another folder", rooms.room_of_object("core_values", table), "core"),
        ("a file alone", rooms.room_of_object("actors/queue/detail/x.cpp", table), "actors/queue"),
        ("arrows", sorted(rooms.include_arrows(GOOD, table, tidy.LIBRARY)),
         [("actors/queue", "actors/support"), ("actors/queue", "core"), ("strategies", "core")]),
        ("refused", [r[:2] for r in rooms.refused(
            {("actors/queue", "actors/support"): [], ("actors/support", "actors/queue"): [], ("core", "actors/queue"): [],
             ("actors/queue", "core"): []}, table, tidy.MAY_INCLUDE)],
         [("actors/support", "actors/queue"), ("core", "actors/queue")]),
        ("circles of files", rooms.file_circles(
            {"actors/queue/a.hpp": "#include <troupe/actors/queue/b.hpp>\n", "actors/queue/b.hpp": HEADER,
             "actors/queue/b.cpp": "#include <troupe/actors/queue/a.hpp>\n"}, {"actors"}),
         [["actors/queue/a", "actors/queue/b"]]),
        ("implied arrows", rooms.implied({"a": {"b", "c"}, "b": {"c"}}), {("a", "c")}),
    )
    for what, got, want in expected:
        if got != want:
            failures.append(f"rooms.py, {what}: {got}, not {want}")
    objects = {pathlib.Path(__file__): "actors_queue", pathlib.Path(tidy.__file__): "actors_support_2"}
    held = {"actors_queue": ({"f"}, {"g", "printf"}), "actors_support_2": ({"g"}, {"f"})}
    with mock.patch.object(rooms, "objects_of", lambda build: objects), \
            mock.patch.object(rooms, "symbols", lambda file: held[objects[file]]):
        linked, _ = rooms.link_arrows(pathlib.Path("."), table)
    if linked != {("actors/queue", "actors/support"): ["g"], ("actors/support", "actors/queue"): ["f"]}:
        failures.append(f"rooms.py, by symbols: {dict(linked)}")
    for box in ("queue", "support", "worker"):
        if f">{box}</text>" not in rooms.picture(table, {("actors/queue", "actors/support"): []}):
            failures.append(f"rooms.py: the picture lacks {box}")
    return failures


def main():
    failures = [f"good sample: {rule}" for rule in sorted(rules_fired({}))]
    for rule, samples in BAD.items():
        for path, text in samples:
            if rule not in rules_fired({path: text}):
                failures.append(f"{rule}: silent on {path}: {text[:60]!r}")
    for ban in tidy.BANS:
        if ban.rule not in rules_fired({"actors/x.cpp": ban.sample + "\n"}):
            failures.append(f"{ban.rule}: silent on {ban.sample!r}")
        for path in ("sim/x.cpp", "sim/scenarios/x.cpp", "sim/checkers/x.hpp"):
            if ban.rule not in rules_fired({path: HEADER + ban.sample + "\n"}):
                failures.append(f"{ban.rule}: silent on {ban.sample!r} in {path}")
        if ban.rule in rules_fired({"sim/tools/x.cpp": ban.sample + "\n"}):
            failures.append(f"{ban.rule}: fires on {ban.sample!r} in the tools around the simulator")
        if ban.rule in rules_fired({"actors/x.cpp": "// " + ban.sample + "\n"}):
            failures.append(f"{ban.rule}: fires in a comment: {ban.sample!r}")
    for ban in tidy.TEST_BANS:
        if ban.rule not in rules_fired({"tests/unit/core/x_test.cpp": ban.sample + "\n"}):
            failures.append(f"{ban.rule}: silent on {ban.sample!r}")
    for ban in tidy.SIM_BANS:
        if ban.rule not in rules_fired({"sim/x.cpp": ban.sample + "\n"}):
            failures.append(f"{ban.rule}: silent on {ban.sample!r}")
    untested = set(tidy.RULES) - set(BAD) - {ban.rule for ban in tidy.BANS + tidy.TEST_BANS + tidy.SIM_BANS}
    failures += [f"{rule}: has no bad sample" for rule in sorted(untested)]
    failures += check_exceptions()
    failures += check_rooms_script()
    for failure in failures:
        print("self test:", failure)
    print(f"tidy self test: {len(tidy.RULES)} rules, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
