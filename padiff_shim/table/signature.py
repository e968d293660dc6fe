"""A call as Paddle made it -> the reference's arguments, by position.

A :class:`Binder` is compiled once per entry point. Paddle 2.6 passes complete positional arguments, 3.x passes the user's raw
spelling (``input=``, ``dim=``, ``name=``, ``out=``) as well as the old positional form, so both are taken everywhere.
"""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from ..interrupts import let_pass
from . import reasons
from .reasons import StayNative

# What a torch function raises when it does not take the arguments.
REFUSALS = (TypeError, ValueError, RuntimeError, LookupError, NotImplementedError, ArithmeticError, AssertionError)


def refused(error: Exception) -> StayNative:
    """torch refuses the call, so Paddle decides: if it refuses too, the user sees Paddle's own error."""
    let_pass(error)
    return StayNative(reasons.TORCH_RAISED, type=type(error).__name__, error=str(error)[:120])


REQUIRED = object()

# Keywords that carry no meaning for the result, and those that change where it goes.
IGNORED = frozenset({"name"})
REDIRECTING = frozenset({"out"})


@functools.cache
def parse(params: str) -> tuple[tuple[tuple[str, ...], Any], ...]:
    """``"x|input axis|dim=None"`` -> ``((("x", "input"), REQUIRED), (("axis", "dim"), None))``."""
    parsed = []
    for word in params.split():
        names, _, default = word.partition("=")
        parsed.append((tuple(names.split("|")), ast.literal_eval(default) if default else REQUIRED))
    return tuple(parsed)


def present(params: str, function: Callable[..., Any]) -> str:
    """An entry point's parameters without those that this Paddle's function lacks: ``name`` would be taken for one of them."""
    names = set(inspect.signature(function).parameters)
    return " ".join(word for word in params.split() if names & set(word.partition("=")[0].split("|")))


class _Form(NamedTuple):
    """How calls of one spelling, so many positional arguments and these keywords, give the op's arguments."""

    choose: Callable[[tuple[Any, ...]], tuple[Any, ...]]  # from the call's arguments, with all defaults behind them
    idle: tuple[tuple[int, str], ...]  # where an ``out=`` lies, which must be None, and (named "") what may only be a name


