"""Reading recordings: step by step, so that a long run needs no more memory than its longest step."""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..errors import FileError, MissingFileError
from ..runlog.events import IN_STEP, RECORDING_SCHEMA, JsonTable
from ..runlog.reader import EventFile, LogError, open_log, size, text_of
from ..text import joined, many, tr
from .files import RECORDS, present
from .fingerprints import FIGURES
from .fusions import Fusion, gathered, renamed, shapes_of_weights, taken_apart
from .names import layers_of_values, rooted, roots
from .settings import ByName, ReadSettings
from .tensors import INPUT, WEIGHT, Tensor, is_weight, parameter_name, tensor_of

_KIND = re.compile(rb'"kind":"([^"]*)"')
_HEAD = 200  # bytes of a record's line in which its kind stands
Key = TypeVar("Key")
Entry = TypeVar("Entry")
_SMALL = 4_000_000  # bytes of a file whose events are parsed once: a comparison reads the steps of a run many times


@dataclass
class RecordedStep:
    """One step of a recording.

    Attributes:
        step: its number.
        tensors: what it computed.
        inputs: what the run was given, weights and data.
        numbers: of fingerprints, those of the step's tensors: steps with the same ones have the same tensors in one order.
        bits: of fingerprints, all hashes and largest magnitudes.
        settings: rank -> those of its optimizers, as pairs.
    """

    step: int
    tensors: list[Tensor] = field(default_factory=list)
    inputs: list[Tensor] = field(default_factory=list)
    numbers: tuple[int, ...] = ()
    bits: bytes = b""
    settings: list[tuple[int, ByName]] = field(default_factory=list)


