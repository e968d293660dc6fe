"""``python -m fuzz.worker FOLDER --first 0 --count 50 --seed 7``: draw programs and check each, in a process that one may end.

In the folder it leaves the running program and, line by line, what was found of each one.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from . import FOUND, HANG, RUNNING
from .check import quiet
from .difference import way
from .execute import AROUND
from .programs import drawn
from .progress import Progress
from .shrink import smallest
from .source import culprits


def record(seed: str, number: int, length: int, progress: Progress) -> dict[str, Any]:
    """What one program gives: its counts, and its failure if it has one."""
    counts: Counter[str] = Counter()
    program = drawn(seed, number, length, progress)
    failure = program.failure(counts, progress)
    result: dict[str, Any] = {"program": number, "lines": len(program.lines), "counts": dict(counts)}
    if failure is not None:
        small = smallest(failure)
        result["failure"] = {
            "kind": f"{small.plan.name.removesuffix(AROUND)}: {way(small.texts[0])}: {culprits(small.lines)}",
            "plan": [small.plan.name, list(small.plan.events.items())],
            "program": small.lines,
            "texts": small.texts,
            "drawn": failure.lines,
        }
    return result


def main(folder: Path, first: int, count: int, seed: str, length: int) -> None:
    """Check so many programs."""
    progress = Progress(folder / RUNNING)
    with quiet(), (folder / FOUND).open("a") as file:
        for number in range(first, first + count):
            faulthandler.dump_traceback_later(HANG, exit=True)
            progress.number = number
            file.write(json.dumps(record(seed, number, length, progress)) + "\n")
            file.flush()
    faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="fuzz.worker", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--first", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--seed", required=True)
    parser.add_argument("--length", type=int, required=True)
    wanted = parser.parse_args()
    main(wanted.folder, wanted.first, wanted.count, wanted.seed, wanted.length)
    sys.exit(0)
