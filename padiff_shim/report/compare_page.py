"""A compare run as one self-contained page with a chart, filters and a table of its records; no network, no other files.

The records are packed in one pass, in bounded memory: which of very many are kept, and how they are written small. Counts (per
verdict, op, layer, and the findings) are over all records, kept or not. The page's data is one block of JSON; its scripts set what
they show as text, never as markup.
"""

from __future__ import annotations

import heapq
import json
import marshal
import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ..arguments import whole
from ..present.document import untested_words
from ..present.html import application, translations
from ..present.result import fitting
from ..runlog.counts import ALIKE, Counts, LineFinding
from ..runlog.words import born
from ..text import SENTENCE, code_line, from_log, reader, shown, tr
from ..verdicts import MEANING, Verdict
from .compare import advice, brief, headline, status, ties

if TYPE_CHECKING:
    from ..runs.compare_run import CompareRun

# Everything else in a record describes the call and is the same at each step: it is written once and referred to.
_COUNTED = ("index", "call", "step")
_MEASURED = ("type", *_COUNTED, "reason", "stats", "born")
_OUTCOME = ("verdict", "side", "hypothesis", "alternatives", "modifiers", "quirk", "muted")
_NOT_KIND = frozenset(_MEASURED + _OUTCOME)
_USUAL = (Verdict.EQUAL, Verdict.ROUNDING)
_USUAL_SHARE = 10  # the picture keeps at least 1 in so many for the usual records, however many others there are
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


_key = json.JSONEncoder(default=str).encode


def key_of(value: Any) -> Any:
    """Something that is equal for equal values, of any depth, and quickly made."""
    if isinstance(value, (str, tuple)):
        return value
    try:
        return marshal.dumps(value, 2)  # version 2: the same bytes whoever else refers to the parts
    except ValueError:
        return _key(value)


