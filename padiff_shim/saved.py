"""Logs as files: finding, reading and copying them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import log
from .counts import Counts, Coverage
from .errors import PadiffShimError

_CALL, _WARNING = b'{"type":"call"', b'{"type":"event","kind":"warning"'


def find(folder: Path) -> list[Path]:
    """The log files of a folder.

    Raises:
        LogError: there is no such folder, or no log in it.
    """
    paths = log.files(folder) if folder.is_dir() else []
    if not paths:
        raise log.LogError(f"{folder} holds no log of a compare run (calls-rank*-pid*.jsonl)")
    return paths


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
        return record
    raise log.LogError(f"{path} does not begin with the header of a run")


def warnings_of(path: Path) -> dict[str, list[str]]:
    """The warnings that came up while a run went on."""
    found = (log.parse(line, path, offset) for offset, line in log.lines(path) if line.startswith(_WARNING))
    return {"warnings": [str(record["text"]) for record in found]}


def count(paths: Sequence[Path]) -> Counts:
    """Count everything in log files, as the processes counted it.

    What was not compared stands in the last ``"end"`` or ``"coverage"`` record; a process that was killed has lost what came
    after that, but not its records.
    """
    total = Counts()
    merged = Coverage()
    for path in paths:
        total.coverage = Coverage()
        for offset, line in log.lines(path):
            record = log.parse(line, path, offset)
            if line.startswith(_CALL):
                total.add(record, path.stem)
            elif isinstance(record.get("coverage"), Mapping):
                total.coverage = Coverage()
                total.coverage.merge(record["coverage"])
        merged.merge(total.coverage.as_dict())
    total.coverage = merged
    return total


def save(paths: Sequence[Path], inputs: Path, folder: Path) -> Path:
    """Copy log files and saved operands into ``folder``, which is created.

    Raises:
        PadiffShimError: there is nothing to copy, or the folder holds other logs.
    """
    if not paths:
        raise PadiffShimError("this run has no log to save (it could not be written, or nothing was recorded)")
    folder.mkdir(parents=True, exist_ok=True)
    own = {path.name: header(path).get("id") for path in paths}
    others = [path.name for path in log.files(folder) if path.name not in own or header(path).get("id") != own[path.name]]
    if others:
        raise PadiffShimError(f"{folder} holds the log of another run already ({others[0]}); choose another folder")
    if folder.resolve() == paths[0].parent.resolve():
        return folder
    for path in paths:
        shutil.copy2(path, folder / path.name)
    if inputs.is_dir():
        shutil.copytree(inputs, folder / inputs.name, dirs_exist_ok=True)
    return folder
