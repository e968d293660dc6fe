"""A template: the text of a call with slots, of which random programs are made.

``{x}``                 a tensor; the letter says which kind (:mod:`.slots`), and stands for the same one throughout
``{[4, x[1], 3]}``      a float tensor of this shape, in the dtype of the first slot; in brackets a letter is that slot's shape
``{below 5 [len(x)]}``  a tensor of so many indices below 5
``{= x[1] // 2}``       a number
``{axis}``              an axis of the first slot
``<a;b;c>``             one of several texts
``paddle.nn.Silu() :: ({x})``  a layer, made in a line of its own, and the call of it
``! {w}.exp_()``        a line of its own, without a result
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

SLOT, CHOICE = re.compile(r"\{([^{}]*)\}"), re.compile(r"<([^<>;]*(?:;[^<>;]*)+)>")
NAME = "@"  # stands for each of several names
MADE, ALONE = " :: ", "! "


@dataclass(frozen=True)
class Template:
    """One template."""

    text: str

    @property
    def constructor(self) -> str:
        """What makes the layer that is called; "" if it is a function that is."""
        return self.text.partition(MADE)[0] if MADE in self.text else ""

    @property
    def call(self) -> str:
        """The call itself."""
        return self.text.partition(MADE)[2] if MADE in self.text else self.text.removeprefix(ALONE)

    @property
    def alone(self) -> bool:
        """Whether it has no result of its own."""
        return self.text.startswith(ALONE)

    @property
    def apis(self) -> set[str]:
        """The functions, layers and methods that are its subject: the outermost call of each of its choices."""
        return {name for text in choices(self.constructor or self.call) for name in outermost(SLOT.sub("t", text))}


def choices(text: str) -> Iterator[str]:
    """The text with the first option of each choice, and once with each other option of one of them."""
    parts = [part.split(";") if number % 2 else [part] for number, part in enumerate(CHOICE.split(text))]
    yield "".join(part[0] for part in parts)
    for number, part in enumerate(parts):
        for option in part[1:]:
            yield "".join(option if place == number else other[0] for place, other in enumerate(parts))


def outermost(text: str) -> Iterator[str]:
    """``paddle.nn.functional.relu`` or ``Tensor.add_`` for the outermost call of a line that is one of an API."""
    calls = [called(node) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]  # breadth first
    yield from [
        name for name in calls if name and not name.endswith((".no_grad", ".auto_cast", ".enable_grad", ".set_grad_enabled"))
    ][:1]


def called(node: ast.Call) -> str:
    """The API that a call is of: "" if it is none."""
    parts, function = [], node.func
    while isinstance(function, ast.Attribute):
        parts.insert(0, function.attr)
        function = function.value
    root = function.id if isinstance(function, ast.Name) else ""
    if root == "F":
        return ".".join(["paddle.nn.functional", *parts])
    if root == "paddle":
        return ".".join([root, *parts])
    return f"Tensor.{parts[-1]}" if parts else ""


def each(names: str, text: str) -> tuple[str, ...]:
    """The text for each of these names."""
    return tuple(text.replace(NAME, name) for name in names.split())
