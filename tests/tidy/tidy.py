#!/usr/bin/env python3
"""The tidy test: the rules of the tree that a compiler does not check.

usage: tidy.py ROOT

Prints one line a finding, `file:line: rule: message`, and exits with 1 when there is an error; warnings
(sizes) do not fail. Exceptions, each with its reason, stand in exceptions.txt beside this file.
self_test.py shows that each rule fires on a bad sample.
"""

import fnmatch
import os
import pathlib
import re
import sys
from dataclasses import dataclass

import rooms

LIBRARY = ("core", "messages", "kernels", "data", "transport", "device", "actors", "strategies")
TOP = ("tools", "examples", "bench")
FOLDERS = LIBRARY + TOP + ("sim", "tests", "docs", "cmake")

# Who may include whom: core <- {messages, kernels, data} <- transport <- device <- actors <- strategies <- the rest.
MAY_INCLUDE = {
    "core": {"core"},
    "messages": {"core", "messages"},
    "kernels": {"core", "kernels"},
    "data": {"core", "data"},
    "transport": {"core", "messages", "kernels", "data", "transport"},
    "device": {"core", "messages", "kernels", "data", "transport", "device"},
    "actors": set(LIBRARY) - {"strategies"},
    "strategies": set(LIBRARY),
    "tools": set(LIBRARY),
    "sim": set(LIBRARY) | {"sim"},
}

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
README_LINES_MIN = 4


@dataclass(frozen=True)
class Ban:
    """A pattern that must not stand in production code, and a line that shows what it catches."""

    rule: str
    pattern: str
    sample: str
    why: str


BANS = (
    Ban("sleep", r"this_thread\s*::\s*(sleep|yield)", "std::this_thread::sleep_for(1ms);", "time goes through clock_port and timers"),
    Ban("sleep", r"\b(usleep|nanosleep)\s*\(|(?<![\w.>:])::sleep\s*\(", "usleep(10);", "time goes through clock_port and timers"),
    Ban("clock", r"\b(steady_clock|system_clock|high_resolution_clock)\s*::\s*now", "auto t = std::chrono::steady_clock::now();", "time goes through clock_port"),
    Ban("clock", r"\b(clock_gettime|gettimeofday)\s*\(", "clock_gettime(CLOCK_MONOTONIC, &t);", "time goes through clock_port"),
    Ban("random", r"\brandom_device\b|\bstd::rand\b|\bsrand\s*\(", "std::random_device seed;", "randomness goes through random_port"),
    Ban("thread", r"\bstd::j?thread\b|\bpthread_create\b", "std::thread t{body};", "threads are started through thread_port"),
    Ban("thread", r"\bstd::(async|packaged_task)\b|#\s*include\s*<(future|thread)>", "auto f = std::async(body);", "threads are started through thread_port"),
    Ban("thread-local", r"\bthread_local\b", "thread_local int depth = 0;", "ambient state hangs on the thread pointer of core/execution_context"),
    Ban("file", r"\bf(re)?open\s*\(|\bo?i?fstream\b|(?<![\w>])::open(at)?\s*\(", "std::ofstream out{path};", "files go through storage_port"),
    Ban("file", r"#\s*include\s*<(fstream|fcntl\.h|sys/stat\.h|dirent\.h|filesystem)>", "#include <fcntl.h>", "files go through storage_port"),
    Ban("socket", r"(?<![\w>])::(socket|connect|accept|bind|listen)\s*\(|#\s*include\s*<(sys/socket|netinet/\w+|arpa/inet)\.h>", "int s = ::socket(AF_INET, SOCK_STREAM, 0);", "sockets belong to transport_port"),
    Ban("caf-banned", r"\bcaf/stream|\bcaf::(stream|broadcast_downstream_manager|attach_stream\w*)\b|\bmake_source\b|\bmake_stage\b", "caf::stream<int> s;", "CAF's streams do not survive into 1.x"),
    Ban("caf-banned", r"\bcaf::group\b|\bcaf/group\.hpp|\bspawn_in_group\b", "caf::group g;", "CAF's groups do not survive into 1.x"),
    Ban("caf-banned", r"\bactor_pool\b", "auto p = caf::actor_pool::make(&ctx, 3, f, policy);", "actor_pool does not survive into 1.x"),
    Ban("caf-banned", r"\b(caf::)?detached\b|\bblocking_actor\b|\bscoped_actor\b", "sys.spawn<caf::detached>(f);", "handlers never block; user threads wait on wait_port"),
    Ban("caf-banned", r"\bcaf::after\b", "return {caf::after(1s) >> [] {}};", "time-outs are tell_after of core/caf_compat.hpp"),
    Ban("caf-banned", r"\bCAF_ALLOW_UNSAFE_MESSAGE_TYPE\b", "CAF_ALLOW_UNSAFE_MESSAGE_TYPE(foo)", "what cannot be serialized does not travel"),
    Ban("caf-version", r"\bCAF_(MAJOR_|MINOR_|PATCH_)?VERSION\b", "#if CAF_VERSION < 1800", "only core/caf_compat.hpp knows CAF's versions"),
    Ban("infinite", r"(?<![\w.>])infinite\b", "self->request(w, caf::infinite, m);", "every request between processes has a finite time-out"),
)

