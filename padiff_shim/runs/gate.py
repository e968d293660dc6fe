"""A gate for continuous integration: whether a call got worse than in a baseline.

The baseline is a file for people and version control: JSON Lines, a call's tensor a line, sorted, with its class and its error. It
has no times, counts or paths of a machine, so that it changes only where a verdict changes.
"""

from __future__ import annotations

import json
import math
import os
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..arguments import flag, path
from ..errors import ArgumentError, FileError, unreadable
from ..files import try_file, write
from ..present.annotations import Finding, places_of
from ..present.document import MARKDOWN, PAGE, TEXT, Column, Document, Folded, Items, ListItem, Only, Table, figures
from ..present.result import Presented
from ..runlog.calls import Calls
from ..runlog.encoding import excess_of
from ..text import SENTENCE, code_line, many, shown, tr
from ..verdicts import MEANING, Verdict, apart
from .compare_run import CompareRun, loaded

KEYS = ("op", "tensor", "dtype", "layer", "site")
_QUIET = frozenset(verdict.value for verdict in Verdict if verdict.severity < Verdict.LOW_ACCURACY.severity)
SOFT = Verdict.LOW_ACCURACY  # the least serious class that fails
MARGIN = 4.0
DIGITS = 3  # significant ones of an error in the file


@dataclass(frozen=True)
class BaselineEntry:
    """The worst of all records of one place: a tensor of an op, at a line, in a layer.

    Attributes:
        op, tensor, dtype, layer, site: the place.
        verdict: the class.
        side: whose kernel the verdict speaks of, "" for none.
        name: what explains it, a known difference or a hypothesis.
        known: it is counted apart (known, negligible or muted).
        units: the largest error, in rounding units of the op's own bound; 0 where nothing differs.
    """

    op: str
    tensor: str
    dtype: str
    layer: str
    site: str
    verdict: str
    side: str = ""
    name: str = ""
    known: bool = False
    units: float = 0.0

    @property
    def key(self) -> tuple[str, ...]:
        """The place."""
        return tuple(getattr(self, name) for name in KEYS)

    @property
    def loose(self) -> tuple[str, ...]:
        """The place without the line's number: lines move."""
        file, _, rest = self.site.rpartition(":")
        return (*self.key[:-1], f"{file}:{rest.partition(' ')[2]}")

    @property
    def severity(self) -> int:
        """Of the verdict; 0 for one that does not fail: LOCAL_SUSPECT is inside its bound, and other operands may not show it."""
        verdict = Verdict(self.verdict)
        harmless = self.known or self.is_suspect or verdict.severity < SOFT.severity
        return 0 if harmless else verdict.severity

    @property
    def is_suspect(self) -> bool:
        """Single elements stand far out, inside the bound."""
        return self.verdict == Verdict.LOCAL_SUSPECT.value and not self.known

    def line(self) -> str:
        """Its line of the file, without empty fields."""
        fields = {name: getattr(self, name) for name in (*KEYS, "verdict", "side", "name", "known", "units")}
        return json.dumps({name: value for name, value in fields.items() if value not in ("", False, 0.0)}, ensure_ascii=False)

    @property
    def cells(self) -> tuple[str, ...]:
        """A row of a table: op, tensor and dtype, layer, line, verdict, error."""
        named = f" ({self.name})" if self.name else ""
        return (
            f"{self.op} {self.tensor} {self.dtype}",
            self.layer,
            code_line(self.site),
            f"{self.verdict}{named}",
            f"{self.units:g}",
        )

    def __str__(self) -> str:
        where = ", ".join(filter(None, (shown(self.layer), code_line(self.site))))
        named = f" ({shown(self.name)})" if self.name else ""
        return str(
            tr(
                "{op} {tensor} {dtype} at {where}: {verdict}{named}, {units:g} units",
                op=shown(self.op),
                tensor=shown(self.tensor),
                dtype=self.dtype,
                where=where,
                verdict=self.verdict,
                named=named,
                units=self.units,
            )
        )


