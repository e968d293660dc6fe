"""In which dtype both programs compute, and where infinities are born: asked where float64 says that the mathematics is the same.

A port without its original's autocast, or without an upcast, rounds otherwise by many orders of magnitude; one that takes the
logarithm of a softmax overflows where a ``log_softmax`` does not. In float64 nothing of this shows.
"""

from __future__ import annotations

import linecache
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ..dispatch.site import Site, call_site
from ..frameworks.surroundings import LooksOn
from .capture import tensors_in
from .cause import Cause
from .findings import Mistake, Place
from .operators import is_passive, shape_of
from .pairing import kind_of
from .sides import Side

HALVES = frozenset({torch.float16, torch.bfloat16})


@dataclass(frozen=True)
class Computed:
    """A call, and the dtype of its result; ``finite``: its result is, or one of its operands is not."""

    name: str
    dtype: torch.dtype
    finite: bool
    site: Site
    layer: str

    def place(self) -> Place:
        """As it is shown in a proof."""
        source = linecache.getline(self.site.file, self.site.line).strip()
        return Place(self.layer, self.site.file, self.site.line, source, f"{self.name} in {_plain(self.dtype)}")


class Precisions(LooksOn, TorchDispatchMode):
    """Within it the dtype of every float result of Torch's kernels is noted; no values are held."""

    def __init__(self, names: Mapping[int, str], layer: Callable[[], str], until: CodeType | None = None) -> None:
        super().__init__()
        self.calls: list[Computed] = []
        self._layer, self._until = layer, until

    def moved(self, tensor: torch.Tensor, like: torch.Tensor) -> None:
        """What Paddle moves by itself is no call of Torch's."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        first = next((tensor for tensor in tensors_in(result) if tensor.is_floating_point()), None)
        if first is not None and not is_passive(function):
            finite = _finite(first) or not all(map(_finite, tensors_in([*args, *(kwargs or {}).values()])))
            self.calls.append(Computed(shape_of(function).base, first.dtype, finite, call_site(self._until), self._layer()))
        return result


def _finite(tensor: torch.Tensor) -> bool:
    return not tensor.is_floating_point() or bool(torch.isfinite(tensor).all())


def otherwise(theirs: Side, ours: Side) -> Mistake | None:
    """The first call that one program computes in 16 bits and the other does not, or in which only one makes an infinity or NaN."""
    calls = []
    for side in (theirs, ours):
        capture = side.run_forward(Precisions).capture
        assert isinstance(capture, Precisions)
        calls.append(capture.calls)
    return _in_halves(*calls) or _not_finite(*calls)


def _in_halves(theirs: list[Computed], ours: list[Computed]) -> Mistake | None:
    """Of the ops that both call equally often."""
    by_kind: tuple[dict[str, list[Computed]], dict[str, list[Computed]]] = (defaultdict(list), defaultdict(list))
    for calls, kinds in zip((theirs, ours), by_kind):
        for call in calls:
            kinds[kind_of(call.name)].append(call)
    pairs = [
        pair for kind, calls in by_kind[0].items() if len(calls) == len(by_kind[1][kind]) for pair in zip(calls, by_kind[1][kind])
    ]
    apart = [(mine, yours) for mine, yours in pairs if mine.dtype is not yours.dtype and {mine.dtype, yours.dtype} & HALVES]
    if not apart:
        return None
    mine, yours = min(apart, key=lambda pair: ours.index(pair[1]))
    text = (
        f"{yours.name} is computed in {_plain(yours.dtype)}, in the original in {_plain(mine.dtype)} "
        f"({len(apart)} of {len(pairs)} calls); {_advice(mine.dtype, yours.dtype)}"
    )
    return Mistake(Cause.DTYPE, text, mine.place(), yours.place(), (yours.layer,))


def _advice(theirs: torch.dtype, ours: torch.dtype) -> str:
    if theirs in HALVES:
        return f'call the model under paddle.amp.auto_cast(dtype="{_plain(theirs)}"), or cast there'
    return f'cast the operand before: .astype("{_plain(theirs)}")'


def _not_finite(theirs: list[Computed], ours: list[Computed]) -> Mistake | None:
    mine, yours = (next((call for call in calls if not call.finite), None) for calls in (theirs, ours))
    if (mine is None) is (yours is None):
        return None
    side = "the port" if mine is None else "the original"
    born = mine or yours
    assert born is not None
    text = f"{born.name} makes an infinity or NaN of finite numbers in {side} alone: {_plain(born.dtype)} overflows there"
    there, here = (None if call is None else call.place() for call in (mine, yours))
    return Mistake(Cause.OVERFLOW, text, there, here, (yours.layer,) if yours else ())


def _plain(dtype: torch.dtype) -> str:
    return str(dtype).rpartition(".")[2]
