"""Records of a log that are EQUAL or only rounding, as nearly all are: checked and counted without decoding them.

Such lines repeat each other but for their numbers. The first line of a form is decoded and checked against the schema; a regular
expression made of it then recognizes the others and takes the figures out. A line becomes a table when somebody looks at it.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ..verdicts import SCREENED
from .encoding import HARMLESS, MODIFIED_TEXT, PLAIN_FIELDS, Figures, LazyRecord, WrittenFields
from .events import STATS, JsonTable, Schema

_NEEDED = ("op", "tensor", "site", "layer", "phase")  # to count a record
_JUDGED = frozenset(("type", "index", "call", "step", "verdict", "reason", "stats", *PLAIN_FIELDS))
_PRINTABLE = r"[ !#-\[\]-~]*"  # a text of JSON that needs no decoding
_WHOLE, _NUMBER = r"(?:0|[1-9]\d{0,17})", r"-?(?:0|[1-9]\d{0,17})(?:\.\d+)?(?:e[+-]?\d+)?"
_LENGTHS = rf"\[(?:{_WHOLE}(?:,{_WHOLE}){{0,63}})?\]"
_VERDICT = rf'"verdict":"({"|".join(HARMLESS)})",'
_REASON = rf',"reason":"{_PRINTABLE}","stats":'
_SIDES = ("paddle", "torch")
_COUNTED = {"": ("count", "different", "max_abs", "allowed"), **dict.fromkeys(_SIDES, ("prob", "rho_max"))}
_SAME = PLAIN_FIELDS.keys() - {"modifiers"}
_FORMS = 64  # that are remembered: to make one costs as much as a hundred lines


class CallFields(WrittenFields):
    """What many records of a log say of their calls.

    Attributes:
        of_call: of the fields those that count calls.
        plain: whether such records can be counted by these fields, their verdict and some figures.
    """

    __slots__ = ("of_call", "plain")

    def __init__(self, fields: JsonTable) -> None:
        super().__init__(fields)
        self.of_call = {"result": fields.get("result")}
        self.plain = all(name in fields for name in _NEEDED) and _JUDGED.isdisjoint(fields)


class PlainLine(LazyRecord):
    """One that was read. Its line is decoded when somebody looks at it.

    Attributes:
        written: its fields that were known before the verdict.
        verdict, modifiers: as in the table.
        figures: those of ``stats`` that are counted.
        units: the larger side's ``rho_max``, 0 where no side has one.
    """

    __slots__ = ("_line", "figures", "modifiers", "units", "verdict", "written")

    def __init__(
        self, line: bytes, written: CallFields, verdict: str, modifiers: tuple[str, ...], figures: Figures, units: float
    ) -> None:
        self._line, self.written, self.verdict, self.modifiers = line, written, verdict, modifiers
        self.figures, self.units = figures, units
        self._table = None

    @property
    def counted(self) -> JsonTable:
        """Its fields that count calls."""
        return self.written.of_call

    def _made(self) -> JsonTable:
        table: JsonTable = json.loads(self._line)
        return table

    def __getitem__(self, name: str) -> Any:
        if name == "verdict":
            return self.verdict
        fields = self.written.fields
        return fields[name] if name in fields else self.table[name]


class PlainForms:
    """Recognizes the plain records of a log by the forms that lines before them had."""

    def __init__(self) -> None:
        self._forms: list[_LineForm] = []
        self._tries = _FORMS

    def record(self, line: bytes, start: int, written: CallFields) -> PlainLine | None:
        """The record of a line whose verdict begins at byte ``start``; None where no line of this form was learned."""
        for place, form in enumerate(self._forms):
            match = form.pattern.fullmatch(line, start)
            if match is not None:
                if place:
                    self._forms.insert(0, self._forms.pop(place))
                verdict, *numbers = match.groups()
                return PlainLine(line, written, verdict.decode(), form.modifiers, *form.figures(numbers))
        return None

    def learn(self, line: bytes, start: int, judged: JsonTable) -> None:
        """Remember the form of a line that was decoded and checked, if it is a plain record's; ``judged``: its last fields."""
        usual = judged["verdict"] in HARMLESS and all(judged.get(name, "") == PLAIN_FIELDS[name] for name in _SAME)
        if not usual or not self._tries or type(judged.get("stats")) is not dict:
            return
        self._tries -= 1
        form = _LineForm(judged["stats"])
        if form.pattern.fullmatch(line, start):
            self._forms.append(form)


class _LineForm:
    """The line of a plain record but for its numbers. ``pattern``: matches such lines from the verdict on."""

    def __init__(self, stats: JsonTable) -> None:
        self._names: list[tuple[str, str]] = []  # of the numbers that are counted: side and figure
        table = self._table(stats, "", STATS)
        places = {name: place for place, name in enumerate(self._names)}
        self.modifiers = () if ("", "different") in places else (SCREENED,)
        usual = table is not None and ("", "count") in places and not (self.modifiers and ("", "allowed") in places)
        nothing = MODIFIED_TEXT % json.dumps(self.modifiers, separators=(",", ":"))
        text = rf"{_VERDICT}{re.escape(nothing)}{_REASON}{table}\}}\n" if usual else "(?!)"
        self.pattern = re.compile(text.encode("ascii"))
        # Numbers that a form lacks are the last one: a zero, behind those of the line.
        self._places = [places.get(("", name), -1) for name in _COUNTED[""]]
        self._probs, self._units = ([places.get((side, name), -1) for side in _SIDES] for name in ("prob", "rho_max"))

    def _table(self, figures: JsonTable, side: str, schema: Schema) -> str | None:
        """The expression for a table of figures; None where there is none."""
        parts = []
        for name, value in figures.items():
            field, kind, counted = schema.fields.get(name), type(value), name in _COUNTED.get(side, ())
            part: str | None = None
            if kind in (int, float):
                part = _NUMBER if field is None or float in field.types else _WHOLE
                if counted:
                    self._names.append((side, name))
                    part = f"({part})"
            elif kind is dict and not side:
                part = self._table(value, name, field if isinstance(field, Schema) else Schema({}))
            elif kind is list:
                part = _LENGTHS
            elif value is None or not counted:
                part = re.escape(json.dumps(value))
            if part is None:
                return None
            parts.append(f"{re.escape(json.dumps(name))}:{part}")
        return rf"\{{{','.join(parts)}\}}"

    def figures(self, numbers: list[bytes]) -> tuple[Figures, float]:
        """The figures that are counted, and the units, of the numbers of a match."""
        values = [*map(float, numbers), 0.0]
        count, different, max_abs, allowed = self._places
        (paddle, torch), (paddle_units, torch_units) = self._probs, self._units
        figures = Figures(
            int(numbers[count]),
            int(numbers[different]) if different >= 0 else 0,
            values[max_abs],
            values[allowed] if allowed >= 0 else None,
            max(values[paddle], values[torch]),
        )
        return figures, max(values[paddle_units], values[torch_units])
