"""In which dtype both programs compute, and where infinities are born, where float64 says that the mathematics is the same.

A port without its original's autocast, or without an upcast, rounds differently by many orders of magnitude; the logarithm of a
softmax overflows where a ``log_softmax`` does not. In float64 none of this shows.
"""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from types import CodeType
from typing import Any

import torch

from ..dispatch.call_site import CallSite, at_line, call_site
from ..frameworks import autocast
from ..frameworks.memory import HALVES, TORCH_DTYPES, dtype_of
from ..text import joined, many, tr
from .findings import Cause, Mistake, ProgramPlace
from .match import kind_of
from .programs import ModelSide
from .trace import Onlooker, is_passive, shape_of, tensors_in


@dataclass(frozen=True)
class Computed:
    """A call, and the dtype of its result.

    ``finite``: its result is finite, or one of its operands is not. ``rounded``: the dtype of 16 bits to which a cast rounded an
    operand of it; ``table``: the name of what the model's conversion rounded so. ``listed``: what Paddle's guard around it lists
    otherwise than Paddle does.
    ``size``, ``mean``: how many numbers its result has, and the mean of their absolute values, which rounding hardly moves.
    """

    name: str
    dtype: torch.dtype
    finite: bool
    rounded: torch.dtype | None
    table: str
    listed: frozenset[str]
    site: CallSite
    layer: str
    size: int
    mean: float

    def is_like(self, other: Computed) -> bool:
        """Whether the results may be the same, but for rounding."""
        return self.size == other.size and abs(self.mean - other.mean) <= _NEAR * max(self.mean, other.mean)

    def place(self) -> ProgramPlace:
        """Its place, for a proof."""
        return ProgramPlace.at(self.site, self.layer, tr("{name} in {dtype}", name=self.name, dtype=dtype_of(self.dtype)))


class Precisions(Onlooker):
    """Within it the dtype of every float result of Torch's kernels is noted, and which casts round, and no values."""

    def __init__(
        self,
        names: Mapping[int, str],
        layer: Callable[[], str],
        until: CodeType | None = None,
        *,
        tables: Sequence[tuple[torch.Tensor, str]] = (),
    ) -> None:
        super().__init__()
        self.calls: list[Computed] = []
        self._layer, self._until = layer, until
        self._tables = tables
        # By address: a tensor, the dtype of 16 bits to which a cast has rounded its values, and the table that they were.
        self._rounded: dict[int, tuple[torch.Tensor, torch.dtype, str]] = {}

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        first = next((tensor for tensor in tensors_in(result) if tensor.is_floating_point()), None)
        if first is None:
            return result
        arguments = [*args, *(kwargs or {}).values()]
        operands = list(tensors_in(arguments))
        if is_passive(function):
            self._pass_on(first, operands)
            return result
        rounded, table = next(filter(None, map(self._how_rounded, operands)), (None, ""))
        self._rounded.pop(first.data_ptr(), None)
        if rounded is None and all(map(is_whole, (first, *operands))):  # sizes and places, which every dtype holds exactly
            return result
        finite = _finite(first) or not all(map(_finite, operands)) or any(map(_is_infinite, arguments))
        named = autocast.listed_by_program(autocast.grad_tracer()) if autocast.HERE.on else ()
        call = shape_of(function).base, first.dtype, finite, rounded, table, frozenset(named)
        mean = float(first.detach().abs().mean(dtype=torch.float64)) if finite and first.numel() else 0.0
        self.calls.append(Computed(*call, call_site(self._until), self._layer(), first.numel(), mean))
        return result

    def moved(self, tensor: torch.Tensor, like: torch.Tensor) -> None:
        """See :class:`LooksOn`."""
        self._pass_on(tensor, [like])

    def _pass_on(self, result: torch.Tensor, operands: Sequence[torch.Tensor]) -> None:
        """Note what a movement or cast makes of rounded numbers, or rounds."""
        rounded = next(filter(None, map(self._how_rounded, operands)), None)
        whole = operands[0] if result.dtype in HALVES and operands and operands[0].dtype not in HALVES else None
        if whole is not None and whole.is_floating_point() and not torch.equal(whole, result.to(whole.dtype)):
            rounded = result.dtype, ""
        if rounded is not None:
            self._rounded[result.data_ptr()] = (result, *rounded)

    def _how_rounded(self, tensor: torch.Tensor) -> tuple[torch.dtype, str] | None:
        """To which dtype of 16 bits a tensor's numbers were rounded, and which table they were."""
        for table, name in self._tables if tensor.dtype in HALVES else ():
            if table.shape == tensor.shape and torch.equal(table, tensor.to(table.dtype)):
                return tensor.dtype, name
        known = self._rounded.get(tensor.data_ptr())
        return None if known is None or known[0].dtype is not tensor.dtype else known[1:]