TEST_BANS = (
    Ban("test-sleep", r"this_thread\s*::\s*sleep|\b(usleep|nanosleep)\s*\(|(?<![\w.>:])::sleep\s*\(", "std::this_thread::sleep_for(1s);", "tests never sleep to wait"),
)

SIM_BANS = (
    Ban("stand-in", r"\bspawn_state\b|\bstate_holder\b|\btyped_actor\s*<", "auto a = spawn_state<my_worker>(system);", "the simulator runs the production actors and defines none"),
)
DEFINITION = re.compile(r"^(?:class|struct)\s+(\w+)(?:\s+final)?\s*(?::[^;{]*)?\{", re.M)

# An id of a row or invariant that readers cannot look up: "PS-L4", "SYNC-CTX-21", "INV-X2", "rows SPL-3, E13", or a
# section of that specification. Standards have the same form and are no rows.
ROW_ID = re.compile(
    r"\b(?:PS|SYNC|INV|RM)-[A-Z]\w*(?:-\d+)?\b"
    r"|\b(?!(?:UTF|CRC|FNV|SHA|AVX|RFC|ISO|XXH|SSE|MIT)-)[A-Z]{2,4}-[A-Z]?\d+\b"
    r"|\b[Rr]ows? [A-Z]{1,3}\d+\b"
    r"|\b(?:part|section) \d\.[A-Z\d]+ of the specification|\bpart \d, row \d"
)
COMMENT = re.compile(
    r'(?P<comment>//[^\n]*|/\*.*?\*/)|R"(?P<mark>[^()\s\\]{0,16})\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'",
    re.S,
)

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)

# rule name -> what it says; self_test.py has a bad sample for each.
RULES = {
    "include-direction": "dependencies point one way",
    "include-detail": "detail/ is private to its folder",
    "include-spelling": "project headers are spelled <troupe/folder/file.hpp>",
    "include-missing": "a project header that is included exists",
    "room-arrow": f"a room includes only the rooms that {rooms.TABLE} names for it",
    "room-unknown": f"each file of a folder with rooms lies in a room of {rooms.TABLE}",
    "room-table": f"{rooms.TABLE} is in order, so that it has no circles",
    "include-weight": "heavy or private headers stay out of headers",
    "pragma-once": "each header starts with #pragma once",
    "address": "no web addresses",
    "machine-path": "no paths of one machine",
    "todo": "no notes to oneself",
    "row-id": "comments of headers say the behaviour; ids of rows and invariants stand in tests and in code",
    "readme": "each folder and each room has a README.md",
    "file-length": f"files have at most {FILE_LINES_MAX} lines (warning)",
    "function-length": f"functions have at most {FUNCTION_LINES_MAX} lines (warning)",
    **{ban.rule: ban.why for ban in BANS + TEST_BANS + SIM_BANS},
}
WARNINGS = {"file-length", "function-length"}


