"""Models, and what else a command line names: ``file.py:name``, with arguments as ``file.py:name?layers=2&bias=false``."""

from __future__ import annotations

import ast
import functools
import inspect
import json
import math
import re
import typing
from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click

from ..arguments import needed
from ..errors import ArgumentError, described, unknown, unreadable
from ..progress import Waiting
from ..text import joined, marked, tr
from .program import called, load

SIDES = {"PADDLE": "paddle", "--paddle": "paddle", "TORCH": "torch", "--torch": "torch"}  # what names a model: its framework
_FORM = marked("NAME=VALUE, paddle.NAME=VALUE or torch.NAME=VALUE")


def builder_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--with`` and ``--config`` to a command, as ``arguments`` and ``config``, which make a :class:`Builders`."""
    config_help = marked("A config.json for the classes of both models, or paddle=FILE, torch=FILE for one.")
    with_help = marked("An argument of both builders, or paddle.NAME=VALUE, torch.NAME=VALUE for one; may be repeated.")
    config = click.option("--config", multiple=True, metavar="[SIDE=]FILE", help=config_help)
    arguments = click.option("--with", "arguments", multiple=True, metavar="NAME=VALUE", help=with_help)
    return arguments(config(function))


layer_map_option = click.option(
    "--layer-map", multiple=True, metavar="TORCH=PADDLE", help="Layers that belong together, if names do not tell."
)


def import_frameworks() -> None:
    """Import both, which takes a while.

    Raises:
        BackendError: one of them is missing, or too old.
    """
    from ..modes.environment import frameworks

    with Waiting("importing Paddle and Torch"):
        frameworks()


class Builders:
    """Makes the models that a command line names, with the arguments of ``--with`` and ``--config``.

    Raises:
        ArgumentError: an option has another form.
        FileError: a file of ``--config`` cannot be read.
    """

    def __init__(self, arguments: Iterable[str], config: Iterable[str]) -> None:
        self._arguments: dict[str, dict[str, Any]] = {"": {}, "paddle": {}, "torch": {}}
        for word in arguments:
            name, sign, text = word.partition("=")
            side, dot, of_side = name.partition(".")
            if not sign or (side not in ("paddle", "torch") and dot) or not (of_side if dot else name).isidentifier():
                raise ArgumentError("--with is {form}, got {word}", form=tr(_FORM), word=repr(word))
            self._arguments[side if dot else ""][of_side if dot else name] = value(text)
        self._config: dict[str, tuple[str, dict[str, Any]]] = {}
        for word in config:
            side, sign, path = word.partition("=")
            one_side = bool(sign) and side in ("paddle", "torch")
            read = (path, _read(path)) if one_side else (word, _read(word))
            self._config |= dict.fromkeys([side] if one_side else ("paddle", "torch"), read)

    def made(self, word: str, argument: str) -> Any:
        """A model: the named object, or its result if it is a class or function.

        Raises:
            ArgumentError: there is no such object, or it does not take these arguments; the message names its parameters.
            FileError: there is no such file.
        """
        side = SIDES[argument]
        target = load(word.partition("?")[0], argument)
        shared, own = self._arguments[""], self._arguments[side] | _spoken(word, argument)
        if not callable(target) or (hasattr(target, "parameters") and not inspect.isclass(target)):
            if shared or own or side in self._config:
                other = _other(side)
                hint = (
                    "" if own else tr("; --with {other}.NAME=VALUE and --config {other}=FILE are for the other model", other=other)
                )
                raise ArgumentError(
                    "{argument}: {word} is {target}, which takes no arguments{hint}",
                    argument=argument,
                    word=word,
                    target=described(target),
                    hint=hint,
                )
            return target
        for arguments, hint in (
            (shared, tr(" For the other model alone: --with {other}.NAME=VALUE.", other=_other(side))),
            (own, ""),
        ):
            _check_names(target, arguments, word, argument, hint)
        arguments = shared | own
        if side in self._config:
            path, values = self._config[side]
            name = _config_parameter(target, arguments)
            if name is None:
                takes = ", ".join(_parameters(target) or {}) or tr("nothing")
                raise ArgumentError(
                    "{argument}: {word} has no parameter for the config {path} (it takes {takes}). --with NAME=VALUE sets an "
                    "argument; --config {side}=FILE is for the other model alone",
                    argument=argument,
                    word=word,
                    path=path,
                    takes=takes,
                    side=_other(side),
                )
            arguments[name] = _config(_config_class(target, name), values, f"--config {path}")
        try:
            inspect.signature(target).bind(**arguments)
        except TypeError as error:
            raise ArgumentError(
                "{argument}: {word}: {error}. Its arguments: {parameters}; write {target}?NAME=VALUE, or --with {side}.NAME=VALUE",
                argument=argument,
                word=word,
                error=error,
                parameters=joined(", ", _parameters(target) or {}),
                target=word.partition("?")[0],
                side=side,
            ) from None
        except ValueError:  # a class of C, without signature
            pass
        return called(target, word, **arguments)


def value(text: str) -> Any:
    """The value of an argument: JSON, else a literal of Python (``True``, ``(1, 2)``), else the text itself.

    >>> value("2"), value("false"), value("False"), value("[1, 2]"), value("gelu"), value('"2"')
    (2, False, False, [1, 2], 'gelu', '2')
    """
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
    return text


def _spoken(word: str, argument: str) -> dict[str, Any]:
    """The arguments behind the question mark."""
    target, sign, query = word.partition("?")
    arguments = {}
    for part in query.split("&") if sign else ():
        name, equals, text = part.partition("=")
        if not equals or not name.isidentifier():
            raise ArgumentError(
                "{argument}: behind the question mark of {target}? stand NAME=VALUE&NAME=VALUE, got {query}",
                argument=argument,
                target=target,
                query=repr(query),
            )
        arguments[name] = value(text)
    return arguments


def _other(side: str) -> str:
    return "torch" if side == "paddle" else "paddle"


def _parameters(target: Any) -> dict[str, inspect.Parameter] | None:
    """What a function or class takes by name; None if it has no signature."""
    try:
        parameters = inspect.signature(target).parameters
    except (ValueError, TypeError):
        return None
    return {name: parameter for name, parameter in parameters.items() if parameter.kind is not parameter.VAR_POSITIONAL}


def _takes_any(parameters: Mapping[str, inspect.Parameter]) -> bool:
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())


def _check_names(target: Any, arguments: Iterable[str], word: str, argument: str, hint: str = "") -> None:
    parameters = _parameters(target)
    if parameters is None or _takes_any(parameters):
        return
    for name in arguments:
        if name not in parameters:
            kind = tr("argument of {target}", target=word.partition("?")[0])
            message = unknown(kind, name, parameters) if parameters else None
            raise ArgumentError(
                joined(
                    ": ",
                    (argument, joined("", (message or tr("{word} takes no arguments, got {name}", word=word, name=name), hint))),
                )
            )


# ---- Configs, as the files config.json of the transformers libraries hold them.

_OF_LIBRARY = ("architectures", "auto_map", "dtype", "model_type", "paddlenlp_version", "torch_dtype", "transformers_version")


class ConfigValues(dict[str, Any]):
    """A config for a model that says nothing of its class: its values are items and attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the config has no value {name!r}") from None


