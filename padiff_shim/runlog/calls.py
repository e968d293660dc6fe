"""The records of a compare run: a single one, and all of them as a sequence that stays on disk."""

from __future__ import annotations

import operator
from array import array
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

from ..arguments import flag, function, names, one_of
from ..errors import ArgumentError, described, unknown
from ..patterns import LayerFilter, named
from ..text import marked, shown, tr
from ..verdicts import Side, Verdict
from .encoding import finite, numeric
from .reader import CallIndex
from .words import call_line

_Test = Callable[[Mapping[str, Any]], bool]  # whether a record meets a condition
_Words = str | Iterable[str] | None


class Call:
    """One judged tensor: a call's result or one of its gradients. Read-only; every field of the log is an attribute (docs/log.md).

    Attributes:
        log: the name of the log file without its ending; ``index`` is unique within one.
        op, tensor, layer, site, step: what was called, which of its tensors was judged, and where in the program and when.
        shape, dtype: of the tensor, the shape as a list.
        verdict, side: the class of the verdict, and whose kernel it speaks of.
        stats: the figures; errors and bounds in units of the tensor, ``paddle`` and ``torch`` in rounding units.

    ``str(call)`` is one line for people.

    >>> import paddle, padiff_shim
    >>> with padiff_shim.compare("torch") as run:
    ...     _ = paddle.exp(paddle.to_tensor([0.0]))
    >>> call = run.calls[0]
    >>> call.op, call.tensor, call.shape, call.dtype, str(call.verdict)
    ('exp', 'out', [1], 'float32', 'EQUAL')
    """

    __slots__ = ("_record", "log")

    log: str

    def __init__(self, record: Mapping[str, Any], log: str = "") -> None:
        object.__setattr__(self, "_record", dict(record))
        object.__setattr__(self, "log", log)

    def __getattr__(self, name: str) -> Any:
        if name == "_record" or name not in self._record:
            raise AttributeError(f"a call record has no field {name!r}; it has {', '.join(map(shown, self._fields()))}")
        return self._record[name]

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a call record is read-only")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a call record is read-only")

    def _fields(self) -> list[str]:
        return sorted(self._record) if hasattr(self, "_record") else []

    @property
    def verdict(self) -> Verdict:
        """The class of the verdict."""
        return Verdict(self._record["verdict"])

    @property
    def side(self) -> Side:
        """Whose kernel the verdict speaks of."""
        return Side(self._record.get("side") or "none")

    @property
    def stats(self) -> dict[str, Any]:
        """All figures, a copy; non-finite ones as floats."""
        return dict(numeric(finite(self._record.get("stats") or {})))

    def to_dict(self) -> dict[str, Any]:
        """The record as in the log, a copy."""
        copied: dict[str, Any] = _copy(self._record)
        return copied

    def __str__(self) -> str:
        return call_line(self._record)

    def __repr__(self) -> str:
        return f"<Call {self}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Call) and (self.log, self._record) == (other.log, other._record)

    def __hash__(self) -> int:
        return hash((self.log, self._record.get("index")))

    def __reduce__(self) -> tuple[Any, ...]:
        return Call, (self._record, self.log)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *self._fields()})