@dataclass(frozen=True)
class Finding:
    path: str
    line: int
    rule: str
    message: str

    def __str__(self):
        kind = "warning" if self.rule in WARNINGS else "error"
        return f"{self.path}:{self.line}: {kind}: {self.rule}: {self.message}"


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def code_only(text):
    """C++ text with comments and the insides of literals blanked; line numbers stay."""
    token = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"([^()\s\\]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Fa-f])\'(?:\\.|[^\'\\\n])+\'',
        re.S,
    )

    def blank(match):
        found = match.group(0)
        if found.startswith('"') and "include" in text[text.rfind("\n", 0, match.start()) + 1 : match.start()]:
            return found
        blanked = re.sub(r"[^\n]", " ", found)
        return f'"{blanked[1:-1]}"' if found.startswith('"') else blanked

    return token.sub(blank, text)


def check_row_ids(path, text):
    """Yields a finding for each id of a row in a comment; one that is wrapped over two lines counts as well."""
    for comment in COMMENT.finditer(text):
        if not comment.group("comment"):
            continue
        end = comment.end()
        wrapped = re.match(r"\s*///? ?(\S+)", text[end:])
        body = comment.group("comment") + (" " + wrapped.group(1) if wrapped else "")
        for match in ROW_ID.finditer(body):
            if match.start() >= len(comment.group("comment")):
                continue  # that line's own
            line = line_of(text, comment.start() + match.start())
            yield Finding(path, line, "row-id", f"`{match.group(0)}`: {RULES['row-id']}")


def scan(path, text, bans):
    code = code_only(text)
    for ban in bans:
        for match in re.finditer(ban.pattern, code):
            yield Finding(path, line_of(text, match.start()), ban.rule, f"`{match.group(0).strip()}`: {ban.why}")


def owner(path):
    """(folder, is a test of that folder): tests/unit/core/x is core's test."""
    parts = path.split("/")
    if parts[0] == "tests":
        return (parts[2], True) if len(parts) > 3 and parts[1] == "unit" else ("tests", True)
    return parts[0], False


def is_simulator(path):
    """The world and what runs in it: a clock, a thread or a random device there makes no seed repeat. Its tools
    run around worlds, in the real one."""
    return path.startswith("sim/") and not path.startswith("sim/tools/")


def check_include(path, style, name, tree):
    """Yields (rule, message) for one #include of `path`."""
    folder, is_test = owner(path)
    if style == '"':
        # Tools, benches and tests may share private headers of their own folder.
        if folder in LIBRARY and not is_test:
            yield "include-spelling", f'"{name}" should be <troupe/folder/file.hpp>'
        return
    parts = name.split("/")
    if parts[0] in LIBRARY + ("sim",) and parts[-1].endswith(".hpp"):
        yield "include-spelling", f"<{name}> should be <troupe/{name}>"
    if parts[0] != "troupe" or name == "troupe/troupe.hpp":
        return
    if len(parts) < 3 or ".." in parts:
        yield "include-spelling", f"<{name}> should be <troupe/folder/file.hpp>"
        return
    target = parts[1]
    if "/".join(parts[1:]) not in tree:
        yield "include-missing", f"<{name}> does not exist"
    if "detail" in parts[2:-1] and target != folder:
        yield "include-detail", f"<{name}> is private to {target}/"
    elif "detail" in parts[2:-1] and path.endswith(".hpp") and "/detail/" not in path and folder in LIBRARY:
        yield "include-detail", f"<{name}> is not installed, but this header is"
    if is_test:
        return
    if folder == "examples" and target == "sim" and "detail" not in parts:
        return  # a test simulates
    if folder in ("examples", "bench"):
        yield "include-direction", f"{folder}/ sees only <troupe/troupe.hpp>, not <{name}>"
    elif target not in MAY_INCLUDE.get(folder, {target}):
        yield "include-direction", f"{folder}/ must not include {target}/ (<{name}>)"


