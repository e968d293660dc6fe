"""Spellings of formulations, run on either framework, and how far they are apart in bits."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import paddle
import torch
from formulations.declared import Declared

from padiff_shim.frameworks.memory import TORCH_DTYPES
from padiff_shim.measure.bits import same_bits
from padiff_shim.measure.distance import Distance, distance, worst_of
from padiff_shim.modes.reference import reference
from padiff_shim.proof.bits.formulation import BOTH, FORWARD, GRADIENT, listed, replay
from padiff_shim.trees import as_array

_NARROW = re.compile(r"(?<=\")(?:bfloat16|float16|float32)(?=\")|(?<=torch\.)(?:bfloat16|float16|float32)\b")


SEED = 20
Array = np.ndarray[Any, Any]


def drawn(formulation: Declared, place: int = 0) -> dict[str, Any]:
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


def torch_operands(arrays: Mapping[str, Any], dtype: str) -> dict[str, Any]:
    """The same of Torch."""
    operands = {}
    for name, value in arrays.items():
        if isinstance(value, np.ndarray):
            tensor = torch.from_numpy(value.copy())
            value = tensor.to(TORCH_DTYPES[dtype]).requires_grad_() if is_float(value) else tensor
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
    leaves = {name: operands[name] for name, value in arrays.items() if is_float(value)}
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
    leaves = {name: operands[name] for name, value in arrays.items() if is_float(value)}
    gradients = {name: None if leaf.grad is None else as_array(leaf.grad).copy() for name, leaf in leaves.items()}
    return Bits([as_array(result.detach()) for result in results], [_dtype(result) for result in results], gradients)


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).rpartition(".")[2]


def _starts(results: list[Any]) -> list[Array]:
    """The gradients that the backward begins with."""
    rng = np.random.default_rng(SEED + 1)
    return [rng.standard_normal((1, *result.shape)).reshape(tuple(result.shape)).astype("float32") for result in results]


def ran(formulation: Declared, dtype: str, *, place: int = 0) -> list[Bits]:
    """Each spelling on one sample, in Paddle on Torch's kernels."""
    arrays = drawn(formulation, place)
    return [on_paddle(spelling.paddle, arrays, dtype) for spelling in formulation.spellings]


def apart(first: Bits, other: Bits, dtype: str) -> tuple[Distance, Distance]:
    """How far results and gradients of two spellings are apart; gradients are in ``dtype``."""
    results = zip(first.results, other.results, zip(first.dtypes, other.dtypes))
    gradients = [(first.gradients[name], other.gradients[name]) for name in first.gradients]
    returned = [distance(one_side, its, (dtype, dtype)) for one_side, its in gradients if one_side is not None and its is not None]
    return worst_of(distance(*pair) for pair in results), worst_of(returned)


def which_differ(spelled: list[Bits]) -> str:
    """Which bits differ between any two of several spellings: forward, gradient, both, or "" for none."""
    pairs = list(itertools.combinations(spelled, 2))
    forward = any(bits.forward_differs(other) for bits, other in pairs)
    gradient = any(bits.gradient_differs(other) for bits, other in pairs)
    return BOTH if forward and gradient else FORWARD if forward else GRADIENT if gradient else ""
