"""Message passing on graphs and pooling over segments, as index_select, index_add and scatter_reduce: what Torch programs use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from padiff_shim.numerics.ties import Pools
from padiff_shim.table.op import Fault, Ints, Sample, each, op

from ._declarations import with_axes

EDGES = (Ints((6,), 0, 4), Ints((6,), 0, 4))
EXTREMES = {"MAX": "amax", "MIN": "amin"}


def _message(kind: str, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Both rows of an edge as one; Paddle's functions make a difference a sum, and a quotient a product."""
    if kind not in ("ADD", "MUL"):
        raise NotImplementedError(f"message_op={kind!r}")
    return x + y if kind == "ADD" else x * y


def _received(messages: torch.Tensor, to: torch.Tensor, kind: str, rows: int) -> torch.Tensor:
    """Row number ``to[i]`` of the result takes message i; rows that none reaches are 0."""
    if kind not in ("SUM", "MEAN", *EXTREMES):
        raise NotImplementedError(f"rows taken together by {kind!r}")
    index = to.long()
    empty = messages.new_zeros((rows, *messages.shape[1:]))
    if kind in EXTREMES:
        wide = index.reshape(-1, *[1] * (messages.ndim - 1)).expand_as(messages)
        # Not from zeros, which Torch's gradient takes for one more of the equal messages, whether they are included or not.
        reached = empty.index_fill(0, index, 1) > 0
        extremes = (empty - math.inf if kind == "MAX" else empty + math.inf).scatter_reduce(0, wide, messages, EXTREMES[kind])
        return torch.where(reached, extremes, empty)
    total = empty.index_add(0, index, messages)
    if kind != "MEAN":
        return total
    count = torch.bincount(index, minlength=rows).clamp(min=1).to(messages.dtype)
    return total / count.reshape(-1, *[1] * (messages.ndim - 1))


def _whole(own: Any, x: torch.Tensor, *rest: Any) -> torch.Tensor:
    """Extrema of rows whose gradient goes to each of equal messages whole."""
    edges, kind = (rest[:2], rest[2]) if len(rest) > 2 else (rest[:1], rest[1])
    if kind not in EXTREMES:
        raise NotImplementedError("sums")
    value = own(x.detach(), *rest)
    messages = x if len(edges) == 1 else x.index_select(0, edges[0].long())
    to = edges[-1].long()
    equal = messages.detach() == value.index_select(0, to)
    return value.index_add(0, to, equal * (messages - messages.detach()))


_EQUAL: dict[str, Any] = {
    "ties": Pools(lambda x, *how: x.movedim(0, -1), when=lambda kind, *size: kind in EXTREMES),
    "faults": {"whole-to-each": Fault(_whole)},
}


def _rows(x: torch.Tensor, out_size: Any) -> int:
    size = out_size[0] if isinstance(out_size, Sequence) and out_size else out_size
    size = size if isinstance(size, int) else 0
    return size if size > 0 else x.shape[0]


@op(
    "x src_index dst_index reduce_op='SUM' out_size=[0]",
    amp="graph_send_recv",
    promote="same",
    samples=each((Sample((4, 3), *EDGES),), reduce_op=("SUM", "MEAN")),
    **_EQUAL,
    note="Gathers with index_select and sums with index_add; rows that no message reaches are 0. Of equal messages that are the "
    "largest or smallest Paddle gives each the whole gradient, Torch a share.",
)
def send_u_recv(x: torch.Tensor, src_index: torch.Tensor, dst_index: torch.Tensor, reduce_op: str, out_size: Any) -> torch.Tensor:
    """Rows of ``x`` sent along edges."""
    return _received(x.index_select(0, src_index.long()), dst_index, reduce_op, _rows(x, out_size))


@op(
    "x y src_index dst_index message_op='ADD' reduce_op='SUM' out_size=[0]",
    amp="graph_send_ue_recv",
    promote="same",
    samples=each((Sample((4, 3), (6, 3), *EDGES, positive=True),), message_op=("ADD", "MUL"), reduce_op=("SUM", "MEAN")),
    note="As send_u_recv; messages are made of a row of `x` and one of `y`.",
)
def send_ue_recv(
    x: torch.Tensor,
    y: torch.Tensor,
    src_index: torch.Tensor,
    dst_index: torch.Tensor,
    message_op: str,
    reduce_op: str,
    out_size: Any,
) -> torch.Tensor:
    """Rows of ``x``, changed by what lies on the edges, sent along them."""
    messages = _message(message_op, x.index_select(0, src_index.long()), y)
    return _received(messages, dst_index, reduce_op, _rows(x, out_size))


@op(
    "x y src_index dst_index message_op='ADD'",
    amp="graph_send_uv",
    promote="same",
    samples=each((Sample((4, 3), (5, 3), *EDGES, positive=True),), message_op=("ADD", "MUL")),
)
def send_uv(x: torch.Tensor, y: torch.Tensor, src_index: torch.Tensor, dst_index: torch.Tensor, message_op: str) -> torch.Tensor:
    """A message for each edge, of the rows at its ends."""
    with_axes(x, y)
    return _message(message_op, x.index_select(0, src_index.long()), y.index_select(0, dst_index.long()))


@op(
    "x segment_ids pooltype='SUM'",
    integers=("segment_ids",),
    promote="same",
    note="`paddle.geometric.segment_sum` and its like, as index_add and scatter_reduce over sorted ids.",
    **_EQUAL,
)
def segment_pool(x: torch.Tensor, segment_ids: torch.Tensor, pooltype: str) -> torch.Tensor:
    """Rows of ``x`` pooled where their ids, which are sorted, are equal."""
    return _received(x, segment_ids, pooltype, int(segment_ids[-1]) + 1 if len(segment_ids) else 0)
