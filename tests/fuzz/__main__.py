"""``python -m fuzz --programs 200``: draw programs; run each natively, under both modes, and in Torch.

The programs run in blocks, each in a process of its own, which a program may end; the seed alone says which ones are drawn. Exit
status 1 where a program differs, accuses or ends its process without a reason in :mod:`.known`.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import forked
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

from .blocks import Block
from .known import unused
from .programs import source_of
from .results import Record, summary

LONG = 10_000  # programs behind which every known difference has been needed


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="fuzz", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="number of the first program")
    parser.add_argument("--length", type=int, default=12, help="lines of a program")
    parser.add_argument("--seed", default="0", help="default: the same programs every time")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--block", type=int, default=100, help="programs of a process")
    parser.add_argument("--source", action="store_true", help="print the first program as source that runs alone, and run none")
    return parser.parse_args()


def main(wanted: argparse.Namespace) -> int:
    """All programs, in blocks; prints a summary."""
    if wanted.source:
        print(source_of(wanted.seed, wanted.first, wanted.length))
        return 0
    end = wanted.first + wanted.programs
    numbers = [range(first, min(first + wanted.block, end)) for first in range(wanted.first, end, wanted.block)]
    records: list[Record] = []
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar, ThreadPoolExecutor(wanted.jobs) as pool:
        task = bar.add_task("programs", total=wanted.programs)

        def work(block: range) -> None:
            for record in Block(block, wanted.seed, wanted.length).records():
                records.append(record)
                bar.advance(task)

        for _ in pool.map(work, numbers):
            pass
    forked.stop()
    print(summary(sorted(records, key=lambda record: record["program"])))
    counts = sum((Counter(record["counts"]) for record in records), Counter[str]())
    missing = unused(counts) if len(records) >= LONG else []
    for reason in missing:
        print(f"never needed: {reason}")
    return int(any("failure" in record for record in records) or bool(missing))


if __name__ == "__main__":
    sys.exit(main(options()))