@dataclass(repr=False)
class Gate(Presented):
    """The result of :func:`gate`. ``print(gate)`` shows it. True in a condition if what was asked for happened: the baseline was
    updated, or, without ``update``, the run passed.

    Attributes:
        baseline: the file.
        margin: the factor by which an error may grow.
        worse, better: (now, before) of places that changed.
        new: places that the baseline lacks; those with a verdict from LOW_ACCURACY up fail.
        gone: places of the baseline where nothing was called: the run fails, unless it was to leave calls out (:attr:`thinned`).
        suspects: places that are LOCAL_SUSPECT now and were not in the baseline; they never fail.
        places: how many places the run has.
        updated: the baseline holds this run now.
        refused: it should have been updated, but the run is not whole.
        missing: why records of the run are lost.
        thinned: the run compared some of its calls only (``every=``, ``first=``, ``budget=``); another run may choose others.
        environment: the run's versions and device.
    """

    baseline: Path
    margin: float
    worse: list[tuple[BaselineEntry, BaselineEntry]] = field(default_factory=list)
    better: list[tuple[BaselineEntry, BaselineEntry]] = field(default_factory=list)
    new: list[BaselineEntry] = field(default_factory=list)
    gone: list[BaselineEntry] = field(default_factory=list)
    suspects: list[BaselineEntry] = field(default_factory=list)
    places: int = 0
    updated: bool = False
    refused: bool = False
    missing: list[str] = field(default_factory=list)
    thinned: bool = False
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """No place got worse or is gone, no new one fails, and no record of the run is lost."""
        gone = self.gone and not self.thinned
        return not self.worse and not self.missing and not gone and not any(entry.severity for entry in self.new)

    def __bool__(self) -> bool:
        return self.updated or (self.passed and not self.refused)

    @property
    def findings(self) -> list[Finding]:
        """The places that are a complaint, each at its line; none once they are the baseline."""
        if self.updated:
            return []
        complaints = [(now, self._change(now, before)) for now, before in self.worse]
        complaints += [(now, tr("new, and not clean: {place}", place=now)) for now in self.new if now.severity]
        complaints += [] if self.thinned else [(entry, tr("gone: {place}", place=entry)) for entry in self.gone]
        return [
            Finding(f"gate: {now.verdict}", "error", text, places_of(now.site), where=now.site, numbers={"units": now.units})
            for now, text in complaints
        ]

    def content(self) -> Document:
        """Whether it passed, and each place that changed; for a pull request what got worse stands in a table."""
        heads = map(Column, (tr("op, tensor"), tr("layer"), tr("line"), tr("verdict")))
        complaints = [(now, f"{before.verdict}, {before.units:g}") for now, before in self.worse]
        complaints += [(now, tr("new")) for now in self.new if now.severity]
        table = Table([*heads, *figures(tr("error in units"), tr("before"))], [(*now.cells, before) for now, before in complaints])
        meanings = [ListItem(tr(MEANING[Verdict(name)]), name) for name in sorted({now.verdict for now, _ in complaints})]
        fields = {"places": many(self.places, "place"), "baseline": Path(self.baseline).name}
        if self.updated:
            headline = tr("UPDATED: {baseline} holds {places} of this run now", **fields)
        elif self.refused:
            headline = tr("NOT UPDATED: records of this run are lost, {baseline} is as it was", **fields)
        elif self.passed:
            headline = tr("PASSED: {places}, none worse than in {baseline}", **fields)
        else:
            lines = [finding.where.rpartition("/")[2] for finding in self.findings]
            fields["places"] = many(len(lines), "place")
            first = code_line(lines[0]) if lines else ""
            failed = tr("FAILED: {places} not as good as in {baseline}, first {first}", first=first, **fields)
            headline = failed if lines else tr("FAILED: records of this run are lost")
        return Document(
            headline,
            [
                Items([ListItem(shown(reason, SENTENCE), tr("not whole"), "bad") for reason in self.missing]),
                Only((TEXT,), [Items([*self._worse(), *self._quiet()])]),
                Only((MARKDOWN, PAGE), [table, Folded(tr("What the verdicts mean"), [Items(meanings)])]),
                Folded(tr("Everything else"), [Items(self._quiet())]),
            ],
            "good" if self else "bad",
        )

    def _worse(self) -> list[ListItem]:
        """The places that are a complaint."""
        worse = [ListItem(self._change(now, before), tr("worse"), "bad") for now, before in self.worse]
        return worse + [ListItem(str(entry), tr("new, and not clean"), "bad") for entry in self.new if entry.severity]

    def _quiet(self) -> list[ListItem]:
        """What else changed, and what can be done about it."""
        items = [ListItem(self._change(now, before), tr("better"), "good") for now, before in self.better]
        items += [ListItem(str(entry), tr("within its bound")) for entry in self.suspects[:10]]
        clean = sum(not entry.severity for entry in self.new)
        items += [ListItem(many(clean, "place"), tr("new"))] if clean else []
        items += [ListItem(str(entry), tr("gone"), "" if self.thinned else "bad") for entry in self.gone[:10]]
        items += (
            [ListItem(tr("{places} more", places=many(len(self.gone) - 10, "place")), tr("gone"))] if len(self.gone) > 10 else []
        )
        if not self.updated and not self.refused and (self.worse or self.new or self.gone or self.better):
            margin = f"{self.margin:g}"
            items.append(
                ListItem(
                    tr("--update (update=True) makes this run the baseline; the margin is a factor of {margin}", margin=margin)
                )
            )
        return items

    @staticmethod
    def _change(now: BaselineEntry, before: BaselineEntry) -> str:
        return tr("{now}; it was {verdict}, {units:g} units", now=now, verdict=before.verdict, units=before.units)


