"""``python -m fuzz.block FOLDER --programs 250 --seed 7/0``: draw programs and check each, in a process that one of them may kill.

In the folder it leaves the running program, how many it has run and the counts, for whoever started it. Exit status 1 with
the smallest program found that differs.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from . import COUNTS, RAN, RUNNING, check, generate


def fuzz(folder: Path, programs: int, length: int, number: str, *, nested: bool = False) -> int:
    """Draw and check so many programs of so many lines; print the smallest failure."""
    counts: dict[str, int] = {RAN: 0}
    progress = check.Progress(folder / RUNNING)

    def program(data: st.DataObject) -> None:
        def choose(n: int) -> int:
            return data.draw(st.integers(0, n - 1)) if n > 1 else 0

        drawn = generate.Program(choose, progress, nested=nested)
        lines = drawn.draw(length)
        with check.layouts(at_once=nested and choose(3) == 2):
            check.check(lines, generate.schedule(choose, len(lines)), counts, progress)
        counts[RAN] += 1
        (folder / COUNTS).write_text(json.dumps(counts))

    test = seed(number)(given(st.data())(program))
    test = settings(
        max_examples=programs,
        deadline=None,
        database=None,
        print_blob=False,
        report_multiple_bugs=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )(test)
    try:
        with check.quiet():
            test()
    except AssertionError as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="fuzz.block", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--programs", type=int, required=True)
    parser.add_argument("--length", type=int, required=True)
    parser.add_argument("--seed", required=True)
    parser.add_argument("--nested", action="store_true")
    asked = parser.parse_args()
    sys.exit(fuzz(asked.folder, asked.programs, asked.length, asked.seed, nested=asked.nested))
