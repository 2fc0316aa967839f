#!/usr/bin/env python3
"""The CUDA kernels in object files, for each architecture, as cuobjdump would list them.

usage: list_kernels.py --arch 80 --arch 90 FILE.o...

Reads the device code that nvcc puts into an object: a list of entries, each machine code (an ELF file) or PTX for one
architecture. Prints a line a file and the kernels' names with --names; exits with 1 when an architecture lacks code, or
a kernel that another one has. Needs no CUDA tools: a partial toolkit has nvcc and no cuobjdump.
"""

import argparse
import struct
import sys

MAGIC = 0xBA55ED50
PTX, ELF = 1, 2


def entries(data):
    """(kind, architecture, payload) of each piece of device code."""
    at = data.find(struct.pack("<I", MAGIC))
    while at >= 0:
        _, _, header, size = struct.unpack_from("<IHHQ", data, at)
        here, end = at + header, at + header + size
        while here < end:
            kind, _, header, size = struct.unpack_from("<HHIQ", data, here)
            (architecture,) = struct.unpack_from("<I", data, here + 28)
            yield kind, architecture, data[here + header : here + header + size]
            here += header + size
        at = data.find(struct.pack("<I", MAGIC), end)


def kernels(elf):
    """Names of the kernels in machine code: each has a section .text.NAME."""
    if elf[:4] != b"\x7fELF":
        raise ValueError("compressed machine code: build with nvcc's own defaults")
    (sections,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    (strings,) = struct.unpack_from("<Q", elf, sections + names * size + 0x18)
    for i in range(count):
        (offset,) = struct.unpack_from("<I", elf, sections + i * size)
        begin = strings + offset
        name = elf[begin : elf.index(b"\0", begin)].decode()
        if name.startswith(".text."):
            yield name[len(".text.") :]


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--arch", action="append", type=int, required=True)
    options.add_argument("--names", action="store_true")
    options.add_argument("files", nargs="+")
    args = options.parse_args()
    wrong = 0
    for path in args.files:
        with open(path, "rb") as file:
            data = file.read()
        found = {arch: set() for arch in args.arch}
        ptx = set()
        for kind, arch, payload in entries(data):
            if kind == ELF and arch in found:
                found[arch] |= set(kernels(payload))
            elif kind == PTX:
                ptx.add(arch)
        every = set().union(*found.values())
        counts = ", ".join(f"sm_{arch}: {len(names)} kernels" for arch, names in found.items())
        print(f"{path}: {counts}, PTX for {', '.join(f'sm_{a}' for a in sorted(ptx)) or 'none'}")
        if args.names:
            for name in sorted(every):
                print(f"  {name}")
        for arch, names in found.items():
            for name in sorted(every - names) or (["any kernel"] if not names else []):
                print(f"{path}: sm_{arch} lacks {name}")
                wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