class Binder:
    """Compiled binding of one entry point; calling it returns the op's arguments as a tuple in the op's order."""

    def __init__(self, entry_params: str, op_params: str) -> None:
        entry, op = parse(entry_params), parse(op_params)
        self._names = {alias: i for i, (aliases, _) in enumerate(entry) for alias in aliases}
        self._defaults = tuple(default for _, default in entry)
        self._first = tuple(aliases[0] for aliases, _ in entry)
        position = {aliases[0]: i for i, (aliases, _) in enumerate(entry)}
        unknown = set(position) - {aliases[0] for aliases, _ in op}
        if unknown:
            raise ValueError(f"entry parameters {sorted(unknown)} are not parameters of the op ({op_params!r})")
        # Where each op parameter comes from: a position among the entry's, or the op's own default.
        self._order = tuple((position.get(aliases[0]), default) for aliases, default in op)
        missing = [aliases[0] for aliases, default in op if aliases[0] not in position and default is REQUIRED]
        if missing:
            raise ValueError(f"the entry gives no value for {missing}")
        self._constants = (*self._defaults, *(default for _, default in self._order))
        self._forms: dict[tuple[Any, ...], _Form] = {}
        # Where the entry's parameters are the op's: what follows so many positional arguments, if nothing required is left out.
        rests = {count: self._defaults[count:] for count in range(len(entry) + 1)}
        direct = [source for source, _ in self._order] == list(range(len(entry)))
        self.rests = {count: rest for count, rest in rests.items() if direct and not any(default is REQUIRED for default in rest)}

    def __call__(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        spelling = (len(args), *kwargs)
        form = self._forms.get(spelling)
        if form is None:
            form = self._forms[spelling] = self._formed(len(args), tuple(kwargs))
        values = (*args, *kwargs.values(), *self._constants)
        for place, name in form.idle:
            value = values[place]
            if value is not None and name:
                raise StayNative(reasons.REDIRECTED, name=name)
            if value is not None and not isinstance(value, str):
                raise StayNative(reasons.TOO_MANY_ARGUMENTS)
        return form.choose(values)

    def _formed(self, count: int, keywords: Sequence[str]) -> _Form:
        """What calls of one spelling have in common. Raises StayNative for what no such call can be bound by."""
        known, behind = len(self._defaults), count + len(keywords)
        if count > known + 1:
            raise StayNative(reasons.TOO_MANY_ARGUMENTS)
        idle = [(known, "")] if count > known else []  # 3.x functions take a trailing positional ``name``
        places = [i if i < count else behind + i for i in range(known)]
        for place, key in enumerate(keywords, count):
            index = self._names.get(key)
            if index is not None:
                if index < count:
                    raise StayNative(reasons.GIVEN_TWICE, name=key)
                places[index] = place
            elif key in REDIRECTING:
                idle.append((place, key))
            elif key not in IGNORED:
                raise StayNative(reasons.UNKNOWN_KEYWORD, name=key)
        for name, place in zip(self._first, places):
            if place >= behind and self._constants[place - behind] is REQUIRED:
                raise StayNative(reasons.MISSING, name=name)
        own = behind + known  # where the op's own defaults begin
        chosen = [own + i if source is None else places[source] for i, (source, _) in enumerate(self._order)]
        choose = itemgetter(*chosen) if len(chosen) > 1 else lambda values: tuple([values[place] for place in chosen])
        return _Form(choose, tuple(idle))


# Attributes of the legacy form that choose a kernel's library and not what it computes.
_LIBRARIES = frozenset({"use_mkldnn", "use_cudnn", "use_quantizer", "mkldnn_data_type"})


class PairBinder:
    """The same for an entry point of the legacy form: ``pairs`` parameters by position, then names and values by turns."""

    def __init__(self, entry_params: str, op_params: str, pairs: int) -> None:
        entry, names = parse(entry_params), [aliases[0] for aliases, _ in parse(op_params)]
        self._count = pairs
        self._first = [aliases[0] for aliases, _ in entry[:pairs]]
        self._spelled = {aliases[-1]: aliases[0] for aliases, _ in entry[pairs:]}  # attribute's name -> parameter
        self._defaults = {aliases[0]: default for aliases, default in entry[pairs:]}
        self._others = set(self._defaults) - set(names)
        self._order = [(aliases[0], default) for aliases, default in parse(op_params)]

    def __call__(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        tensors, attributes = args[: self._count], args[self._count :]
        if kwargs or len(tensors) < self._count or len(attributes) % 2:
            raise StayNative(reasons.NOT_LEGACY)
        values = {**self._defaults, **dict(zip(self._first, tensors))}
        for name, value in zip(attributes[::2], attributes[1::2]):
            if name in self._spelled:
                values[self._spelled[name]] = value
            elif name not in _LIBRARIES:
                raise StayNative(reasons.UNKNOWN_ATTRIBUTE, name=name)
        if values.get("reduce_all"):
            values["axis"] = None
        for name in self._others:
            if name != "reduce_all" and values[name] != self._defaults[name]:
                raise StayNative(reasons.UNKNOWN_VALUE, name=name, value=values[name])
        missing = [name for name, value in values.items() if value is REQUIRED]
        if missing:
            raise StayNative(reasons.MISSING, name=missing[0])
        return tuple([values.get(name, default) for name, default in self._order])


def binder(entry: Any, op_params: str) -> Callable[[tuple[Any, ...], Mapping[str, Any]], tuple[Any, ...]]:
    """The binder of an :class:`.op.Entry` for an op with these parameters."""
    if entry.arrange is not None:
        own, arrange = Binder(entry.params, entry.params), entry.arrange
        return lambda args, kwargs: arrange(*own(args, kwargs))
    return Binder(entry.params, op_params) if entry.pairs is None else PairBinder(entry.params, op_params, entry.pairs)
