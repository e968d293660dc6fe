"""Scaled dot product attention, at the level of the framework's function."""

from __future__ import annotations

import math
from typing import Any

import torch

from padiff_shim.table.op import Fault, KernelLimits, Sample, function, op
from padiff_shim.torch_versions import attention_kernel

from ._faults import clip

QKV = ((2, 5, 4, 8),) * 3
_NOTE = (
    "[batch, length, heads, size] in Paddle, [batch, heads, length, size] in Torch, which gets views. "
    "Fewer heads of keys and values than of queries (GQA) need no flag in Paddle. "
    "The result lies contiguously in memory; Paddle 3 hands out a transposed view."
)


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    dropout: float,
    causal: bool,
    scale: float | None,
) -> torch.Tensor:
    """``F.scaled_dot_product_attention`` of operands [batch, length, heads, size], also with a mask beside ``causal``."""
    single = query.ndim == 3
    if causal and mask is not None:
        past = torch.ones(query.shape[-3], key.shape[-3], dtype=torch.bool, device=mask.device).tril()
        mask, causal = mask & past if mask.dtype == torch.bool else mask.masked_fill(~past, -torch.inf), False
    q, k, v = ((tensor.unsqueeze(0) if single else tensor).transpose(1, 2) for tensor in (query, key, value))
    out = attention_kernel(q, k, v, mask, dropout, causal, scale).transpose(1, 2)
    return out[0] if single else out


def _without_mask(own: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: Any, *rest: Any) -> torch.Tensor:
    """What Paddle's own steps on a CPU compute where ``is_causal`` is set."""
    is_causal = rest[1]
    if mask is None or not is_causal:
        raise NotImplementedError("a mask beside is_causal")
    return own(query, key, value, None, *rest)


def _ignored(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: Any, *rest: Any) -> str:
    """Where a mask says more than ``is_causal`` does."""
    is_causal = rest[1]
    if mask is None or not is_causal:
        return ""
    past = torch.ones(query.shape[-3], key.shape[-3], dtype=torch.bool, device=mask.device).tril()
    taken_out = ~mask if mask.dtype == torch.bool else mask != 0
    if not (taken_out & past).any():
        return ""
    return "attn_mask beside is_causal=True counts, as the formula says; Paddle's own kernel on a CPU ignores it"


def _clipped(own: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: Any, *rest: Any) -> torch.Tensor:
    """In steps, with the logits as Paddle's softmax sees them."""
    dropout, causal, training, _, scale, _ = rest
    if (dropout and training) or query.ndim == 3 or query.shape[2] != key.shape[2]:
        raise NotImplementedError("batches of as many heads, without dropout")
    q, k, v = (tensor.transpose(1, 2) for tensor in (query, key, value))
    logits = q @ k.mT * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if causal:
        logits = logits.masked_fill(torch.ones(logits.shape[-2:], dtype=torch.bool, device=logits.device).triu(1), -math.inf)
    if mask is not None:
        logits = logits.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else logits + mask
    return (torch.softmax(clip(logits, -1), -1) @ v).transpose(1, 2)


@op(
    "query key value attn_mask=None dropout_p=0.0 is_causal=False training=True backend=None scale=None enable_gqa=True",
    amp="flash_attn",
    promote="same",
    random=lambda query, key, value, mask, dropout, causal, training, *rest: bool(dropout and training),
    python="paddle.nn.functional.scaled_dot_product_attention",
    copies_result=True,
    by_layout=True,  # one fused kernel, or where that cannot take them its steps
    samples=(
        Sample(*QKV),
        Sample(*QKV, is_causal=True),
        Sample(*QKV, (2, 4, 5, 5)),
        Sample((2, 5, 4, 8), (2, 7, 4, 8), (2, 7, 4, 8)),
        Sample(*QKV, dropout_p=0.5, training=False),
        Sample(*QKV, scale=0.3),
    ),
    note=f"{_NOTE} A mask beside `is_causal` counts; Paddle ignores it on a CPU.",
    faults={"clip=-64": Fault(_clipped), "mask-ignored": Fault(_without_mask)},
    differs=_ignored,
)
def scaled_dot_product_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None,
    dropout_p: float,
    is_causal: bool,
    training: bool,
    backend: str | None,
    scale: float | None,
    enable_gqa: bool,
) -> torch.Tensor:
    """Attention with a mask to add, or of booleans that say what takes part."""
    if backend is not None:
        raise NotImplementedError(f"backend={backend!r}")
    return _attention(query, key, value, attn_mask, dropout_p if training else 0.0, is_causal, scale)


@op(
    "query key value dropout=0.0 causal=False return_softmax=False fixed_seed_offset=None rng_name='' training=True "
    "softmax_scale=None",
    amp="flash_attn",
    promote="same",
    random=lambda query, key, value, dropout, causal, softmax, offset, name, training, scale: bool(dropout and training),
    results=("out", "softmax"),
    copies_result=True,
    by_layout=True,  # one fused kernel, or where that cannot take them its steps
    python="paddle.nn.functional.flash_attention.flash_attention",
    samples=(Sample(*QKV), Sample(*QKV, causal=True)),
    note=_NOTE,
)
def flash_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout: float,
    causal: bool,
    return_softmax: bool,
    fixed_seed_offset: Any,
    rng_name: str,
    training: bool,
    softmax_scale: float | None,
) -> tuple[Any, ...]:
    """The same without a mask; the second result, which Paddle leaves empty, is None."""
    if training and dropout and (fixed_seed_offset is not None or rng_name):
        raise NotImplementedError("dropout by a generator of its own")
    if return_softmax:
        raise NotImplementedError("return_softmax=True")
    return _attention(query, key, value, None, dropout if training else 0.0, causal, softmax_scale), None


