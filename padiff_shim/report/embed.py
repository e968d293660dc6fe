"""Records packed for the HTML page: which of very many are kept, and how they are written small.

One pass over the records, bounded memory. Counts (per verdict, op, layer, and the findings) are over all records, kept or not.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from ..records.counts import NAMES, OTHER_NAMES, excess
from ..text import SENTENCE, shown
from ..verdicts import Verdict, apart

# Everything else in a record describes the call and is the same at each step: it is written once and referred to.
_MEASURED = ("type", "index", "call", "step", "reason", "stats")
_OUTCOME = ("verdict", "side", "hypothesis", "alternatives", "modifiers", "quirk", "muted")
_NOT_KIND = frozenset(_MEASURED + _OUTCOME)
_USUAL = (Verdict.EQUAL, Verdict.ROUNDING)
_USUAL_SHARE = 10  # the picture keeps at least 1 in so many for the usual records, however many others there are
_GROUPS = 2000  # findings beyond so many are counted as one
_SEED = 20240229  # the same records give the same page


def plain(value: Any) -> Any:
    """``value`` as strict JSON can hold it: six significant digits, non-finite floats as ``"nan"``, ``"inf"``, ``"-inf"``."""
    if isinstance(value, float):
        if math.isfinite(value):
            return int(value) if value.is_integer() and abs(value) < 1e15 else float(f"{value:.6g}")
        return str(float(value))
    if isinstance(value, str):
        return _text(value)
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, (dict, Mapping)):
        return {_text(str(key)): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple, set, frozenset)) else _text(str(value))


def _text(text: str) -> str:
    """A text that the page shows as it stands, printable and of a length that it can lay out; short ones are mostly so."""
    return text if len(text) <= SENTENCE and text.isprintable() else shown(text, SENTENCE)


def flat(stats: Mapping[str, Any]) -> dict[str, Any]:
    """``{"paddle": {"rho_max": 1.0}}`` as ``{"paddle.rho_max": 1.0}``."""
    found: dict[str, Any] = {}
    for name, value in stats.items():
        if isinstance(value, dict):
            for inner, item in value.items():
                found[_text(f"{name}.{inner}")] = plain(item)
        else:
            found[_text(name)] = plain(value)
    return found


_key = json.JSONEncoder(default=str).encode


class Interned:
    """Values written once; :meth:`add` gives the place of one."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._places: dict[str, int] = {}

    def add(self, value: Any) -> int:
        """The place of ``value`` in :attr:`values`, where it stands as :func:`plain` makes it."""
        key = value if isinstance(value, str) else _key(value)
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = len(self.values)
            self.values.append(plain(value))
        return place


def used(interned: Interned, places: Iterable[int]) -> tuple[list[Any], list[int]]:
    """The values that ``places`` use, once each, and the places among them."""
    order: dict[int, int] = {}
    renumbered = [order.setdefault(place, len(order)) for place in places]
    return [interned.values[place] for place in order], renumbered


class Row(NamedTuple):
    """One kept record; ``kind``, ``outcome`` and ``names`` (of the statistics) are places in the packer's tables."""

    position: int
    index: Any
    call: Any
    step: Any
    kind: int
    outcome: int
    names: int
    reason: str
    values: tuple[Any, ...]


class Reservoir:
    """A uniform sample of at most ``size`` of the items offered (Vitter 1985, algorithm R, doi 10.1145/3147.3165)."""

    def __init__(self, size: int, rng: random.Random) -> None:
        self.size, self.rng = size, rng
        self.seen = 0
        self.items: list[Row] = []

    def offer(self, make: Callable[[], Row]) -> None:
        """Keep what ``make`` gives, perhaps in place of another; it is called for what is kept alone."""
        self.seen += 1
        if len(self.items) < self.size:
            self.items.append(make())
        elif (place := self.rng.randrange(self.seen)) < self.size:
            self.items[place] = make()

    def draw(self, count: int) -> list[Row]:
        """At most ``count`` of what is kept, again a uniform sample."""
        return self.items if len(self.items) <= count else self.rng.sample(self.items, count)


