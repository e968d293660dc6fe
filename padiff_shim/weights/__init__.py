"""Weights: which of a Torch module and a Paddle layer belong together, and taking them from one to the other.

The helpers for ``rules=`` of :func:`padiff_shim.transfer_weights` and :func:`padiff_shim.prove` are here:
``from padiff_shim.weights import split``.
"""

from .mapping import Mapping, Pair
from .rules import as_is, cast, concat, gate_up, qkv, split, stack, transpose, unstack
from .transfer import match, transfer_weights

__all__ = [
    "Mapping",
    "Pair",
    "as_is",
    "cast",
    "concat",
    "gate_up",
    "match",
    "qkv",
    "split",
    "stack",
    "transfer_weights",
    "transpose",
    "unstack",
]