class Interned:
    """Values written once; :meth:`add` gives the place of one."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._places: dict[Any, int] = {}

    def add(self, value: Any) -> int:
        """The place of ``value`` in :attr:`values`, where it stands as :func:`plain` makes it."""
        key = key_of(value)
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = len(self.values)
            self.values.append(plain(value))
        return place


class Kept:
    """At most ``size`` of the records offered: the most serious ones, and of equally serious ones a uniform sample."""

    def __init__(self, size: int, rng: random.Random) -> None:
        self._size, self._rng = size, rng
        self._heap: list[tuple[int, float, int, Mapping[str, Any]]] = []  # severity, a random number, position, record

    def __len__(self) -> int:
        return len(self._heap)

    def offer(self, severity: int, position: int, record: Mapping[str, Any]) -> None:
        """Keep a record, perhaps in place of another."""
        entry = (severity, self._rng.random(), position, record)
        if len(self._heap) < self._size:
            heapq.heappush(self._heap, entry)
        elif entry > self._heap[0]:
            heapq.heapreplace(self._heap, entry)

    def first(self, count: int) -> list[tuple[int, Mapping[str, Any]]]:
        """Position and record of ``count`` of them."""
        return [(position, record) for _, _, position, record in heapq.nlargest(count, self._heap)]


def surveyed(counts: Counts) -> dict[str, Any]:
    """What was counted, as the page holds it. In ops and layers what is set apart counts as such, so that it never is the worst."""

    def table(kind: str) -> dict[str, dict[str, int]]:
        groups: dict[str, Counter[str]] = {}
        for name, group in counts.groups(kind).items():
            groups.setdefault(_text(name), Counter()).update(group.verdicts)
        return {name: dict(verdicts) for name, verdicts in groups.items()}

    return {
        "total": counts.records,
        "muted": counts.muted(),
        "apart": counts.apart(),
        "verdicts": counts.verdicts(),
        "ops": table("op"),
        "layers": table("layer"),
        "findings": [_finding(finding) for finding in counts.sorted_findings()],
        "births": [{"text": _text(tr("{more}.", more=born(record))), "at": order} for order, record, _ in counts.first_births()],
        "ties": _text(ties(counts)),
        "further": counts.further,
    }


def _finding(finding: LineFinding) -> dict[str, Any]:
    """One finding with the places of its records in the run."""
    record = finding.worst
    return plain(
        {
            **{name: record.get(name) for name in ALIKE},
            "site": str(code_line(record.get("site") or "")),
            "apart": finding.apart,
            "severity": Verdict(record["verdict"]).severity,
            "records": finding.records,
            "first": finding.first,
            "worst": finding.place,
            "excess": finding.excess,
            "layers": sorted(finding.layers),
        }
    )


def columns(rows: list[tuple[int, Mapping[str, Any]]]) -> dict[str, Any]:
    """``kinds``, ``outcomes`` and ``reasons`` once each, and everything else by column.

    ``rows``: positions in the run and records. They are used up: a record that was looked at is a large table.
    """
    count = len(rows)
    kinds, outcomes, reasons = Interned(), Interned(), Interned()
    table: dict[str, list[Any]] = {name: [] for name in ("position", *_COUNTED, "kind", "outcome", "reason")}
    figures: defaultdict[tuple[str, str], list[Any]] = defaultdict(lambda: [None] * count)
    rows.reverse()
    for place in range(count):
        position, record = rows.pop()
        table["position"].append(position)
        for name in _COUNTED:
            table[name].append(plain(record.get(name)))
        outcome = {name: record.get(name) for name in _OUTCOME}
        outcome["verdict"], outcome["side"] = str(Verdict(record["verdict"])), str(record.get("side") or "none")
        table["kind"].append(kinds.add({name: value for name, value in record.items() if name not in _NOT_KIND}))
        table["outcome"].append(outcomes.add(outcome))
        texts = (from_log(record.get("reason") or ""), str(born(record)))
        table["reason"].append(reasons.add("; ".join(filter(None, texts))))
        for name, value in (record.get("stats") or {}).items():
            for key, figure in value.items() if type(value) is dict else (("", value),):
                figures[name, key][place] = figure
    return {
        "rows": count,
        "kinds": [{**kind, "site": str(code_line(kind.get("site") or ""))} for kind in kinds.values],
        "outcomes": outcomes.values,
        "reasons": reasons.values,
        "table": {name: column(values) for name, values in table.items()},
        "figures": {_text(".".join(filter(None, path))): plain(column(figures[path])) for path in sorted(figures)},
    }


def column(values: Sequence[Any]) -> Any:
    """A column as a list, or ``{"all": value}`` if it has one value only."""
    first = values[0] if values else None
    return {"all": first} if all(type(value) is type(first) and value == first for value in values) else list(values)


def pack(
    records: Iterable[Mapping[str, Any]], coverage: Mapping[str, Any], limit: int, counts: Counts | None = None
) -> dict[str, Any]:
    """Everything that the page shows of the records; at most ``limit`` of them one by one.

    Up to ``limit`` all records are kept. Beyond it every record with a verdict other than EQUAL and ROUNDING is kept, and a
    uniform sample of the others. Should those alone exceed nine tenths of the limit, the less serious classes are sampled too.

    ``coverage``: of the run. ``counts``: of these very records, where they were counted already.
    """
    rng, known = random.Random(_SEED), counts or Counts()
    serious, usual = Kept(limit, rng), Kept(limit, rng)
    for position, record in enumerate(records):
        verdict = Verdict(record["verdict"])
        if counts is None:
            known.add(record)
        if verdict in _USUAL:
            usual.offer(0, position, record)
        else:
            serious.offer(verdict.severity, position, record)
    rows = serious.first(limit - min(len(usual), limit // _USUAL_SHARE))
    rows = sorted([*rows, *usual.first(limit - len(rows))], key=itemgetter(0))
    del serious, usual
    return {
        "headline": fitting([headline(known, coverage), *brief(known, coverage)]),
        "status": status(known),
        "advice": [_text(line) for line in advice(known)],
        **surveyed(known),
        "severity": {verdict.value: verdict.severity for verdict in Verdict},
        "meaning": {verdict.value: str(tr(meaning)) for verdict, meaning in MEANING.items()},
        "limit": limit,
        **columns(rows),
    }


LIMIT = 17_500  # records that the page holds one by one
SCRIPTS = (
    "base.js",
    "data.js",
    "figures.js",
    "filters.js",
    "summary.js",
    "chart.js",
    "charting.js",
    "tree.js",
    "table.js",
    "details.js",
    "main.js",
)


def render(
    header: Mapping[str, Any],
    records: Iterable[Mapping[str, Any]],
    coverage: Mapping[str, Any],
    warnings: Sequence[str] = (),
    *,
    limit: int = LIMIT,
    counts: Counts | None = None,
) -> str:
    """The page as text.

    Args:
        header: the ``"run"`` record of the log.
        records: the ``"call"`` records of the log in order; read once.
        coverage: the ``"coverage"`` of the log's ``"end"`` record: ``float_calls``, ``checked_calls``, ``float_elements``,
            ``checked_elements``, ``unchecked`` ({reason: calls}).
        warnings: shown before everything else, after those of the header.
        limit: how many records the page holds one by one. Beyond it all with a verdict other than EQUAL and ROUNDING are kept,
            and a uniform sample of the rest; the page says so. Its counts are always over all records.
        counts: of these very records, where they were counted already.

    Raises:
        ArgumentError: ``limit`` is not positive.
        ValueError: a record's verdict is not one of :class:`~padiff_shim.verdicts.Verdict`.
    """
    whole("limit", limit, least=1)
    untested = untested_words(header.get("environment") or {})
    remarks = list(dict.fromkeys([*untested, *header.get("warnings", ()), *warnings]))
    unchecked, by_op = coverage.get("unchecked") or {}, coverage.get("unchecked_ops") or {}
    data = {
        "header": plain(header),
        "coverage": plain(
            {
                **coverage,
                "unchecked": {from_log(why): calls for why, calls in unchecked.items()},
                "unchecked_ops": {op: {from_log(why): calls for why, calls in reasons.items()} for op, reasons in by_op.items()},
            }
        ),
        "warnings": plain(list(map(from_log, remarks))),
        **translations(SCRIPTS),
        **pack(records, coverage, limit, counts),
    }
    if data["messages"]:  # the reader's language is not English
        for name in filter(None, (outcome["quirk"] for outcome in data["outcomes"])):
            data["messages"][name] = str(tr(shown(name)))
    # `value` as JSON that may stand inside `<script type="application/json">`
    # ASCII only, and without `<`, `>` and `&`: no string in it can end the element or open a comment (the states of the HTML parser
    # in script data are left by `</script` and `<!--` alone: HTML standard, section 13.2.5.4)
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return application(
        "page.html", ("base.css", "page.css"), SCRIPTS, text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    )


def text(run: CompareRun, *, limit: int = LIMIT) -> str:
    """The page of a run, as :func:`render` makes it."""
    # What was counted and did not reach the log is not on the page.
    counts = run.counts if run.counts.records == len(run.calls) else None
    records = run.calls.records()
    with reader(None):
        return render(run.header, records, run.coverage(), run.warnings, limit=limit, counts=counts)
