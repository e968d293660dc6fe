"""Weights that are one tensor in one program and several in the other: equal at first, they part in a training."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..weights.mapping import Mapping
from ..weights.tree import OTHER, Slot
from .cause import Cause
from .causes import Difference
from .findings import Mistake


def tied_otherwise(mapping: Mapping) -> list[Mistake]:
    """A mistake for each group of parameters that are tied in one of both programs alone, with what to write."""
    mistakes = []
    for framework in OTHER:
        for pairs in mapping.tied_apart(framework):
            ends = [(pair.torch_slot, pair.paddle_slot) for pair in pairs]
            names = [pair.paddle for pair, slots in zip(pairs, ends) if all(slot.whole and _is_parameter(slot) for slot in slots)]
            if len(names) > 1:
                mistakes.append(Mistake(Cause.TIED, _text(framework, names), None, None, ()))
    return mistakes


def _is_parameter(slot: Slot) -> bool:
    return slot.weight is not None and not slot.weight.buffer


def _text(framework: str, names: list[str]) -> str:
    listed = " and ".join((", ".join(names[:-1]), names[-1]))
    path, _, own = names[-1].rpartition(".")
    target = re.sub(r"\.(\d+)", r"[\1]", f"self.{path}" if path else "self")
    if framework == "torch":
        return f"{listed} are one weight in the original, and several in the port: write {target}.{own} = self.{names[0]}"
    return f"{listed} are one weight in the port, and several in the original: give {target} a weight of its own"


def beside(differences: Sequence[Difference]) -> list[Difference]:
    """Those that do not follow from it: the gradients of a weight that is read in two places are added up in one program alone."""
    return [difference for difference in differences if not _adds_gradients(difference)]


def _adds_gradients(difference: Difference) -> bool:
    alone = {Cause.MISSING: difference.theirs, Cause.EXTRA: difference.ours}.get(difference.cause)
    return alone is not None and alone.backward and alone.name == "add"
