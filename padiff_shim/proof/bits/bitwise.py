"""The lines where the bits of a port part from its original's, and what to write there: a view of a proof."""

from __future__ import annotations

import linecache
import re
import time
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...dispatch.call_site import is_library
from ...measure.distance import Distance, distance, worst_of
from ...present.annotations import Patch
from ...progress import Waiting
from ...text import listed, tr
from ...trees import elements
from ...weights.mapping import Mapping as Weights
from ..arguments import shown
from ..causes import Cause
from ..expressions import Rewrite, both
from ..findings import ProgramPlace, ProofVerdict
from ..programs import NotWider, PaddleSide, TorchSide, generators_restored
from ..trace import TraceCall
from ..training import place_of
from ..updates import Recipe
from .calls import ValueId
from .changes import Change
from .followed_runs import call_number, plain_layer
from .formulation import BOTH, FORWARD, GRADIENT, TRAINING
from .origins import OriginGroup, cause_of, layouts
from .result import UPDATE, BitOrigin, Bitwise, TravelRow, patched
from .search import Origin, OriginSearch, unfollowed
from .source import text_of
from .updates import PaddleUpdates, update_sides

if TYPE_CHECKING:
    from ..proof import Proof

LEAST_STEPS = 3  # of an optimizer: averages begin with zeros, and two later steps tell which numbers belong to a step
Counts = tuple[tuple[int, int], tuple[int, int]]  # of results and of gradients: how many are identical, and how many there are
MOST_CALLS = 12  # of an origin that are listed one by one


@Waiting("looking for where bits part")
def bitwise(proof: Proof, original: TorchSide, port: PaddleSide, mapping: Weights, recipe: Recipe | None, steps: int) -> Bitwise:
    """:meth:`padiff_shim.Proof.bits` of two programs that compute the same; ``recipe``, ``steps``: how both are trained."""
    start, answer = time.perf_counter(), Bitwise(proof)
    with generators_restored():
        try:
            _look_into(answer, OriginSearch(original, port, mapping), port)
            if recipe is not None:
                number = max(steps, LEAST_STEPS)
                sides = update_sides(original, port, mapping, recipe, number)
                _look_into_updates(answer, OriginSearch(*sides, mapping, steps=number), sides[1])
        except NotWider as error:
            answer.notes.append(tr("which values belong together is known from runs in float64 only: {error}", error=error))
    answer.seconds = time.perf_counter() - start
    return answer


def same_mathematics(proof: Proof) -> bool:
    """Whether both compute the same in float64: a port that computes in another dtype does."""
    only_dtypes = bool(proof.mistakes) and proof.complete and all(mistake.cause is Cause.DTYPE for mistake in proof.mistakes)
    return bool(proof) or (proof.verdict is ProofVerdict.CODE_DIFFERS and only_dtypes)


def _look_into(answer: Bitwise, search: OriginSearch, port: PaddleSide) -> None:
    """The origins of the forward and the backward."""
    answer.results, answer.gradients = answer.results_changed, answer.gradients_changed = search.identical(search.natural)
    if answer.identical:
        return
    try:
        answer.origins, answer.explained = _searched(search)
        answer.results, answer.gradients = search.identical(search.natural)  # without layers that return something else
        changed = _run_as_written(answer, search, search.identical(search.changed()))
        answer.results_changed, answer.gradients_changed = changed
    except NotWider:
        raise
    except Exception as error:  # of the port's own code, with the original's values in its calls
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not is_library(frame.filename)]
        place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
        answer.notes.append(unfollowed(place, error))
    answer.notes += dict.fromkeys(search.notes)
    if not answer.mended:
        answer.notes += _unexplained(search)
    answer.travel = list(_travel(search, port.dtype(), answer.origins))


def _look_into_updates(answer: Bitwise, search: OriginSearch, port: PaddleUpdates) -> None:
    """Those of an optimizer's steps."""
    answer.updates = answer.updates_changed = search.identical(search.natural)[0]
    if answer.updates[0] == answer.updates[1]:
        return
    origins, _ = _searched(search)
    torch_place, paddle_place = map(place_of, port.recipe.places)
    if not origins:
        far = [distance(actual, expected, (dtype, dtype)) for expected, actual, dtype in search.outputs()]
        why = tr("no value between gradients and weights belongs to one of the original's: both round in other places")
        worst, name = worst_of(far), tr("the whole step of the optimizer")
        origins = [BitOrigin(TRAINING, name, why, torch_place, paddle_place, ("",), UPDATE, worst.ulp or 0.0, worst.share)]
    answer.origins += [
        replace(origin, torch=_own(origin.torch, torch_place), paddle=_own(origin.paddle, paddle_place)) for origin in origins
    ]
    answer.updates_changed = search.identical(search.changed())[0]
    if search.origins and answer.updates_changed[0] < answer.updates_changed[1]:
        answer.notes += _unexplained(search)


