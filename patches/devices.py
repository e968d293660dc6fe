"""Fused ops of language models that Paddle has for other devices only: on a CPU each is computed as its kernel is documented to.

Where such a kernel computes 16 bits in float32 and rounds once, so does the formula.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from padiff_shim.table.op import Ints, KernelLimits, Sample, c_op, function, op
from padiff_shim.torch_versions import rms_norm_kernel

from ._declarations import alike


def _rms_norm(x: torch.Tensor, shape: Sequence[int], weight: torch.Tensor | None, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """What ``torch.nn.functional.rms_norm`` computes, and the reciprocals of the roots, which have no gradient."""
    y, reciprocals = rms_norm_kernel(x, shape, weight, eps)
    return y, reciprocals.detach().reshape(-1)


@op(
    "x scale epsilon=1e-05",
    limits=KernelLimits(cpu=False),
    promote="none",
    results=("y", "invvar"),
    scratch=("invvar",),
    samples=(Sample((2, 3, 8), (8,)), Sample((5, 6), (6,), epsilon=0.1), Sample((7,), (7,))),
    note="rounded once, as `torch.nn.functional.rms_norm` is; a norm of transformers rounds before the weight and after it",
)
def fused_rms_norm_ext(x: torch.Tensor, scale: torch.Tensor, epsilon: float) -> tuple[Any, ...]:
    """``torch.nn.functional.rms_norm`` over the last axis, in the dtype of its weight."""
    if scale.shape != x.shape[-1:]:
        raise ValueError("a weight of another shape than the last axis")
    if x.dtype == scale.dtype:
        return _rms_norm(x, scale.shape, scale, epsilon)
    dtype = torch.promote_types(torch.promote_types(x.dtype, scale.dtype), torch.float32)
    y, reciprocals = _rms_norm(x.to(dtype), scale.shape, scale.to(dtype), epsilon)
    return y.to(scale.dtype), reciprocals


@op(
    "x weight normalized_shape=[] epsilon=1e-05",
    limits=KernelLimits(cpu=False),
    c=False,
    promote="same",
    results=("out", "invvar"),
    scratch=("invvar",),
    # Older Paddles have a kernel of another meaning by this name: `fused_rms_norm_quant`.
    more_entries=(c_op("rms_norm", "x weight normalized_shape=[] epsilon=1e-05", since="fused_rms_norm_quant"),),
    samples=(
        Sample((2, 3, 8), (8,), normalized_shape=[8]),
        Sample((2, 3, 4), (3, 4), normalized_shape=[3, 4], epsilon=0.1),
        Sample((5, 6), None, normalized_shape=[6]),
    ),
    note="`F.rms_norm`",
)
def rms_norm(x: torch.Tensor, weight: torch.Tensor | None, normalized_shape: Sequence[int], epsilon: float) -> tuple[Any, ...]:
    """``torch.nn.functional.rms_norm``."""
    return _rms_norm(x, normalized_shape, weight, epsilon)


_ROTARY = "q k v sin cos position_ids use_neox_rotary_style=True time_major=False rotary_emb_base=10000.0"
_HEADS, _GROUPED = (2, 5, 4, 6), (2, 5, 2, 6)


@op(
    _ROTARY,
    limits=KernelLimits(cpu=False),
    promote="same",
    results=("out_q", "out_k", "out_v"),
    unset={"out_k": "", "out_v": ""},
    samples=(
        Sample(_HEADS, _GROUPED, None, (1, 5, 1, 6), (1, 5, 1, 6), None, use_neox_rotary_style=False),
        Sample(_HEADS, _GROUPED, _GROUPED, (5, 6), (5, 6), None),
        Sample(_HEADS, _GROUPED, None, (9, 6), (9, 6), Ints((2, 5), 0, 9), use_neox_rotary_style=False),
        Sample((5, 2, 4, 6), None, None, (1, 9, 1, 6), (1, 9, 1, 6), Ints((2, 5), 0, 9), time_major=True),
        Sample(_HEADS, _GROUPED, None, None, None, None, rotary_emb_base=500.0),
    ),
    note="`use_neox_rotary_style=True` turns neighbours, False the halves of an axis, as transformers does; in float32, rounded "
    "once, where transformers rounds each product; sines and cosines have no gradient",
)
def fused_rotary_position_embedding(
    q: torch.Tensor,
    k: torch.Tensor | None,
    v: torch.Tensor | None,
    sin: torch.Tensor | None,
    cos: torch.Tensor | None,
    position_ids: torch.Tensor | None,
    neighbours: bool,
    time_major: bool,
    base: float,
) -> tuple[Any, ...]:
    """``x * cos + rotated(x) * sin`` of queries, keys and values [batch, length, heads, size]."""
    if q.ndim != 4 or q.shape[-1] % 2:
        raise ValueError("no four axes, of which the last is even")
    dtype = torch.promote_types(q.dtype, torch.float32)
    length = q.shape[0 if time_major else 1]
    if sin is None or cos is None:
        if position_ids is not None or not neighbours:
            raise NotImplementedError("positions, or halves, without sines and cosines")
        # Sines and cosines of the places in a sequence, as Paddle's kernel makes them: in float32
        size = q.shape[-1]
        even = torch.arange(size, device=q.device) // 2 * 2
        frequencies = 1.0 / torch.pow(base, even.float() / size)
        angles = torch.arange(length, device=q.device).float()[:, None] * frequencies
        tables = angles.sin(), angles.cos()
    else:
        alike(sin, cos)
        tables = tuple(table.detach().reshape(-1, q.shape[-1]) for table in (sin, cos))
        if len(tables[0]) < length or (position_ids is None and len(tables[0]) != length):
            raise ValueError("sines and cosines of another length")
    sines, cosines = (_placed(table.to(dtype), position_ids, time_major) for table in tables)
    return tuple(None if x is None else _turned(x, sines, cosines, neighbours).to(x.dtype) for x in (q, k, v))


def _placed(table: torch.Tensor, position_ids: torch.Tensor | None, time_major: bool) -> torch.Tensor:
    """Rows [length, size] of a table for operands [batch, length, heads, size], or [length, batch, heads, size]."""
    rows = table[None] if position_ids is None else table[position_ids]
    return (rows.transpose(0, 1) if time_major else rows).unsqueeze(2)


def _turned(x: torch.Tensor, sin: torch.Tensor, cos: torch.Tensor, neighbours: bool) -> torch.Tensor:
    x = x.to(sin.dtype)
    if neighbours:
        rotated = torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
    else:
        first, second = x.chunk(2, -1)
        rotated = torch.cat((-second, first), -1)
    return x * cos + rotated * sin


@op(
    "x weight bias=None transpose_weight=False",
    limits=KernelLimits(cpu=False),
    c=False,
    promote="same",
    products=True,
    layouts={"weight": "transposed"},
    more_entries=(
        # A weight [out, in] is for the C function below.
        function("paddle.incubate.nn.functional.fused_linear", "x weight bias=None transpose_weight=False", seen_below=True),
    ),
    samples=(Sample((5, 7), (7, 4), (4,)), Sample((2, 4, 6), (6, 4), (4,)), Sample((5, 7), (7, 4), None)),
)
def fused_linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, transpose_weight: bool) -> torch.Tensor:
    """``torch.nn.functional.linear``, as of ``linear``; the weight arrives as [out, in]."""
    if transpose_weight:
        raise NotImplementedError("a weight that lies as [out, in]")
    return F.linear(x, weight, bias)


_EPILOGUES = {
    "none": lambda x: x,
    "relu": F.relu,
    "gelu": lambda x: F.gelu(x, approximate="tanh"),
}


def _epilogue(
    x: torch.Tensor, y: torch.Tensor, bias: torch.Tensor, trans_x: bool, trans_y: bool, activation: str | None
) -> torch.Tensor:
    """A linear layer and its activation."""
    if y.ndim != 2 or bias.ndim != 1:
        raise ValueError("a weight that is no matrix, or a bias that is no vector")
    rows = x.movedim(0, -1) if trans_x else x
    return _EPILOGUES[activation or "none"](F.linear(rows, y if trans_y else y.t(), bias))


_PRODUCTS = (
    Sample((5, 7), (7, 4), (4,)),
    Sample((2, 5, 7), (4, 7), (4,), trans_y=True, activation="relu"),
    Sample((7, 5), (7, 4), (4,), trans_x=True, activation="gelu"),
)


@op(
    "x y bias trans_x=False trans_y=False activation='none'",
    tensors=3,
    limits=KernelLimits(cpu=False),
    promote="same",
    results=("out", "reserve_space"),
    unset={"reserve_space": ""},
    samples=_PRODUCTS,
    note="`gelu` is the one by tanh",
)
def fused_gemm_epilogue(x: Any, y: Any, bias: Any, trans_x: bool, trans_y: bool, activation: str) -> tuple[Any, ...]:
    """``torch.nn.functional.linear`` and its activation."""
    return _epilogue(x, y, bias, trans_x, trans_y, activation), None


fused_linear_activation = op(
    "x y bias trans_x=False trans_y=False activation=None",
    name="fused_linear_activation",
    limits=KernelLimits(cpu=False),
    promote="same",
    python="paddle.incubate.nn.functional.fused_linear_activation",
    samples=_PRODUCTS,
    note="`gelu` is the one by tanh",
)(_epilogue)


@op(
    "x bias dequant_scales shift smooth act_method='gelu' compute_dtype='default' quant_scale=-1.0 quant_round_type=0 "
    "quant_max_bound=0.0 quant_min_bound=0.0",
    limits=KernelLimits(cpu=False),
    promote="same",
    gradient=False,
    samples=(
        Sample((3, 8), (8,)),
        Sample((2, 3, 8), (8,), act_method="swiglu"),
        Sample((3, 8), None, act_method="geglu"),
        Sample((3, 8), (8,), act_method="relu"),
    ),
    note="it has no gradient; each step is rounded",
)
def fused_bias_act(
    x: torch.Tensor,
    bias: torch.Tensor | None,
    dequant_scales: torch.Tensor | None,
    shift: torch.Tensor | None,
    smooth: torch.Tensor | None,
    act_method: str,
    compute_dtype: str,
    quant_scale: float,
    *rounding: float,
) -> torch.Tensor:
    """The sum with a bias, and ``gelu``, ``relu``, or one of two halves gated by ``silu`` or ``gelu`` of the other."""
    if quant_scale > 0 or any(tensor is not None for tensor in (dequant_scales, shift, smooth)):
        raise NotImplementedError("quantised arithmetic")
    summed = x if bias is None else x + bias
    if act_method in ("swiglu", "geglu"):
        gate, values = summed.chunk(2, -1)
        return (F.silu(gate) if act_method == "swiglu" else F.gelu(gate)) * values
    if act_method not in ("gelu", "relu"):
        raise NotImplementedError(f"act_method={act_method!r}")
    return F.gelu(summed) if act_method == "gelu" else F.relu(summed)