_WHOLE = 2.0**8  # up to which bfloat16 holds every whole number
_NEAR = 2.0**-5  # how far rounding in 16 bits moves the mean of absolute values, as a share


def _finite(tensor: torch.Tensor) -> bool:
    return not tensor.is_floating_point() or bool(torch.isfinite(tensor).all())


def is_whole(tensor: torch.Tensor, most: float = _WHOLE) -> bool:
    """Whether a tensor has whole numbers alone, none beyond what a dtype (bfloat16) holds exactly."""
    return not tensor.is_floating_point() or bool(((tensor.trunc() == tensor) & (tensor.abs() <= most)).all())


def _is_infinite(argument: Any) -> bool:
    """Whether an argument is an infinity or NaN, as a mask is filled with."""
    return isinstance(argument, float) and not math.isfinite(argument)


def dtype_or_overflow(
    original: ModelSide, port: ModelSide, layers: Mapping[str, str], rounded: BothTables, *, overflows: bool
) -> tuple[Mistake | None, str]:
    """The first call that one program alone computes in 16 bits, or in which one alone makes an infinity or NaN.

    A table that is held in 16 bits in the port alone is a mistake, too; in the original alone it is none of the port's: then what
    to say of it comes second.

    Args:
        original, port: both programs.
        layers: paths of the original's layers -> the port's.
        rounded: tables that are held so, with names: the original's, and the port's.
        overflows: whether results are so far apart that an infinity may be the cause; else it has no effect.
    """
    there, here = map(_calls, (original, port), rounded)
    pairs = _of_equal_number(there, here)
    mistake = _in_halves(there, here, pairs, layers, port.dtype()) or (_not_finite(there, here) if overflows else None)
    wide = {id(call) for pair in pairs for call, other in (pair, pair[::-1]) if other.dtype not in HALVES}
    coarse, own = (
        [call for call in calls if call.table and (call.dtype not in HALVES or id(call) in wide)] for calls in (there, here)
    )
    if mistake is not None or bool(coarse) is bool(own):
        return mistake, ""
    if own:
        return _rounded_table(own), ""
    site = coarse[0].site
    return None, tr(
        "{dtype} rounds the original's {table} before {line}; the port's numbers are rounded later, if at all",
        dtype=dtype_of(coarse[0].rounded),
        table=coarse[0].table,
        line=at_line(Path(site.file).name, site.line),
    )


Pairs = list[tuple[Computed, Computed]]  # of the original, and of the port
BothTables = Sequence[Sequence[tuple[torch.Tensor, str]]]  # of the original, and of the port


def _calls(side: ModelSide, tables: Sequence[tuple[torch.Tensor, str]]) -> list[Computed]:
    capture = side.run_forward(functools.partial(Precisions, tables=tables)).capture
    assert isinstance(capture, Precisions)
    return capture.calls


def _in_halves(
    original: list[Computed], port: list[Computed], pairs: Pairs, layers: Mapping[str, str], dtype: str
) -> Mistake | None:
    """Of ops that both call equally often, or that stand in one order in a layer of both and are narrower in the port.

    But for calls of a rounded table, which the other program may read elsewhere. ``dtype``: of the port's parameters.
    """
    pairs = [pair for pair in pairs if not any(call.table for call in pair)]
    apart = [pair for pair in pairs if pair[0].dtype is not pair[1].dtype and {pair[0].dtype, pair[1].dtype} & HALVES]
    # A call in 16 bits reads 16 bits, whatever rounded them.
    reads = [pair for pair in pairs if pair[0].rounded is not pair[1].rounded and not {call.dtype for call in pair} & HALVES]
    if reads and min([*apart, *reads], key=lambda pair: port.index(pair[1])) not in apart:
        return _rounded_operands(*min(reads, key=lambda pair: port.index(pair[1])), of=len(reads))
    if not apart:
        pairs = [pair for pair in _in_order(original, port, layers) if not pair[1].table]
        apart = [(expected, actual) for expected, actual in pairs if expected.dtype not in HALVES and actual.dtype in HALVES]
    if not apart:
        return None
    expected, actual = min(apart, key=lambda pair: port.index(pair[1]))
    text = tr(
        "{name} is computed in {dtype}, in the original in {expected} ({apart} of {calls}); {advice}",
        name=actual.name,
        dtype=dtype_of(actual.dtype),
        expected=dtype_of(expected.dtype),
        apart=len(apart),
        calls=many(len(pairs), "call"),
        advice=_listed(actual, expected.dtype) or _advice(expected.dtype, dtype),
    )
    return Mistake(Cause.DTYPE, text, expected.place(), actual.place(), (actual.layer,))