class Calls(Sequence[Call]):
    """The call records of one or several log files, read from the disk when they are needed: 8 bytes a record are held in memory.

    Indexing gives a :class:`Call`, slicing and :meth:`filter` another :class:`Calls`; iterating holds one record at a time. A log
    that this process is still writing grows while it is looked at.

    Args:
        paths: the files.
        keeper: an object that keeps the files from being removed.
        offsets: of files that were read, where their records begin, in bytes.
        refusal: makes the error where an op without records is named: gets the name and the ops that have some, returns None for
            an op that is known.
    """

    def __init__(
        self,
        paths: Sequence[Path] = (),
        *,
        keeper: object = None,
        offsets: Sequence[array[int]] | None = None,
        refusal: Callable[[str, Iterable[str]], Exception | None] | None = None,
    ) -> None:
        self._index, self._refusal = CallIndex(paths, keeper, offsets), refusal or _refusal
        self._places: Sequence[int] | None = None  # None: all

    def _chosen(self, places: Sequence[int]) -> Calls:
        chosen = Calls(refusal=self._refusal)
        chosen._index, chosen._places = self._index, places
        return chosen

    @property
    def places(self) -> Sequence[int]:
        """The place of each of these records in ``run.calls``."""
        return self._places if self._places is not None else range(len(self))

    def __len__(self) -> int:
        return self._index.count() if self._places is None else len(self._places)

    @overload
    def __getitem__(self, index: int) -> Call: ...
    @overload
    def __getitem__(self, index: slice) -> Calls: ...
    def __getitem__(self, index: int | slice) -> Call | Calls:
        size, places = len(self), self.places
        if isinstance(index, slice):
            return self._chosen(places[index])
        try:
            index = operator.index(index)
        except TypeError:
            raise ArgumentError("calls[...] takes whole numbers and slices, got {index}", index=described(index)) from None
        if not -size <= index < size:
            raise IndexError(f"call {index} of {size}")
        return next(self._calls([places[index]]))

    def __iter__(self) -> Iterator[Call]:
        return self._calls(range(len(self)) if self._places is None else self._places)

    def _calls(self, places: Iterable[int]) -> Iterator[Call]:
        for _, path, record in self._index.records(places):
            yield Call(record, path.stem)

    def records(self) -> Iterator[Mapping[str, Any]]:
        """The records as plain tables, in the same order, in less time. They share tables: do not change what lies in them."""
        return (record for _, _, record in self._index.records(self.places))

    def filter(
        self,
        *,
        op: str | Iterable[str] | None = None,
        layer: str | Iterable[str] | None = None,
        verdict: str | Iterable[str] | None = None,
        at_least: str | None = None,
        side: str | Iterable[str] | None = None,
        phase: str | None = None,
        tensor: str | Iterable[str] | None = None,
        step: int | Container[int] | None = None,
        muted: bool | None = None,
        where: Callable[[Call], bool] | None = None,
    ) -> Calls:
        """The records that meet all of the conditions, by one pass over the log.

        Args:
            op, tensor: names or patterns (``"grad:*"``), one or several.
            layer: patterns over layer paths that mean what ``layers=`` of a mode means: ``"encoder"`` is that layer and everything
                below it, ``*`` one component, ``**`` any number. ``""``: outside of any layer.
            verdict: classes, one or several; ``at_least``: this class or a more serious one.
            side: ``"paddle"``, ``"torch"``, ``"both"``, ``"none"``, one or several; ``phase``: ``"forward"`` or ``"backward"``.
            step: a number, or anything with ``in`` (a range, a set).
            muted: only known differences that are muted (True) or only the others (False).
            where: any further condition on the :class:`Call`.

        Raises:
            UnknownNameError: for a class, side or phase that does not exist, and for an op that is neither in the table nor in the
                log. (An op that is known and did not run has no records.)
            ArgumentError: for a condition of another type.

        >>> import paddle, padiff_shim
        >>> with padiff_shim.compare("torch") as run:
        ...     _ = paddle.tanh(paddle.exp(paddle.zeros([2])))
        >>> [call.op for call in run.calls.filter(op="exp", at_least="EQUAL")]
        ['exp']
        """
        if where is not None:
            function("where", where, marked("a Call"))
        moment = _of_moment(step, muted)
        tests = [*_of_names(op, tensor, layer), *_of_verdict(verdict, side, phase, at_least), *moment]
        chosen = array("Q")
        for place, path, record in self._index.records(self.places):
            if all(test(record) for test in tests) and (where is None or where(Call(record, path.stem))):
                chosen.append(place)
        if op is not None and not chosen:
            self._check_ops(names("op", op))
        return self._chosen(chosen)

    def _check_ops(self, wanted: Iterable[str]) -> None:
        """Refuse names (no patterns) of ops that neither the table nor the log has: a slip gets an error, and no empty answer."""
        unsure = [name for name in wanted if not set("*?[") & set(name)]
        if not unsure:
            return
        known = {str(record["op"]) for _, _, record in self._index.records(range(self._index.count()))}
        for name in unsure:
            if name not in known and (error := self._refusal(name, known)) is not None:
                raise error

    def __repr__(self) -> str:
        return f"<Calls: {len(self)} records in {len(self._index.paths)} file(s)>"


def _copy(value: Any) -> Any:
    """A JSON value with tables and lists of its own."""
    if isinstance(value, dict):
        return {name: _copy(inner) for name, inner in value.items()}
    return [_copy(inner) for inner in value] if isinstance(value, list) else value


def _refusal(name: str, logged: Iterable[str]) -> Exception:
    """The error for an op without records, where only the log says which ops there are."""
    return unknown(tr("op"), name, map(shown, logged))


def _of_moment(step: int | Container[int] | None, muted: bool | None) -> list[_Test]:
    """Tests of a record's step, and of whether it is muted."""
    if muted is not None:
        flag("muted", muted)
    if step is not None and (isinstance(step, (str, bytes, bool)) or not isinstance(step, (int, Container))):
        raise ArgumentError("step= is a number, a range or a set of them, got {step}", step=described(step))
    tests: list[_Test] = []
    if step is not None:
        tests.append(lambda record: record.get("step") == step if isinstance(step, int) else record.get("step") in step)
    if muted is not None:
        tests.append(lambda record: bool(record.get("muted")) == muted)
    return tests


def _of_names(op: _Words, tensor: _Words, layer: _Words) -> list[_Test]:
    """Tests of a record's op, tensor and layer."""
    tests = [
        _matching(field, names(field, patterns)) for field, patterns in (("op", op), ("tensor", tensor)) if patterns is not None
    ]
    return tests if layer is None else [*tests, _inside(names("layer", layer))]


def _of_verdict(verdict: _Words, side: _Words, phase: str | None, at_least: str | None) -> list[_Test]:
    """Tests of a record's verdict: its class, how serious that is, whose kernel it speaks of and in which phase."""
    fields: tuple[tuple[str, _Words, Iterable[str]], ...] = (
        ("verdict", verdict, Verdict),
        ("side", side, Side),
        ("phase", phase, ("forward", "backward")),
    )
    chosen = {
        name: {one_of(name, value, map(str, accepted)) for value in names(name, values)}
        for name, values, accepted in fields
        if values is not None
    }
    tests: list[_Test] = [lambda record: all(record.get(name) in words for name, words in chosen.items())]
    if at_least is not None:
        least = Verdict(one_of("at_least", at_least, Verdict)).severity
        tests.append(lambda record: Verdict(record["verdict"]).severity >= least)
    return tests


def _matching(name: str, patterns: Sequence[str]) -> _Test:
    return lambda record: named(patterns, record.get(name) or "")


def _inside(patterns: Sequence[str]) -> _Test:
    """A test whether a record is of a layer that matches; ``""`` among the patterns stands for no layer at all."""
    paths = [pattern for pattern in patterns if pattern]
    layers = LayerFilter(paths, "layer") if paths or not patterns else None
    bare = "" in patterns

    def inside(record: Mapping[str, Any]) -> bool:
        path = record.get("layer") or ""
        return layers.accepts(path) if path and layers is not None else bare and not path

    return inside
