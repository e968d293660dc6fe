"""Are the ports right that others wrote? Models of Paddle's libraries against their originals.

`python examples/demo_ports.py` prints a row for each; it fails where a verdict is not the expected one. Each pair runs in a
process of its own, with a limit of time and of memory. `--mistakes`: thirty mistakes planted into these ports, and whether the
first finding names each.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ports.mistakes import MISTAKES, Mistake, plant
from ports.pair import Pair
from ports.registry import PAIRS, PORTS
from rich.console import Console
from tables import new_progress, new_table

SECONDS, GIBIBYTES = 300, 14
MOST = 2  # findings of one mistake
# transformers 4 lies in a folder of its own: paddlenlp's pairs find it before the environment's transformers 5.
FOUR = Path(sys.prefix) / "transformers-4"
INDEX = Path(sys.prefix) / "index"  # other libraries of the package index
RESULT = "result of the pair: "


def alone(pair: Pair, mistake: Mistake | None = None) -> None:
    """Prove a pair in this process, and print what came out for the process that started it."""
    limited()
    if mistake is not None:
        plant(mistake)
    port, original, inputs = pair.build()
    import padiff_shim

    start = time.perf_counter()
    proof = padiff_shim.prove(port, original, inputs, phase=pair.phase)
    seconds = time.perf_counter() - start
    print(proof)
    findings = [str(finding) for finding in proof.mistakes]
    answer = {"verdict": proof.verdict.name, "seconds": seconds, "peak": peak(), "headline": proof.answer, "findings": findings}
    print(RESULT + json.dumps(answer))


def limited() -> None:
    """Let this process have no more memory than a pair may need."""
    limit = GIBIBYTES << 30
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def environment(pair: Pair, *folders: str) -> dict[str, str]:
    """The environment of a process for a pair. ``folders``: where packages are looked for first."""
    four = [str(FOUR)] if pair.library in ("nlp", "ppdiffusers") else []
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*folders, *four, str(INDEX), os.environ.get("PYTHONPATH", "")])}


def peak() -> float:
    """The largest memory that this process has had, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def apart(pair: Pair, mistake: Mistake | None = None) -> dict[str, Any]:
    """Prove a pair in a process of its own; with a mistake, if there is one."""
    command = [sys.executable, __file__, "--alone", *(["--mistake", mistake.name] if mistake else [pair.name])]
    start = time.perf_counter()
    try:
        done = subprocess.run(command, env=environment(pair), capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return {
            "verdict": f"no end in {SECONDS} s",
            "seconds": time.perf_counter() - start,
            "peak": float("nan"),
            "headline": "",
            "findings": [],
        }
    for line in done.stdout.splitlines():
        if line.startswith(RESULT):
            return json.loads(line.removeprefix(RESULT))
    last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    return {"verdict": "failed", "seconds": time.perf_counter() - start, "peak": float("nan"), "headline": last, "findings": []}


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


def proven(console: Console, pairs: Sequence[Pair]) -> list[str]:
    """Prove pairs, print their table, and give what is not as expected."""
    table, wrong = new_table("pair", "verdict", "right", "seconds", "peak GiB", "written"), []
    for pair, answer in each(console, pairs, [(pair.name, pair, None) for pair in pairs]):
        table.add_row(*row(pair, answer))
        if not pair.judged_right(answer["verdict"]):
            wrong.append(f"{pair.name}: {answer['headline']}")
    console.print(table)
    return wrong


def located(console: Console) -> list[str]:
    """Prove the ports with mistakes, print what the first finding says of each, and give those that it does not name."""
    pairs = {pair.name: pair for pair in PAIRS}
    table, wrong = new_table("mistake", "pair", "named", "findings", "seconds", "first finding"), []
    for mistake, answer in each(console, MISTAKES, [(mistake.name, pairs[mistake.pair], mistake) for mistake in MISTAKES]):
        findings = answer["findings"] or [f"{answer['verdict']}: {answer['headline']}"]
        named = mistake.words in findings[0] and len(findings) <= MOST
        seconds = f"{answer['seconds']:.1f}"
        table.add_row(mistake.name, mistake.pair, "yes" if named else "no", str(len(answer["findings"])), seconds, findings[0])
        if not named:
            wrong.append(f"{mistake.name}: {findings[0]}")
    console.print(table)
    console.print(f"named by the first finding, with at most {MOST} findings: {len(MISTAKES) - len(wrong)} of {len(MISTAKES)}")
    return wrong


def each(console: Console, items: Sequence[Any], runs: Sequence[tuple[str, Pair, Mistake | None]]) -> Iterator[tuple[Any, Any]]:
    """(item, answer) of each run, with a bar."""
    with new_progress(console, transient=True) as progress:
        bar = progress.add_task("", total=len(runs))
        for item, (name, pair, mistake) in zip(items, runs):
            progress.update(bar, description=name)
            yield item, apart(pair, mistake)
            progress.advance(bar)


def main() -> int:
    """Prove all pairs, or those that are named; or those with mistakes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "pairs", nargs="*", help=f"of {', '.join(pair.name for pair in PAIRS)} (default: those whose verdict is known)"
    )
    parser.add_argument("--mistakes", action="store_true", help="with mistakes planted into them")
    parser.add_argument("--mistake", help="one of these alone, by its name", choices=[mistake.name for mistake in MISTAKES])
    parser.add_argument("--alone", action="store_true", help="in this process, with the whole proof")
    options = parser.parse_args()
    by_name = {pair.name: pair for pair in PAIRS}
    for name in options.pairs:
        if name not in by_name:
            parser.error(f"there is no pair {name!r}; there are {', '.join(by_name)}")
    if options.mistake:
        mistake = next(mistake for mistake in MISTAKES if mistake.name == options.mistake)
        alone(by_name[mistake.pair], mistake)
        return 0
    chosen = [by_name[name] for name in options.pairs] or list(PORTS)
    if options.alone:
        for pair in chosen:
            alone(pair)
        return 0
    console = Console()
    wrong = located(console) if options.mistakes else proven(console, chosen)
    for line in wrong:
        console.print(f"not as expected: {line}", markup=False)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