def check_rooms(tree):
    """What rooms.txt says: who lies where, and who includes whom within a folder."""
    table = rooms.Table(tree.get(rooms.TABLE, ""))
    for line, message in table.faults:
        yield Finding(rooms.TABLE, line, "room-table", message)
    for path, text in sorted(tree.items()):
        if not path.endswith((".hpp", ".cpp")) or path.split("/")[0] not in table.folders:
            continue
        here = table.room_of(path)
        if here is None:
            yield Finding(path, 1, "room-unknown", f"its folder has no line in {rooms.TABLE}")
            continue
        for match in INCLUDE.finditer(code_only(text)):
            there = table.room_of(match.group(2).removeprefix("troupe/"))
            if match.group(1) != "<" or there is None or there.split("/")[0] != here.split("/")[0]:
                continue
            if not table.allows(here, there):
                yield Finding(path, line_of(text, match.start(1)), "room-arrow",
                              f"{here} may not use {there} (<{match.group(2)}>)")
    for room in table.may_use:
        if "/" in room and any(path.startswith(room + "/") for path in tree):
            yield from check_readme(room, tree)


def check_readme(folder, tree):
    readme = tree.get(f"{folder}/README.md", "")
    if len([line for line in readme.splitlines() if line.strip()]) < README_LINES_MIN:
        yield Finding(f"{folder}/README.md", 1, "readme", "missing or nearly empty")


def check_weight(path, name):
    """Yields (rule, message) for an outside header that does not belong where it is included."""
    folder, is_test = owner(path)
    if is_test or folder not in LIBRARY:
        return
    header = path.endswith(".hpp")
    private = "/detail/" in path
    if name == "caf/all.hpp":
        yield "include-weight", "<caf/all.hpp> is everything; include what is used"
    if header and name == "nlohmann/json.hpp":
        yield "include-weight", "<nlohmann/json.hpp> slows every includer; use it in a source or take json_fwd.hpp"
    if header and not private and re.match(r"(unsupported/)?Eigen/", name):
        yield "include-weight", f"<{name}>: no Eigen type in an installed header, its ABI depends on -march"
    if name.startswith("boost/asio") and path != "transport/detail/asio.hpp":
        yield "include-weight", f"<{name}>: Asio comes through <troupe/transport/detail/asio.hpp>"
    if folder in ("kernels", "data") and name.startswith("caf/"):
        yield "include-weight", f"<{name}>: {folder}/ knows no actors"


def check_functions(path, text):
    """A rough count: a block that opens after a parameter list and closes at its statement's indentation."""
    lines = code_only(text).split("\n")
    other = re.compile(
        r"^\s*(\}?\s*else\b|(if|for|while|switch|do|try|catch|namespace|class|struct|enum|union|extern)\b|TEST_CASE|TEST_SUITE)"
    )
    boundary = re.compile(
        r"[;{}]\s*$|\b(public|private|protected|default|case .*):\s*$|^\s*$|^\s*#|^\s*template\b.*>\s*$"
    )
    at = 0
    while at < len(lines):
        if not re.search(r"\)[^;()]*\{\s*$", lines[at]):
            at += 1
            continue
        start = at
        open_parens = lines[at].count("(") - lines[at].count(")")
        while start > 0 and (open_parens < 0 or not boundary.search(lines[start - 1])):
            start -= 1
            open_parens += lines[start].count("(") - lines[start].count(")")
        if other.match(lines[start]):
            at += 1
            continue
        indent = min(re.match(r"\s*", line).group(0) for line in lines[start : at + 1])
        end = at + 1
        while end < len(lines) and not re.match(indent + r"\}", lines[end]):
            end += 1
        if end - start + 1 > FUNCTION_LINES_MAX:
            yield Finding(path, start + 1, "function-length", f"{end - start + 1} lines > {FUNCTION_LINES_MAX}")
        at = end


