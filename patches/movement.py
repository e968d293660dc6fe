"""Ops that move values: nothing is rounded, but the strides that Torch leaves behind decide the bits of what comes next.

Views (``reshape``, ``transpose``, slices) are not here: see ``padiff_shim/tape/views.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from padiff_shim.table.op import Bools, Sample, method, op
from padiff_shim.table.reasons import INTEGER, StayNative
from padiff_shim.torch_versions import channel_shuffle_kernel

from ._declarations import alike, of, with_axes

MOVED: dict[str, Any] = {"exact": True}
CASTS = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})


def integers(values: Any) -> list[int]:
    """A shape, axes or counts: one number, a sequence of numbers or tensors, or a tensor."""
    if hasattr(values, "tolist"):
        values = values.tolist()
    return [int(value) for value in values] if isinstance(values, (list, tuple)) else [int(values)]


@op(
    "x|input|tensors axis|dim=0",
    operands=True,
    passes_empty=True,
    samples=(Sample((2, 3), (4, 3)), Sample((2, 3), (2, 3), axis=-1)),
    **MOVED,
)
def concat(x: Sequence[torch.Tensor], axis: Any) -> torch.Tensor:
    """``torch.cat``."""
    if len({tensor.ndim for tensor in x}) > 1:  # Torch passes over an empty vector, whatever the others are
        raise ValueError("operands of different ranks")
    return torch.cat(x, int(axis))


stack = op("x|input|tensors axis|dim=0", operands=True, samples=(Sample((2, 3), (2, 3)), Sample((3,), (3,), axis=-1)), **MOVED)(
    torch.stack
)


@op("x sections axis=0", samples=(Sample((5, 4), sections=[2, -1]), Sample((2, 6), sections=[1, 2, 3], axis=1)), **MOVED)
def split(x: torch.Tensor, sections: Any, axis: Any) -> list[torch.Tensor]:
    """``torch.split``; one length may be -1."""
    lengths, axis = integers(sections), int(axis)
    if -1 in lengths:
        lengths[lengths.index(-1)] = x.shape[axis] - sum(lengths) - 1
    return list(torch.split(x, lengths, axis))


@op("x num axis=0", samples=(Sample((6, 4), num=2), Sample((2, 6), num=3, axis=1)), **MOVED)
def split_with_num(x: torch.Tensor, num: int, axis: Any) -> list[torch.Tensor]:
    """``torch.chunk``, into equal parts."""
    axis = int(axis)
    if not num or x.shape[axis] % num:
        raise NotImplementedError("no parts, or of several lengths: Paddle refuses")
    return list(torch.chunk(x, num, axis))


@op("x axis=0 num=None", samples=(Sample((3, 4), axis=1, num=4), Sample((2, 3, 4), axis=-2, num=3)), **MOVED)
def unstack(x: torch.Tensor, axis: int, num: int | None) -> list[torch.Tensor]:
    """``torch.unbind``; Paddle copies."""
    if num not in (None, 0, x.shape[axis]):
        raise ValueError("another number of parts than there are")
    return list(torch.unbind(x, axis))


@op("x|input repeat_times|dims", samples=(Sample((2, 3), repeat_times=[2, 1]), Sample((3,), repeat_times=[2, 3])), **MOVED)
def tile(x: torch.Tensor, repeat_times: Any) -> torch.Tensor:
    """``torch.tile``."""
    return torch.tile(x, integers(repeat_times))


@op("x shape", amp="expand_v2", samples=(Sample((1, 3), shape=[2, 4, 3]), Sample((3, 1), shape=[-1, 4])), **MOVED)
def expand(x: torch.Tensor, shape: Any) -> torch.Tensor:
    """``Tensor.expand``; Paddle copies."""
    return x.expand(integers(shape))


@op("x y=None target_shape=None", amp="expand_as_v2", samples=(Sample((1, 3), target_shape=[4, 3]),), **MOVED)
def expand_as(x: torch.Tensor, y: Any, target_shape: Any) -> torch.Tensor:
    """``Tensor.expand_as``; Paddle copies. Of ``y`` the shape is what counts."""
    return x.expand(list(y.shape) if y is not None else integers(target_shape))


@op("input|inputs", operands=True, samples=(Sample((1, 3), (4, 1)),), **MOVED)
def broadcast_tensors(input: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """``torch.broadcast_tensors``; Paddle copies, also of one tensor that stands in two places."""
    shape = torch.broadcast_shapes(*(x.shape for x in input))
    return [x.expand(shape) for x in input]


@op("inputs|input", operands=True, samples=(Sample((3,), (2,)),), **MOVED)
def meshgrid(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """``torch.meshgrid``, rows first; Paddle copies."""
    return list(torch.meshgrid(*inputs, indexing="ij"))


@op("x axis", samples=(Sample((3, 4), axis=[0]), Sample((2, 3, 4), axis=[-1, 0])), complex=True, **MOVED)
def flip(x: torch.Tensor, axis: Any) -> torch.Tensor:
    """``torch.flip``."""
    chosen = integers(axis)
    if chosen:
        with_axes(x)
    return torch.flip(x, chosen)


@op(
    "x shifts axis=None",
    samples=(Sample((3, 4), shifts=1), Sample((3, 4), shifts=[1, -2], axis=[0, 1]), Sample((5,), shifts=[7], axis=[0])),
    complex=True,
    **MOVED,
)
def roll(x: torch.Tensor, shifts: Any, axis: Any) -> torch.Tensor:
    """``torch.roll``; without axes, of the flat tensor."""
    over = [] if axis is None else integers(axis)
    return torch.roll(x, integers(shifts), over) if over else torch.roll(x, integers(shifts))


tril = op("x|input diagonal=0", samples=(Sample((3, 4)), Sample((2, 4, 4), diagonal=-1)), complex=True, **MOVED)(torch.tril)
triu = op("x|input diagonal=0", samples=(Sample((3, 4)), Sample((2, 4, 4), diagonal=1)), complex=True, **MOVED)(torch.triu)


@op(
    "x|input offset|diagonal=0 padding_value=0",
    amp="diag_v2",
    samples=(Sample((3,)), Sample((3,), offset=-1), Sample((3, 4), offset=1)),
    complex=True,
    **MOVED,
)
def diag(x: torch.Tensor, offset: int, padding_value: float) -> torch.Tensor:
    """``torch.diag``."""
    if x.ndim == 1 and padding_value:
        raise NotImplementedError("diag that pads with another value than 0")
    return torch.diag(x, offset)


@op(
    "condition x|input y|other",
    samples=(Sample(Bools((3, 4)), (3, 4), (3, 4)), Sample(Bools((2, 3)), (2, 3), (2, 3))),
    **MOVED,
)
def where(condition: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """``torch.where``."""
    alike(condition, x, y)
    return torch.where(condition, x, y)


assign = op("x|input", name="assign", more_entries=(method("clone", "x"),), samples=(Sample((3, 4)), Sample(())), **MOVED)(
    torch.clone
)


@op("x|input dtype", samples=(), **MOVED)
def cast(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """``Tensor.to`` between float dtypes, which rounds to the nearest in both frameworks."""
    if not dtype.is_floating_point:
        raise StayNative(INTEGER)
    if dtype not in CASTS:
        raise NotImplementedError(f"a cast to {dtype}, which NumPy does not have")
    return x.to(dtype)


@op(
    "x|input mask value",
    tensors=3,
    samples=(
        Sample((3, 4), Bools((3, 4)), ()),
        Sample((2, 3), Bools((2, 3)), ()),
        Sample((3, 4), Bools((3, 4)), (4,)),
        Sample((2, 3, 4), Bools((3, 4)), (3, 1)),
    ),
    deviations={"gradient": "Paddle's gradient of the value is zero or unwritten memory, Torch's the sum over the mask"},
    **MOVED,
)
def masked_fill(x: torch.Tensor, mask: torch.Tensor, value: Any) -> torch.Tensor:
    """``Tensor.masked_fill``; ``torch.where`` with several values, which Paddle broadcasts."""
    if not isinstance(value, torch.Tensor) or not value.ndim:
        return x.masked_fill(mask, value)
    if np.broadcast_shapes(x.shape, mask.shape, value.shape) != np.broadcast_shapes(x.shape, mask.shape):
        raise NotImplementedError("masked_fill with more values than places")
    return torch.where(mask, value.to(x.dtype), x)


masked_select = op("x|input mask", tensors=2, samples=(Sample((3, 4), Bools((3, 4))),), unread=("x",), **MOVED)(torch.masked_select)


@op(
    "x paddings pad_value=0.0",
    samples=(Sample((3, 4), paddings=[1, 0, 2, 1]), Sample((3,), paddings=[1, 2], pad_value=2.5)),
    **MOVED,
)
def pad(x: torch.Tensor, paddings: Any, pad_value: Any) -> torch.Tensor:
    """``F.pad`` with one value; Paddle counts the axes from the first one, Torch from the last."""
    before = integers(paddings)
    widths = [width for axis in reversed(range(len(before) // 2)) for width in before[2 * axis : 2 * axis + 2]]
    return F.pad(x, widths, value=float(pad_value))


@op(
    "x paddings mode='constant' value|pad_value=0.0 data_format='NCDHW'",
    samples=(
        Sample((1, 2, 3, 4, 5), paddings=[1, 2, 0, 1, 1, 0]),
        Sample((1, 2, 1, 4, 5), paddings=[1, 2, 0, 1, 0, 0], mode="reflect"),
        Sample((1, 2, 3, 4, 5), paddings=[1, 2, 0, 1, 1, 0], mode="replicate"),
        Sample((1, 2, 4, 1, 1), paddings=[0, 0, 0, 0, 2, 1], mode="circular"),
        Sample((1, 3, 4, 5, 2), paddings=[1, 2, 0, 1, 1, 0], value=0.5, data_format="NDHWC"),
    ),
    unread=("x",),  # of what Torch keeps for a reflection its backward reads the shape alone
    **MOVED,
)
def pad3d(x: torch.Tensor, paddings: Any, mode: str, value: float, data_format: str) -> torch.Tensor:
    """``F.pad`` of the axes that Paddle pads: what it made five-dimensional for its kernel has the rank again that it had."""
    if data_format not in ("NCDHW", "NDHWC"):
        raise NotImplementedError(f"data_format={data_format!r}")
    widths = integers(paddings)
    last = data_format == "NDHWC"
    inner = x.permute(0, 4, 1, 2, 3) if last else x
    spare = [axis for axis in (4, 3, 2) if inner.shape[axis] == 1 and not any(widths[8 - 2 * axis : 10 - 2 * axis])]
    if len(spare) == 3:
        spare = spare[:-1]
    pads = [width for axis in (4, 3, 2) if axis not in spare for width in widths[8 - 2 * axis : 10 - 2 * axis]]
    inner = inner.squeeze(tuple(spare))
    padded = F.pad(inner, pads, mode, value) if mode == "constant" else F.pad(inner, pads, mode)
    for axis in sorted(spare):
        padded = padded.unsqueeze(axis)
    return padded.permute(0, 2, 3, 4, 1) if last else padded


def _channels_first(formula: Callable[..., Any], x: torch.Tensor, number: int, data_format: str) -> torch.Tensor:
    """``torch.nn.functional.pixel_shuffle`` and its like, of channels in front or behind."""
    last = data_format == "NHWC"
    out = formula(x.permute(0, 3, 1, 2) if last else x, number)
    return out.permute(0, 2, 3, 1) if last else out


pixel_shuffle = op("x|input upscale_factor data_format='NCHW'", samples=(Sample((1, 8, 2, 3), upscale_factor=2),), **MOVED)(
    of(_channels_first, F.pixel_shuffle)
)


pixel_unshuffle = op("x|input downscale_factor data_format='NCHW'", samples=(Sample((1, 2, 4, 6), downscale_factor=2),), **MOVED)(
    of(_channels_first, F.pixel_unshuffle)
)


@op("x|input groups data_format='NCHW'", samples=(Sample((1, 6, 2, 3), groups=2),), **MOVED)
def channel_shuffle(x: torch.Tensor, groups: int, data_format: str) -> torch.Tensor:
    """``F.channel_shuffle``."""
    return _channels_first(channel_shuffle_kernel, x, groups, data_format)