class _WeightsRead:
    """Of which parameter a result outside of layers is computed, as those of a moving average are; by digests, along the steps."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}  # digest -> name of a parameter; "" where several begin with the same bits
        self._before: dict[str, str] = {}  # those of the step before, which an average reads
        self._step = 0

    def note(self, tensor: Tensor) -> None:
        """The next tensor of the run."""
        if tensor.step != self._step:
            self._step, self._before, self._known = tensor.step, self._known, {}
        if is_weight(tensor) and tensor.kind in (INPUT, "parameter"):
            self._add(tensor.digest, parameter_name(tensor.name))
        elif tensor.kind == "op" and not tensor.layer and tensor.reads is not None:
            read = [self._known.get(entry.digest, self._before.get(entry.digest)) for entry in tensor.reads.operands if entry.shape]
            names = {name for name in read if name}
            if len(names) == 1 and None not in read:
                tensor.weight = names.pop()
                self._add(tensor.digest, tensor.weight)

    def _add(self, digest: str, name: str) -> None:
        self._known[digest] = name if self._known.get(digest, name) == name else ""


class Recorded:
    """What one process wrote down.

    Attributes:
        path: the file.
        header: its first event.
        rank, framework: of the process.
        beside: remarks on files of other processes of this rank.
        described: of a recording of fingerprints, the tensors by their numbers, as far as it was read.
        fusions: fused layers that are read as separate ones.
        gathers: fused layers of the other run, as which separate ones are read.
        roots: names of its outermost layers -> those in the other run.
        offset: what is added to the numbers of steps.

    Once :meth:`steps` has been read to its end:

    Attributes:
        ended: how the run ended; "" if the process was killed.
        broken: it ended before the program's end, or no more could be written.
        remarks: what a reader should know.
        holes: what should be in the recording and is not.

    Raises:
        FileError: it is no recording.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.ended, self.broken, self.described = path, "", False, list[Tensor]()
        self.remarks: list[str] = []
        self.holes: list[str] = []
        self.beside: list[str] = []
        self.fusions: list[Fusion] = []
        self.gathers: list[Fusion] = []
        self.roots: dict[str, str] = {}
        self.offset = 0
        self._read = 0
        self._parsed: list[Mapping[str, Any]] = []
        try:
            self._file = EventFile(path, "recording", RECORDING_SCHEMA)
        except LogError as error:
            raise FileError("{path} is no recording: {error}", path=path, error=error) from None
        self._parsing = (event for _, event in self._file)
        self.header = self._file.header
        self.rank, self.framework = int(self.header["rank"]), str(self.header["framework"])

    @property
    def options(self) -> JsonTable:
        """Those of :func:`padiff_shim.record`."""
        return dict(self.header.get("options") or {})

    @property
    def has_fingerprints(self) -> bool:
        """Whether its steps are fingerprints."""
        return self.options.get("values") == "fingerprint"

    @property
    def has_values(self) -> bool:
        """Whether it was to hold values."""
        return self.options.get("values") not in ("fingerprint", "digest")

    def _all_events(self) -> Iterator[Mapping[str, Any]]:
        for place in itertools.count():
            if place == len(self._parsed):
                self._parsed += itertools.islice(self._parsing, 1)
            if place == len(self._parsed):
                return
            yield self._parsed[place]

    def _events(self) -> Iterator[Mapping[str, Any]]:
        self.remarks, self.holes, self.ended, self.described, self._settings = [], [], "", [], ReadSettings()
        self.broken = False
        end: Mapping[str, Any] = {}
        try:
            small = size(self.path) < _SMALL
            for event in self._all_events() if small else (event for _, event in self._file):
                if event["type"] == "end":
                    self.ended, end = str(event.get("how", "")), event
                elif event["type"] == "event":
                    self.remarks.append(str(event["text"])[:2000])
                elif event["type"] == "optimizer":
                    self._settings.add({**event, "step": event["step"] + self.offset})
                else:
                    yield event
        except LogError as error:
            raise FileError(*error.args) from None
        self._conclude(end)

    def _conclude(self, end: Mapping[str, Any]) -> None:
        """Remarks on how the file ends."""
        name = self.path.name
        stopped = text_of(self.header, "stopped")
        self.broken = bool(stopped or self.ended != "closed")
        if self._file.damage:
            self.holes.append(str(self._file.damage))
        if stopped:
            self.holes.append(tr("{name} is not complete, {stopped}", name=name, stopped=stopped))
        elif not self.ended:
            text = tr("{name} has no last line: its process runs still, or was killed", name=name)
            whole = (
                tr("the steps of its last moment may lack") if self.has_fingerprints else tr("it is complete up to its last call")
            )
            self.holes.append(joined("; ", (text, whole)))
        elif self.ended != "closed":
            self.holes.append(tr("{name} ended with {ended}", name=name, ended=self.ended))
        records = end.get("records")
        if isinstance(records, int) and records != self._read:
            self.holes.append(
                tr(
                    "{name} says that it has {records}, and {read:,} can be read",
                    name=name,
                    records=many(records, "record"),
                    read=self._read,
                )
            )

    def steps(self) -> Iterator[RecordedStep]:
        """The steps in their order; of fingerprints, gradients are those that a step uses.

        Raises:
            FileError: the file cannot be read.
        """
        for step in self._steps_of_fingerprints() if self.has_fingerprints else self._steps_of_values():
            settings = self._settings.at(step.step)
            if self.roots:
                settings = {self.rooted(name): known for name, known in settings.items()}
            step.settings = [
                (self.rank, renamed(settings, self.fusions, self.gathers) if self.fusions or self.gathers else settings)
            ]
            if self.gathers:
                step.tensors = gathered(step.tensors, self.gathers, self.framework)
                step.inputs = gathered(step.inputs, self.gathers, self.framework)
            yield step

    def rooted(self, path: str) -> str:
        """A layer's path, or a weight's name, as the other run has it."""
        return rooted(path, self.roots)

    def _rooted(self, tensor: Tensor) -> Tensor:
        if self.roots:
            tensor.layer = self.rooted(tensor.layer)
            tensor.names = (self.rooted(tensor.name),) if is_weight(tensor) else tensor.names
        return tensor

    def _steps_of_values(self) -> Iterator[RecordedStep]:
        self._read, current, kinds, folder, index, made_of = 0, None, set[str](), self.path.parent, 0, _WeightsRead()
        fused: dict[str, str] = {}  # digest of a fused weight -> the layer that holds it, and may itself never be called
        for event in self._events():
            if event["type"] != "tensor":
                continue
            self._read += 1
            recorded = self._rooted(tensor_of(event, folder))
            recorded.step += self.offset
            if current is None or recorded.step != current.step:
                if current is not None:
                    yield current
                current = RecordedStep(recorded.step)
            kinds.add(recorded.kind)
            if self.options.get("parameters"):  # without those of each step it is seen of some results alone
                made_of.note(recorded)
            if is_weight(recorded) and any(fusion.names(recorded.name) for fusion in self.fusions):
                fused[recorded.digest] = recorded.name.rpartition(".")[0]
            for operand in recorded.reads.operands if fused and recorded.kind == "op" and recorded.reads is not None else ():
                recorded.layer = fused.get(operand.digest, recorded.layer)
            for tensor in taken_apart(recorded, self.fusions, self.framework):
                if self.fusions:  # of which each record may become several
                    tensor.index, index = index, index + 1
                (current.inputs if tensor.kind == INPUT else current.tensors).append(tensor)
        if current is not None:
            yield current
        self.holes += self._missing(kinds)

    def _missing(self, kinds: set[str]) -> list[str]:
        """What was asked of :func:`padiff_shim.record` and is not in the file."""
        name, options = self.path.name, self.options
        return [
            f"{name} has no {kind}s, which record({kind}s=True) should have written"
            for kind in ("gradient", "parameter")
            if options.get(f"{kind}s") is True and kind not in kinds
        ]

    def kinds(self) -> set[str]:
        """The kinds of tensors in the file, by a quick look at its lines."""
        kinds = set[bytes]()
        with open_log(self.path) as file:
            for line in file:
                kinds.update(_KIND.findall(line) if self.has_fingerprints else _KIND.findall(line, 0, _HEAD))
        if self.has_fingerprints:
            kinds = {IN_STEP.encode() if kind == b"gradient" else kind for kind in kinds}
        return {kind.decode("ascii", "replace") for kind in kinds}

    def _steps_of_fingerprints(self) -> Iterator[RecordedStep]:
        self._read, known = 0, dict[tuple[int, ...], tuple[int, ...]]()
        damaged = 0
        for event in self._events():
            if event["type"] == "tensors":
                if event["first"] != len(self.described):
                    damaged += 1
                    continue
                tables = enumerate(event["tensors"], len(self.described))
                self.described += [self._rooted(tensor_of({**table, "index": index}, self.path.parent)) for index, table in tables]
                for tensor in self.described[event["first"] :]:  # the outermost layer may be of another class in the other run
                    tensor.names += (tensor.layer,) if tensor.kind == INPUT and tensor.tensor != WEIGHT else ()
            elif event["type"] == "step":
                step = self._fingerprints(event, known)
                if step is None:
                    damaged += 1
                    continue
                self._read += len(step.numbers)
                yield step
        if damaged:
            self.holes.append(
                tr("{name}: {steps} and left out", name=self.path.name, steps=many(damaged, "step is damaged", "steps are damaged"))
            )

    def _fingerprints(self, event: Mapping[str, Any], known: dict[tuple[int, ...], tuple[int, ...]]) -> RecordedStep | None:
        """A step as one of single tensors; None where it is damaged."""
        spans = tuple(event["of"])
        numbers = known.get(spans)
        if numbers is None:
            if len(spans) % 2 or any(end < begin or end > len(self.described) for begin, end in zip(spans[::2], spans[1::2])):
                return None
            numbers = known[spans] = tuple(number for begin, end in zip(spans[::2], spans[1::2]) for number in range(begin, end))
        count = len(numbers)
        try:
            bits = np.frombuffer(bytes.fromhex(event["bits"]), ">u8")
            figures = np.frombuffer(bytes.fromhex(event["figures"]), ">f4").astype(np.float64)
        except ValueError:
            return None
        if len(bits) != count or len(figures) != count * len(FIGURES):
            return None
        largest = figures[FIGURES.index("max_abs") :: len(FIGURES)]
        step = RecordedStep(event["step"] + self.offset, numbers=numbers, bits=bits.tobytes() + largest.tobytes())
        for place, (number, word, values) in enumerate(zip(numbers, bits.tolist(), figures.reshape(count, -1).tolist())):
            tensor = copy.copy(self.described[number])
            tensor.step, tensor.index, tensor.digest = step.step, step.step * 10**6 + place, f"{word:016x}"
            tensor.figures = dict(zip(FIGURES, values))
            tensor.kind = IN_STEP if tensor.kind == "gradient" else tensor.kind
            (step.inputs if tensor.kind == INPUT else step.tensors).append(tensor)
        return step