def _own(place: ProgramPlace | None, maker: ProgramPlace | None) -> ProgramPlace | None:
    """A place in an optimizer's step without the step; of a framework's own optimizer the function that makes it."""
    if place is None:
        return None
    return replace(maker, call=place.call) if maker is not None and is_library(place.file) else replace(place, layer="")


def _searched(search: OriginSearch) -> tuple[list[BitOrigin], float | None]:
    """The origins, with their changes, and how much of the final difference they explain."""
    search.find_origins()
    search.find_changes()
    measured = search.contributions()
    shares = search.leave_out(measured or [None] * len(search.origins))
    origins = [
        replace(_origin(search, origin, share), patch=patch, names=() if patch else _names(search, origin.change))
        for origin, share, patch in zip(search.origins, shares, _patches(search))
    ]
    return origins, None if not any(share is not None for share in shares) else sum(share or 0.0 for share in shares)


def _names(search: OriginSearch, change: Any) -> tuple[tuple[str, str], ...]:
    """What the names of a change stand for."""
    if not isinstance(change, Change):
        return ()
    makers = {value: number for number, call in enumerate(search.calls) for value in call.outputs}
    names = []
    for name, value in change.candidates[0].operands.items():
        number = makers.get(value) if isinstance(value, ValueId) else None
        if not isinstance(value, ValueId):
            names.append((name, shown(value)))
        elif number is not None:
            place = search.places[number]
            text = text_of(place.span) if place.span is not None else search.calls[number].op
            names.append((name, tr("what line {line} makes: {call}", line=place.site.line, call=text)))
        else:
            names.append((name, tr("an input, or a parameter")))
    return tuple((name, what) for name, what in names if re.search(rf"\b{name}\b", change.spelling))


def _run_as_written(answer: Bitwise, search: OriginSearch, changed: Counts) -> Counts:
    """What is identical with the patches in the port's files, if all changes have one; patches that do not do it are left out."""
    before = {patch.file: "".join(linecache.getlines(patch.file)) for patch in answer.patches}

    def counted(patches: Sequence[Patch]) -> Counts | None:
        return search.with_sources(patched(patches, {patch.file: before[patch.file] for patch in patches}))

    whole = all(origin.patch is not None for origin in answer.origins if origin.change)
    least, counts = changed if whole else search.identical(search.natural), counted(answer.patches)
    if not answer.patches or (counts is not None and _reach(counts, least)):
        return counts if answer.patches and whole and counts is not None else changed
    good, least = list[Patch](), search.identical(search.natural)
    for patch in (*answer.patches, *answer.patches):  # what one makes equal may show behind another alone
        if patch in good:
            continue
        counts = counted([*good, patch])
        if counts is not None and counts != least and _reach(counts, least):
            good.append(patch)
            least = counts
    for place, origin in enumerate(answer.origins):
        if origin.patch is not None and origin.patch not in good:
            names = _names(search, search.origins[place].change)
            answer.origins[place] = replace(origin, patch=None, names=names)
            answer.notes.append(
                tr("change {number} does in memory what its lines do not: it is shown, and not written", number=place + 1)
            )
    if len(good) == len(answer.patches) and not _reach(least, changed):
        answer.notes.append(
            tr("written as lines the changes make fewer bits equal: one runs in layers that the original writes otherwise")
        )
    return changed


def _reach(counts: Counts, least: Counts) -> bool:
    return all(same >= other for (same, _), (other, _) in zip(counts, least))


def _patches(search: OriginSearch) -> list[Patch | None]:
    """The lines to write for each origin; those of one statement are one patch. All were compiled, and run in the port."""
    taken, lines = set[str](), dict[Any, Rewrite | None]()
    rewrites: list[Rewrite | None] = []
    for origin in search.origins:
        change = origin.change
        alike: Any = id(change)
        if isinstance(change, Change):
            alike = change.spelling, search.places[min(change.written_at(search.calls))].extent
        if change is not None and alike not in lines:  # origins of one line that are mended by one change have one patch
            lines[alike] = search.lines(change, taken)
        rewrites.append(None if change is None else lines[alike])
    patches = [None if rewrite is None else rewrite.patch() for rewrite in rewrites]
    for place, patch in enumerate(patches):
        for before in range(place):
            other, united = patches[before], both(rewrites[before], rewrites[place])
            if patch is not None and other is not None and united is not None and other.end_line >= patch.line <= other.end_line:
                same = [number for number, rewrite in enumerate(rewrites) if rewrite in (rewrites[before], rewrites[place])]
                for number in same:
                    rewrites[number], patches[number] = united, united.patch()
                patch = patches[place]
    return patches


