"""Differences that form one mistake: masks, label smoothing, expressions, exchanged values, moved calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from ..dispatch.call_site import CallSite
from .causes import CallDifference, Cause
from .match import Matching, kind
from .trace import Key, Trace, TraceCall, Value

# ---- Masks of truth values that mean the opposite: True keeps in Paddle's attention, and drops in Torch's.


def turned_mask(matching: Matching, original: Trace, port: Trace) -> CallDifference | None:
    """The first softmax of the port that keeps exactly what a mask of both programs holds, where the original drops that."""
    for original_node, port_node in zip(_softmaxes(original), _softmaxes(port)):
        expected, actual = original_node.result, port_node.result
        if matching.same(expected, actual) or expected.tensor.numel() != actual.tensor.numel():
            continue
        wanted = expected.tensor.reshape(actual.tensor.shape)
        mask = next(
            (value for trace in (port, original) for value in _masks(trace) if _says(value, wanted == 0, actual.tensor == 0)), None
        )
        if mask is None:
            return None
        name = mask.label or f"a mask of {list(mask.tensor.shape)}"
        text = f"{name}: True keeps a place in the port, and drops it in the original: hand over paddle.logical_not of it"
        return CallDifference(Cause.CONSTANT, text, original_node, port_node, (port_node, [wanted]))
    return None


def _softmaxes(trace: Trace) -> list[TraceCall]:
    return [node for node in trace.nodes if node.name == "_softmax" and not node.backward]


def _masks(trace: Trace) -> list[Value]:
    return [value for value in trace.values() if value.tensor.dtype is torch.bool and value.tensor.dim() > 0]


def _says(mask: Value, original_drops: torch.Tensor, port_drops: torch.Tensor) -> bool:
    """Whether the original drops where a mask is true, and the port where it is false."""
    try:
        held = mask.tensor.expand(port_drops.shape)
    except RuntimeError:
        return False
    mixed = held.any(-1) & ~held.all(-1)  # a row of which nothing is kept is weighed evenly
    return bool(mixed.any()) and bool((original_drops == held)[mixed].all()) and bool((port_drops == ~held)[mixed].all())


# ---- Label smoothing of a cross entropy, which Torch writes out: how much of it a program has, read off the factors in its
# line.

_PARTS = frozenset({"mul", "sum", "neg", "mean", "add", "div"})  # of what smoothing adds to a loss


def smoothed_otherwise(difference: CallDifference, original: Trace, port: Trace) -> CallDifference | None:
    """A difference within two cross entropies of which one smooths its labels otherwise, as that; None if it is none of its.

    However many of its calls differ, that is one setting.
    """
    alone = difference.original if difference.cause is Cause.MISSING else difference.port
    if difference.backward or alone is None or alone.name not in _PARTS:
        return None
    lines = [_calls_of_line(*side) for side in ((difference.original, original), (difference.port, port))]
    wanted, written = (_smoothing(line) for line in lines)
    if wanted is None or written is None or abs(wanted - written) < 1e-6:
        return None
    text = f"label_smoothing={written:g} against {wanted:g} (write label_smoothing={wanted:g})"
    loss = next(call.key for call in lines[1] if call.name in _LOSSES)
    return replace(difference, cause=Cause.ATTRIBUTE, text=text, setting=loss)


def _calls_of_line(node: TraceCall | None, trace: Trace) -> list[TraceCall]:
    """The calls of a call's line; of none those of the only loss that there is."""
    losses = [node] if node else [call for call in trace.nodes if call.name in _LOSSES and not call.backward]
    places = {(loss.site, loss.layer) for loss in losses}
    if len(places) != 1:
        return []
    return [call for call in trace.nodes if not call.backward and (call.site, call.layer) in places]


_LOSSES = ("nll_loss_forward", "nll_loss2d_forward")


def _smoothing(line: Sequence[TraceCall]) -> float | None:
    """The label smoothing of the cross entropy in a line; 0 where none shows, None where it is no cross entropy of labels.

    The loss of the labels is multiplied by 1 - s, and that of all n classes by s / n.
    """
    logs = next((call for call in line if call.name == "_log_softmax"), None)
    if logs is None or all(call.name not in _LOSSES for call in line):
        return None
    classes, factors = _classes(logs), _factors(line)
    for share in factors:
        if any(abs(share + rest * classes - 1) < 1e-6 for rest in factors if rest != share):
            return 1 - share
    return 0.0


def _classes(logs: TraceCall) -> int:
    return int(logs.result.tensor.shape[logs.attributes["dim"]])


def _factors(line: Sequence[TraceCall]) -> list[float]:
    """The numbers that a line multiplies with."""
    numbers = [call.attributes.get("other") for call in line if call.name == "mul"]
    return [number for number in numbers if isinstance(number, float)]


# ---- What one program writes as one call, and the other as several in one line: that is one mistake.

_BETWEEN = " in place of "


def told_as_one(differences: Sequence[CallDifference]) -> list[CallDifference]:
    """Those of which none is a call too many, or a missing one, that goes on with another op's result in its line."""
    left: list[CallDifference] = []
    parts: list[dict[Cause, set[Key]]] = []  # of each kept one: the calls of its expression, the port's and the original's
    for difference in differences:
        alone = {Cause.EXTRA: difference.port, Cause.MISSING: difference.original}.get(difference.cause)
        place = next((at for at, keys in enumerate(parts) if alone and _goes_on(alone, keys[difference.cause])), None)
        if place is not None and alone is not None:
            parts[place][difference.cause].add(alone.key)
            left[place] = replace(left[place], text=_with(left[place], difference, alone))
        elif not any(_scales_what_stays(known, difference) for known in left):
            left.append(difference)
            parts.append(_expression(difference))
    return left


