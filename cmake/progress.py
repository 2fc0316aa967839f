#!/usr/bin/env python3
"""Tells a person how far a build is: reads what ninja prints and says what was compiled, n of m, and the time left.

usage: NINJA_STATUS="troupe-step %f %t " cmake --build DIR 2>&1 | progress.py

On a terminal one line is written over and over; elsewhere a plain line now and then, and one at the end. Whatever else
the build prints (warnings, errors, what failed) passes through. A build with nothing to do prints nothing. The exit
code of the build is the shell's to look at (`set -o pipefail`).
"""

import os
import re
import selectors
import shutil
import sys
import time

STEP = re.compile(r"^troupe-step (\d+) (\d+) (.*)$")
# What ninja says of itself that tells nothing.
SILENT = re.compile(r"^(ninja: (no work to do|Entering directory).*|\[?\d*/?\d*\]? ?Re-running CMake.*)$")
PLAIN_EVERY_S = 10
STEPS_MIN = 4  # before the time left is guessed
SECONDS_MIN = 3


def what_of(step):
    """A step in words: `core/tensor.cpp`, `linking troupe`."""
    built = re.match(r"Building \w+ object (.*?)([^/]+)\.dir/(.*)\.o$", step)
    if built:
        folder, target, source = built.groups()
        target = target.removesuffix("_library")
        room = re.match(r"Unity/unity_(\w+)_cxx\.cxx$", source)
        if room:  # several sources as one unit
            name = room.group(1)
            return f"{target}, part {int(name) + 1}" if name.isdigit() else f"{target}, room {name}"
        if "cmake_pch" in source:
            return f"the headers of {target}"
        return re.sub(r"^(.*/)?CMakeFiles/$", lambda m: m.group(1) or "", folder) + source
    linked = re.match(r"Linking \w+ (?:static |shared )?(?:executable|library) (.*)$", step)
    if linked:
        return f"linking {linked.group(1)}"
    return step


def duration(seconds):
    """`12 s`, `3 min`, `1 h 5 min`."""
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


class Pace:
    """Guesses the time left from how long the last steps took: the half that was done last, at least a few."""

    def __init__(self, now):
        self.times = [(now, 0)]  # (when, steps done by then)

    def reached(self, now, done):
        if done < self.times[-1][1]:  # ninja has begun anew: CMake ran first
            self.times = [(now, 0)]
        self.times.append((now, done))

    def left_s(self, now, total):
        """None while there is too little to guess from."""
        begin, done = self.times[0][0], self.times[-1][1]
        if done < STEPS_MIN or now - begin < SECONDS_MIN:
            return None
        then, before = next(t for t in reversed(self.times) if t[1] <= done - max(STEPS_MIN, done // 2) or t[1] == 0)
        # A step that is under way for longer than the others were makes the guess longer.
        pace = max(now - then, 0.001) / (done - before)
        return max(0.0, pace * (total - done))


class Progress:
    """Lines of the build in, lines for a person out."""

    def __init__(self, write, terminal, width=80, now=time.monotonic):
        self.write, self.terminal, self.width, self.now = write, terminal, width, now
        self.begin = self.last_said = now()
        self.pace = Pace(self.begin)
        self.done, self.total, self.what = 0, 0, ""
        self.open_line = False  # the terminal's line has text
        self.failed = False

    def line(self, text):
        step = STEP.match(text)
        if step is None:
            if not SILENT.match(text) and (text or self.failed):
                self.pass_through(text)
            return
        self.done, self.total, self.what = int(step.group(1)), int(step.group(2)), what_of(step.group(3))
        self.pace.reached(self.now(), self.done)
        self.show(first=self.done == 1)

    def status(self):
        left = self.pace.left_s(self.now(), self.total)
        guess = "" if left is None else f", about {duration(left)} left" if left >= 1 else ", nearly done"
        return f"dev: compiled {self.done} of {self.total}{guess}: {self.what}"

    def show(self, first=False):
        if self.total == 0:
            return
        if self.terminal:
            self.write("\r\033[K" + self.status()[: self.width - 1])
            self.open_line = True
        elif first or self.now() - self.last_said >= PLAIN_EVERY_S:
            self.last_said = self.now()
            self.write(self.status() + "\n")

    def tick(self):
        """A second has gone by without a step: the time left goes on."""
        if self.terminal:
            self.show()

    def pass_through(self, text):
        self.failed = self.failed or text.startswith("FAILED:")
        self.clear()
        self.write(text + "\n")

    def clear(self):
        if self.open_line:
            self.write("\r\033[K")
            self.open_line = False

    def end(self):
        self.clear()
        if self.total > 0 and self.done == self.total and not self.failed:
            self.write(f"dev: compiled {self.total} of {self.total} in {duration(self.now() - self.begin)}\n")


def follow(stream, progress):
    """Feeds whole lines as they come, and ticks while none does."""
    selector = selectors.DefaultSelector()
    selector.register(stream, selectors.EVENT_READ)
    rest = b""
    while True:
        if not selector.select(timeout=1):
            progress.tick()
            continue
        block = os.read(stream.fileno(), 65536)
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            progress.line(line.decode(errors="replace").rstrip("\r"))
        if not block:
            break
    if rest:
        progress.line(rest.decode(errors="replace"))
    progress.end()


def main():
    def write(text):
        sys.stdout.write(text)
        sys.stdout.flush()

    terminal = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    try:
        follow(sys.stdin.buffer, Progress(write, terminal, shutil.get_terminal_size().columns))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # nobody reads us any more; the build ends by the same
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
