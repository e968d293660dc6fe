"""Calls of an op's entry points: which there are in the installed Paddle, and how the op's arguments are spelled there."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import paddle

from ..frameworks.versions import AXES_IN_LISTS, leads_here
from ..table import signature
from ..table.op import Entry, Op, Sample


def located(entry: Entry) -> Any:
    """The function or descriptor behind an entry now, or None if this Paddle does not have it."""
    return functools.reduce(lambda owner, part: getattr(owner, part, None), entry.target.split(".")[1:], paddle)


def present(entry: Entry) -> Entry | None:
    """The entry with the parameters that the installed Paddle's function has; None if there is no such function."""
    function = located(entry) if leads_here(entry) else None
    if inspect.isfunction(function) and ".Tensor." not in entry.target:
        return replace(entry, params=signature.present(entry.params, function))
    return entry if function is not None else None


def spelled(entry: Entry, arguments: Mapping[str, Any], chosen: Iterable[str] = ()) -> list[Any]:
    """The arguments as this door takes them: by position, or in the legacy form with the names of attributes.

    ``chosen``: the names of attributes that are not the op's defaults; for others the door has its own.
    """
    chosen = frozenset(chosen)
    parsed = signature.parse(entry.params)
    if entry.pairs is None:
        own = {aliases[0]: default for aliases, default in parsed if default is not signature.REQUIRED}
        names = [aliases[0] for aliases, _ in parsed]
        values = {name: own[name] if name in own and name not in chosen else arguments[name] for name in names}
        if entry.target in AXES_IN_LISTS and not isinstance(values["axis"], list):
            values["axis"] = [] if values["axis"] is None else [values["axis"]]
        return list(values.values())
    args = [arguments[aliases[0]] for aliases, _ in parsed[: entry.pairs]]
    for aliases, _ in parsed[entry.pairs :]:
        name, value = aliases[-1], arguments.get(aliases[0])
        if name == "reduce_all":
            value = not isinstance(arguments["axis"], int) and not arguments["axis"]
        elif aliases[0] == "axis" and isinstance(value, int) and "reduce_all" in entry.params:
            value = [value]
        if value is not None:
            args += [name, value]
    return args


def takes(op: Op, entry: Entry, sample: Sample) -> bool:
    """Whether a sample can be spelled at this door: what the door does not take, the sample leaves out."""
    if entry.arrange is not None:
        return False
    known = {aliases[0] for aliases, _ in signature.parse(entry.params)} | ({"axis"} if "reduce_all" in entry.params else set())
    defaults = {aliases[0]: default for aliases, default in signature.parse(op.params)}
    operands = {} if op.operands else {name: value for name, value in zip(op.names, sample.operands) if value is not None}
    return all(name in known or value == defaults[name] for name, value in {**operands, **sample.attrs}.items())


def typed(value: Any, framework: Any) -> Any:
    """A sample's dtype, a word, as the framework's own."""
    words = ("float", "int", "bool", "bfloat")
    return getattr(framework, value) if isinstance(value, str) and value.startswith(words) else value


def called(op: Op, entry: Entry, sample: Sample, operands: list[Any]) -> Any:
    """What this door gives for a sample's attributes and these operands (Paddle tensors, numbers, None)."""
    arguments = op.arguments(sample, operands)
    arguments = (*arguments[: op.leading], *(typed(value, paddle) for value in arguments[op.leading :]))
    result = located(entry)(*spelled(entry, dict(zip(op.names, arguments)), {*op.names[: op.leading], *sample.attrs}))
    return result[0] if entry.returns_list else result