def _unexplained(search: OriginSearch) -> Iterable[str]:
    """What differs though every value that has a counterpart is the original's."""
    if search.base_ends:
        ends = listed(sorted(name or "output 0" for name in search.base_ends), 6)
        yield tr(
            "with the original's values in all calls that have a counterpart these differ still, so not every origin is "
            "known: {ends}",
            ends=ends,
        )


def _origin(search: OriginSearch, origin: Origin, contribution: float | None) -> BitOrigin:
    change = origin.change
    groups = origin.at(origin.times[0]) or origin.groups
    forward = [group for group in groups if not group.backward]
    first = max(forward, key=lambda group: group.port[-1].index) if forward else groups[0]
    far = worst_of(_apart(group) for group in origin.groups)
    backward = {group.backward for group in origin.groups}
    formulation = change.formulation if change else origin.formulation
    port, original = first.port, first.original
    paddle, torch = _place(port, first.moved[0]), _place(original, first.moved[1])
    if origin.laid and isinstance(change, Change):  # the line that lays the operand out
        number = max(change.candidates[0].calls)
        pairs = [pair for pair in zip(*first.laid) if call_number(pair[0]) in change.calls]
        port, original = ([pair[side] for pair in pairs] or calls for side, calls in enumerate((port, original)))
        place = search.places[number]
        paddle, torch = ProgramPlace.at(place.site, place.layer, search.calls[number].op), _place(original, [])
    cause, name, why = (formulation.cause, formulation.name, formulation.why) if formulation else cause_of(first)
    cause = TRAINING if search.steps else cause
    return BitOrigin(
        cause=cause,
        name=name,
        why=why,
        torch=torch,
        paddle=paddle,
        layers=tuple("" if search.steps else _layer(origin, numbers) for numbers in origin.times),
        differs=UPDATE if search.steps else BOTH if len(backward) > 1 else GRADIENT if True in backward else FORWARD,
        ulp=far.ulp or 0.0,
        share=far.share,
        torch_operands=layouts(original),
        paddle_operands=layouts(port),
        change=change.spelling if change else "",
        reason="" if change else origin.reason,
        contribution=contribution,
    )


def _apart(group: OriginGroup) -> Distance:
    (made, dtype), (wanted, wanted_dtype) = elements(group.made), elements(group.wanted)
    return distance(made, wanted, (dtype, wanted_dtype))


def _layer(origin: Origin, numbers: set[int]) -> str:
    """The layer of the port in which an origin is this time."""
    groups = [group for group in origin.groups if group.calls <= numbers]
    return plain_layer(next((group for group in groups if not group.backward), groups[0]).port[-1]) if groups else ""


def _place(calls: Sequence[TraceCall], moved: Sequence[TraceCall]) -> ProgramPlace | None:
    """The line of the last of several calls, with the names of all; of those that stand elsewhere in the other program, if any."""
    if not calls:
        return None
    last = next((call for call in (*reversed(moved), *reversed(calls)) if not is_library(call.site.file)), calls[-1])
    own = [call for call in calls if call.backward is last.backward] or [last]
    ops = [call.name for call in own]
    names = ", ".join(ops if len(ops) <= MOST_CALLS else dict.fromkeys(ops))
    return ProgramPlace.at(
        last.site, plain_layer(last), tr("the gradient of a call: {call}", call=names) if last.backward else names
    )


def _travel(search: OriginSearch, dtype: str, origins: Sequence[BitOrigin]) -> Iterable[TravelRow]:
    """A row for each layer that both programs call, in the order in which the original's end."""
    for layer, pairs in search.layers():
        parts = [distance(actual, expected, (dtype, dtype)) for expected, actual in pairs]
        worst, numbers = worst_of(parts), tuple(number for number, origin in enumerate(origins, 1) if layer in origin.layers)
        mean = max(part.mean_abs / part.max_abs * (part.ulp or 0.0) if part.max_abs else 0.0 for part in parts)
        yield TravelRow(layer, len(pairs), worst.ulp or 0.0, mean, worst.share, numbers)
