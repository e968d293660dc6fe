"""Which weights belong together by their use: where names do not tell, both forwards do.

Weights that lie flat on a layer, ``w1`` and ``w2`` of one shape, are told apart by nothing but the order in which they were made;
and how a square one lies, by nothing at all. What a program does with them tells both. So both models run once, with random numbers
in copies of them, and what is used first for the same is taken to be the same. Whether that is right, the proof shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ..text import listed
from ..weights.explicit import Used
from ..weights.mapping import Mapping
from .locate import trace_of
from .match import kind
from .programs import ModelSide
from .trace import Capture, TraceOperand
from .values import as_array

Array = np.ndarray[Any, Any]


class _Use(NamedTuple):
    """The first use of a weight: by which call, as which operand, and whether transposed (None if that does not show)."""

    name: str
    shape: tuple[int, ...]  # whichever way it lies
    call: str
    operand: str
    turned: bool | None


def is_doubted(mapping: Mapping) -> bool:
    """Whether a match leaves open which weights belong together, or how they lie."""
    return any(mapping.left) or any(pair.doubted or pair.turnable for pair in mapping)


def by_use(original: ModelSide, port: ModelSide, mapping: Mapping) -> list[Used]:
    """Pairs of the weights that a match has left open; none if both models do not use as many of one shape.

    Args:
        theirs, ours: sides of models that may be changed: all weights will hold random numbers.
        mapping: the match.
    """
    known = [pair for pair in mapping if not pair.doubted and pair.torch and pair.paddle]
    settled = {pair.torch for pair in known}, {pair.paddle for pair in known}
    try:
        uses = [_uses(side) for side in (original, port)]
    except Exception:  # a model that does not run with other weights tells nothing
        return []
    pairs = _paired(*([use for use in side_uses if use.name not in names] for side_uses, names in zip(uses, settled)))
    of_torch, of_paddle = ({use.name: use for use in side_uses} for side_uses in uses)
    turnable = [pair for pair in known if pair.turnable and pair.torch in of_torch and pair.paddle in of_paddle]
    return pairs + [_used(of_torch[pair.torch], of_paddle[pair.paddle]) for pair in turnable]


def _paired(original: list[_Use], port: list[_Use]) -> list[Used]:
    """In order of use those that are used for the same; of what is not used for the same on both sides, those of one shape."""
    pairs: list[Used] = []
    order = {use.name: place for place, use in enumerate(original)}
    for key in (lambda use: use[1:4], lambda use: use.shape):  # type: Callable[[_Use], Any]
        counts = Counter(map(key, original)), Counter(map(key, port))
        same = {use_key for use_key, count in counts[0].items() if counts[1][use_key] == count}
        for use_key in same:
            pairs += map(_used, (use for use in original if key(use) == use_key), (use for use in port if key(use) == use_key))
        original, port = ([use for use in uses if key(use) not in same] for uses in (original, port))
    return sorted(pairs, key=lambda pair: order[pair.torch])


def _used(original: _Use, port: _Use) -> Used:
    turned = None if original.turned is None or port.turned is None else original.turned is not port.turned
    return Used(original.name, port.name, turned)


def _uses(side: ModelSide) -> list[_Use]:
    """The first use of each weight, in order."""
    generator, stored = np.random.default_rng(0), {}
    for name, parameter in side.parameters().items():
        if np.issubdtype(as_array(parameter).dtype, np.floating):
            stored[name] = generator.standard_normal(tuple(parameter.shape)).astype(as_array(parameter).dtype)
            side.fill(parameter, stored[name])
    uses: dict[str, _Use] = {}
    for node in trace_of(side.run_forward(Capture)).nodes:
        for operand in sorted(node.operands, key=lambda operand_: -operand_.tensor.dim()):
            name = operand.value.label
            if operand.value.node is None and name in stored and name not in uses:
                shape = tuple(sorted(size for size in stored[name].shape if size != 1))
                uses[name] = _Use(name, shape, kind(node), operand.name, _is_turned(operand, stored[name]))
    return list(uses.values())


def _is_turned(operand: TraceOperand, stored: Array) -> bool | None:
    if stored.ndim != 2 or operand.tensor.dim() != 2:
        return None
    values = as_array(operand.tensor)
    return next((turned for turned, weight in ((False, stored), (True, stored.T)) if np.array_equal(values, weight)), None)


def told(used: Iterable[Used]) -> str:
    """What a proof says of weights that were paired so."""
    pairs = [f"{pair.torch} and {pair.paddle}" for pair in used]
    return (
        f"names do not tell which of these weights belong together, or how they lie; they were paired by their use in the forward: "
        f"{listed(pairs)}. If that is not how you take weights across, say so: layer_map="
    )