def _read(path: str) -> dict[str, Any]:
    try:
        read = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise unreadable(tr("the config"), path, error) from None
    except ValueError as error:
        raise ArgumentError("--config {path} is no JSON: {error}", path=path, error=error) from None
    if not isinstance(read, dict):
        raise ArgumentError("--config {path} holds {read}, not an object with names and values", path=path, read=described(read))
    return read


def _config_parameter(target: Any, arguments: Container[str]) -> str | None:
    """The parameter that takes a config: it is called so, or its class is, or no other argument is needed (``args: ModelArgs``)."""
    names = [name for name in _parameters(target) or () if name not in arguments]
    if "config" in names:
        return "config"
    by_class = [name for name in names if getattr(_config_class(target, name), "__name__", "").endswith("Config")]
    lacking = [name for name in needed(target) if name not in arguments]
    return by_class[0] if by_class else lacking[0] if len(lacking) == 1 else None


def _config_class(target: Any, name: str) -> type[Any] | None:
    """The class of a parameter: of one called config, the model's own ``config_class``, else that of its annotation."""
    own = getattr(target, "config_class", None)
    if name == "config" and inspect.isclass(own):
        return own
    try:
        hints = typing.get_type_hints(target.__init__ if inspect.isclass(target) else target)
    except Exception:  # names that exist for type checkers alone
        return None
    kinds = [kind for kind in (hints.get(name), *typing.get_args(hints.get(name))) if inspect.isclass(kind)]
    return next((kind for kind in kinds if kind is not type(None)), None)


