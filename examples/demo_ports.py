"""Are the ports right that others wrote? Models of paddle.vision, paddlenlp and PaddleFormers against their originals.

`python examples/demo_ports.py` prints a row for each; it fails where a verdict is not the expected one. Each pair runs in a
process of its own, with a limit of time and of memory.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ports.pair import Pair
from ports.registry import PAIRS
from rich.console import Console
from tables import new_progress, new_table

SECONDS, GIBIBYTES = 300, 14
# transformers 4 lies in a folder of its own: paddlenlp's pairs find it before the environment's transformers 5.
FOUR = Path(sys.prefix) / "transformers-4"
RESULT = "result of the pair: "


def alone(pair: Pair) -> None:
    """Prove a pair in this process, and print what came out for the process that started it."""
    limit = GIBIBYTES << 30
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    port, original, inputs = pair.build()
    import padiff_shim

    before = peak()
    start = time.perf_counter()
    proof = padiff_shim.prove(port, original, inputs, phase=pair.phase)
    seconds = time.perf_counter() - start
    print(proof)
    answer = {
        "verdict": proof.verdict.name,
        "seconds": seconds,
        "before": before,
        "peak": peak(),
        "headline": str(proof).splitlines()[0],
    }
    print(RESULT + json.dumps(answer))


def peak() -> float:
    """The largest memory that this process has had, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def apart(pair: Pair) -> dict[str, Any]:
    """Prove a pair in a process of its own."""
    folders = [str(FOUR)] if pair.library == "nlp" else []
    path = os.pathsep.join([*folders, os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, __file__, "--alone", pair.name]
    start = time.perf_counter()
    try:
        done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return {"verdict": f"no end in {SECONDS} s", "seconds": time.perf_counter() - start, "peak": float("nan"), "headline": ""}
    for line in done.stdout.splitlines():
        if line.startswith(RESULT):
            return json.loads(line.removeprefix(RESULT))
    last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    return {"verdict": "failed", "seconds": time.perf_counter() - start, "peak": float("nan"), "headline": last}


def row(pair: Pair, answer: dict[str, Any]) -> tuple[str, ...]:
    """A row of the table."""
    right = pair.judged_right(answer["verdict"])
    judged = "yes" if right else f"no, {pair.expected} is right"
    why = pair.wrong if not right and pair.wrong else pair.reason
    name = f"{pair.library}: {pair.name}"
    return (
        name,
        answer["verdict"],
        f"{judged}{': ' if why else ''}{why}",
        f"{answer['seconds']:.1f}",
        f"{answer['peak']:.2f}",
        pair.wrote,
    )


def main() -> int:
    """Prove all pairs, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pairs", nargs="*", help=f"of {', '.join(pair.name for pair in PAIRS)} (default: all)")
    parser.add_argument("--alone", action="store_true", help="in this process, with the whole proof")
    options = parser.parse_args()
    by_name = {pair.name: pair for pair in PAIRS}
    for name in options.pairs:
        if name not in by_name:
            parser.error(f"there is no pair {name!r}; there are {', '.join(by_name)}")
    chosen = [by_name[name] for name in options.pairs] or list(PAIRS)
    if options.alone:
        for pair in chosen:
            alone(pair)
        return 0
    console = Console()
    table = new_table("pair", "verdict", "right", "seconds", "peak GiB", "written")
    wrong = []
    with new_progress(console, transient=True) as progress:
        bar = progress.add_task("", total=len(chosen))
        for pair in chosen:
            progress.update(bar, description=pair.name)
            answer = apart(pair)
            table.add_row(*row(pair, answer))
            if not pair.judged_right(answer["verdict"]):
                wrong.append(f"{pair.name}: {answer['headline']}")
            progress.advance(bar)
    console.print(table)
    for line in wrong:
        console.print(f"not as expected: {line}", markup=False)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
