"""The log of a reference run: all that it counted, one JSON file a process, written on the way and when the mode closes."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import FileError
from ..files import replace
from ..text import tr
from . import events
from .compare_logs import remark_on, seconds_of
from .counts import PARTS, Clock, ClockPlace, Tally, spent
from .encoding import finite
from .events import JsonTable
from .reader import LogError, WrittenLog, earlier_than_last, logs_in, open_log, text_of
from .writer import now, session

KIND = "reference"
_NAME = re.compile(r"reference-rank(\d+)-pid(\d+)(?:-(\d+))?\.json")
_taken: set[Path] = set()  # by runs of this process, which have not written there yet
_BY_OP = ("substituted", "integers", "backward")  # counters of calls
_LARGEST = 64 * 2**20  # bytes of a file that is read


def new_path(folder: Path, rank: int) -> Path:
    """The file of this process's next run in ``folder``: a number is added where the name is taken."""
    stem, number = f"reference-rank{rank}-pid{os.getpid()}", 1
    while (target := folder / (f"{stem}.json" if number == 1 else f"{stem}-{number}.json")) in _taken or target.exists():
        number += 1
    _taken.add(target)
    return target


def write(target: Path, counted: Mapping[str, Any], rank: int, started: str, *, ended: bool) -> None:
    """Write what a run counted, whole or not at all.

    Args:
        target: the file, see :func:`new_path`.
        counted: :meth:`Run.to_dict`.
        rank: of the process.
        started: when the mode was opened, as :func:`~padiff_shim.runlog.writer.now` says it.
        ended: the mode is closed.

    Raises:
        LogError: it cannot be written.
    """
    head = {"type": KIND, "schema": events.SCHEMA, "session": session(), "started": started, "created": now(), "rank": rank}
    text = json.dumps({**head, "ended": ended, **finite(counted)}, ensure_ascii=False)
    try:
        replace(target, text + "\n", "the log ")
    except FileError as error:
        raise LogError(*error.args) from error


def files(folder: Path) -> list[Path]:
    """The files of reference runs in a folder, by rank, then process.

    Raises:
        LogError: the folder cannot be read.
    """
    return logs_in(folder, _NAME)


def read(path: Path) -> JsonTable:
    """What one file holds, checked.

    Raises:
        LogError: it cannot be read, or is no such log.
    """
    with open_log(path) as file:
        text = file.read(_LARGEST + 1)
    if len(text) > _LARGEST:
        raise LogError("{path} is larger than any log of a reference run", path=path)
    try:
        log = json.loads(text, parse_constant=_refuse)
        if type(log) is not dict or log.get("type") != KIND:
            raise ValueError(tr("it is not a table of that type"))
        log = events.checked(log)
        if any(place.get("part") not in PARTS for place in (log.get("profile") or {}).get("places") or ()):
            raise ValueError(tr("a place is of no known part"))
    except (ValueError, RecursionError) as error:
        raise LogError("{path} is no log of a reference run: {error}", path=path, error=error) from None
    return log


def _refuse(word: str) -> Any:
    raise ValueError(tr("{word} is no number of JSON", word=word))


def unfinished(path: Path, log: Mapping[str, Any]) -> str:
    """What to say of a file that was written on the way; ``""`` of one that was written when the mode closed."""
    if log.get("ended") is not False:
        return ""
    when = log.get("created") or "an unknown time"
    return tr(
        "{name} was not closed: its process was ended in the middle, or still runs; it holds what was counted at {when}",
        name=path.name,
        when=when,
    )


def last_of(folder: Path, logs: Mapping[Path, JsonTable]) -> tuple[list[Path], str]:
    """The files of the last run among ``logs``, and a remark on earlier ones that lie there; ``""`` where there are none."""
    earlier = earlier_than_last([_written(path, log) for path, log in logs.items()])
    gone = {log.path for log in earlier}
    return [path for path in logs if path not in gone], remark_on(folder, earlier)


def _written(path: Path, log: Mapping[str, Any]) -> WrittenLog:
    created = seconds_of(text_of(log, "created"), 0.0)
    begun = seconds_of(text_of(log, "started"), created)
    rank, name = int(log.get("rank") or 0), text_of(log, "session")
    return WrittenLog(path, rank, name or path.stem, begun, created if name else math.inf, text_of(log, "command"))


def counters(log: Mapping[str, Any]) -> Tally:
    """The counters that were written."""
    tally = Tally()
    for op, counts in (log.get("ops") or {}).items():
        for name in _BY_OP:
            if counts.get(name):
                getattr(tally, name)[op] += counts[name]
        for reason, calls in (counts.get("native") or {}).items():
            tally.native[op, reason] += calls
        for dtype, calls in (counts.get("without_kernel") or {}).items():
            tally.lacking[op, dtype] += calls
    for name, definitions in (log.get("optimizers") or {}).items():
        for definition, updates in definitions.items():
            tally.definitions[name, definition] += updates
    for line in log.get("lines") or ():
        tally.lines[_texts(line, ("op", "reason", "layer", "site"))] += line.get("calls") or 0
    if log.get("profile"):
        tally.clock = clock = Clock()
        for entry in log["profile"].get("places") or ():
            place = ClockPlace(*_texts(entry, ("part", "op", "layer", "site")))
            clock.calls[place] += entry.get("calls") or 0
            clock.seconds[place] += spent(entry)  # type: ignore[assignment]
    return tally


def _texts(table: Mapping[str, Any], names: Sequence[str]) -> Any:
    return tuple(table.get(name) or "" for name in names)