def gate(
    run: CompareRun | str | os.PathLike[str],
    baseline: str | os.PathLike[str],
    *,
    update: bool = False,
    margin: float = MARGIN,
) -> Gate:
    """Hold a comparison against a baseline.

    A place is a tensor of an op, at a line, in a layer, with a dtype; its worst record counts. It got worse if its class did, from
    LOW_ACCURACY up, or if it is in such a class and its error is more than ``margin`` times the baseline's. EQUAL and ROUNDING are
    alike: which of them it is depends on the processor. LOCAL_SUSPECT is inside its bound and depends on the operands: it is
    listed, and never fails. A place of the baseline that the run does not have fails, and so does a program that ended with an
    error. Known and negligible differences are no complaint until they are neither. Where
    lines moved, places are matched in their order within the same function.

    Args:
        run: a comparison, or the folder of its log.
        baseline: the file.
        update: write this run into the file, unless records of it are lost; ``worse`` and ``new`` then say what was accepted.
        margin: by what factor an error may grow.

    Raises:
        FileError: the file cannot be read or written, or there is none yet and ``update`` is False.
        ArgumentError: it is no baseline, or an argument is not accepted.
        LogError: the folder holds no log.

    >>> import paddle, padiff_shim, pathlib, tempfile
    >>> with padiff_shim.compare("torch") as run:
    ...     _ = paddle.exp(paddle.zeros([2]))
    >>> baseline = pathlib.Path(tempfile.mkdtemp()) / "baseline.jsonl"
    >>> padiff_shim.gate(run, baseline, update=True).updated, padiff_shim.gate(run, baseline).passed
    (True, True)
    """
    target = path("baseline", baseline)
    flag("update", update)
    if isinstance(margin, bool) or not isinstance(margin, (int, float)) or not 1 <= margin < math.inf:
        raise ArgumentError("margin= is a factor from 1 on, got {margin}", margin=repr(margin))
    if update:
        try_file(target, "the baseline ")
    if isinstance(run, CompareRun):
        compared, now = run, entries(run.calls)
    else:
        worst = WorstRecords()
        compared = loaded(run, worst.add)  # the log is read once
        now = worst.entries()
    if not now:
        raise ArgumentError("the run holds no judged call: there is nothing to hold against a baseline")
    before = _read(target) if target.exists() or not update else []
    options = compared.header.get("options") or {}
    thinned = any(options.get(name) is not None for name in ("every", "first", "budget"))
    result = Gate(target, float(margin), places=len(now), missing=compared.missing, thinned=thinned)
    result.environment = compared.environment
    _compare(now, before, result)
    result.refused = update and bool(result.missing)
    if update and not result.missing:
        write(target, "".join(f"{entry.line()}\n" for entry in now), "the baseline ")
        result.updated = True
    return result


def entries(calls: Calls) -> list[BaselineEntry]:
    """The places of a run, sorted."""
    worst = WorstRecords()
    for record in calls.records():
        worst.add(record)
    return worst.entries()


