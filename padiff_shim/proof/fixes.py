"""What to write for a mistake, in Paddle's words, and where: at the line that makes the layer, or at the call itself."""

from __future__ import annotations

import ast
import inspect
import linecache
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import FunctionType

import paddle

from ..dispatch.call_site import is_library
from .findings import Fix, Mistake

_WRITE = re.compile(r"\b(?:write|pass) (?=[\w.]+ ?=)")
_PASS = re.compile(r"\bpass (?=[\w.]+ ?=)")  # to a call, not to the constructor of what is called


def with_fixes(mistakes: Sequence[Mistake], port: paddle.nn.Layer) -> list[Mistake]:
    """The mistakes, each with its fix where its text says what to write."""
    layers = dict(port.named_sublayers(include_self=True))
    return [replace(mistake, fix=_fix(mistake, layers)) for mistake in mistakes]


def _fix(mistake: Mistake, layers: dict[str, paddle.nn.Layer]) -> Fix | None:
    text = ", ".join(_written(mistake.text))
    if not text:
        return None
    place = mistake.paddle
    if place is None:
        return Fix(text)
    made = None if _PASS.search(mistake.text) else constructor(place.layer, layers, text)
    return made or (Fix(text) if is_library(place.file) else Fix(text, place.file, place.line))


def _written(text: str) -> Iterator[str]:
    """What an English sentence says to write: from ``write name=value`` (or ``pass``) to the end of its brackets, or of the clause.

    >>> list(_written("eps=0.001 against 1e-05 (write epsilon=1e-05), dim=1 against 0 (write axis=(0, 1))"))
    ['epsilon=1e-05', 'axis=(0, 1)']
    """
    for match in _WRITE.finditer(text):
        depth, end = 0, match.end()
        while end < len(text) and depth >= 0 and not (depth == 0 and text[end] == ";"):
            depth += (text[end] in "([{") - (text[end] in ")]}")
            end += depth >= 0
        yield text[match.end() : end].strip()


def constructor(path: str, layers: dict[str, paddle.nn.Layer], text: str = "") -> Fix | None:
    """The line of the port that makes a layer of Paddle's own.

    None where the layer at ``path`` is the port's own, whose lines are fixed themselves, or where the line is not found.
    """
    layer = layers.get(path)
    if layer is None or not _of_a_library(type(layer)):
        return None
    owner, attribute = path, ""
    while owner:
        owner, _, attribute = owner.rpartition(".")
        if owner in layers and not _of_a_library(type(layers[owner])):
            break
    else:
        return None
    for made_by in type(layers[owner]).__mro__:
        for function in vars(made_by).values() if not _of_a_library(made_by) else ():
            if inspect.isfunction(function) and (line := _assignment(function, attribute, type(layer))):
                file = function.__code__.co_filename
                return Fix(text, file, line, linecache.getline(file, line).strip())
    return None


def _of_a_library(made: type) -> bool:
    """Whether a class is Paddle's own; a model of its is not, for models are compared."""
    return is_library(getattr(sys.modules.get(made.__module__), "__file__", None) or "")


def _assignment(function: FunctionType, attribute: str, made: type) -> int:
    """The line that makes the layer which a method sets as ``self.attribute``; 0: none, or one of several.

    It is that of the only call of the class in what is assigned. Where several are, it is the assignment; where none is, because a
    function makes the layer, the only call of the class in the file.
    """
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError):
        return 0
    for value in _values_of(tree, attribute):
        calls = _calls(value, function, made)
        if calls:
            return first - 1 + (calls[0] if len(calls) == 1 else value).lineno
        everywhere = _calls(ast.parse("".join(linecache.getlines(function.__code__.co_filename))), function, made)
        return everywhere[0].lineno if len(everywhere) == 1 else 0
    return 0


def _calls(tree: ast.AST, function: FunctionType, made: type) -> list[ast.Call]:
    """The calls of a class, by its own name or that of the module of ``function``."""
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and (
            getattr(node.func, "attr", getattr(node.func, "id", "")) == made.__name__
            or (isinstance(node.func, ast.Name) and function.__globals__.get(node.func.id) is made)
        )
    ]


def _values_of(tree: ast.AST, attribute: str) -> Iterator[ast.expr]:
    """What is assigned to ``self.attribute``, of several targets its own part."""
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        for target in targets:
            value = node.value  # type: ignore[attr-defined]
            parts = list(zip(target.elts, value.elts)) if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) else []
            spread = [(part, value) for part in target.elts] if isinstance(target, ast.Tuple) else [(target, value)]
            for part, own in parts or spread:
                if (
                    isinstance(part, ast.Attribute)
                    and isinstance(part.value, ast.Name)
                    and part.attr == attribute
                    and own is not None
                ):
                    yield own