def check_cpp(path, text, tree):
    folder, is_test = owner(path)
    for match in INCLUDE.finditer(code_only(text)):
        line = line_of(text, match.start(1))
        for rule, message in check_include(path, match.group(1), match.group(2), tree):
            yield Finding(path, line, rule, message)
        for rule, message in check_weight(path, match.group(2)):
            yield Finding(path, line, rule, message)
    if path.endswith(".hpp") and not re.match(r"\s*#pragma once", code_only(text)):
        yield Finding(path, 1, "pragma-once", "the first code line must be #pragma once")
    if path.endswith(".hpp") and not is_test:
        yield from check_row_ids(path, text)
    if (folder in LIBRARY or is_simulator(path)) and not is_test:
        yield from scan(path, text, BANS)
    if is_test:
        yield from scan(path, text, TEST_BANS)
    if folder == "sim":
        yield from scan(path, text, SIM_BANS)
        yield from check_stand_ins(path, text, tree)
    if len(text.splitlines()) > FILE_LINES_MAX:
        yield Finding(path, 1, "file-length", f"{len(text.splitlines())} lines > {FILE_LINES_MAX}")
    yield from check_functions(path, text)


def check_stand_ins(path, text, tree):
    """What actors/ defines, sim/ must not define again."""
    taken = {
        match.group(1)
        for name, other in tree.items()
        if name.startswith("actors/") and name.endswith(".hpp")
        for match in DEFINITION.finditer(code_only(other))
    }
    for match in DEFINITION.finditer(code_only(text)):
        if match.group(1) in taken:
            yield Finding(path, line_of(text, match.start()), "stand-in", f"{match.group(1)} is a class of actors/")


def check_text(path, text):
    patterns = (
        ("address", r"https?://[\w.-]+", "addresses do not belong in the tree"),
        ("machine-path", r"(?<![\w.}/])/(home|root|work|Users)/\w+", "a path of one machine"),
        ("todo", r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b", "finish it or file an issue"),
    )
    for rule, pattern, message in patterns:
        for match in re.finditer(pattern, text):
            yield Finding(path, line_of(text, match.start()), rule, f"`{match.group(0)}`: {message}")


def check_tree(tree):
    """All findings for {path: text}, exceptions not yet applied."""
    for path, text in sorted(tree.items()):
        yield from check_text(path, text)
        if path.endswith((".hpp", ".cpp")):
            yield from check_cpp(path, text, tree)
    yield from check_rooms(tree)
    for folder in FOLDERS:
        if any(path.startswith(folder + "/") for path in tree):
            yield from check_readme(folder, tree)


def read_tree(root):
    """{relative path: text} of every text file, build folders and the like left out."""
    tree = {}
    for directory, names, files in os.walk(root):
        names[:] = [n for n in names if not n.startswith("build") and n not in (".git", ".cache", "__pycache__")]
        for name in files:
            path = pathlib.Path(directory, name)
            if path.is_symlink() or name == ".git":  # a file in a linked working tree
                continue
            try:
                tree[path.relative_to(root).as_posix()] = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                pass
    return tree


def read_exceptions(path):
    """[(rule, glob)] of `rule glob reason...` lines; a line without a reason is an error."""
    exceptions = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split(None, 2)
        if len(fields) < 3 or fields[0] not in RULES:
            sys.exit(f"{path}:{number}: expected `rule glob reason`, with a rule of tidy.py: {line!r}")
        exceptions.append((fields[0], fields[1]))
    return exceptions


def apply_exceptions(findings, exceptions):
    """(findings that stand, exceptions that matched nothing)."""
    standing, used = [], set()
    for finding in findings:
        matching = [e for e in exceptions if e[0] == finding.rule and fnmatch.fnmatch(finding.path, e[1])]
        used.update(matching)
        if not matching:
            standing.append(finding)
    return standing, [e for e in exceptions if e not in used]


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    exceptions = read_exceptions(pathlib.Path(__file__).with_name("exceptions.txt"))
    tree = read_tree(root)
    standing, unused = apply_exceptions(check_tree(tree), exceptions)
    for finding in standing:
        print(finding)
    for rule, glob in unused:
        print(f"tests/tidy/exceptions.txt: warning: `{rule} {glob}` matches nothing")
    errors = sum(finding.rule not in WARNINGS for finding in standing)
    print(f"tidy: {len(tree)} files, {errors} errors, {len(standing) - errors} warnings")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