class Survey:
    """Counts over all records: per verdict, per op and layer, and what there is to look at."""

    def __init__(self) -> None:
        self.total = self.muted = 0
        self.verdicts: dict[str, int] = {}
        self.apart: dict[str, int] = {}
        self.ops: dict[str, dict[str, int]] = {}
        self.layers: dict[str, dict[str, int]] = {}
        self.findings: dict[tuple[Any, ...], dict[str, Any]] = {}
        self.further = 0

    def add(self, position: int, record: Mapping[str, Any], verdict: Verdict) -> None:
        """Count one record. In ops and layers what is set apart counts as such, so that it never is the worst."""
        self.total += 1
        self.verdicts[verdict.value] = self.verdicts.get(verdict.value, 0) + 1
        why = apart(record)
        self.muted += why == "muted"
        if why:
            self.apart[why] = self.apart.get(why, 0) + 1
        counted = why or verdict.value
        for table, name in ((self.ops, record.get("op")), (self.layers, record.get("layer"))):
            text = _text(str(name or ""))
            counts = table.setdefault(text if text in table or len(table) < NAMES else OTHER_NAMES, {})
            counts[counted] = counts.get(counted, 0) + 1
        if verdict not in (*_USUAL, Verdict.UNVERIFIED) and why != "muted":
            self._find(position, record, verdict, why)

    def _find(self, position: int, record: Mapping[str, Any], verdict: Verdict, why: str) -> None:
        names = ("side", "hypothesis", "op", "tensor", "site")
        key = (verdict.value, *(record.get(name) for name in names), why)
        found = self.findings.get(key)
        if found is None:
            if len(self.findings) >= _GROUPS:
                self.further += 1
                return
            found = self.findings[key] = {
                **dict(zip(("verdict", *names, "apart"), key)),
                "records": 0,
                "first": position,
                "worst": position,
            }
            found.update(severity=verdict.severity, layers=set(), excess=-1.0)
        found["records"] += 1
        if len(found["layers"]) < 100:
            found["layers"].add(_text(record.get("layer") or ""))
        now = math.inf if verdict is Verdict.NONFINITE else excess(record)
        if now > found["excess"]:
            found["excess"], found["worst"] = now, position

    def as_dict(self) -> dict[str, Any]:
        """All counts, and the findings, the most serious first."""
        found = sorted(
            self.findings.values(), key=lambda item: (bool(item["apart"]), -item["severity"], -item["excess"], item["first"])
        )
        return {
            "total": self.total,
            "muted": self.muted,
            "apart": self.apart,
            "verdicts": self.verdicts,
            "ops": self.ops,
            "layers": self.layers,
            "findings": [plain({**item, "layers": sorted(item["layers"])}) for item in found],
            "further": self.further,
        }


def chosen(reservoirs: Mapping[Verdict, Reservoir], usual: Reservoir, limit: int) -> list[Row]:
    """At most ``limit`` rows in order: those of the most serious classes first, then of the usual ones what has room."""
    room = limit - min(usual.seen, limit // _USUAL_SHARE)
    kept: list[Row] = []
    for verdict in sorted(reservoirs, key=lambda verdict: -verdict.severity):
        kept += reservoirs[verdict].draw(room - len(kept))
    kept += usual.draw(limit - len(kept))
    return sorted(kept, key=lambda row: row.position)


class Packer:
    """Records as small rows, and rows as columns."""

    def __init__(self) -> None:
        self.kinds, self.outcomes, self.names = Interned(), Interned(), Interned()

    def row(self, position: int, record: Mapping[str, Any]) -> Row:
        """One record, with what repeats put into the tables."""
        kind = {name: value for name, value in record.items() if name not in _NOT_KIND}
        outcome = {name: record.get(name) for name in _OUTCOME}
        outcome["verdict"], outcome["side"] = str(Verdict(record["verdict"])), str(record.get("side") or "none")
        figures = flat(record.get("stats") or {})
        return Row(
            position,
            plain(record.get("index")),
            plain(record.get("call")),
            plain(record.get("step")),
            self.kinds.add(kind),
            self.outcomes.add(outcome),
            self.names.add(list(figures)),
            _text(record.get("reason") or ""),
            tuple(figures.values()),
        )

    def columns(self, rows: Sequence[Row]) -> dict[str, Any]:
        """``kinds``, ``outcomes`` and ``reasons`` that the rows use, once each, and everything else by column."""
        reasons = Interned()
        table: dict[str, list[Any]] = {name: [getattr(row, name) for row in rows] for name in ("position", "index", "call", "step")}
        kinds, table["kind"] = used(self.kinds, (row.kind for row in rows))
        outcomes, table["outcome"] = used(self.outcomes, (row.outcome for row in rows))
        table["reason"] = [reasons.add(row.reason) for row in rows]
        found = sorted({name for names in self.names.values for name in names})
        figures: dict[str, list[Any]] = {name: [None] * len(rows) for name in found}
        for place, row in enumerate(rows):
            for name, value in zip(self.names.values[row.names], row.values):
                figures[name][place] = value
        return {
            "rows": len(rows),
            "kinds": kinds,
            "outcomes": outcomes,
            "reasons": reasons.values,
            "table": {name: column(values) for name, values in table.items()},
            "figures": {name: column(values) for name, values in figures.items()},
        }


def column(values: Sequence[Any]) -> Any:
    """A column as a list, or ``{"all": value}`` if it has one value only."""
    first = values[0] if values else None
    return {"all": first} if all(type(value) is type(first) and value == first for value in values) else list(values)


def pack(records: Iterable[Mapping[str, Any]], limit: int) -> dict[str, Any]:
    """Everything that the page shows of the records; at most ``limit`` of them one by one.

    Up to ``limit`` all records are kept. Beyond it every record with a verdict other than EQUAL and ROUNDING is kept, and a
    uniform sample of the others. Should those alone exceed nine tenths of the limit, the less serious classes are sampled too.
    """
    rng = random.Random(_SEED)
    survey, packer, usual = Survey(), Packer(), Reservoir(limit, rng)
    reservoirs = {verdict: Reservoir(limit, rng) for verdict in Verdict if verdict not in _USUAL}
    for position, record in enumerate(records):
        verdict = Verdict(record["verdict"])
        survey.add(position, record, verdict)
        reservoirs.get(verdict, usual).offer(partial(packer.row, position, record))
    return {
        **survey.as_dict(),
        "severity": {verdict.value: verdict.severity for verdict in Verdict},
        "limit": limit,
        **packer.columns(chosen(reservoirs, usual, limit)),
    }
