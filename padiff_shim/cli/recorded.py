"""``padiff-shim record``: a recording around a whole program, and around its ranks."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ended_with
from ..modes.environment import not_imported
from ..runlog.reader import text_of
from ..text import tr

WHO = "padiff-shim: "  # who speaks among the lines of the program


@dataclass(frozen=True)
class RecordOptions:
    """What ``padiff-shim record`` was called with.

    Attributes:
        folder: where the files go, absolute.
        every: of fingerprints, each so-manieth step is recorded.
        around: record this step and its neighbours in full instead; None: fingerprints of all steps.
        inside: this process is a rank, and others write into the folder, too.
        framework: whose program it is, ``"paddle"`` or ``"torch"``.
        overwrite: take the place of the recording that lies in the folder.
        first_step: the number of the step with which the program begins.
    """

    folder: str
    every: int = 1
    around: int | None = None
    inside: bool = False
    framework: str = "paddle"
    overwrite: bool = False
    first_step: int = 0

    def opened(self) -> RecordedProgram:
        """A mode that records; imports the frameworks' room."""
        return RecordedProgram(self)


class RecordedProgram:
    """A recording as a mode: opened when the program has imported Paddle, closed when it ends.

    It is its own run, too: ``command`` and ``file`` are what ranks say of themselves.
    """

    def __init__(self, options: RecordOptions) -> None:
        from ..recording.record import record

        form: dict[str, Any] = {"values": "fingerprint", "every": options.every}
        if options.around is not None:
            form = {"steps": range(max(0, options.around - 1), options.around + 2)}
        form["first_step"] = options.first_step
        self._recording = record(options.folder, framework=options.framework, overwrite=options.overwrite, **form)
        self._recording.joins = options.inside
        self.options, self.command, self.run = options, "", self
        self.file, self._how = options.folder, "closed"

    def start(self) -> None:
        """Begin to write."""
        self._recording.start()

    def ended_by(self, error: BaseException) -> None:
        """The program ended with ``error``."""
        self._how = ended_with(error) or self._how

    def stop(self) -> None:
        """Write the last line; a process that computed nothing, as a launcher, leaves no file."""
        self._recording.stop(self._how)
        if not self._recording.records:
            self._recording.discard()

    @property
    def records(self) -> int:
        """How many tensors were written."""
        return self._recording.records

    def to_dict(self) -> dict[str, Any]:
        """What a rank leaves for the process of the run."""
        return {"records": self.records}


def report(run: RecordedProgram | None, remarks: list[str], options: RecordOptions) -> None:
    """Say what was recorded, and what to do with it."""
    from ..recording.reading import read  # imports NumPy, which the program may want to do itself

    folder, framework = options.folder, options.framework
    if run is None:
        other = tr(" (--framework torch records a Torch program)") if framework == "paddle" else ""
        remarks = [*remarks, tr("nothing was recorded: {why}{other}", why=not_imported(framework), other=other)]
    for remark in remarks:
        print(f"{WHO}{remark}", file=sys.stderr)
    if any(Path(folder).glob("records-*.jsonl")):
        shown = os.path.relpath(folder)
        stopped = [why for recorded in read(Path(folder)).values() if (why := text_of(recorded.header, "stopped"))]
        if stopped:
            text = tr("{who}the recording in {shown} is not complete: {why}", who=WHO, shown=shown, why=stopped[0])
        else:
            text = tr(
                "{who}recorded in {shown}; to compare it with another run: padiff-shim diff {shown} OTHER", who=WHO, shown=shown
            )
        print(text, file=sys.stderr)