def merged(steps: Iterable[RecordedStep]) -> RecordedStep:
    """Several steps as one."""
    whole = RecordedStep(0)
    for step in steps:
        whole.tensors += step.tensors
        whole.inputs += step.inputs
        whole.settings = step.settings or whole.settings
    return whole


def by_number(runs: Mapping[Key, Iterator[Entry]], number: Callable[[Entry], int]) -> Iterator[dict[Key, Entry]]:
    """What each of several runs has of a step, step by step; a run that lacks one is not in it.

    Args:
        number: that of an entry's step.
    """
    waiting = {key: entry for key, entries in runs.items() if (entry := next(entries, None)) is not None}
    while waiting:
        step = min(map(number, waiting.values()))
        here = {key: entry for key, entry in waiting.items() if number(entry) == step}
        yield here
        for key in here:
            following = next(runs[key], None)
            if following is None:
                del waiting[key]
            else:
                waiting[key] = following


StepPairs = Iterator[tuple[RecordedStep | None, RecordedStep | None]]


def side_by_side(a: Iterator[RecordedStep], b: Iterator[RecordedStep], begin: int = 0) -> StepPairs:
    """The steps of two runs by their numbers, from ``begin`` on; None for a run that lacks a step."""
    runs = {name: itertools.dropwhile(lambda step: step.step < begin, steps) for name, steps in (("a", a), ("b", b))}
    for steps in by_number(runs, lambda step: step.step):
        yield steps.get("a"), steps.get("b")


