"""Logs as files: finding, reading and copying them, those of reference runs and of several ranks too."""

from __future__ import annotations

import json
import os
import re
import shutil
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..arguments import path as checked
from ..errors import FileError, MissingFileError, PadiffShimError
from ..files import replace
from ..text import shown
from . import encoding, log
from .counts import COUNTED, PARTS, Clock, ClockPlace, Counts, Coverage, Tally, spent
from .encoding import finite
from .log import LogError as LogError

# ---- Where the ranks of a distributed run part: the first step at which values that should be equal on all of them are not.

EVENT = "replicas"  # kind of the events that hold the digests
_NAMED = 3  # values that a sentence names
_MEANING = {
    ("parameters", True): "they began with other weights, or a rank changed its own",
    ("parameters", False): (
        "the gradients before were equal, so the optimizers differ: learning rate, state, or what they update; "
        "or a rank changed its own"
    ),
    ("gradients", True): "gradients are not summed over the ranks, or not at this step",
    ("gradients", False): "gradients are not summed over the ranks at this step, though they were before",
}


@dataclass(frozen=True)
class Parting:
    """Where ranks part.

    Attributes:
        step: the first step at which they do.
        kind: ``"parameters"``, as the step's update found them, or ``"gradients"``.
        names: of the parameters whose values differ there.
        groups: ranks that agree on the first of them, one tuple for each value.
    """

    step: int
    kind: str
    names: tuple[str, ...]
    groups: tuple[tuple[int, ...], ...]
    first: bool

    def __str__(self) -> str:
        more = len(self.names) - _NAMED
        named = ", ".join(map(shown, self.names[:_NAMED])) + (f" and {more:,} more" if more > 0 else "")
        held = "; ".join(f"rank{'s' if len(group) > 1 else ''} {', '.join(map(str, group))}" for group in self.groups)
        return f"the ranks part at step {self.step}: {self.kind} of {named} differ ({held}): {_MEANING[self.kind, self.first]}"


@dataclass(frozen=True)
class Replicas:
    """What the logs of several ranks say of the values that all of them should hold.

    Attributes:
        ranks: whose logs were read.
        steps: updates that all of them have logged.
        parting: where they part, or None.
    """

    ranks: tuple[int, ...]
    steps: int
    parting: Parting | None

    def __str__(self) -> str:
        if self.parting is not None:
            return str(self.parting)
        among = f"ranks {', '.join(map(str, self.ranks))}"
        if not self.steps:
            return f"{among}: no update of a parameter that all of them logged"
        return f"{among}: parameters and gradients are equal bit for bit at all {self.steps:,} steps that all of them logged"


def replicas(paths: Sequence[Path], headers: Sequence[Mapping[str, Any]], events: Sequence[array[int]]) -> Replicas | None:
    """Compare the digests in log files; None where there are not several ranks.

    ``events``: where in each file those events begin. Of a rank with several files (a restart, a forked child) the one with most is
    taken.
    """
    best: dict[int, int] = {}
    for number, header in enumerate(headers):
        rank = int(header.get("rank") or 0)
        if rank not in best or len(events[number]) > len(events[best[rank]]):
            best[rank] = number
    if len(best) < 2:
        return None
    ranks = tuple(sorted(best))
    steps = min(len(events[best[rank]]) for rank in ranks)
    parting = None
    for place in range(steps):
        held = {rank: _event(paths[best[rank]], events[best[rank]][place]) for rank in ranks}
        parting = _parting(held, first=place == 0)
        if parting is not None:
            break
    return Replicas(ranks, steps, parting)


def _event(path: Path, offset: int) -> dict[str, Any]:
    with log.open_log(path) as file:
        file.seek(offset, os.SEEK_SET)
        return log.parse(file.readline(), path, offset)


def _parting(held: Mapping[int, Mapping[str, Any]], *, first: bool) -> Parting | None:
    """The values of one step that differ: parameters before gradients, since other parameters make other gradients."""
    for kind in ("parameters", "gradients"):
        tables = {rank: event.get(kind) or {} for rank, event in held.items()}
        names = dict.fromkeys(name for table in tables.values() for name in table)
        groups = {name: _groups({rank: table[name] for rank, table in tables.items() if table.get(name)}) for name in names}
        apart = tuple(name for name, split in groups.items() if len(split) > 1)
        if apart:
            step = min(int(event.get("step") or 0) for event in held.values())
            return Parting(step, kind, apart, groups[apart[0]], first)
    return None


