"""Checks of arguments: each error names the argument, the value and what is accepted."""

from __future__ import annotations

import inspect
import operator
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from .errors import ArgumentError, described, unknown
from .language import joined, tr


def one_of(name: str, value: Any, accepted: Iterable[str]) -> str:
    """One of some words (or of an enumeration of words)."""
    words = [str(word) for word in accepted]
    if not isinstance(value, str) or str(value) not in words:
        raise unknown(name, value, words)
    return str(value)


def seed(value: Any) -> int:
    """The seed of all generators."""
    number = whole("seed", value)
    if number >= 2**63:
        raise ArgumentError("seed= is a whole number of up to 63 bits, got {value}", value=described(value))
    return number


def whole(name: str, value: Any, least: int = 0) -> int:
    """A whole number, NumPy's included."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or number < least:
        raise ArgumentError(
            "{name}= is a whole number from {least} on, got {value}", name=name, least=least, value=described(value)
        )
    return number


def flag(name: str, value: Any) -> bool:
    """True or False: the strings of a configuration ("no") would be true."""
    if value is not True and value is not False:
        raise ArgumentError("{name}= is True or False, got {value}", name=name, value=described(value))
    return bool(value)


def path(name: str, value: Any) -> Path:
    """A path, as text or :class:`os.PathLike`."""
    text = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise ArgumentError("{name}= is a path, got {value}", name=name, value=described(value))
    return Path(text)


_MODELS = {"paddle": "paddle.nn.Layer", "torch": "torch.nn.Module"}


def framework_of_model(value: Any) -> str | None:
    """``"paddle"`` or ``"torch"`` for an instance of its class of models; imports neither."""
    for framework, name in _MODELS.items():
        kind = getattr(getattr(sys.modules.get(framework), "nn", None), name.rpartition(".")[2], None)
        if kind is not None and isinstance(value, kind):
            return framework
    return None


def model(argument: str, value: Any, *frameworks: str) -> str:
    """A model of one of these frameworks; of either by default. Returns which.

    ``argument``: what the value is to be, as the error's subject (``"model="``).
    """
    framework = framework_of_model(value)
    if framework is not None and framework in (frameworks or _MODELS):
        return framework
    kinds = joined(" or ", (tr("a {kind}", kind=_MODELS[name]) for name in frameworks or _MODELS))
    raise ArgumentError("{argument} is {kinds}, got {value}", argument=argument, kinds=kinds, value=no_model(value))


def no_model(value: Any) -> str:
    """What stands in a model's place; of a class that it has to be called."""
    return (
        tr("the class {name}: call it, {name}(...), for a model", name=value.__name__)
        if isinstance(value, type)
        else described(value)
    )


def port_and_original(paddle_layer: Any, torch_module: Any) -> None:
    """A model of Paddle and one of Torch, in this order."""
    if (framework_of_model(paddle_layer), framework_of_model(torch_module)) == ("torch", "paddle"):
        raise ArgumentError("the Paddle layer comes first, then the Torch module")
    model("paddle_layer=", paddle_layer, "paddle")
    model("torch_module=", torch_module, "torch")


def function(name: str, value: Any, of: str) -> Callable[..., Any]:
    """Something that can be called; ``of`` says with what."""
    if not callable(value):
        raise ArgumentError("{name}= is a function of {of}, got {value}", name=name, of=tr(of), value=described(value))
    checked: Callable[..., Any] = value
    return checked


def needed(target: Callable[..., Any]) -> list[str]:
    """The parameters of a function or class that have no value yet; none where it has no signature."""
    try:
        parameters = inspect.signature(target).parameters.values()
    except (ValueError, TypeError):
        return []
    collect = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [each.name for each in parameters if each.default is each.empty and each.kind not in collect]


def names(name: str, values: Any) -> list[str]:
    """One name, or several."""
    if isinstance(values, str):
        return [str(values)]
    listed = list(values) if isinstance(values, Iterable) and not isinstance(values, (bytes, dict)) else None
    if listed is None or not all(isinstance(entry, str) for entry in listed):
        raise ArgumentError("{name}= is a name or a list of names, got {value}", name=name, value=described(values))
    return [str(entry) for entry in listed]