def read(folder: Path) -> dict[int, Recorded]:
    """Rank -> what its process wrote. Of forked children there is a remark.

    Raises:
        MissingFileError: there is no such folder.
        FileError: it holds no recording, or one that cannot be read.
    """
    if not folder.exists():
        raise MissingFileError("the folder {folder} does not exist", folder=folder)
    if not folder.is_dir():
        raise FileError("{folder} is a file: a recording is a folder", folder=folder)
    paths = [path for path in present(folder) if RECORDS.fullmatch(path.name)]
    if not paths:
        other = tr(": it holds the log of a compare run, which padiff_shim.load reads") if any(folder.glob("calls-*.jsonl")) else ""
        raise FileError("{folder} holds no recording (records-rank*-pid*.jsonl){other}", folder=folder, other=other)
    by_rank: dict[int, Recorded] = {}
    beside: dict[int, list[str]] = {}
    for recorded in sorted(map(Recorded, paths), key=lambda recorded: ("parent" in recorded.header, recorded.path.name)):
        first = by_rank.setdefault(recorded.rank, recorded)
        if first is not recorded:
            with open_log(recorded.path) as file:
                records = sum(line.startswith(b'{"type":"tensor"') for line in file)
            whose = tr("a forked child") if "parent" in recorded.header else tr("another process of the same rank")
            beside.setdefault(recorded.rank, []).append(
                tr(
                    "{name}, of {whose}, was not compared ({records})",
                    name=recorded.path.name,
                    whose=whose,
                    records=many(records, "record"),
                )
            )
    for rank, remarks in beside.items():
        by_rank[rank].beside = remarks
    return dict(sorted(by_rank.items()))


def read_both(a: Path, b: Path, *, renaming: bool = True) -> tuple[dict[int, Recorded], dict[int, Recorded]]:
    """Both recordings; the outermost layers of b, or of the one that is Torch's, bear the other's names, if ``renaming``."""
    both = read(a), read(b)
    frameworks = [next(iter(run.values())).framework for run in both]
    own, other = both if frameworks == ["torch", "paddle"] else both[::-1]
    if renaming:
        begun = [[next(recorded.steps(), RecordedStep(0)) for recorded in run.values()] for run in (own, other)]
        known = roots(*map(shapes_of_weights, begun))
        if not all(known.values()) or not known:  # numbers of layers may stand for other layers' numbers
            inputs = ([weight for step in steps for weight in step.inputs if weight.tensor == WEIGHT] for steps in begun)
            weights = [{weight.name: weight for weight in run} for run in inputs]
            known = layers_of_values(*weights) or known
        for recorded in own.values():
            recorded.roots = known
    return both
