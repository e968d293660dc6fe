"""Weights: which of a Torch module and a Paddle layer belong together, and taking them from one to the other.

The helpers for ``rules=`` of :func:`padiff_shim.transfer_weights` and :func:`padiff_shim.prove` are here:
``from padiff_shim.weights import split``.
"""

from .mapping import Mapping as Mapping
from .pairing import Pair as Pair
from .rules import as_is as as_is
from .rules import cast as cast
from .rules import concat as concat
from .rules import gate_up as gate_up
from .rules import qkv as qkv
from .rules import split as split
from .rules import stack as stack
from .rules import transpose as transpose
from .rules import unstack as unstack
from .transfer import match as match
from .transfer import transfer_weights as transfer_weights
