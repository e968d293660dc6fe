"""``padiff_shim.bitwise``: the lines where the bits of a port part from its original's, and what to write there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..arguments import one_of
from ..progress import Waiting
from ..proof.causes import Cause
from ..proof.findings import ProgramPlace, ProofVerdict
from ..proof.programs import NotWider, PaddleSide, generators_restored
from ..proof.proof import Proof
from ..proof.prove import question
from ..proof.trace import TraceCall
from ..table.formulation import BOTH, FORWARD, GRADIENT
from .following import plain_layer
from .measuring import distance
from .origins import cause_of, layouts
from .result import BitOrigin, Bitwise, TravelRow
from .search import Origin, OriginSearch

PHASES = ("forward", "both")


@Waiting("looking for where bits part")
def bitwise(
    paddle_layer: Any,
    torch_module: Any,
    inputs: Any,
    *,
    weights: str = "torch->paddle",
    phase: str = "both",
    loss: Callable[[Any], Any] | tuple[Callable[[Any], Any], Callable[[Any], Any]] | None = None,
    layer_map: Mapping[Any, Any] | None = None,
    rules: Any = None,
    dtype: Any = None,
    seed: int = 0,
) -> Bitwise:
    """Say at which lines the bits of a right port part from its original's, why, and what to write to have the same.

    The port runs on Torch's kernels, as in :func:`padiff_shim.prove`: on equal kernels only the formulation can make other bits.
    Each of its calls then gets the original's own operands, bit for bit; where the result differs, the line is an origin. Spellings
    of the formulations in docs/bitwise.md, or else the original's own calls in Paddle's words, are replayed on these operands. One
    that gives the original's bits, in results and gradients, is printed as a change. With all changes in place the whole port runs
    again, without anything of the original's.

    Args:
        paddle_layer, torch_module, inputs, weights, loss, layer_map, rules, dtype, seed: as for :func:`padiff_shim.prove`.
        phase: ``"forward"``, or ``"both"``: also the gradients of all parameters.

    Returns:
        A :class:`Bitwise`, true if no bit differs.

    Raises:
        ArgumentError: an argument of a kind that is not accepted.
        TransferError: the weights cannot be transferred.

    Errors of the models themselves are raised unchanged.

    >>> import numpy, paddle, torch, padiff_shim
    >>> class Port(paddle.nn.Layer):
    ...     def forward(self, x):
    ...         return x * (1 / 3)
    >>> class Original(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x / 3
    >>> answer = padiff_shim.bitwise(Port(), Original(), numpy.arange(8.0))
    >>> bool(answer), answer.mended, [(origin.name, origin.change) for origin in answer.origins]
    (False, True, [('division by a number', 'x / c')])
    """
    start = time.perf_counter()
    one_of("phase", phase, PHASES)
    with generators_restored():
        checked = question(
            paddle_layer, torch_module, inputs, weights=weights, phase=phase, loss=loss, layer_map=layer_map, rules=rules,
            dtype=dtype, seed=seed,
        )  # fmt: skip
        proof = checked.proof()
        answer = Bitwise(proof, _is_comparable(proof))
        if answer.comparable and checked.ran is not None:
            original, port, mapping = checked.ran
            try:
                _look_into(answer, OriginSearch(original, port, mapping), port)
            except NotWider as error:
                answer.notes.append(f"which values belong together is known from runs in float64 only: {error}")
    answer.seconds = time.perf_counter() - start
    return answer


def _is_comparable(proof: Proof) -> bool:
    """Whether both compute the same in float64: a port that computes in another dtype does."""
    only_dtypes = bool(proof.mistakes) and proof.complete and all(mistake.cause is Cause.DTYPE for mistake in proof.mistakes)
    return bool(proof) or (proof.verdict is ProofVerdict.CODE_DIFFERS and only_dtypes)


def _look_into(answer: Bitwise, search: OriginSearch, port: PaddleSide) -> None:
    answer.results, answer.gradients = search.identical(search.natural)
    if answer.identical:
        return
    search.find_origins()
    search.find_changes()
    changed = search.changed()
    answer.results_changed, answer.gradients_changed = search.identical(changed)
    shares = search.contributions()
    answer.explained = None if shares is None else sum(shares)
    dtype = port.dtype()
    answer.origins = [
        _origin(search, origin, dtype, None if shares is None else shares[place]) for place, origin in enumerate(search.origins)
    ]
    answer.travel = list(_travel(search, dtype, answer.origins))
    if search.base_ends:
        answer.notes.append(
            "with the original's values in all calls that have a counterpart these differ still, so not every origin is known: "
            + ", ".join(sorted(name or "output 0" for name in search.base_ends))
        )


def _origin(search: OriginSearch, origin: Origin, dtype: str, contribution: float | None) -> BitOrigin:
    change = origin.change
    groups = origin.at(origin.times[0]) or origin.groups
    forward = [group for group in groups if not group.backward]
    first = max(forward, key=lambda group: group.port[-1].index) if forward else groups[0]
    far = [
        distance(group.made.double().cpu().numpy(), group.wanted.double().cpu().numpy(), str(group.made.dtype).rpartition(".")[2])
        for group in origin.groups
    ]
    backward = {group.backward for group in origin.groups}
    formulation = change.formulation if change else origin.formulation
    cause, name, why = (formulation.cause, formulation.name, formulation.why) if formulation else cause_of(first)
    return BitOrigin(
        cause=cause,
        name=name,
        why=why,
        torch=_place(first.original),
        paddle=_place(first.port),
        layers=tuple(_layer(origin, numbers) for numbers in origin.times),
        differs=BOTH if len(backward) > 1 else GRADIENT if True in backward else FORWARD,
        ulp=max(each.ulp for each in far),
        share=max(each.share for each in far),
        torch_operands=layouts(first.original),
        paddle_operands=layouts(first.port),
        change=change.spelling if change else "",
        patch=change.patch(search.calls, search.places) if change else None,
        contribution=contribution,
    )


def _layer(origin: Origin, numbers: set[int]) -> str:
    """The layer of the port in which an origin is this time."""
    groups = [group for group in origin.groups if group.calls <= numbers]
    return plain_layer(next((group for group in groups if not group.backward), groups[0]).port[-1]) if groups else ""


def _place(calls: Sequence[TraceCall]) -> ProgramPlace | None:
    """The line of the last of several calls, with the names of all."""
    if not calls:
        return None
    last = calls[-1]
    own = [call for call in calls if call.backward is last.backward]
    prefix = "the gradient of a call: " if last.backward else ""
    return ProgramPlace.at(last.site, plain_layer(last), prefix + ", ".join(call.name for call in own))


def _travel(search: OriginSearch, dtype: str, origins: Sequence[BitOrigin]) -> Iterable[TravelRow]:
    """A row for each layer that both programs call, in the order in which the original's end."""
    for layer, pairs in search.layers():
        parts = [distance(expected, actual, dtype) for expected, actual in pairs]
        means = [_mean(expected, actual, far.ulp) for (expected, actual), far in zip(pairs, parts)]
        numbers = tuple(number for number, origin in enumerate(origins, 1) if layer in origin.layers)
        yield TravelRow(layer, len(pairs), max(far.ulp for far in parts), max(means), max(far.share for far in parts), numbers)


def _mean(expected: Any, actual: Any, largest: float) -> float:
    """The mean difference in the unit of the largest."""
    apart = np.abs(expected.astype(np.float64) - actual.astype(np.float64))
    top = float(apart.max(initial=0.0))
    return float(apart.mean()) / top * largest if top else 0.0