def _groups(values: Mapping[int, str]) -> tuple[tuple[int, ...], ...]:
    """Ranks by the value that they hold."""
    by_value: dict[str, list[int]] = {}
    for rank, value in values.items():
        by_value.setdefault(value, []).append(rank)
    return tuple(tuple(ranks) for ranks in by_value.values())


# ---- Logs as files: finding, reading and copying them.

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
    for offset, line in log.log_lines(path):
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
    reading, merged = Reading(), Coverage()
    refusals: list[log.LogError] = []
    for path in paths:
        try:
            reading.headers.append(header(path))
        except log.LogError as error:
            refusals.append(error)
            continue
        reading.paths.append(path)
        reading.counts.coverage = Coverage()
        _scan(path, reading)
        merged.merge(reading.counts.coverage.as_dict())
    reading.counts.coverage = merged
    if not reading.paths:
        raise refusals[0]
    reading.lost += [f"left out: {error}" for error in refusals]
    reading.unfinished = _unfinished(reading)
    reading.warnings += reading.unfinished
    remarks = [text for header_ in reading.headers for text in header_.get("warnings", ())]
    reading.warnings = list(dict.fromkeys([*remarks, *reading.warnings, *reading.lost]))
    return reading


def _unfinished(reading: Reading) -> list[str]:
    """A remark on each log that was not closed, and on ranks of a distributed run that left none. A fork's is never closed."""
    world = max(int(header_.get("ranks") or 1) for header_ in reading.headers)
    remarks = [
        f"{path.name} was not closed: {_whose(header, world)} was ended in the middle, its disk was full, or it still runs; "
        "what came after the last record is not known"
        for path, header, ended in zip(reading.paths, reading.headers, reading.ended)
        if not ended and "parent" not in header
    ]
    if world < 2:
        return remarks
    there = {header.get("rank", 0) for header in reading.headers}
    missing = [str(rank) for rank in range(min(world, _MOST)) if rank not in there]
    if missing:
        remarks.append(f"of the {world:,} ranks of this run, {', '.join(missing[:_SHOWN])} left no log")
    return remarks


def _whose(header: Mapping[str, Any], world: int) -> str:
    return f"rank {header.get('rank', 0)}" if world > 1 else f"process {header.get('pid', 0)}"


def _scan(path: Path, reading: Reading) -> None:
    """One file: its records into ``found``, and a remark about lines that are none."""
    places, wrong, complaint, replicas, ended = array("Q"), [], "", array("Q"), False
    for number, (offset, line) in enumerate(log.log_lines(path), 1):
        try:
            record = log.parse(line, path, offset)
        except log.LogError as error:
            wrong.append(number)
            complaint = complaint or str(error)
            continue
        if record["type"] == "call":
            places.append(offset)
            reading.counts.add(record, path.stem)
        elif record["type"] == "event" and record["kind"] == EVENT:
            replicas.append(offset)
        elif isinstance(record.get("coverage"), Mapping):
            ended = record["type"] == "end"
            reading.counts.coverage = Coverage()
            reading.counts.coverage.merge(record["coverage"])
        elif record["type"] == "event" and record["kind"] == "warning":
            reading.warnings.append(record["text"])
    reading.offsets.append(places)
    reading.replicas.append(replicas)
    reading.ended.append(ended)
    if wrong:
        numbers = ", ".join(map(str, wrong[:_SHOWN])) + (", ..." if len(wrong) > _SHOWN else "")
        lines = f"{len(wrong):,} lines of {path.name} are" if len(wrong) > 1 else f"1 line of {path.name} is"
        reading.lost.append(f"{lines} no record and left out (line {numbers}). {complaint}")


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
    saved = [path for path in inputs.glob("*.npz") if path.is_file() and not path.is_symlink()] if inputs.is_dir() else []
    for path in saved:
        (folder / inputs.name).mkdir(exist_ok=True)
        shutil.copy2(path, folder / inputs.name / path.name)
    return folder


