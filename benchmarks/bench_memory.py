"""The memory of a training step: how far the resident memory of a process rises over that of the built model.

Each way has a process of its own: the Transformer of `bench_step.py` (and its modes) is built, then runs steps of forward, mean
square and backward; both frameworks are imported in all of them, and a mode was open once. What rises is the peak of a step:
activations, gradients and, under the shim, its copies of Linear weights ([out, in], and the values that they were made of), which
go when their shapes have come often and a trial has shown that they are not needed. What is freed goes back to the system at
once (`MALLOC_MMAP_THRESHOLD_`), so that peaks are of what lives, and not of what the allocator keeps.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

from bench_call import markdown, shown
from bench_step import SIZES, Size, Step
from rich.console import Console
from timing import PADDLE, SHIM, TORCH

import padiff_shim
from padiff_shim.frameworks import weight_copies

FIRST, STEPS = 3, 40  # the steps with copies, and how many it takes until all shapes have come often
COLUMNS = [
    "width, batch x length, layers",
    "native MiB",
    "torch MiB",
    "shim, first steps MiB",
    "its weight copies MiB",
    "shim / (torch + copies)",
    "shim, later MiB",
    "its weight copies MiB",
    "shim / (torch + copies)",
]
ALLOCATOR = {"OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": "65536"}


def resident(what: str) -> int:
    """Bytes of this process that lie in memory: ``VmRSS`` now, ``VmHWM`` at most since it was set back."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[what].split()[0]) * 1024


def forget_peak() -> None:
    """From now on ``VmHWM`` counts anew."""
    Path("/proc/self/clear_refs").write_text("5")


def copied() -> int:
    """Bytes of the copies of Linear weights, and of the values that they were made of."""
    return sum(2 * copy.transposed.nbytes for _, copy in weight_copies._copies.values())


def measure(way: str, size: Size) -> dict[str, int]:
    """Build the model, run the steps in this process, and tell what they added: the first ones, and the last one."""
    with padiff_shim.reference("torch"):
        Step(Size(8, 1, 2, 1)).both()[SHIM]()  # what is built and learnt once
    step = Step(size)
    before = resident("VmRSS")
    bytes_of, copies = {}, 0
    with padiff_shim.reference("torch") if way == SHIM else contextlib.nullcontext():
        function = step.both()[way]
        for number in range(1, STEPS + 1):
            if number in (1, STEPS):
                copies = 0
                forget_peak()
            function()
            copies = max(copies, copied())
            if number in (FIRST, STEPS):
                when = "first" if number == FIRST else "later"
                bytes_of.update({when: resident("VmHWM") - before, f"{when} copies": copies})
    return bytes_of


def apart(way: str, size: Size) -> dict[str, int]:
    """:func:`measure` in a process of its own."""
    command = [sys.executable, __file__, "--way", way, "--size", *map(str, size)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **ALLOCATOR})
    figures: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return figures


def row(size: Size) -> list[str]:
    """One size, all ways."""
    native, shim, torch = (apart(way, size) for way in (PADDLE, SHIM, TORCH))
    cells = [native["later"], torch["later"]]
    texts = [f"{value / 2**20:.1f}" for value in cells]
    for when in ("first", "later"):
        peak, copies = shim[when], shim[f"{when} copies"]
        texts += [f"{peak / 2**20:.1f}", f"{copies / 2**20:.1f}", f"{peak / (torch[when] + copies):.2f}"]
    return [str(size), *texts]


def main() -> int:
    """Measure and print; Markdown on standard output if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--way", help="measure one way in this process and print it as JSON")
    parser.add_argument("--size", nargs=4, type=int, metavar="N", help="width, batch, length, layers of that one")
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    args = parser.parse_args()
    if args.way:
        print(json.dumps(measure(args.way, Size(*args.size))))
        return 0
    table = "Memory of a step", COLUMNS, [row(size) for size in SIZES[2:]]
    if args.markdown:
        print(markdown(*table))
    else:
        Console(width=None if sys.stdout.isatty() else 160).print(shown(*table))
    return 0


if __name__ == "__main__":
    sys.exit(main())
