"""``padiff_shim.audit``: every op tried on this machine."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path

from ..arguments import flag, names, path, whole
from ..catalogue.registry import ops as table, resolve
from ..errors import ArgumentError, FileError, unreadable
from ..files import try_folder, write
from ..progress import Bar
from ..text import tr
from .outcome import Audit
from .pool import Pool
from .report import OpReport
from .reproducing import DefectOutcome, run_defects

LINES = "ops.jsonl"  # the reports so far, an op a line
FAMILIAR = "defects.json"


def chosen(patterns: str | Iterable[str] | None) -> list[str]:
    """Names of ops, of families, and patterns over ops (``"*pool*"``) -> ops, in the order of the table.

    Raises:
        UnknownNameError: for a name that is neither; ArgumentError: for a pattern that no op matches.
    """
    if patterns is None:
        return list(table())
    wanted: set[str] = set()
    for pattern in names("ops", patterns):
        if set(pattern) & set("*?["):
            matches = {name for name in table() if fnmatchcase(name, pattern)}
            if not matches:
                raise ArgumentError("ops={pattern} matches no op of the table (docs/ops.md lists them)", pattern=repr(pattern))
            wanted |= matches
        else:
            wanted |= resolve(pattern) & set(table())
    return [name for name in table() if name in wanted]


def audit(
    ops: str | Iterable[str] | None = None,
    *,
    device: str | None = None,
    folder: str | os.PathLike[str] | None = None,
    resume: bool = False,
    defects: bool = True,
    workers: int | None = None,
    seconds: float = 180,
    case_seconds: float = 20,
    progress: bool = True,
) -> Audit:
    """Try every op of the table on this machine, forward and backward, on its samples and under stress, and judge both kernels.

    Each call is compared as in :func:`padiff_shim.compare`, in processes of its own, so that a kernel that ends the process ends
    that one: it is reported with the call. docs/audit.md says what is tried and what the report means.

    Args:
        ops: names of ops or families, or patterns over op names (``"*pool*"``); default all of them.
        device: as ``paddle.set_device`` takes it; default Paddle's choice.
        folder: where reproducers and reports are written; by default a temporary one, which stays.
        resume: go on with an audit of the same versions and device that was ended in ``folder``.
        defects: run the programs of docs/defects.md as well, to see which still show.
        workers: processes at a time; default one a core, at most eight.
        seconds: time limit of one op; ``case_seconds``: of one call.
        progress: show a bar, on terminals only.

    Returns:
        An :class:`Audit`. After Ctrl-C that of the ops that were done, with ``complete`` False.

    Raises:
        UnknownNameError, ArgumentError: for arguments that are not accepted.
        FileError: ``folder`` cannot be written, or holds another audit.
        PadiffShimError: the frameworks cannot be imported.

    Example:

    >>> import padiff_shim
    >>> audit = padiff_shim.audit("relu", defects=False, workers=1, progress=False)
    >>> audit.complete, list(audit.reports)
    (True, ['relu'])
    """
    todo = chosen(ops)
    count = whole("workers", workers, least=1) if workers is not None else min(os.cpu_count() or 1, 8)
    flag("resume", resume), flag("defects", defects), flag("progress", progress)
    place = Path(tempfile.mkdtemp(prefix="padiff_shim-audit-")) if folder is None else path("folder", folder)
    book = _Book(place, resume)
    start, outcome = time.monotonic(), Audit(place, book.environment, dict(book.reports), seconds=book.seconds)
    pool = Pool(place, device or "", float(seconds), float(case_seconds))
    try:
        left = [name for name in todo if name not in book.reports]
        with Bar(tr("auditing"), len(todo), len(todo) - len(left), wanted=progress, remaining=True) as bar:
            running: dict[str, None] = {}

            def begun(name: str) -> None:
                running[name] = None
                bar.describe(", ".join(list(running)[-4:]))

            def done(report: OpReport) -> None:
                book.add(report, pool.environment)
                outcome.reports[report.name] = report
                del running[report.name]
                bar.describe(", ".join(list(running)[-4:]))
                bar.advance()

            pool.run(left, count, done, begun)
            if defects and not book.defects:
                bar.describe(tr("the programs of the defects"))
                book.keep(run_defects())
    except KeyboardInterrupt:
        outcome.complete = False
    outcome.environment, outcome.defects = book.environment, book.defects
    outcome.reports = {name: outcome.reports[name] for name in todo if name in outcome.reports}
    outcome.seconds = book.seconds + time.monotonic() - start
    return outcome


class _Book:
    """The reports so far, in files."""

    def __init__(self, folder: Path, resume: bool) -> None:
        self.folder, self.path = folder, folder / LINES
        self.environment: dict[str, str] = {}
        self.reports: dict[str, OpReport] = {}
        self.defects: list[DefectOutcome] = []
        self.seconds = 0.0
        try:
            folder.mkdir(parents=True, exist_ok=True)
            try_folder(folder, "the folder of the audit ")
            if self.path.exists() and not resume:
                raise FileError(
                    "{folder} holds an audit already: go on with it (--resume, resume=True), or choose another folder",
                    folder=folder,
                )
            if self.path.exists():
                self._read()
        except OSError as error:
            raise error if isinstance(error, FileError) else unreadable(tr("the folder of the audit"), folder, error) from None

    def _read(self) -> None:
        for number, line in enumerate(self.path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                data = json.loads(line)
                self.environment = self.environment or dict(data["environment"])
                if data["environment"] != self.environment:
                    raise FileError(
                        "{path}, line {number}, is of other versions: {versions}",
                        path=self.path,
                        number=number,
                        versions=data["environment"],
                    )
                report = OpReport(**data["report"])
            except (ValueError, TypeError, KeyError):
                continue  # the line that was being written when the process ended
            self.reports[report.name] = report
            self.seconds = max(self.seconds, float(data["seconds"]))
        if (self.folder / FAMILIAR).exists():
            self.defects = [DefectOutcome(**defect) for defect in json.loads((self.folder / FAMILIAR).read_text(encoding="utf-8"))]

    def add(self, report: OpReport, environment: dict[str, str]) -> None:
        """An op is done."""
        if self.environment and environment != self.environment:
            raise FileError(
                "{folder} holds an audit of {environment}; here is {here}",
                folder=self.folder,
                environment=self.environment,
                here=environment,
            )
        self.environment = environment
        self._started = getattr(self, "_started", time.monotonic())
        line = {
            "environment": environment,
            "seconds": self.seconds + time.monotonic() - self._started,
            "report": asdict(report),
        }
        with self.path.open("a", encoding="utf-8") as out:
            out.write(json.dumps(line, ensure_ascii=False) + "\n")

    def keep(self, defects: Sequence[DefectOutcome]) -> None:
        """The programs of the defects were run."""
        self.defects = list(defects)
        write(self.folder / FAMILIAR, json.dumps([asdict(defect) for defect in defects], indent=1) + "\n")
