#!/usr/bin/env python3
"""Runs the shell commands that the README and the manual tell a reader to type.

usage: commands.py ROOT BUILD [--list]

Commands stand in the pages (*.md) of the tree, the changelog left out: the lines of ```sh blocks, what stands behind
`$ ` in ```console blocks, and pieces of a sentence like `build/troupe train fashion_mnist` or `troupe-sim list marks`
(two arguments at least: fewer are a name); beside them the closing lines of `./dev train`. Of `./dev COMMAND` within a
sentence only that there is such a command is looked at. Every block of a page must say what language it is in, so that
no command hides in a block without one.

Each command runs once, in a folder of its own in which the tree's files and `build` are links, and must end with 0 in
time. Commands of one block that start with `build/troupe serve` are typed in several shells: they run together. A
```json block whose paragraph ends by naming a file (`cluster.json`:) is written there, with ports that are free.

plan.txt beside this file lists what runs in a shorter form, and what does not run, with the reason:

    build/troupe-sim swarm --seeds 20000
      as: build/troupe-sim swarm --seeds 24
      why: 20,000 seeds take minutes
    ./dev test
      not run: this runs within it

Prints what is wrong and exits with 1 when something is: a command that fails, a block without a language, an entry of
the plan that no page has.
"""

import dataclasses
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

LIMIT_S = 120
SPAN = re.compile(r"(?<!`)`((?:build(?:-\w+)?/[\w/-]+|troupe|troupe-sim)\s[^`\s]+\s[^`]+)`(?!`)")
DEV_SPAN = re.compile(r"(?<!`)`\./dev\s+([\w-]+)[^`]*`(?!`)")
FENCE = re.compile(r"^( *)(```+)(\S*)[^\n]*\n(.*?)^\1\2 *$", re.S | re.M)
TOGETHER = "build/troupe serve "
LEFT_OUT = re.compile(r"^(build.*|\..*|__pycache__|sim-failures|shared)$")


# -- what the pages say --


@dataclasses.dataclass
class Block:
    """Commands that are typed one after the other, and the files that stand before them on their page."""

    page: str
    line: int
    commands: list
    files: dict = dataclasses.field(default_factory=dict)


def without_comment(line):
    """A line of shell without the comment at its end; a # within quotes or a word is none."""
    quote = None
    for i, c in enumerate(line):
        if quote:
            quote = None if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c == "#" and (i == 0 or line[i - 1].isspace()):
            return line[:i].rstrip()
    return line.rstrip()


def is_open(text):
    """Whether a command goes on in the next line: a quote that has not ended, or a backslash."""
    quote = None
    for c in text:
        if quote:
            quote = None if c == quote else quote
        elif c in "'\"":
            quote = c
    return quote is not None or text.endswith("\\")


def shell_commands(text):
    """The commands of a ```sh block."""
    out, so_far = [], ""
    for line in text.splitlines():
        so_far = f"{so_far}\n{line}" if so_far else without_comment(line.strip())
        if so_far and is_open(so_far):
            continue
        if so_far.strip():
            out.append(" ".join(so_far.replace("\\\n", " ").split()))
        so_far = ""
    return out


def console_commands(text):
    return [without_comment(line.strip()[2:]) for line in text.splitlines() if line.strip().startswith("$ ")]


def span_command(text):
    """`troupe train` of a sentence as a reader would type it."""
    words = " ".join(text.split())
    return f"build/{words}" if re.match(r"troupe(-sim)?\s", words) else words


def blocks_of(page, text):
    """([Block], [complaint]) of one page, in order."""
    found, complaints, files, end = [], [], {}, 0
    for fence in FENCE.finditer(text):
        line = text.count("\n", 0, fence.start()) + 1
        found += spans_of(page, text, end, fence.start())
        before, language, body, end = text[end:fence.start()], fence.group(3), fence.group(4), fence.end()
        if not language:
            complaints.append(f"{page}:{line}: a block without a language: sh, console, text, cpp, ...")
        named = re.search(r"`([\w.-]+\.json)`[^`]*:\s*\Z", before)
        if language == "json" and named:
            files[named.group(1)] = body
        commands = {"sh": shell_commands, "console": console_commands}.get(language, lambda _: [])(body)
        if commands:
            found.append(Block(page, line, commands, dict(files)))
    return found + spans_of(page, text, end, len(text)), complaints


def unknown_to_dev(page, text, dev):
    """What a sentence calls a command of ./dev that `./dev help` does not list."""
    known = re.findall(r"^  ([a-z]+)\b", dev[dev.index("./dev COMMAND"):], re.M)
    return [f"{page}: there is no `./dev {name}`" for name in dict.fromkeys(DEV_SPAN.findall(text)) if name not in known]


def spans_of(page, text, begin, end):
    return [Block(page, text.count("\n", 0, begin + m.start()) + 1, [span_command(m.group(1))])
            for m in SPAN.finditer(text[begin:end])]


def closing_lines(dev):
    """What ./dev train tells to try next."""
    text = re.search(r"<<'NEXT'\n(.*?)^NEXT$", dev, re.S | re.M)
    return [line.strip() for line in text.group(1).splitlines() if re.match(r"  build/", line)] if text else []


def read_tree(root):
    """All blocks of all pages, and what is wrong with the pages."""
    blocks, complaints = [], []
    dev = (root / "dev").read_text(encoding="utf-8")
    for directory, names, files in os.walk(root):
        names[:] = sorted(n for n in names if not LEFT_OUT.match(n))
        for name in sorted(files):
            if name.endswith(".md") and name != "CHANGELOG.md":
                path = pathlib.Path(directory, name)
                page, text = path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
                found, wrong = blocks_of(page, text)
                blocks += found
                complaints += wrong + unknown_to_dev(page, text, dev)
    commands = closing_lines(dev)
    if not commands:
        complaints.append("dev: no closing lines of ./dev train")
    return blocks + [Block("dev", 0, [c]) for c in commands], complaints


