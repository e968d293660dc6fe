"""Weights: which of a Torch module and a Paddle layer belong together, and taking them from one to the other.

The helpers for ``rules=`` of :func:`padiff_shim.transfer_weights` are here: ``from padiff_shim.weights import split``.
"""

from .mapping import Mapping, Pair
from .rules import as_is, cast, concat, split, transpose
from .transfer import match, transfer_weights

__all__ = ["Mapping", "Pair", "as_is", "cast", "concat", "match", "split", "transfer_weights", "transpose"]
