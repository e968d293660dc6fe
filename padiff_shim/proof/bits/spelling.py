"""Running the spellings of a formulation: from source text to results and gradients."""

from __future__ import annotations

import ast
import functools
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import paddle
import torch

from ...frameworks.memory import TORCH_DTYPES
from ...measure.bits import same_bits
from ...modes.reference import reference
from ...table.formulation import Formulation
from ...trees import as_array

Array = np.ndarray[Any, Any]
_NAMESPACES: dict[str, dict[str, Any]] = {
    "paddle": {"paddle": paddle, "F": paddle.nn.functional, "math": math},
    "torch": {"torch": torch, "F": torch.nn.functional, "math": math},
}
_NARROW = re.compile(r"(?<=\")(?:bfloat16|float16|float32)(?=\")|(?<=torch\.)(?:bfloat16|float16|float32)\b")
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


def widened(text: str) -> str:
    """A spelling in which every float dtype that it names is float64."""
    return _NARROW.sub("float64", text)


class Bits(NamedTuple):
    """What a spelling gives: exact values as arrays (bfloat16 as float32), and the dtype of each result."""

    results: list[Array]
    dtypes: list[str]
    gradients: dict[str, Array | None]  # of the float operands by name; None where nothing comes back

    def forward_differs(self, other: Bits) -> bool:
        """Whether a bit of a result differs."""
        return self.dtypes != other.dtypes or not all(map(same_bits, self.results, other.results))

    def gradient_differs(self, other: Bits) -> bool:
        """Whether a bit of a gradient differs."""
        return not all(same_bits(self.gradients[name], other.gradients[name]) for name in self.gradients)


def drawn(formulation: Formulation, place: int = 0) -> dict[str, Any]:
    """The operands of a sample by name: arrays, float ones of float32, and numbers."""
    arrays = formulation.samples[place].arrays(np.random.default_rng(SEED))
    return dict(zip(formulation.names, arrays, strict=True))


def _is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


def paddle_operands(arrays: Mapping[str, Any], dtype: str) -> dict[str, Any]:
    """Tensors of Paddle: float ones in ``dtype``, wanting gradients."""
    operands = {}
    for name, value in arrays.items():
        if isinstance(value, np.ndarray):
            tensor = paddle.to_tensor(value)
            tensor = tensor.astype(dtype).detach() if _is_float(value) else tensor
            tensor.stop_gradient = not _is_float(value)
            value = tensor
        operands[name] = value
    return operands


def torch_operands(arrays: Mapping[str, Any], dtype: str) -> dict[str, Any]:
    """The same of Torch."""
    operands = {}
    for name, value in arrays.items():
        if isinstance(value, np.ndarray):
            tensor = torch.from_numpy(value.copy())
            value = tensor.to(TORCH_DTYPES[dtype]).requires_grad_() if _is_float(value) else tensor
        operands[name] = value
    return operands


def on_paddle(text: str, arrays: Mapping[str, Any], dtype: str, *, on_torch: bool = True) -> Bits:
    """Results and gradients of a spelling in Paddle, on Torch's kernels unless ``on_torch`` is False.

    Args:
        text: Paddle's source.
        arrays: operands by name, see :func:`drawn`.
        dtype: that of the float operands.
    """
    if not on_torch:
        return _on_paddle(text, arrays, dtype)
    with reference("torch", random="torch"):
        return _on_paddle(text, arrays, dtype)


def _on_paddle(text: str, arrays: Mapping[str, Any], dtype: str) -> Bits:
    operands = paddle_operands(arrays, dtype)
    results = listed(replay(text, operands))
    starts = [paddle.to_tensor(start).astype(result.dtype) for result, start in zip(results, _starts(results))]
    wanting = [(result, start) for result, start in zip(results, starts) if not result.stop_gradient]
    if wanting:
        paddle.autograd.backward(*map(list, zip(*wanting)))
    leaves = {name: operands[name] for name, value in arrays.items() if _is_float(value)}
    gradients = {name: None if leaf.grad is None else as_array(leaf.grad) for name, leaf in leaves.items()}
    return Bits([as_array(result.detach()) for result in results], [_dtype(result) for result in results], gradients)


def in_torch(text: str, arrays: Mapping[str, Any], dtype: str) -> Bits:
    """Results and gradients of a spelling in Torch; arguments as for :func:`on_paddle`."""
    operands = torch_operands(arrays, dtype)
    results = listed(replay(text, operands, "torch"))
    starts = [torch.from_numpy(start).to(result.dtype) for result, start in zip(results, _starts(results))]
    wanting = [(result, start) for result, start in zip(results, starts) if result.requires_grad]
    if wanting:
        torch.autograd.backward(*map(list, zip(*wanting)))
    leaves = {name: operands[name] for name, value in arrays.items() if _is_float(value)}
    gradients = {name: None if leaf.grad is None else as_array(leaf.grad).copy() for name, leaf in leaves.items()}
    return Bits([as_array(result.detach()) for result in results], [_dtype(result) for result in results], gradients)


def listed(result: Any) -> list[Any]:
    """The results of a call as a list."""
    return list(result) if isinstance(result, (list, tuple)) else [result]


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).rpartition(".")[2]


def _starts(results: list[Any]) -> list[Array]:
    """The gradients that the backward begins with."""
    rng = np.random.default_rng(SEED + 1)
    return [rng.standard_normal((1, *result.shape)).reshape(tuple(result.shape)).astype("float32") for result in results]
