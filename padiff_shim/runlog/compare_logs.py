"""The logs of compare runs in a folder: which there are, what they count, and copies of them."""

from __future__ import annotations

import datetime
import json
import math
import os
import re
import shutil
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..arguments import path as as_path
from ..errors import MissingFileError, PadiffShimError
from ..text import many, tr
from .counts import Counts, Coverage
from .events import JsonTable
from .reader import LINE, EventFile, LogError, WrittenLog, earlier_than_last, logs_in, lost_ranks, open_log, text_of
from .replicas import EVENT

_NAME = re.compile(r"calls-rank(\d+)-pid(\d+)(?:-(\d+))?\.jsonl")


class MissingLogError(LogError, MissingFileError):
    """The folder of a log does not exist."""


def absolute(folder: str | os.PathLike[str]) -> Path:
    """``folder`` as an absolute path, under the working directory of now.

    Raises:
        ArgumentError: it is not a path.
        LogError: the working directory is gone.
    """
    as_path("folder", folder)
    try:
        return Path(os.path.abspath(folder))
    except OSError as error:
        raise LogError(
            "the folder {folder} cannot be found: the working directory is gone ({strerror})",
            folder=os.fspath(folder),
            strerror=error.strerror,
        ) from None


def files(folder: str | os.PathLike[str]) -> list[Path]:
    """The logs of comparisons in a folder, by rank, then process.

    Raises:
        LogError: the folder cannot be read.
    """
    return logs_in(Path(folder), _NAME)


def find(folder: Path) -> list[Path]:
    """As :func:`files`, where there has to be one.

    Raises:
        LogError: there is no such folder, or no log in it.
    """
    if not folder.exists():
        raise MissingLogError("the folder {folder} does not exist", folder=folder)
    if not folder.is_dir():
        raise LogError("{folder} is a file: load() takes the folder in which a log lies", folder=folder)
    paths = files(folder)
    if not paths:
        raise LogError("{folder} holds no log of a compare run (calls-rank*-pid*.jsonl)", folder=folder)
    return paths


@dataclass
class Reading:
    """What one pass over log files read: everything that can be read, and in ``warnings`` what cannot.

    Attributes:
        paths: the files that were read.
        headers: their first events.
        offsets: where in each file the call records begin, in bytes.
        counts: what the run counted, all files together.
        warnings: those of the headers, those that came up while the runs went on, and what was lost.
        replicas: where in each file the events with digests of replicas begin, in bytes.
        ended: whether each file has its last event.
        lost: remarks on files and lines that cannot be read.
        unfinished: remarks on logs that were not closed, and on ranks without one.
    """

    paths: list[Path] = field(default_factory=list)
    headers: list[JsonTable] = field(default_factory=list)
    offsets: list[array[int]] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    warnings: list[str] = field(default_factory=list)
    replicas: list[array[int]] = field(default_factory=list)
    ended: list[bool] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)


def read(paths: Sequence[Path], each: Callable[[Mapping[str, Any]], None] | None = None) -> Reading:
    """Read log files: count everything in them as the processes counted it, and pass over what is no event.

    ``each`` is called with each record of a call, which it must not change.

    What was not compared stands in the last ``"end"`` or ``"coverage"`` event; a process that was killed has lost what came
    after that, but not its records.

    Raises:
        LogError: none of the files has a header that can be read.
    """
    reading, merged = Reading(), Coverage()
    refusals: list[LogError] = []
    for path in paths:
        try:
            file = EventFile(path)
        except LogError as error:
            refusals.append(error)
            continue
        reading.paths.append(path)
        reading.headers.append(file.header)
        reading.counts.coverage = Coverage()
        _scan(file, reading, each)
        merged.merge(reading.counts.coverage.to_dict())
    reading.counts.coverage = merged
    if not reading.paths:
        raise refusals[0]
    reading.lost += [tr("left out: {error}", error=error) for error in refusals]
    # A remark on each log that was not closed, and on ranks of a distributed run that left none. A fork's is never closed.
    world = max(int(header.get("ranks") or 1) for header in reading.headers)
    remarks = [
        tr(
            "{name} was not closed: {why}; what came after the last record is not known",
            name=path.name,
            why=_why_unfinished(header, world),
        )
        for path, header, ended in zip(reading.paths, reading.headers, reading.ended)
        if not ended and ("parent" not in header or header.get("stopped"))
    ]
    if world < 2:
        reading.unfinished = remarks
    else:
        reading.unfinished = remarks + lost_ranks(world, {header.get("rank", 0) for header in reading.headers})
    remarks = [text for header in reading.headers for text in header.get("warnings", ())]
    reading.warnings = list(dict.fromkeys([*remarks, *reading.warnings, *reading.unfinished, *reading.lost]))
    return reading


