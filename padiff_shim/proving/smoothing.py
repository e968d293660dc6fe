"""Label smoothing of a cross entropy, which Torch writes out: how much of it a program has, read off the factors in its line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .cause import Cause
from .causes import Difference
from .trace import Node, Trace

_PARTS = frozenset({"mul", "sum", "neg", "mean", "add", "div"})  # of what smoothing adds to a loss


def smoothed_otherwise(difference: Difference, original: Trace, port: Trace) -> Difference | None:
    """A difference within two cross entropies of which one smooths its labels otherwise, as that; None if it is none of its.

    However many of its calls differ, that is one setting.
    """
    alone = difference.theirs if difference.cause is Cause.MISSING else difference.ours
    if difference.backward or alone is None or alone.name not in _PARTS:
        return None
    lines = [_line(*side) for side in ((difference.theirs, original), (difference.ours, port))]
    wanted, written = (_smoothing(line) for line in lines)
    if wanted is None or written is None or abs(wanted - written) < 1e-6:
        return None
    text = f"label_smoothing={written:g} against {wanted:g} (write label_smoothing={wanted:g})"
    loss = next(call.key for call in lines[1] if call.name in _LOSSES)
    return replace(difference, cause=Cause.ATTRIBUTE, text=text, setting=loss)


def _line(node: Node | None, trace: Trace) -> list[Node]:
    """The calls of a call's line; of none those of the only loss that there is."""
    losses = [node] if node else [call for call in trace.nodes if call.name in _LOSSES and not call.backward]
    places = {(loss.site, loss.layer) for loss in losses}
    if len(places) != 1:
        return []
    return [call for call in trace.nodes if not call.backward and (call.site, call.layer) in places]


_LOSSES = ("nll_loss_forward", "nll_loss2d_forward")


def _smoothing(line: Sequence[Node]) -> float | None:
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


def _classes(logs: Node) -> int:
    return int(logs.result.tensor.shape[logs.attributes["dim"]])


def _factors(line: Sequence[Node]) -> list[float]:
    """The numbers that a line multiplies with."""
    numbers = [call.attributes.get("other") for call in line if call.name == "mul"]
    return [number for number in numbers if isinstance(number, float)]
