"""What is known of Torch's operators by their names: which compute, which only move, create or ask."""

from __future__ import annotations

import functools
from typing import Any

# The same elements in another shape, memory or object: no call of its own, whatever a framework needs of these.
SAME = frozenset({
    "view", "_unsafe_view", "_reshape_alias", "reshape", "permute", "t", "transpose", "unsqueeze", "squeeze", "expand", "detach",
    "alias", "clone", "contiguous", "lift_fresh", "lift_fresh_copy", "view_as_real", "view_as_complex", "_conj", "resolve_conj",
    "resolve_neg", "flatten", "unflatten", "swapaxes", "movedim", "numpy_T",
})  # fmt: skip
ARRANGING = frozenset({
    "view", "_unsafe_view", "reshape", "permute", "t", "transpose",
})  # fmt: skip
COPIES = frozenset({"clone", "contiguous"})
# Elements of the operands, none computed.
MOVES = frozenset({
    "slice", "select", "split", "split_with_sizes", "chunk", "unbind", "cat", "stack", "index", "index_select", "gather",
    "embedding", "constant_pad_nd", "flip", "roll", "repeat", "narrow", "diagonal", "unfold", "as_strided", "masked_select",
    "take", "triu", "tril", "where", "scatter", "index_put", "select_scatter", "slice_scatter", "copy", "_to_copy", "to",
    "repeat_interleave", "masked_fill", "tile", "pad", "reflection_pad1d", "reflection_pad2d", "replication_pad2d",
})  # fmt: skip
BLANK = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"})  # memory without values
# Questions about values, too.
NOTHING = BLANK | {
    "equal", "is_nonzero", "_local_scalar_dense", "item", "set_", "is_pinned", "is_same_size", "size", "stride",
    "storage_offset", "sym_size", "prim_device", "device", "record_stream",
}  # fmt: skip
# Numbers of nothing, in the shape of an operand at most.
CREATES = frozenset({
    "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full",
})  # fmt: skip
NO_ATTRIBUTES = frozenset({
    "dtype", "layout", "device", "pin_memory", "memory_format", "non_blocking", "copy", "implicit", "requires_grad",
})  # fmt: skip


_RUNNING = ("running_mean", "running_var")  # written in training, though no schema says so


class Shape:
    """The words of one overload of an operator."""

    def __init__(self, function: Any) -> None:
        schema = function._schema
        self.name = schema.name.partition("::")[2]
        self.base = self.name[:-1] if self.name.endswith("_") and not self.name.startswith("__") else self.name
        self.parameters = [(argument.name, argument.default_value) for argument in schema.arguments]
        self.written = [
            argument.name in _RUNNING or (argument.alias_info is not None and argument.alias_info.is_write)
            for argument in schema.arguments
        ]


shape_of = functools.cache(Shape)


def is_passive(function: Any) -> bool:
    """Whether an overload of an operator computes nothing: it moves, creates, or asks."""
    name = shape_of(function).base
    return any(name in kind for kind in (SAME, MOVES, NOTHING, CREATES))
