"""A block of programs in processes of their own: one that ends its process is a finding, and the next ones go on in another."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import forked

from . import FOUND, HANG, RUNNING
from .source import culprits

DRAWN = "none: being drawn"


@dataclass
class Block:
    """Some programs in a row."""

    numbers: range
    seed: str
    length: int

    def records(self) -> Iterator[dict[str, Any]]:
        """What each program gives."""
        first, last = self.numbers.start, self.numbers.stop
        while first < last:
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                done = self._run(folder, first, last - first)
                records = [json.loads(line) for line in text(folder / FOUND).splitlines()]
                yield from records
                first += len(records)
                if first < last:
                    yield self._ended(first, text(folder / RUNNING), done)
                    first += 1

    def _run(self, folder: Path, first: int, count: int) -> subprocess.CompletedProcess[str]:
        where = [str(folder), "--first", str(first), "--count", str(count), "--seed", self.seed, "--length", str(self.length)]
        try:
            return forked.run(["-m", "fuzz.worker", *where], timeout=HANG * (count + 1), PYTHONPATH=PATH, warm=True)
        except subprocess.TimeoutExpired as late:
            return subprocess.CompletedProcess(late.cmd, -1, "", "it hung")

    def _ended(self, number: int, running: str, done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
        """What is left of a program that has ended its process."""
        noted, plan, *lines = running.splitlines() if running else ["-1", "none", ""]
        errors = done.stderr[-3000:]
        where = "natively" if plan in (DRAWN, "native") else plan.partition(" around")[0]
        record: dict[str, Any] = {"program": number, "lines": len(lines), "counts": {}}
        if int(noted) == number and where == "natively":
            record["counts"] = {f"Paddle ended the process natively: {kernel_in(done.stderr) or culprits(lines[-1:])}": 1}
        else:
            kind = f"{where}: ended the process with status {done.returncode}: {culprits(lines[-1:])}"
            record["failure"] = {"kind": kind, "plan": [plan, []], "program": lines, "texts": [errors], "drawn": lines}
        return record


def kernel_in(errors: str) -> str:
    """The kernel, or else the node of a graph, in which Paddle's traceback of a crash ends."""
    names = re.findall(r"\bphi::(\w+Kernel)\b|\b(\w+GradNode)::operator", errors)
    return next((kernel or node for kernel, node in reversed(names)), "")


def text(path: Path) -> str:
    """What is in a file that may not be there."""
    return path.read_text() if path.exists() else ""


TESTS = Path(__file__).resolve().parents[1]
PATH = f"{TESTS.parent}:{TESTS}"