def _scales_what_stays(known: CallDifference, difference: CallDifference) -> bool:
    """Whether a difference is that of a dropout's divisor, where its mask differs by the same share already."""
    if known.port is None or difference.port is None or (known.port.name, difference.port.name) != ("bernoulli", "div"):
        return False
    place = known.port.site, known.port.layer
    share = known.port.attributes.get("p")
    return place == (difference.port.site, difference.port.layer) and share == difference.port.attributes.get("other")


def _with(known: CallDifference, difference: CallDifference, alone: TraceCall) -> str:
    """The text of a difference, and that of a call that goes on with it."""
    if known.cause is Cause.ATTRIBUTE:
        return f"{known.text}, and {difference.text}"
    before, _, behind = known.text.partition(_BETWEEN)
    return f"{before}, {alone}{_BETWEEN}{behind}" if difference.cause is Cause.EXTRA else f"{before}{_BETWEEN}{behind}, {alone}"


def _expression(difference: CallDifference) -> dict[Cause, set[Key]]:
    """The calls with which an expression begins that is written otherwise; none if the difference is of another kind."""
    both = difference.cause in (Cause.OTHER_OP, Cause.ATTRIBUTE) and difference.port and difference.original
    return {
        Cause.EXTRA: {difference.port.key} if both and difference.port else set(),
        Cause.MISSING: {difference.original.key} if both and difference.original else set(),
    }


def _goes_on(node: TraceCall, known: set[Key]) -> bool:
    """Whether a call is given the result of one of these, in its own line and layer."""
    made = [operand.value.node.key for operand in node.operands if operand.value.node is not None]
    return any(key in known and (key.site, key.layer) == (node.site, node.layer) for key in made)


# ---- Values that a port takes for one another: however many calls read them, that is one mistake.

_SHOWN = 3  # lines beside the first


def first_of_exchanges(differences: Sequence[CallDifference]) -> list[CallDifference]:
    """Those of which none takes the same value for the same one as an earlier one does, or the other way round.

    Two results that are exchanged (keys and values, a gate and what it gates) are read by two calls, and a wrong one by all its
    readers. The first of them says in which lines the others are.
    """
    left: list[CallDifference] = []
    for difference in differences:
        place, turned = next(
            ((at, how) for at, earlier in enumerate(left) if (how := _again(earlier, difference)) is not None), (-1, False)
        )
        if place < 0:
            left.append(difference)
        else:
            left[place] = _with_line(left[place], difference, turned=turned)
    return left


def _again(earlier: CallDifference, other: CallDifference) -> bool | None:
    """Whether both take one value for another: the same way (False), the other way round (True), or not (None)."""
    if earlier.taken is None or other.taken is None or earlier.backward is not other.backward:
        return None
    if all(map(_equal, earlier.taken, other.taken[::-1])):
        return True
    elsewhere = earlier.port is not None and other.port is not None and earlier.port.site != other.port.site
    return False if elsewhere and all(map(_equal, earlier.taken, other.taken)) else None  # one line's calls are counted


def _equal(value: Value, other: Value) -> bool:
    """Whether two values of one run hold the same elements; in which order, tells who reads them."""
    return value is other or (value.tensor.shape == other.tensor.shape and torch.equal(value.tensor, other.tensor))


def _with_line(earlier: CallDifference, other: CallDifference, *, turned: bool) -> CallDifference:
    here, there = earlier.port, other.port
    if here is None or there is None:
        return earlier
    line = f" at line {there.site.line}" if there.site != here.site else ""
    words = (", and the other way round" if turned else ", also") + line
    known = words in earlier.text or earlier.text.count(" at line ") >= _SHOWN
    return earlier if known else replace(earlier, text=earlier.text + words)


# ---- Calls that stand in another place together: layers that are called in another order are one mistake, not one of each
# call.

Found = Sequence[tuple[str, CallDifference]]  # each with the part of the run in which it shows


def first_of_moved_calls(differences: Found, original: Trace, port: Trace) -> tuple[list[tuple[str, CallDifference]], bool]:
    """Of calls that stand elsewhere as one run, the outermost: in the layer that calls the others; and whether there are such."""
    left: list[tuple[str, CallDifference]] = []
    runs = False
    for part, difference in differences:
        place = next((at for at, (_, earlier) in enumerate(left) if _one_run(earlier, difference, original, port)), None)
        if place is None:
            left.append((part, difference))
            continue
        runs = runs or _line(difference) != _line(left[place][1])
        if _depth(difference) < _depth(left[place][1]):
            left[place] = left[place][0], difference
    return left, runs


def _line(difference: CallDifference) -> CallSite | None:
    return difference.port.site if difference.port else None


def _one_run(earlier: CallDifference, other: CallDifference, original: Trace, port: Trace) -> bool:
    """Whether from the one to the other the port makes the calls that the original makes from there on, so that all were moved."""
    if earlier.cause is not Cause.PLACE or other.cause is not Cause.PLACE:
        return False
    if earlier.original is None or earlier.port is None or other.port is None:
        return False
    moved = _calls(port.nodes[earlier.port.index : other.port.index + 1])
    return bool(moved) and moved == _calls(original.nodes[earlier.original.index :])[: len(moved)]


def _calls(nodes: Sequence[TraceCall]) -> list[str]:
    return [kind(node) for node in nodes if not node.moves]


def _depth(difference: CallDifference) -> int:
    return difference.port.layer.count(".") if difference.port and difference.port.layer else -1