def _config(kind: type[Any] | None, values: dict[str, Any], option: str) -> Any:
    """A config of a class, or a plain one."""
    if kind is None or issubclass(kind, Mapping) or kind is object:
        return _plain(values)
    if issubclass(kind, SimpleNamespace):
        return json.loads(json.dumps(values), object_hook=lambda part: kind(**part))
    parameters = _parameters(kind)
    made = getattr(kind, "from_dict", None)
    if not callable(made) and parameters is not None and not _takes_any(parameters):
        # But what says which library wrote the file, and nothing of the model.
        values = {name: item for name, item in values.items() if name in parameters or not (name[:1] == "_" or name in _OF_LIBRARY)}
        for name in values:
            if name not in parameters:
                raise ArgumentError(
                    joined(": ", (option, unknown(tr("value of {config}", config=kind.__name__), name, parameters)))
                )
    try:
        return made(dict(values)) if callable(made) else kind(**values)
    except Exception as error:  # its own checks of the values
        raise ArgumentError(
            "{option}: {kind} refuses it: {type}: {error}",
            option=option,
            kind=kind.__name__,
            type=type(error).__name__,
            error=error,
        ) from error


def _plain(values: Any) -> Any:
    if isinstance(values, dict):
        return ConfigValues({name: _plain(item) for name, item in values.items()})
    return [_plain(item) for item in values] if isinstance(values, list) else values


# ---- Whatever else an option names.


def named_object(word: str | None, option: str) -> Any:
    """What an option names, with its arguments; None where it is not there."""
    if word is None:
        return None
    target, arguments = load(word.partition("?")[0], option), _spoken(word, option)
    if not arguments:
        return target
    if not callable(target):
        raise ArgumentError(
            "{option}: {word} is {target}, which takes no arguments", option=option, word=word, target=described(target)
        )
    _check_names(target, arguments, word, option)
    return functools.partial(target, **arguments)


def layer_map_of(words: Iterable[str]) -> dict[str, str] | None:
    """``--layer-map`` as names; None without any."""
    pairs = {}
    for word in words:
        torch_name, sign, paddle_name = word.partition("=")
        if not (torch_name or paddle_name) or not sign:
            raise ArgumentError("--layer-map is TORCH=PADDLE, got {word}", word=repr(word))
        pairs[torch_name] = paddle_name
    return pairs or None


_MOST_NUMBERS = 2**32  # of a shape that is asked for


def model_inputs(word: str, option: str = "--inputs") -> Any:
    """The inputs of both models: numbers of a shape, arrays of a file, or the named object; a function is called if it can be.

    A number behind a shape (``"4x12:100"``): whole numbers below it. Shapes with commas between: several inputs.
    """
    import numpy as np

    if "," in word and all(re.fullmatch(r"[\dx]+(:\d+)?", part) for part in word.split(",")):
        return tuple(model_inputs(part, option) for part in word.split(","))
    form = re.fullmatch(r"([1-9]\d*(?:x[1-9]\d*)*)(?::([1-9]\d*))?", word)
    shape = [*map(int, form[1].split("x"))] if form else []
    if form and math.prod(shape) < _MOST_NUMBERS:
        rng = np.random.default_rng(0)
        return rng.integers(0, int(form[2]), shape) if form[2] else rng.standard_normal(shape, "float32")
    if Path(word).suffix not in (".npy", ".npz"):
        if ":" not in word:
            raise ArgumentError(
                "{option} is a shape (2x3x8x8, 4x12:100 of tokens), shapes with commas between, a file (.npy, .npz) or "
                "file.py:name, got {word}",
                option=option,
                word=repr(word),
            )
        target = named_object(word, option)
        return called(target, word) if callable(target) and not needed(target) else target
    try:
        loaded = np.load(word, allow_pickle=False)
    except OSError as error:
        raise unreadable(tr("the file of {option}", option=option), word, error) from None
    except (ValueError, EOFError) as error:
        raise ArgumentError(joined(": ", (option, word, error))) from None
    if isinstance(loaded, np.ndarray):
        return loaded
    arrays = {name: loaded[name] for name in loaded.files}
    if all(name.startswith("arr_") for name in arrays):
        return tuple(arrays[f"arr_{place}"] for place in range(len(arrays)))
    return arrays
