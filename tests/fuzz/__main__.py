"""``python -m fuzz --programs 200``: draw programs; run each natively, under both modes, under a schedule of modes, and in Torch.

The programs run in blocks, each in a process of its own, on all cores; which ones are drawn depends on the seed alone. Exit
status 1 with the smallest program of a block that differs, or with the one that killed the process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

from . import COUNTS, RAN, RUNNING

BLOCK = 250  # programs
FOUND, SAID = "found", "said"  # its standard output and error


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--length", type=int, default=16, help="lines of a program")
    parser.add_argument("--seed", type=int, default=0, help="default: the same programs every time")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes at a time")
    parser.add_argument("--nested", action="store_true", help="more recompute, PyLayers and hooks that compute")
    return parser.parse_args()


def block(folder: Path, programs: int, length: int, seed: str, report: Callable[[int], None], *, nested: bool = False) -> str:
    """Run a block; returns what it found: "" if nothing."""
    folder.mkdir()
    arguments = [
        str(folder),
        "--programs",
        str(programs),
        "--length",
        str(length),
        "--seed",
        seed,
        *(["--nested"] if nested else []),
    ]
    with (folder / FOUND).open("w") as found, (folder / SAID).open("w") as said:
        child = subprocess.Popen([sys.executable, "-m", "fuzz.block", *arguments], stdout=found, stderr=said)
        while True:
            try:
                status = child.wait(timeout=0.5)
                break
            except subprocess.TimeoutExpired:
                report(counts(folder)[RAN])
    report(counts(folder)[RAN])
    if status == 0:
        return ""
    head = f"block {seed} of {programs} programs"
    if status == 1 and (left := text(folder / FOUND)):
        return f"{head}:\n{left}"
    running = text(folder / RUNNING) or "nothing"
    return f"{head}:\n{text(folder / SAID)[-3000:]}\nthe process ended with status {status} while it ran\n{running}"


def counts(folder: Path) -> Counter[str]:
    """What a block has counted so far."""
    try:
        return Counter(json.loads(text(folder / COUNTS)))
    except ValueError:  # none yet, or half written
        return Counter()


def text(path: Path) -> str:
    """What is in a file that may not be there."""
    return path.read_text() if path.exists() else ""


def main(wanted: argparse.Namespace) -> int:
    """All blocks; prints what they found as they end, and the counts of all."""
    sizes = [min(BLOCK, wanted.programs - begin) for begin in range(0, wanted.programs, BLOCK)]
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeElapsedColumn())
    total, failures = Counter[str](), 0
    with tempfile.TemporaryDirectory() as name, Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("programs", total=wanted.programs)
        ran = dict.fromkeys(range(len(sizes)), 0)

        def run(number: int) -> str:
            def report(done: int) -> None:
                ran[number] = done
                bar.update(task, completed=sum(list(ran.values())))

            return block(
                Path(name, str(number)), sizes[number], wanted.length, f"{wanted.seed}/{number}", report, nested=wanted.nested
            )

        with ThreadPoolExecutor(wanted.workers) as pool:
            for number, found in enumerate(pool.map(run, range(len(sizes)))):
                total += counts(Path(name, str(number)))
                if found:
                    failures += 1
                    print(found, flush=True)
    for reason, count in sorted(total.items()):
        print(f"{count:6}  {reason}")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main(options()))
