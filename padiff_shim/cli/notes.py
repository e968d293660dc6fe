"""What ranks leave for the process of ``padiff-shim run``: one small file each, in a folder that lives as long as the run."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..writing import replace


@dataclass
class Note:
    """One rank's word.

    Attributes:
        rank, pid: whose it is.
        log: the file of its log, or nothing.
        counted: what its run counted (``run.as_dict()``) when it had ended; None before.
        native: why the rank is not in the mode; nothing if it is.
    """

    rank: int
    pid: int
    log: str = ""
    counted: dict[str, Any] | None = None
    native: str = ""

    def leave(self, folder: str) -> None:
        """Write it, in place of what this rank has left before: whole, or not at all."""
        os.makedirs(folder, mode=0o700, exist_ok=True)
        replace(os.path.join(folder, f"{self.pid}.json"), json.dumps(asdict(self)))


def found(folder: str) -> list[Note]:
    """All notes, by rank."""
    notes = [Note(**json.loads(path.read_text(encoding="utf-8"))) for path in Path(folder).glob("[0-9]*.json")]
    return sorted(notes, key=lambda one: (one.rank, one.pid))
