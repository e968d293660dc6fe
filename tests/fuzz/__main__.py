"""``python -m fuzz --programs 200``: draw programs; run each natively, under both modes, and in Torch.

The programs run in blocks, each in a process of its own, which a program may end; the seed alone says which ones are drawn. What
was found is kept in ``--results``: a run that is cut short goes on, and another commit or seed begins anew. Exit status 1 where a
program differs, accuses or ends its process without a reason in :mod:`.known`.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import forked
from mutants.copies import commit_of
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

from .blocks import Block
from .known import unused
from .programs import source_of
from .results import Results

HERE = Path(__file__).resolve()
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
    parser.add_argument("--results", type=Path, default=HERE.parents[2] / ".fuzz", help="folder; default: .fuzz of the checkout")
    return parser.parse_args()


def main(wanted: argparse.Namespace) -> int:
    """All blocks that have no result yet; prints a summary."""
    if wanted.source:
        print(source_of(wanted.seed, wanted.first, wanted.length))
        return 0
    head = {"commit": commit_of(HERE.parents[2]), "seed": wanted.seed, "length": wanted.length}
    results = Results(wanted.results / f"{wanted.seed}.jsonl", head)
    numbers = range(wanted.first, wanted.first + wanted.programs)
    blocks = [Block(due, wanted.seed, wanted.length) for due in results.due(numbers, wanted.block)]
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar, ThreadPoolExecutor(wanted.jobs) as pool:
        task = bar.add_task("programs", total=wanted.programs, completed=len(results.of(numbers)))

        def work(block: Block) -> None:
            for record in block.records():
                results.add(record)
                bar.advance(task)

        for _ in pool.map(work, blocks):
            pass
    forked.stop()
    records = results.of(numbers)
    print(results.summary(records))
    counts = sum((Counter(record["counts"]) for record in records), Counter[str]())
    missing = unused(counts) if len(records) >= LONG else []
    for reason in missing:
        print(f"never needed: {reason}")
    return int(any("failure" in record for record in records) or bool(missing))


if __name__ == "__main__":
    sys.exit(main(options()))
