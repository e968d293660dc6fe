"""Weights: which of a Torch module and a Paddle layer belong together, and taking them from one to the other.

The helpers for ``rules=`` of :func:`padiff_shim.transfer_weights` and :func:`padiff_shim.prove` are here:
``from padiff_shim.weights import split``.
"""

from .mapping import Mapping as Mapping
from .pairing import Pair as Pair
from .rules import (
    as_is as as_is,
    cast as cast,
    concat as concat,
    gate_up as gate_up,
    qkv as qkv,
    split as split,
    stack as stack,
    transpose as transpose,
    unstack as unstack,
)
from .transfer import match as match, transfer_weights as transfer_weights
