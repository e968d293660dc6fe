"""Running the spellings of a formulation: from source text to results."""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import paddle
import torch

from ...table.formulation import Formulation

Array = np.ndarray[Any, Any]
_NAMESPACES: dict[str, dict[str, Any]] = {
    "paddle": {"paddle": paddle, "F": paddle.nn.functional, "math": math},
    "torch": {"torch": torch, "F": torch.nn.functional, "math": math},
}
SEED = 20


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


def drawn(formulation: Formulation, place: int = 0) -> dict[str, Any]:
    """The operands of a sample by name: arrays, float ones of float32, and numbers."""
    arrays = formulation.samples[place].arrays(np.random.default_rng(SEED))
    return dict(zip(formulation.names, arrays, strict=True))


def is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


def paddle_operands(arrays: Mapping[str, Any], dtype: str) -> dict[str, Any]:
    """Tensors of Paddle: float ones in ``dtype``, wanting gradients."""
    operands = {}
    for name, value in arrays.items():
        if isinstance(value, np.ndarray):
            tensor = paddle.to_tensor(value)
            tensor = tensor.astype(dtype).detach() if is_float(value) else tensor
            tensor.stop_gradient = not is_float(value)
            value = tensor
        operands[name] = value
    return operands


def listed(result: Any) -> list[Any]:
    """The results of a call as a list."""
    return list(result) if isinstance(result, (list, tuple)) else [result]
