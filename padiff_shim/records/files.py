"""Logs as files: finding, reading and copying them."""

from __future__ import annotations

import os
import shutil
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..arguments import path as checked
from ..errors import MissingFileError, PadiffShimError
from . import log
from .counts import Counts
from .coverage import Coverage
from .replicas import EVENT

_MOST = 4096  # ranks that are looked for
_SHOWN = 8  # numbers of lost lines that a warning names


def absolute(folder: Any) -> Path:
    """``folder`` as an absolute path, where the current working directory is the one of now.

    Raises:
        ArgumentError: it is not a path.
        LogError: the working directory is gone.
    """
    checked("folder", folder)
    try:
        return Path(os.path.abspath(folder))
    except OSError as error:
        raise log.LogError(f"the folder {folder} cannot be found: the working directory is gone ({error.strerror})") from None


def find(folder: Path) -> list[Path]:
    """The log files of a folder.

    Raises:
        LogError: there is no such folder, or no log in it.
    """
    if not folder.exists():
        raise MissingLogError(f"the folder {folder} does not exist")
    if not folder.is_dir():
        raise log.LogError(f"{folder} is a file: load() takes the folder in which a log lies")
    paths = log.files(folder)
    if not paths:
        raise log.LogError(f"{folder} holds no log of a compare run (calls-rank*-pid*.jsonl)")
    return paths


class MissingLogError(log.LogError, MissingFileError):
    """The folder of a log does not exist."""


def header(path: Path) -> dict[str, Any]:
    """The first record of a log file.

    Raises:
        LogError: it has none (the process ended while it began), or one of a newer schema.
    """
    for offset, line in log.lines(path):
        record = log.parse(line, path, offset)
        if record["type"] != "run":
            break
        if not isinstance(record.get("schema"), int) or record["schema"] > log.SCHEMA:
            raise log.LogError(
                f"{path}: schema {record.get('schema')!r} is not known here (up to {log.SCHEMA}); a newer version wrote it"
            )
        return {name: value for name, value in record.items() if value is not None}
    raise log.LogError(f"{path} does not begin with the header of a run")


@dataclass
class Reading:
    """What one pass over log files found: everything that can be read, and in ``warnings`` what cannot.

    ``headers``: the first records. ``offsets``: where each call record of each file begins. ``warnings``: those of the headers,
    those that came up while the runs went on, and what was lost.
    """

    paths: list[Path] = field(default_factory=list)
    headers: list[dict[str, Any]] = field(default_factory=list)
    offsets: list[array[int]] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    warnings: list[str] = field(default_factory=list)
    replicas: list[array[int]] = field(default_factory=list)  # where in each file the events of that kind begin
    ended: list[bool] = field(default_factory=list)  # whether each file has its last record
    lost: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)  # a log was not closed, or a rank left none


def read(paths: Sequence[Path]) -> Reading:
    """Read log files: count everything in them as the processes counted it, and pass over what is no record.

    What was not compared stands in the last ``"end"`` or ``"coverage"`` record; a process that was killed has lost what came
    after that, but not its records.

    Raises:
        LogError: none of the files has a header that can be read.
    """
    found, merged = Reading(), Coverage()
    refusals: list[log.LogError] = []
    for path in paths:
        try:
            found.headers.append(header(path))
        except log.LogError as error:
            refusals.append(error)
            continue
        found.paths.append(path)
        found.counts.coverage = Coverage()
        _scan(path, found)
        merged.merge(found.counts.coverage.as_dict())
    found.counts.coverage = merged
    if not found.paths:
        raise refusals[0]
    found.lost += [f"left out: {error}" for error in refusals]
    found.unfinished = _unfinished(found)
    found.warnings += found.unfinished
    told = [text for one in found.headers for text in one.get("warnings", ())]
    found.warnings = list(dict.fromkeys([*told, *found.warnings, *found.lost]))
    return found


def _unfinished(found: Reading) -> list[str]:
    """A remark on each log that was not closed, and on ranks of a distributed run that left none. A fork's is never closed."""
    world = max(int(one.get("ranks") or 1) for one in found.headers)
    remarks = [
        f"{path.name} was not closed: {_whose(header, world)} was ended in the middle, its disk was full, or it still runs; "
        "what came after the last record is not known"
        for path, header, ended in zip(found.paths, found.headers, found.ended)
        if not ended and "parent" not in header
    ]
    if world < 2:
        return remarks
    there = {header.get("rank", 0) for header in found.headers}
    missing = [str(rank) for rank in range(min(world, _MOST)) if rank not in there]
    if missing:
        remarks.append(f"of the {world:,} ranks of this run, {', '.join(missing[:_SHOWN])} left no log")
    return remarks


def _whose(header: Mapping[str, Any], world: int) -> str:
    return f"rank {header.get('rank', 0)}" if world > 1 else f"process {header.get('pid', 0)}"


def _scan(path: Path, found: Reading) -> None:
    """One file: its records into ``found``, and a remark about lines that are none."""
    places, wrong, complaint, replicas, ended = array("Q"), [], "", array("Q"), False
    for number, (offset, line) in enumerate(log.lines(path), 1):
        try:
            record = log.parse(line, path, offset)
        except log.LogError as error:
            wrong.append(number)
            complaint = complaint or str(error)
            continue
        if record["type"] == "call":
            places.append(offset)
            found.counts.add(record, path.stem)
        elif record["type"] == "event" and record["kind"] == EVENT:
            replicas.append(offset)
        elif isinstance(record.get("coverage"), Mapping):
            ended = record["type"] == "end"
            found.counts.coverage = Coverage()
            found.counts.coverage.merge(record["coverage"])
        elif record["type"] == "event" and record["kind"] == "warning":
            found.warnings.append(record["text"])
    found.offsets.append(places)
    found.replicas.append(replicas)
    found.ended.append(ended)
    if wrong:
        numbers = ", ".join(map(str, wrong[:_SHOWN])) + (", ..." if len(wrong) > _SHOWN else "")
        lines = f"{len(wrong):,} lines of {path.name} are" if len(wrong) > 1 else f"1 line of {path.name} is"
        found.lost.append(f"{lines} no record and left out (line {numbers}). {complaint}")


def save(paths: Sequence[Path], inputs: Path, folder: Path) -> Path:
    """Copy log files and saved operands into ``folder``, which is created.

    Raises:
        PadiffShimError: there is nothing to copy, or the folder holds other logs.
    """
    if not paths:
        raise PadiffShimError("this run has no log to save (it could not be written, or nothing was recorded)")
    try:
        return _copied(paths, inputs, folder)
    except log.LogError:
        raise
    except OSError as error:
        raise log.LogError(f"the log cannot be saved in {folder}: {error.strerror or error}") from error


def _copied(paths: Sequence[Path], inputs: Path, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    own = {path.name: header(path).get("id") for path in paths}
    others = [path.name for path in log.files(folder) if path.name not in own or header(path).get("id") != own[path.name]]
    if others:
        raise PadiffShimError(f"{folder} holds the log of another run already ({others[0]}); choose another folder")
    if folder.resolve() == paths[0].parent.resolve():
        return folder
    for path in paths:
        shutil.copy2(path, folder / path.name)
    kept = [path for path in inputs.glob("*.npz") if path.is_file() and not path.is_symlink()] if inputs.is_dir() else []
    for path in kept:
        (folder / inputs.name).mkdir(exist_ok=True)
        shutil.copy2(path, folder / inputs.name / path.name)
    return folder
