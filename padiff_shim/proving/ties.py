"""Weights that are one tensor in one program and several in the other: equal at first, they part in a training."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

import paddle
import torch

from ..weights.mapping import Mapping
from .cause import Cause
from .causes import Difference
from .findings import Mistake


def tied_otherwise(original: torch.nn.Module, port: paddle.nn.Layer, mapping: Mapping) -> list[Mistake]:
    """A mistake for each group of weights that are tied in one of both programs alone, with what to write."""
    theirs = {name: id(tensor) for name, tensor in original.named_parameters(remove_duplicate=False)}
    ours = {
        f"{path}.{name}" if path else name: id(tensor)
        for path, layer in [("", port), *port.named_sublayers()]
        for name, tensor in layer._parameters.items()
        if tensor is not None
    }
    groups: dict[str, dict[int, dict[str, int]]] = {"original": defaultdict(dict), "port": defaultdict(dict)}
    for pair in mapping:
        whole = pair.torch_slot.whole and pair.paddle_slot.whole
        if whole and pair.torch in theirs and pair.paddle in ours:
            groups["original"][theirs[pair.torch]][pair.paddle] = ours[pair.paddle]
            groups["port"][ours[pair.paddle]][pair.paddle] = theirs[pair.torch]
    return [
        Mistake(Cause.TIED, _text(side, list(names)), None, None, ())
        for side, by_tensor in groups.items()
        for names in by_tensor.values()
        if len(set(names.values())) > 1
    ]


def _text(side: str, names: list[str]) -> str:
    listed = " and ".join((", ".join(names[:-1]), names[-1]))
    path, _, own = names[-1].rpartition(".")
    target = re.sub(r"\.(\d+)", r"[\1]", f"self.{path}" if path else "self")
    if side == "original":
        return f"{listed} are one weight in the original, and several in the port: write {target}.{own} = self.{names[0]}"
    return f"{listed} are one weight in the port, and several in the original: give {target} a weight of its own"


def beside(differences: Sequence[Difference]) -> list[Difference]:
    """Those that do not follow from it: the gradients of a weight that is read in two places are added up in one program alone."""
    return [difference for difference in differences if not _adds_gradients(difference)]


def _adds_gradients(difference: Difference) -> bool:
    alone = {Cause.MISSING: difference.theirs, Cause.EXTRA: difference.ours}.get(difference.cause)
    return alone is not None and alone.backward and alone.name == "add"
