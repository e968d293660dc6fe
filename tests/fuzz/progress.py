"""The program that is running, on disk: what is left of it if it ends the process."""

from __future__ import annotations

from pathlib import Path


class Progress:
    """Notes the running program in a file; without one it notes nothing."""

    def __init__(self, path: Path | None = None) -> None:
        self.file = None if path is None else path.open("w")
        self.number = 0  # of the program

    def note(self, lines: list[str], plan: object) -> None:
        """``lines`` run now under ``plan``."""
        if self.file is not None:
            self.file.seek(0)
            self.file.write("\n".join([str(self.number), str(plan), *lines]))
            self.file.truncate()
            self.file.flush()
