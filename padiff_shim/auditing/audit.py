"""``padiff_shim.audit``: every op tried on this machine, and what came of it."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ..arguments import flag, names, path, whole
from ..errors import ArgumentError, FileError, unreadable
from ..files import try_folder, write
from .pool import Pool
from .report import Finding, OpReport, findings
from .reproducing import Seen, seen

LINES = "ops.jsonl"  # what was found so far, an op a line
FAMILIAR = "defects.json"


@dataclass
class Audit:
    """What an audit found. ``folder`` holds it as files, with the reproducers in ``folder/repro``.

    ``reports``: what each op gave. ``defects``: the known ones, and whether they show here. ``seconds``: the time it took, of
    resumed audits in all. ``complete``: every op that was asked for is there; not after Ctrl-C.
    """

    folder: Path
    environment: dict[str, str]
    reports: dict[str, OpReport] = field(default_factory=dict)
    defects: list[Seen] = field(default_factory=list)
    seconds: float = 0.0
    complete: bool = True

    @property
    def findings(self) -> list[Finding]:
        """What is to be said, the most serious first."""
        return findings(self.reports.values())

    @property
    def known(self) -> dict[str, bool]:
        """The shipped known differences of these versions -> whether they showed, in a call or in a defect's program.

        Those that no program shows, or one only on other processors, are left out if they did not: a call of an audit need not be
        one that has them.
        """
        from ..catalogue.known_differences import in_range, shipped

        shown = {one.known for one in self.findings if one.known} | {one.known for one in self.defects if one.shown}
        versions = [(name, self.environment.get(name, "")) for name in ("paddle", "torch")]
        here = [quirk for quirk in shipped() if all(in_range(version, getattr(quirk, name)) for name, version in versions)]
        looked = shown | {one.known for one in self.defects if not one.by_processor}
        return {quirk.name: quirk.name in shown for quirk in here if quirk.name in looked}

    def as_dict(self) -> dict[str, Any]:
        """Everything, as JSON-ready data."""
        return {
            "environment": self.environment,
            "seconds": round(self.seconds, 1),
            "complete": self.complete,
            "findings": [{**asdict(one), "stresses": one.stresses} for one in self.findings],
            "known_differences": self.known,
            "defects": [{**asdict(one), "gone": one.gone, "new": one.new} for one in self.defects],
            "ops": [{name: value for name, value in one.as_dict().items() if name != "records"} for one in self.reports.values()],
        }

    def to_markdown(self) -> str:
        """The report as Markdown."""
        from .pages import markdown

        return markdown(self)

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write the report as one self-contained page; returns its path. Raises FileError."""
        from .pages import html

        return write(Path(path), html(self))

    def save(self) -> list[Path]:
        """Write ``audit.md``, ``audit.html`` and ``audit.json`` into the folder; returns their paths. Raises FileError."""
        data = json.dumps(self.as_dict(), indent=1, ensure_ascii=False) + "\n"
        return [
            write(self.folder / "audit.md", self.to_markdown()),
            self.to_html(self.folder / "audit.html"),
            write(self.folder / "audit.json", data),
        ]

    def text(self, width: int | None = None, *, colour: bool = False) -> str:
        """For a terminal, ``width`` columns wide (default: its own); with ``colour`` as ANSI sequences."""
        from .pages import summary

        return summary(self, width, colour=colour)

    def __str__(self) -> str:
        return self.text()


