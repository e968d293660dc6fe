"""The log of a reference run: what it counted, one file a process, written on the way and when the mode closes.

A log may come from another machine and another hand: what is read is checked, and holds numbers and texts alone.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import FileError
from ..writing import replace
from . import log, schema
from .clock import PARTS, Clock, Place
from .encoding import finite
from .log import LogError as LogError
from .tally import COUNTED, Tally, spent

KIND = "reference"
_NAME = re.compile(r"reference-rank(\d+)-pid(\d+)(?:-(\d+))?\.json")
_given: set[Path] = set()  # to runs of this process, which have not written there yet
_BY_OP = ("substituted", "integers", "backward")  # counters of calls
_LARGEST = 64 * 2**20  # bytes of a file that is read
_OPS = schema.Field("a table of ops", frozenset(), lambda value: type(value) is dict and all(map(_op, value.values())))
_FIELDS = {
    "schema": schema.WHOLE,
    "rank": schema.WHOLE,
    "ended": schema.TRUTH,
    **dict.fromkeys(("backend", "linear_layout", "command", "created"), schema.TEXT),
    "environment": schema.WORDS_BY_NAME,
    "layout_cost": schema.TABLE,
    "warnings": schema.TEXTS,
    "optimizers": schema.COUNTS_BY_NAME,
    "ops": _OPS,
    "lines": schema.TABLES,
    "profile": schema.TABLE,
}
_LINE = {**dict.fromkeys(("op", "reason", "layer", "site"), schema.TEXT), "calls": schema.WHOLE}
_PROFILE = {"seconds": schema.NUMBER, "threads": schema.WHOLE, "processes": schema.WHOLE, "places": schema.TABLES}
_PLACE = {**dict.fromkeys(("part", "op", "layer", "site"), schema.TEXT), "calls": schema.WHOLE, "seconds": schema.NUMBER}
_COST = {**dict.fromkeys(COUNTED, schema.WHOLE), "seconds": schema.NUMBER}


def _refused(word: str) -> Any:
    raise ValueError(f"{word} is no number of JSON")


def _op(value: Any) -> bool:
    whole = schema.WHOLE.check
    return (
        type(value) is dict
        and all(whole(value.get(name, 0)) for name in _BY_OP)
        and all(schema.COUNTS.check(value.get(name, {})) for name in ("native", "without_kernel"))
    )


def path(folder: Path, rank: int) -> Path:
    """The file of this process's next run in ``folder``: a number is added where the name is taken."""
    stem, number = f"reference-rank{rank}-pid{os.getpid()}", 1
    while (found := folder / (f"{stem}.json" if number == 1 else f"{stem}-{number}.json")) in _given or found.exists():
        number += 1
    _given.add(found)
    return found


def write(target: Path, data: Mapping[str, Any], rank: int, *, ended: bool) -> None:
    """Write what a run counted, whole or not at all; ``ended``: the mode is closed.

    Raises:
        LogError: it cannot be written.
    """
    head = {"type": KIND, "schema": log.SCHEMA, "created": log.now(), "rank": rank, "ended": ended}
    text = json.dumps({**head, **finite(data)}, ensure_ascii=False)
    try:
        replace(target, text + "\n", "the log ")
    except FileError as error:
        raise LogError(str(error)) from error


def files(folder: Path) -> list[Path]:
    """The files of reference runs in a folder, by rank, then pid.

    Raises:
        LogError: the folder cannot be read.
    """
    try:
        matches = [(_NAME.fullmatch(one.name), one) for one in folder.iterdir()]
    except OSError as error:
        raise LogError(f"the folder {folder} cannot be read: {error.strerror or error}") from None
    return [one for _, one in sorted((tuple(int(n or 0) for n in match.groups()), one) for match, one in matches if match)]


def read(path: Path) -> dict[str, Any]:
    """What one file holds, checked.

    Raises:
        LogError: it cannot be read, or is no such log.
    """
    with log.opened(path) as file:
        text = file.read(_LARGEST + 1)
    if len(text) > _LARGEST:
        raise LogError(f"{path} is larger than any log of a reference run")
    try:
        data = json.loads(text, parse_constant=_refused)
    except (ValueError, RecursionError) as error:
        raise LogError(f"{path} is no log of a reference run: {error}") from None
    complaint = _complaint(data)
    if complaint:
        raise LogError(f"{path} is no log of a reference run: {complaint}")
    return dict(data)


def unfinished(path: Path, data: Mapping[str, Any]) -> str:
    """What is to be said of a file that was written on the way; ``""`` of one that was written when the mode closed."""
    if data.get("ended") is not False:
        return ""
    when = data.get("created") or "an unknown time"
    return f"{path.name} was not closed: its process was ended in the middle, or still runs; it holds what was counted at {when}"


def _complaint(data: Any) -> str:
    """What is wrong with it; ``""`` if nothing is."""
    if type(data) is not dict or data.get("type") != KIND:
        return "it is not a table of that type"
    wrong = schema.unsound(data) or schema.wrong(data, _FIELDS) or schema.wrong(data.get("layout_cost") or {}, _COST)
    for table in data.get("lines") or () if not wrong else ():
        wrong = wrong or schema.wrong(table, _LINE)
    if wrong or not data.get("profile"):
        return wrong
    wrong = schema.wrong(data["profile"], _PROFILE)
    for table in data["profile"].get("places") or () if not wrong else ():
        wrong = wrong or schema.wrong(table, _PLACE) or ("" if table.get("part") in PARTS else "a place is of no known part")
    return wrong


def counters(data: Mapping[str, Any]) -> Tally:
    """The counters that were written."""
    tally = Tally()
    for op, counts in (data.get("ops") or {}).items():
        for name in _BY_OP:
            if counts.get(name):
                getattr(tally, name)[op] += counts[name]
        for reason, calls in (counts.get("native") or {}).items():
            tally.native[op, reason] += calls
        for dtype, calls in (counts.get("without_kernel") or {}).items():
            tally.lacking[op, dtype] += calls
    for name, definitions in (data.get("optimizers") or {}).items():
        for definition, updates in definitions.items():
            tally.definitions[name, definition] += updates
    for line in data.get("lines") or ():
        tally.lines[_texts(line, "op", "reason", "layer", "site")] += line.get("calls") or 0
    if data.get("profile"):
        tally.clock = clock = Clock()
        for one in data["profile"].get("places") or ():
            place = Place(*_texts(one, "part", "op", "layer", "site"))
            clock.calls[place] += one.get("calls") or 0
            clock.seconds[place] += spent(one)  # type: ignore[assignment]
    return tally


def _texts(table: Mapping[str, Any], *names: str) -> Any:
    return tuple(table.get(name) or "" for name in names)