# -- the plan --


@dataclasses.dataclass
class Entry:
    runs: str = ""  # instead of the command
    reason: str = ""


def read_plan(text):
    """({command: Entry}, [complaint])."""
    plan, complaints, command = {}, [], None
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if not line[0].isspace():
            command = " ".join(line.split())
            if command in plan:
                complaints.append(f"plan.txt: `{command}` stands there twice")
            plan[command] = Entry()
            continue
        key, _, value = line.strip().partition(": ")
        if command is None or key not in ("as", "why", "not run") or not value.strip():
            complaints.append(f"plan.txt: `{line.strip()}`: expected as:, why: or not run:, below a command")
        elif key == "as":
            plan[command].runs = value.strip()
        else:
            plan[command].reason = value.strip()
    for command, entry in plan.items():
        if not entry.reason:
            complaints.append(f"plan.txt: `{command}` has no reason")
        if entry.runs and entry.runs.split()[0] != command.split()[0]:
            complaints.append(f"plan.txt: `{entry.runs}` is not `{command}` in a shorter form")
    return plan, complaints


def unused(plan, blocks):
    written = {c for b in blocks for c in b.commands}
    return [f"plan.txt: `{c}` stands on no page" for c in plan if c not in written]


# -- running them --


def free_ports(text):
    """The text with a free port of this machine for each 127.0.0.1:PORT."""
    sockets, ports = [], {}
    for port in dict.fromkeys(re.findall(r"127\.0\.0\.1:(\d+)", text)):
        s = socket.socket()
        s.bind(("127.0.0.1", 0))
        sockets.append(s)  # all are held until each has one
        ports[port] = str(s.getsockname()[1])
    for s in sockets:
        s.close()
    return re.sub(r"127\.0\.0\.1:(\d+)", lambda m: f"127.0.0.1:{ports[m.group(1)]}", text)


class Folder:
    """Where commands are typed: links to the tree's files and to a build folder; what they write stays here."""

    def __init__(self, path, root, build):
        self.path = pathlib.Path(path)
        for entry in sorted(root.iterdir()):
            if not LEFT_OUT.match(entry.name):
                (self.path / entry.name).symlink_to(entry)
        (self.path / "build").symlink_to(build)
        self.variables = {k: v for k, v in os.environ.items() if not k.startswith("TROUPE_") and k != "TF_CONFIG"}

    def start(self, command):
        log = tempfile.TemporaryFile(mode="w+", errors="replace")
        process = subprocess.Popen(["bash", "-c", command], cwd=self.path, env=self.variables, stdout=log,
                                   stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)
        return command, process, log

    def run_together(self, commands):
        """[(command, what went wrong)]; all get the same time."""
        until = time.monotonic() + LIMIT_S
        wrong = []
        for command, process, log in [self.start(c) for c in commands]:
            try:
                code = process.wait(max(0.1, until - time.monotonic()))
                problem = None if code == 0 else f"ended with {code}"
            except subprocess.TimeoutExpired:
                problem = f"did not end within {LIMIT_S} s"
            end_session(process)
            if problem:
                log.seek(0)
                wrong.append((command, f"{problem}\n{log.read()[-3000:]}"))
            log.close()
        return wrong


def end_session(process):
    """Whatever the command has left running goes with it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def steps_of(block, plan):
    """[[command to run, ...] that run together] of a block, with its exports before each."""
    exports, steps, last_served = [], [], False
    for command in block.commands:
        if command.startswith("export "):
            exports.append(command)
            continue
        entry = plan.get(command, Entry())
        serves = command.startswith(TOGETHER)
        if entry.reason and not entry.runs:
            last_served = False
            continue
        line = " && ".join([*exports, entry.runs or command])
        if serves and last_served:
            steps[-1].append(line)
        else:
            steps.append([line])
        last_served = serves
    return steps


def run_all(blocks, plan, folder):
    """[complaint]; prints a line a command. Each distinct step runs once."""
    done, complaints = set(), []
    for block in blocks:
        for step in steps_of(block, plan):
            key = (tuple(step), tuple(block.files.items()))
            if key in done:
                continue
            done.add(key)
            for name, text in block.files.items():
                (folder.path / name).write_text(free_ports(text), encoding="utf-8")
            begin = time.monotonic()
            wrong = folder.run_together(step)
            for command in step:
                print(f"{time.monotonic() - begin:6.1f} s  {command}", flush=True)
            complaints += [f"{block.page}:{block.line}: `{command}` {problem}" for command, problem in wrong]
    return complaints


def main():
    root, build = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
    plan, complaints = read_plan((pathlib.Path(__file__).parent / "plan.txt").read_text(encoding="utf-8"))
    blocks, wrong = read_tree(root)
    complaints += wrong + unused(plan, blocks)
    if "--list" in sys.argv[3:]:
        for block in blocks:
            for command in block.commands:
                print(f"{block.page}:{block.line}: {command}")
    else:
        with tempfile.TemporaryDirectory(prefix="troupe-docs-") as path:
            complaints += run_all(blocks, plan, Folder(path, root, build))
    print("\n".join(complaints))
    left_out = sum(1 for e in plan.values() if not e.runs)
    print(f"{sum(len(b.commands) for b in blocks)} commands on {len({b.page for b in blocks})} pages, "
          f"{left_out} not run, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