def chosen(patterns: str | Iterable[str] | None) -> list[str]:
    """Names of ops, of families, and patterns over ops (``"*pool*"``) -> ops, in the order of the table.

    Raises:
        UnknownNameError: for a name that is neither; ArgumentError: for a pattern that no op matches.
    """
    from ..catalogue.registry import ops, resolve

    if patterns is None:
        return list(ops())
    wanted: set[str] = set()
    for pattern in names("ops", patterns):
        if set(pattern) & set("*?["):
            found = {name for name in ops() if fnmatchcase(name, pattern)}
            if not found:
                raise ArgumentError(f"ops={pattern!r} matches no op of the table (`padiff-shim ops` lists them)")
            wanted |= found
        else:
            wanted |= resolve(pattern) & set(ops())
    return [name for name in ops() if name in wanted]


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
        ops: names of ops or families, or patterns over op names (``"*pool*"``); all of them if not given.
        device: as ``paddle.set_device`` takes it; Paddle's choice if not given.
        folder: where reproducers, reports and what is found so far are written; a temporary one if not given, which stays.
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
    """
    todo = chosen(ops)
    count = whole("workers", workers, least=1) if workers is not None else min(os.cpu_count() or 1, 8)
    flag("resume", resume), flag("defects", defects), flag("progress", progress)
    place = Path(tempfile.mkdtemp(prefix="padiff_shim-audit-")) if folder is None else path("folder", folder)
    book = _Book(place, resume)
    start, found = time.monotonic(), Audit(place, book.environment, dict(book.reports), seconds=book.seconds)
    pool = Pool(place, device or "", float(seconds), float(case_seconds))
    try:
        left = [name for name in todo if name not in book.reports]
        with _Bar(len(todo), len(todo) - len(left)) if progress else nullcontext(_Silent()) as bar:

            def done(report: OpReport) -> None:
                book.add(report, pool.environment)
                found.reports[report.name] = report
                bar.advance(report.name)

            pool.run(left, count, done, bar.begin)
            if defects and not book.defects:
                bar.begin("the programs of the defects")
                book.keep(seen())
    except KeyboardInterrupt:
        found.complete = False
    found.environment, found.defects = book.environment, book.defects
    found.reports = {name: found.reports[name] for name in todo if name in found.reports}
    found.seconds = book.seconds + time.monotonic() - start
    return found


class _Book:
    """What is found so far, in files."""

    def __init__(self, folder: Path, resume: bool) -> None:
        self.folder, self.path = folder, folder / LINES
        self.environment: dict[str, str] = {}
        self.reports: dict[str, OpReport] = {}
        self.defects: list[Seen] = []
        self.seconds = 0.0
        try:
            folder.mkdir(parents=True, exist_ok=True)
            try_folder(folder, "the folder of the audit ")
            if self.path.exists() and not resume:
                raise FileError(f"{folder} holds an audit already: go on with it (--resume, resume=True), or choose another folder")
            if self.path.exists():
                self._read()
        except OSError as error:
            raise error if isinstance(error, FileError) else unreadable("the folder of the audit", folder, error) from None

    def _read(self) -> None:
        for number, line in enumerate(self.path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                data = json.loads(line)
                self.environment = self.environment or dict(data["environment"])
                if data["environment"] != self.environment:
                    raise FileError(f"{self.path}, line {number}, is of other versions: {data['environment']}")
                report = OpReport.read(data["report"])
            except (ValueError, TypeError, KeyError):
                continue  # the line that was being written when the process ended
            self.reports[report.name] = report
            self.seconds = max(self.seconds, float(data["seconds"]))
        if (self.folder / FAMILIAR).exists():
            self.defects = [Seen(**one) for one in json.loads((self.folder / FAMILIAR).read_text(encoding="utf-8"))]

    def add(self, report: OpReport, environment: dict[str, str]) -> None:
        """An op is done."""
        if self.environment and environment != self.environment:
            raise FileError(f"{self.folder} holds an audit of {self.environment}; here is {environment}")
        self.environment = environment
        self._started = getattr(self, "_started", time.monotonic())
        line = {
            "environment": environment,
            "seconds": self.seconds + time.monotonic() - self._started,
            "report": report.as_dict(),
        }
        with self.path.open("a", encoding="utf-8") as out:
            out.write(json.dumps(line, ensure_ascii=False) + "\n")

    def keep(self, found: Sequence[Seen]) -> None:
        """The programs of the defects were run."""
        self.defects = list(found)
        write(self.folder / FAMILIAR, json.dumps([asdict(one) for one in found], indent=1) + "\n")


class _Silent:
    """No bar."""

    def begin(self, name: str) -> None:
        """An op begins."""

    def advance(self, name: str) -> None:
        """An op is done."""


class _Bar(_Silent):
    """A bar on the standard error stream, if that is a terminal."""

    def __init__(self, total: int, already: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        console = Console(stderr=True)
        columns = (
            TextColumn("auditing"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(),
            TextColumn("{task.description}"),
        )  # fmt: skip
        self._progress = Progress(*columns, console=console, disable=not console.is_terminal, transient=True)
        self._task = self._progress.add_task("", total=total, completed=already)
        self._open: list[str] = []

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def begin(self, name: str) -> None:
        self._open.append(name)
        self._progress.update(self._task, description=", ".join(self._open[-4:]))

    def advance(self, name: str) -> None:
        self._open.remove(name)
        self._progress.update(self._task, advance=1, description=", ".join(self._open[-4:]))