def _why_unfinished(header: Mapping[str, object], world: int) -> str:
    whose = tr("rank {rank}", rank=header.get("rank", 0)) if world > 1 else tr("process {pid}", pid=header.get("pid", 0))
    if stopped := text_of(header, "stopped"):
        return tr("{whose} could not go on writing, {stopped}", whose=whose, stopped=stopped)
    return tr("{whose} was ended in the middle, or it still runs", whose=whose)


def _scan(file: EventFile, reading: Reading, each: Callable[[Mapping[str, Any]], None] | None) -> None:
    """One file: its events into ``reading``, and a remark about lines that are none."""
    places, digests, ended, name = array("Q"), array("Q"), False, file.path.stem
    counts = reading.counts
    for offset, event in file:
        kind = event["type"]
        if kind == "call":
            places.append(offset)
            counts.add(event, name)
            if each is not None:
                each(event)
        elif kind == "event" and event["kind"] == EVENT:
            digests.append(offset)
        elif isinstance(event.get("coverage"), Mapping):
            ended = kind == "end"
            counts.ended_by = counts.ended_by or text_of(event, "how")
            counts.coverage = Coverage()
            counts.coverage.merge(event["coverage"])
        elif kind == "event" and event["kind"] == "warning":
            reading.warnings.append(event["text"])
    reading.offsets.append(places)
    reading.replicas.append(digests)
    reading.ended.append(ended)
    if file.damage:
        reading.lost.append(str(file.damage))


def last_of(folder: Path, paths: Sequence[Path]) -> tuple[list[Path], str]:
    """The logs of the last run among ``paths``, and a remark on earlier ones that lie there; ``""`` where there are none."""
    earlier = earlier_than_last([log for log in map(_written, paths) if log is not None])
    gone = {log.path for log in earlier}
    return [path for path in paths if path not in gone], remark_on(folder, earlier)


def remark_on(folder: Path, earlier: Sequence[WrittenLog]) -> str:
    """What to say of logs of earlier runs in a folder; ``""`` where there are none."""
    if not earlier:
        return ""
    latest = max(earlier, key=lambda log: log.begun)
    begun = datetime.datetime.fromtimestamp(latest.begun, datetime.timezone.utc).isoformat(timespec="seconds")
    command = f", {latest.command}" if latest.command else ""
    return tr(
        "{folder} also holds {logs} of earlier runs, which were left out, the latest {name} (begun "
        "{begun}{command}); give each run a folder of its own",
        folder=folder,
        logs=many(len(earlier), "log"),
        name=latest.path.name,
        begun=begun,
        command=command,
    )


def _written(path: Path) -> WrittenLog | None:
    """When a log was written, and by whom; None where it has no header."""
    try:
        header = EventFile(path).header
        modified = os.stat(path).st_mtime
        begun = seconds_of(text_of(header, "created"), -math.inf)
        with open_log(path) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LINE))
            end = json.loads(file.read().rstrip(b"\n").rpartition(b"\n")[2])
        lasted = end.get("seconds") if isinstance(end, dict) and end.get("type") == "end" else None
    except (LogError, OSError):
        return None
    except (ValueError, RecursionError):
        lasted = None
    ended = begun + lasted if isinstance(lasted, (int, float)) else modified
    ended = math.inf if math.isinf(begun) else ended  # nobody knows when: it is of every run
    session = text_of(header, "session") or f"process {header.get('parent') or header.get('pid') or path.stem}"
    return WrittenLog(path, int(header.get("rank") or 0), session, begun, ended, text_of(header, "command"))


def seconds_of(created: str, default: float) -> float:
    """A time of a log, in seconds since 1970."""
    try:
        return datetime.datetime.fromisoformat(created).timestamp()
    except (ValueError, OverflowError):
        return default


def save(paths: Sequence[Path], inputs: Path, folder: Path) -> Path:
    """Copy log files and saved operands into ``folder``, which is created; returns it.

    Raises:
        PadiffShimError: there is nothing to copy, or the folder holds other logs.
    """
    if not paths:
        raise PadiffShimError("this run has no log to save (it could not be written, or nothing was recorded)")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        own = {path.name: EventFile(path).header.get("id") for path in paths}
        others = [path.name for path in files(folder) if path.name not in own or EventFile(path).header.get("id") != own[path.name]]
        if others:
            raise PadiffShimError(
                "{folder} holds the log of another run already ({others}); choose another folder", folder=folder, others=others[0]
            )
        if folder.resolve() == paths[0].parent.resolve():
            return folder
        for path in paths:
            shutil.copy2(path, folder / path.name)
        saved = [path for path in inputs.glob("*.npz") if path.is_file() and not path.is_symlink()] if inputs.is_dir() else []
        for path in saved:
            (folder / inputs.name).mkdir(exist_ok=True)
            shutil.copy2(path, folder / inputs.name / path.name)
        return folder
    except LogError:
        raise
    except OSError as error:
        raise LogError(
            "the log cannot be saved in {folder}: {strerror}", folder=folder, strerror=error.strerror or error
        ) from error
