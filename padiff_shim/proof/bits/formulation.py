"""Equal mathematics whose bits differ: the causes, and what may be written instead, as data and run."""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import paddle
import torch

from ...text import marked

LAYOUT, GROUPING, ROUNDING, FUSED, BACKWARD, NUMBERS, TRAINING = (
    marked("layout"), marked("grouping"), marked("rounding"), marked("fused"), marked("backward"), marked("numbers"),
    marked("training"),
)  # fmt: skip

FORWARD, GRADIENT, BOTH = "forward", "gradient", "both"


@dataclass(frozen=True, eq=False)
class Formulation:
    """What some calls of a port compute, and what may be written in their place.

    Args:
        cause: one of the causes above.
        name: what is computed, in a few words.
        why: one sentence.
        spellings: Paddle's source, one or more: lines that end with an expression, which is the result (a tensor, or a tuple of
            tensors). The operands are names in it, and ``paddle``, ``F`` (its functional module) and ``math``.
    """

    cause: str
    name: str
    why: str
    spellings: tuple[str, ...]


_NAMESPACES: dict[str, dict[str, Any]] = {
    "paddle": {"paddle": paddle, "F": paddle.nn.functional, "math": math},
    "torch": {"torch": torch, "F": torch.nn.functional, "math": math},
}


@functools.cache
def compiled(text: str, names: tuple[str, ...], framework: str) -> Callable[..., Any]:
    """A function of the operands ``names`` whose body is ``text``.

    Raises:
        SyntaxError: it is no Python, or does not end with an expression.
    """
    body = ast.parse(text).body
    if not body or not isinstance(body[-1], ast.Expr):
        raise SyntaxError(f"a spelling ends with an expression: {text!r}")
    body[-1] = ast.copy_location(ast.Return(body[-1].value), body[-1])
    tree: Any = ast.parse(f"def spelling({', '.join(names)}): pass")
    tree.body[0].body = body
    made: dict[str, Callable[..., Any]] = {}
    exec(compile(ast.fix_missing_locations(tree), "<spelling>", "exec"), {**_NAMESPACES[framework]}, made)
    return made["spelling"]


def replay(text: str, operands: Mapping[str, Any], framework: str = "paddle") -> Any:
    """What a spelling makes of ``operands``: tensors of that framework and numbers, by their names.

    It runs in whatever mode is open, and on the operands' own graph: ``replay("x / c", {"x": x, "c": 3.0})`` is ``x / 3.0``.
    """
    return compiled(text, tuple(operands), framework)(*operands.values())


def listed(result: Any) -> list[Any]:
    """The results of a call as a list."""
    return list(result) if isinstance(result, (list, tuple)) else [result]
