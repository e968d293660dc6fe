"""What a run has found so far, on disk: one line of JSON for each program, behind a line that says of which run."""

from __future__ import annotations

import json
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Record = dict[str, Any]


class Results:
    """The records of one run."""

    def __init__(self, path: Path, head: dict[str, Any]) -> None:
        self._path, self._lock = path, threading.Lock()
        lines = path.read_text().splitlines() if path.exists() else []
        goes_on = bool(lines) and json.loads(lines[0]) == head
        self._records: dict[int, Record] = {}
        if goes_on:
            for line in lines[1:]:
                try:
                    record = json.loads(line)
                except ValueError:  # half written, as the run was cut short
                    continue
                self._records[record["program"]] = record
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w") as file:
            for record in (head, *self._records.values()):
                file.write(json.dumps(record) + "\n")

    def add(self, record: Record) -> None:
        """A program has run."""
        with self._lock, self._path.open("a") as file:
            self._records[record["program"]] = record
            file.write(json.dumps(record) + "\n")

    def of(self, numbers: range) -> list[Record]:
        """The records of these programs, as far as they have run."""
        return [self._records[number] for number in numbers if number in self._records]

    def due(self, numbers: range, size: int) -> Iterator[range]:
        """The programs that have not run, in rows of at most this size."""
        start: int | None = None
        for number in (*numbers, numbers.stop):
            ends = number == numbers.stop or number in self._records
            if start is not None and (ends or number - start == size):
                yield range(start, number)
                start = None
            if start is None and not ends:
                start = number

    def summary(self, records: list[Record]) -> str:
        """Counts, and each kind of failure with its smallest program."""
        counts: Counter[str] = Counter({"programs": len(records)})
        kinds: dict[str, list[Record]] = defaultdict(list)
        for record in records:
            counts.update({"lines": record["lines"], **record["counts"]})
            if "failure" in record:
                kinds[record["failure"]["kind"]].append(record)
        lines = [f"{count:6}  {reason}" for reason, count in sorted(counts.items())]
        for kind, those in sorted(kinds.items(), key=lambda item: -len(item[1])):
            first = min(those, key=lambda record: len(record["failure"]["program"]))
            numbers = ", ".join(str(record["program"]) for record in those[:8])
            failure = first["failure"]
            lines += ["", f"{len(those)} x {kind} (programs {numbers})", *(f"    {line}" for line in failure["program"])]
            lines += [f"  - {text[:300]}" for text in failure["texts"][:3]]
        return "\n".join(lines)