# ---- The log of a reference run: what it counted, one file a process, written on the way and when the mode closes.
#
# A log may come from another machine and another hand: what is read is checked, and holds numbers and texts alone.

KIND = "reference"
_REFERENCE_NAME = re.compile(r"reference-rank(\d+)-pid(\d+)(?:-(\d+))?\.json")
_given: set[Path] = set()  # to runs of this process, which have not written there yet
_BY_OP = ("substituted", "integers", "backward")  # counters of calls
_LARGEST = 64 * 2**20  # bytes of a file that is read
_OPS = encoding.Field("a table of ops", frozenset(), lambda value: type(value) is dict and all(map(_op, value.values())))
_FIELDS = {
    "schema": encoding.WHOLE,
    "rank": encoding.WHOLE,
    "ended": encoding.TRUTH,
    **dict.fromkeys(("backend", "linear_layout", "command", "created"), encoding.TEXT),
    "environment": encoding.WORDS_BY_NAME,
    "layout_cost": encoding.TABLE,
    "warnings": encoding.TEXTS,
    "optimizers": encoding.COUNTS_BY_NAME,
    "ops": _OPS,
    "lines": encoding.TABLES,
    "profile": encoding.TABLE,
}
_LINE = {**dict.fromkeys(("op", "reason", "layer", "site"), encoding.TEXT), "calls": encoding.WHOLE}
_PROFILE = {"seconds": encoding.NUMBER, "threads": encoding.WHOLE, "processes": encoding.WHOLE, "places": encoding.TABLES}
_PLACE = {**dict.fromkeys(("part", "op", "layer", "site"), encoding.TEXT), "calls": encoding.WHOLE, "seconds": encoding.NUMBER}
_COST = {**dict.fromkeys(COUNTED, encoding.WHOLE), "seconds": encoding.NUMBER}


def _refused(word: str) -> Any:
    raise ValueError(f"{word} is no number of JSON")


def _op(value: Any) -> bool:
    whole = encoding.WHOLE.check
    return (
        type(value) is dict
        and all(whole(value.get(name, 0)) for name in _BY_OP)
        and all(encoding.COUNTS.check(value.get(name, {})) for name in ("native", "without_kernel"))
    )


def path(folder: Path, rank: int) -> Path:
    """The file of this process's next run in ``folder``: a number is added where the name is taken."""
    stem, number = f"reference-rank{rank}-pid{os.getpid()}", 1
    while (target := folder / (f"{stem}.json" if number == 1 else f"{stem}-{number}.json")) in _given or target.exists():
        number += 1
    _given.add(target)
    return target


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


def reference_files(folder: Path) -> list[Path]:
    """The files of reference runs in a folder, by rank, then pid.

    Raises:
        LogError: the folder cannot be read.
    """
    try:
        matches = [(_REFERENCE_NAME.fullmatch(entry.name), entry) for entry in folder.iterdir()]
    except OSError as error:
        raise LogError(f"the folder {folder} cannot be read: {error.strerror or error}") from None
    return [entry for _, entry in sorted((tuple(int(n or 0) for n in match.groups()), one) for match, one in matches if match)]


def read_reference(path: Path) -> dict[str, Any]:
    """What one file holds, checked.

    Raises:
        LogError: it cannot be read, or is no such log.
    """
    with log.open_log(path) as file:
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
    wrong = encoding.unsound(data) or encoding.wrong(data, _FIELDS) or encoding.wrong(data.get("layout_cost") or {}, _COST)
    for table in data.get("lines") or () if not wrong else ():
        wrong = wrong or encoding.wrong(table, _LINE)
    if wrong or not data.get("profile"):
        return wrong
    wrong = encoding.wrong(data["profile"], _PROFILE)
    for table in data["profile"].get("places") or () if not wrong else ():
        wrong = wrong or encoding.wrong(table, _PLACE) or ("" if table.get("part") in PARTS else "a place is of no known part")
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
        for entry in data["profile"].get("places") or ():
            place = ClockPlace(*_texts(entry, "part", "op", "layer", "site"))
            clock.calls[place] += entry.get("calls") or 0
            clock.seconds[place] += spent(entry)  # type: ignore[assignment]
    return tally


def _texts(table: Mapping[str, Any], *names: str) -> Any:
    return tuple(table.get(name) or "" for name in names)
