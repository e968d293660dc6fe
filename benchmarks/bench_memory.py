"""The memory of a training step: how far the resident memory of a process rises over that of the built model.

Each way has a process of its own: the Transformer of `bench_step.py` (and its modes) is built, then runs a few steps of forward,
mean square and backward; both frameworks are imported in all of them, and a mode was open once. What rises is the peak of the
steps: activations, gradients and, under the shim, its copies of Linear weights ([out, in], and the values that they were made of).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import subprocess
import sys

from bench_call import markdown, shown
from bench_step import SIZES, Size, Step
from rich.console import Console
from timing import PADDLE, SHIM, TORCH

import padiff_shim

STEPS = 3
COLUMNS = [
    "width, batch x length, layers",
    "native MiB",
    "shim MiB",
    "torch MiB",
    "shim's weight copies MiB",
    "shim / (torch + copies)",
]


def resident() -> int:
    """Bytes of this process that lie in memory now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def measure(way: str, size: Size) -> dict[str, int]:
    """Build the model, run the steps in this process, and tell what they added."""
    with padiff_shim.reference("torch"):
        Step(Size(8, 1, 2, 1)).both()[SHIM]()  # what is built and learnt once
    step = Step(size)
    before = resident()
    copies = 0
    with padiff_shim.reference("torch") if way == SHIM else contextlib.nullcontext() as run:
        function = step.both()[way]
        for _ in range(STEPS):
            function()
        if run is not None:
            copies = 2 * run.layout_cost.bytes
    return {"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before, "copies": copies}


def apart(way: str, size: Size) -> dict[str, int]:
    """:func:`measure` in a process of its own."""
    command = [sys.executable, __file__, "--way", way, "--size", *map(str, size)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


def row(size: Size) -> list[str]:
    """One size, all ways."""
    native, shim, torch = (apart(way, size) for way in (PADDLE, SHIM, TORCH))
    mib = [value / 2**20 for value in (native["peak"], shim["peak"], torch["peak"], shim["copies"])]
    return [str(size), *[f"{value:.1f}" for value in mib], f"{mib[1] / (mib[2] + mib[3]):.2f}"]


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