_FLASHMASK = (
    "query key value startend_row_indices=None dropout=0.0 causal=False window_size=None return_softmax_lse=False "
    "return_seed_offset=False fixed_seed_offset=None rng_name='' training=True softmax_scale=None block_mask=None"
)
_MADE_BY_LAYOUT: dict[str, Any] = {
    "c": False,
    "limits": KernelLimits(cpu=False),
    "promote": "same",
    "copies_result": True,
    "by_layout": True,
}


@op(
    _FLASHMASK,
    integers=("startend_row_indices",),
    random=lambda query, key, value, indices, dropout, causal, window, lse, seed, offset, name, training, *rest: bool(
        dropout and training
    ),
    more_entries=(function("paddle.nn.functional.flash_attention.flashmask_attention", _FLASHMASK),),
    note="scaled_dot_product_attention with the mask that the rows' bounds say, of each column",
    **_MADE_BY_LAYOUT,
)
def flashmask_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    startend_row_indices: torch.Tensor | None,
    dropout: float,
    causal: bool,
    window_size: Any,
    return_softmax_lse: bool,
    return_seed_offset: bool,
    fixed_seed_offset: Any,
    rng_name: str,
    training: bool,
    softmax_scale: float | None,
    block_mask: Any,
) -> torch.Tensor:
    """Attention in which each column says the rows that do not see it."""
    others = (window_size, fixed_seed_offset, block_mask)
    if return_softmax_lse or return_seed_offset or rng_name or any(setting is not None for setting in others):
        raise NotImplementedError("a window, blocks, or another result")
    if causal and query.shape[1] != key.shape[1]:
        raise NotImplementedError("causal attention of other lengths")
    mask = None
    if startend_row_indices is not None:
        mask = ~_hidden(startend_row_indices, causal, query.shape[1])
        if mask.shape[1] not in (1, query.shape[2]):
            mask = mask.repeat_interleave(query.shape[2] // mask.shape[1], 1)
    return _attention(query, key, value, mask, dropout if training else 0.0, causal, softmax_scale)


def _hidden(bounds: torch.Tensor, causal: bool, rows: int) -> torch.Tensor:
    """Which rows do not see a column: those between the first two bounds [batch, heads, columns, bounds], or between the others."""
    row = torch.arange(rows, device=bounds.device)[:, None]
    limits = [limit.unsqueeze(2) for limit in bounds.unbind(-1)]
    if (causal, len(limits)) == (True, 1):
        return row >= limits[0]
    if (causal, len(limits)) == (True, 2):
        return (row >= limits[0]) & (row < limits[1])
    if (causal, len(limits)) == (False, 2):
        return (row >= limits[0]) | (row < limits[1])
    if (causal, len(limits)) == (False, 4):
        return ((row >= limits[0]) & (row < limits[1])) | ((row >= limits[2]) & (row < limits[3]))
    raise ValueError("another number of bounds than Paddle takes")


_UNPADDED = (
    "query key value cu_seqlens_q cu_seqlens_k max_seqlen_q max_seqlen_k scale dropout=0.0 causal=False return_softmax=False "
    "fixed_seed_offset=None rng_name='' training=True"
)


@op(
    _UNPADDED,
    integers=("cu_seqlens_q", "cu_seqlens_k"),
    random=lambda query, key, value, starts, others, rows, columns, scale, dropout, causal, softmax, offset, name, training: bool(
        dropout and training
    ),
    results=("out", "softmax"),
    more_entries=(function("paddle.nn.functional.flash_attention.flash_attn_unpadded", _UNPADDED),),
    note="scaled_dot_product_attention of each sequence by itself",
    **_MADE_BY_LAYOUT,
)
def flash_attn_unpadded(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    scale: float,
    dropout: float,
    causal: bool,
    return_softmax: bool,
    fixed_seed_offset: Any,
    rng_name: str,
    training: bool,
) -> tuple[Any, ...]:
    """Attention of sequences [tokens, heads, size] that lie one behind the other."""
    if return_softmax or fixed_seed_offset is not None or rng_name:
        raise NotImplementedError("return_softmax=True, or dropout by a generator of its own")
    rows, columns = ([int(end) for end in ends] for ends in (cu_seqlens_q, cu_seqlens_k))
    if causal and rows != columns:
        raise NotImplementedError("causal attention of other lengths")
    parts = [
        _attention(query[start:end], key[first:last], value[first:last], None, dropout if training else 0.0, causal, scale)
        for start, end, first, last in zip(rows, rows[1:], columns, columns[1:])
    ]
    return torch.cat(parts), None