def _rounded_table(calls: Sequence[Computed]) -> Mistake:
    """Of calls that compute with a table that the conversion has rounded in the port alone."""
    text = tr(
        "{dtype} rounds {table} before {name}, and not the original's ({calls}; a conversion rounds all tensors that layers hold: "
        "compute it in the forward, in float32)",
        dtype=dtype_of(calls[0].rounded),
        table=calls[0].table,
        name=calls[0].name,
        calls=many(len(calls), "call"),
    )
    return Mistake(Cause.DTYPE, text, None, calls[0].place(), (calls[0].layer,))


def _rounded_operands(original: Computed, port: Computed, *, of: int) -> Mistake:
    """Of a call whose operand a cast rounds in one program alone."""
    text = tr(
        "{name} reads operands rounded to {dtype}, in the original of {expected} ({calls}); {advice}",
        name=port.name,
        dtype="float32" if port.rounded is None else dtype_of(port.rounded),
        expected="float32" if original.rounded is None else dtype_of(original.rounded),
        calls=many(of, "call"),
        advice=_listed(port, original.rounded) or _advice(original.rounded or torch.float32, "float32"),
    )
    return Mistake(Cause.DTYPE, text, original.place(), port.place(), (port.layer,))


def _listed(call: Computed, wanted: torch.dtype | None) -> str:
    """What to take off the guard's own lists; "" if these do not name the call."""
    listed = "custom_black_list" if wanted in HALVES else "custom_white_list"
    names = sorted(name for name in call.listed if name.removeprefix("reduce_") in call.name or call.name in name)
    if wanted in HALVES:  # within a guard nothing else leaves an op in float32
        names = names or sorted(call.listed)
    if not names:
        return ""
    return tr("take {names} off {list}", names=joined(", ", map(repr, names)), list=listed)


def _in_order(original: list[Computed], port: list[Computed], layers: Mapping[str, str]) -> Pairs:
    """Calls of one kind that stand in one order in layers that belong together."""
    by_layer = [_grouped(calls, lambda call: call.layer) for calls in (original, port)]
    pairs: Pairs = []
    for layer, calls in by_layer[0].items():
        others = by_layer[1].get(layers.get(layer, layer), [])
        kinds, opposite = ([kind_of(call.name) for call in side] for side in (calls, others))
        for at, to, size in SequenceMatcher(None, kinds, opposite, autojunk=False).get_matching_blocks():
            pairs += zip(calls[at : at + size], others[to : to + size])
    return pairs


def _of_equal_number(original: list[Computed], port: list[Computed]) -> Pairs:
    """Calls of the kinds that both call equally often."""
    by_kind = [_grouped(calls, lambda call: kind_of(call.name)) for calls in (original, port)]
    counted = [(calls, by_kind[1][kind]) for kind, calls in by_kind[0].items() if len(calls) == len(by_kind[1][kind])]
    return [pair for calls, others in counted for pair in _by_values(calls, others)]


def _by_values(calls: list[Computed], others: list[Computed]) -> Iterator[tuple[Computed, Computed]]:
    """Each call with the next of the others whose result may be the same; else with the next one that has as many numbers.

    Experts multiply by weights of another dtype than that of their gates: the order of both says little.
    """
    left = list(others)
    for call in calls:
        alike = next((other for other in left if other.is_like(call)), None)
        partner = alike or next((other for other in left if other.size == call.size), None)
        if partner is not None:
            left.remove(partner)
            yield call, partner


def _grouped(calls: list[Computed], key: Callable[[Computed], str]) -> dict[str, list[Computed]]:
    groups: dict[str, list[Computed]] = defaultdict(list)
    for call in calls:
        groups[key(call)].append(call)
    return groups


def _advice(wanted: torch.dtype, port_dtype: str) -> str:
    """What to write; ``port_dtype``: of the port's parameters."""
    if wanted in HALVES and TORCH_DTYPES[port_dtype] not in HALVES:
        return tr('call the model under paddle.amp.auto_cast(dtype="{dtype}"), or cast there', dtype=dtype_of(wanted))
    return tr('cast the operand before: .astype("{dtype}")', dtype=dtype_of(wanted))


def _not_finite(original: list[Computed], port: list[Computed]) -> Mistake | None:
    there, here = (next((call for call in calls if not call.finite), None) for calls in (original, port))
    if (there is None) is (here is None):
        return None
    born, side = (there, tr("the original")) if there else (here, tr("the port"))
    assert born is not None
    text = tr(
        "{name} makes an infinity or NaN of finite numbers in {side} alone: {dtype} overflows there",
        name=born.name,
        side=side,
        dtype=dtype_of(born.dtype),
    )
    places = [None if call is None else call.place() for call in (there, here)]
    return Mistake(Cause.OVERFLOW, text, places[0], places[1], (here.layer,) if here else ())
