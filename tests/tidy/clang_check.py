#!/usr/bin/env python3
"""Clang reads every header alone and every source, without generating code. A header that a source includes before
anything else is alone there: it is read once, with the source.

usage: clang_check.py ROOT [--jobs N]

Needs a configured build/ (its include root). A file whose text, and that of every project file it includes, has not
changed since it last passed is not read again; what passed is remembered in build/clang-check/.
"""

import argparse
import concurrent.futures
import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

LIBRARY = ("core", "messages", "kernels", "data", "transport", "device", "actors", "strategies")
SOURCES = LIBRARY + ("sim", "tools", "examples", "bench")


def command(root):
    clang = shutil.which("clang++-14") or shutil.which("clang++") or sys.exit("clang++ is missing")
    eigen = subprocess.run(["pkg-config", "--cflags-only-I", "eigen3"], check=True, capture_output=True, text=True)
    flags = ["-std=c++20", "-DTROUPE_VERSION=\"0\"", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    flags += [f"-I{root}/build/include", f"-I{root}/bench", f"-I{root}/tools/detail", f"-I{root}/sim/tools"]
    for path in eigen.stdout.split():
        flags += ["-isystem", path.removeprefix("-I")]
    return [clang, *flags]


def first_include(path):
    """What a source includes first, if it is one of ours."""
    found = re.search(r"^\s*#\s*include\s*<troupe/([^>]+)>|^\s*#\s*(?:include|if|define)", path.read_text(), re.M)
    return found[1] if found else None


def jobs_of(root):
    """[(title, file, text to compile)]: headers under their installed name, sources as they are."""
    jobs = []
    for folder in SOURCES:
        with_source = {first_include(path) for path in (root / folder).rglob("*.cpp")}
        for path in sorted((root / folder).rglob("*.hpp")):
            name = path.relative_to(root).as_posix()
            if name in with_source:
                continue
            spelled = f"<troupe/{name}>" if folder in LIBRARY + ("sim",) and "/tools/" not in name else f'"{path}"'
            jobs.append((name, path, f"#include {spelled}\n"))
        for path in sorted((root / folder).rglob("*.cpp")):
            jobs.append((path.relative_to(root).as_posix(), path, f'#include "{path}"\n'))
    return jobs


def fingerprint(base, files):
    digest = hashlib.sha256(" ".join(base).encode())
    for name in files:
        path = pathlib.Path(name)
        digest.update(name.encode() + b"\0" + (path.read_bytes() if path.exists() else b""))
    return digest.hexdigest()


def check(base, root, cache, job):
    """(title, error text or None)"""
    title, path, text = job
    remembered = cache / (hashlib.sha256(title.encode()).hexdigest()[:24] + ".json")
    if remembered.exists():
        known = json.loads(remembered.read_text())
        if known["digest"] == fingerprint(base, known["files"]):
            return title, None
    with tempfile.TemporaryDirectory() as directory:
        depends = pathlib.Path(directory, "depends")
        if path.suffix == ".cpp":
            # As the main file, so that warnings about unused things of a source are seen.
            arguments, text = [str(path)], None
        else:
            arguments = ["-x", "c++", "-"]
        done = subprocess.run([*base, "-MMD", "-MF", depends, *arguments], input=text, capture_output=True, text=True)
        if done.returncode != 0:
            return title, done.stderr
        words = depends.read_text().split(":", 1)[1].replace("\\\n", " ").split() if depends.exists() else []
        files = sorted({str(path), *(w for w in words if w.startswith(str(root)))})
        remembered.write_text(json.dumps({"files": files, "digest": fingerprint(base, files)}))
    return title, None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    cache = root / "build" / "clang-check"
    cache.mkdir(parents=True, exist_ok=True)
    base, jobs, red = command(root), jobs_of(root), 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for title, error in pool.map(lambda job: check(base, root, cache, job), jobs):
            if error is not None:
                red += 1
                print(f"clang: {title}\n{error}", flush=True)
    print(f"clang: {len(jobs)} files, {red} red")
    return 1 if red else 0


if __name__ == "__main__":
    sys.exit(main())