class WorstRecords:
    """The places of a run, each with its worst record."""

    def __init__(self) -> None:
        self._worst: dict[tuple[object, ...], tuple[int, float, BaselineEntry]] = {}

    def add(self, record: Mapping[str, Any]) -> None:
        """One more record of a call."""
        place = tuple([record.get(name) or "" for name in KEYS])
        known = self._worst.get(place)
        units = _units(record)
        if known is not None and record["verdict"] in _QUIET and (0, units) <= known[:2]:
            return
        verdict = str(record["verdict"])
        if verdict == Verdict.LOCAL_SUSPECT.value and excess_of(record.get("stats") or {}) > 1:  # of the side that is not accused
            verdict = SOFT.value
        entry = BaselineEntry(
            **{name: str(record.get(name) or "") for name in KEYS},
            verdict=verdict,
            side=str(record.get("side") or "").replace("none", ""),
            name=str(record.get("quirk") or record.get("hypothesis") or ""),
            known=bool(apart(record)),
            units=units,
        )
        if known is None or (entry.severity, entry.units) > known[:2]:
            self._worst[place] = entry.severity, entry.units, entry

    def entries(self) -> list[BaselineEntry]:
        """They, sorted."""
        return sorted((entry for _, _, entry in self._worst.values()), key=_order)


def _order(entry: BaselineEntry) -> tuple[Any, ...]:
    file, _, rest = entry.site.rpartition(":")
    number = rest.partition(" ")[0]
    return file, int(number) if number.isdigit() else 0, entry.layer, entry.op, entry.tensor, entry.dtype


def _units(record: Mapping[str, Any]) -> float:
    """The largest error of both sides, rounded to the digits of the file."""
    stats = record.get("stats") or {}
    if "paddle" not in stats and "torch" not in stats:
        return 0.0
    sides = [(stats.get(side) or {}).get("rho_max") for side in ("paddle", "torch")]
    units = max((float(size) for size in sides if isinstance(size, (int, float)) and size == size), default=0.0)
    return float(f"{units:.{DIGITS}g}")


def _compare(now: list[BaselineEntry], before: list[BaselineEntry], result: Gate) -> None:
    old = {entry.key: entry for entry in before}
    pairs = [(entry, old.pop(entry.key)) for entry in now if entry.key in old]
    matched = {entry.key for entry, _ in pairs}
    left: dict[tuple[str, ...], list[BaselineEntry]] = defaultdict(list)
    for entry in before:
        if entry.key in old:
            left[entry.loose].append(entry)
    for entry in now:
        if entry.key in matched:
            continue
        if left[entry.loose]:
            pairs.append((entry, left[entry.loose].pop(0)))
        else:
            result.new.append(entry)
    result.gone = [entry for rest in left.values() for entry in rest]
    result.worse = [pair for pair in pairs if _worse(*pair, result.margin)]
    earlier = dict(pairs)
    result.suspects = [entry for entry in now if entry.is_suspect and not (entry in earlier and earlier[entry].is_suspect)]
    result.better = [(entry, old_entry) for entry, old_entry in pairs if _worse(old_entry, entry, result.margin)]


def _worse(entry: BaselineEntry, reference: BaselineEntry, margin: float) -> bool:
    if entry.severity != reference.severity:
        return entry.severity > reference.severity
    return bool(entry.severity) and entry.units > margin * max(reference.units, 1.0)


def _read(target: Path) -> list[BaselineEntry]:
    try:
        lines = target.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise FileError("there is no baseline {target} yet: --update (update=True) makes one of this run", target=target) from None
    except OSError as error:
        raise unreadable(tr("the baseline"), target, error) from None
    except UnicodeDecodeError:
        raise ArgumentError("{target} is no baseline: it is no text", target=target) from None
    places = []
    for number, line in enumerate(lines, 1):
        try:
            entry = BaselineEntry(**{**dict.fromkeys(KEYS, ""), **json.loads(line)})
            Verdict(entry.verdict)
            places.append(entry)
        except (ValueError, TypeError) as error:
            raise ArgumentError(
                "{target}, line {number}, is no line of a baseline: {error}", target=target, number=number, error=shown(error)
            ) from None
    return places
