"""``padiff_shim.drift``: how far a port's hidden states are from its original's, natively, on Torch's kernels, and in float64."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import paddle
import torch

from ..arguments import flag, one_of
from ..errors import ArgumentError, described
from ..frameworks.copies import duplicate
from ..proving.arguments import both_losses
from ..proving.natively import natively
from ..proving.outcome import Outcome
from ..proving.paddle_side import PaddleSide
from ..proving.sides import NotWider, Side
from ..proving.torch_side import TorchSide
from ..proving.values import Inputs
from ..recording.diff import diff
from ..recording.record import record
from ..scratch import Scratch
from ..waiting import Waiting
from ..weights.mapping import Mapping as Weights
from ..weights.transfer import match, transfer_weights
from .gradients import gradients
from .rows import Distance, DriftRow, row_of
from .told import Drift

WEIGHTS = ("torch->paddle", "paddle->torch", "as-is")
PHASES = ("forward", "both")


def drift(
    paddle_layer: Any,
    torch_module: Any,
    inputs: Any,
    *,
    weights: str = "torch->paddle",
    layer_map: Mapping[Any, Any] | None = None,
    phase: str = "forward",
    loss: Callable[[Any], Any] | tuple[Callable[[Any], Any], Callable[[Any], Any]] | None = None,
    calls: bool = False,
    double: bool = True,
    seed: int = 0,
) -> Drift:
    """Measure how far the port's values are from the original's: mean and largest difference of every layer's result.

    The port runs natively and under :func:`padiff_shim.reference`, both models once more in float64. A native difference that is
    rounding is 0 (or of another order of summation) on Torch's kernels, and about 1e-9 of itself in float64. The caller's models
    are not changed.

    Args:
        paddle_layer, torch_module, inputs, layer_map, loss, seed: as for :func:`padiff_shim.prove`.
        weights: whose are used for both: ``"torch->paddle"``, ``"paddle->torch"``, or ``"as-is"``: each model keeps its own.
        phase: ``"forward"``, or ``"both"``: also the gradients of every layer's result, of inputs of floats and of parameters, by a
            backward that begins with ``loss``, or without it with the same fixed random numbers on both sides.
        calls: also every op call, aligned as :func:`padiff_shim.diff` aligns them.
        double: also the float64 pair, both natively; without it, or where a model does not run in float64, its column is empty.

    Returns:
        A :class:`Drift`.

    Raises:
        ArgumentError: an argument of a kind that is not accepted.
        TransferError: the weights cannot be transferred.

    Errors of the models themselves are raised unchanged; those of Paddle's own kernels alone are told in a note.
    """
    start = time.perf_counter()
    _check(paddle_layer, torch_module)
    one_of("weights", weights, WEIGHTS)
    one_of("phase", phase, PHASES)
    losses = both_losses(loss)
    flag("calls", calls)
    flag("double", double)
    given = Inputs(inputs)
    port, original = duplicate(paddle_layer), duplicate(torch_module)
    models = (port, original) if weights == "paddle->torch" else (original, port)
    mapping = (match if weights == "as-is" else transfer_weights)(*models, layer_map=layer_map)
    back = phase != "forward"
    pair = TorchSide(original, given, losses[1], seed, backward=back), PaddleSide(port, given, losses[0], seed, backward=back)
    for side in pair:
        side.follows = back
    drifts = Drift(framework_dtype=str(pair[0].dtype()))
    with Scratch() as folder, Waiting("drift: running both models"):
        _measure(drifts, pair, mapping, folder if calls else None, double=double)
    drifts.seconds = time.perf_counter() - start
    return drifts


def _check(paddle_layer: Any, torch_module: Any) -> None:
    if not isinstance(paddle_layer, paddle.nn.Layer):
        raise ArgumentError(
            f"drift(paddle_layer, torch_module, inputs): the first is a paddle.nn.Layer, got {described(paddle_layer)}"
        )
    if not isinstance(torch_module, torch.nn.Module):
        raise ArgumentError(
            f"drift(paddle_layer, torch_module, inputs): the second is a torch.nn.Module, got {described(torch_module)}"
        )


def _measure(found: Drift, pair: tuple[TorchSide, PaddleSide], mapping: Weights, folder: Path | None, *, double: bool) -> None:
    """All runs, and a row for each tensor that they share."""
    theirs, ours = pair
    outcomes: dict[str, Outcome] = {"torch": _run(theirs, Side.run, folder, "torch")}
    ours.order = list(outcomes["torch"].outputs)
    outcomes["substituted"] = _run(ours, Side.run, folder, "substituted")  # an error of the model itself is raised here
    native, failure = natively(ours, lambda run: _run(ours, run, folder, "native"))
    if native is not None:
        outcomes["native"] = native
    found.notes += [failure] if failure else []
    ours.shim = False
    try:
        for name, side in (("torch64", theirs), ("native64", ours)) if double and found.framework_dtype != "float64" else ():
            outcomes[name] = _run(side, Side.run_wide, folder, name)
    except NotWider as error:
        found.notes.append(f"no float64 pair: {error}")
    if "native64" not in outcomes:
        outcomes.pop("torch64", None)
    found.rows += _layers(mapping, outcomes)
    if folder is not None:
        found.rows += _calls(folder, outcomes)
    found.rows += _outputs(outcomes)
    found.rows += gradients(mapping, outcomes)
    left = [
        ours
        for theirs, ours in mapping.layers.items()
        if theirs not in outcomes["torch"].layers or ours not in outcomes["substituted"].layers
    ]
    if left:
        found.notes.append(f"{len(left)} layers were not called on both sides: {', '.join(left[:6])}")


def _run(side: Side, run: Callable[[Side], Outcome], folder: Path | None, name: str) -> Outcome:
    """One run, recorded in the folder of its name if there is one; what a run that failed has left there goes."""
    if folder is None:
        return run(side)
    shutil.rmtree(folder / name, ignore_errors=True)
    with record(folder / name, framework=side.framework, layers=False):
        return run(side)


def _layers(mapping: Weights, outcomes: Mapping[str, Outcome]) -> list[DriftRow]:
    """Every call of every pair of layers, in the order in which the original's layers end."""
    order = {name: place for place, name in enumerate(outcomes["torch"].layers)}
    rows: list[DriftRow | None] = []
    for theirs, ours in sorted(mapping.layers.items(), key=lambda pair: order.get(pair[0], len(order))):
        held = {name: one.layers.get(theirs if name.startswith("torch") else ours, []) for name, one in outcomes.items()}
        for number in range(min(map(len, held.values()))):
            rows.append(row_of("layer", (ours, theirs), number, "", {name: arrays[number] for name, arrays in held.items()}))
    return [row for row in rows if row is not None]


def _outputs(outcomes: Mapping[str, Outcome]) -> list[DriftRow]:
    """Outputs in their order: the paths may be spelt otherwise in the other framework."""
    columns = {name: list(one.outputs.items()) for name, one in outcomes.items()}
    rows: list[DriftRow | None] = []
    for number in range(min(map(len, columns.values()))):
        names = columns["substituted"][number][0], columns["torch"][number][0]
        rows.append(row_of("output", names, 0, "", {name: held[number][1] for name, held in columns.items()}))
    return [row for row in rows if row is not None]


def _calls(folder: Path, outcomes: Mapping[str, Outcome]) -> list[DriftRow]:
    """The op calls that belong together in all runs, in the order of the original."""
    pairs = [(ours, "torch64" if ours == "native64" else "torch") for ours in outcomes if not ours.startswith("torch")]
    columns: dict[str, dict[tuple[int, int], Any]] = {}
    for ours, theirs in pairs:
        compared = diff(folder / ours, folder / theirs).compared
        columns[ours] = {(row.b.index, row.a.index): row for row in compared if row.a is not None and row.b is not None}
    found = []
    for key, row in columns.get("native", columns["substituted"]).items():
        held = {ours: columns[ours].get(key) for ours, _ in pairs}  # equal runs make equal calls: their numbers are the same
        native, shim, double = held.get("native"), held["substituted"], held.get("native64")
        if (row.apart.how != "values" and not row.apart.identical) or shim is None:
            continue
        found.append(
            DriftRow(
                "call", f"{row.a.name} ({row.a.layer})" if row.a.layer else row.a.name, row.b.function, 0, row.a.site,
                None if native is None else _distance(native), _distance(shim), None if double is None else _distance(double),
            )
        )  # fmt: skip
    return found


def _distance(row: Any) -> Distance:
    return Distance(row.apart.mean_abs, row.apart.max_abs, row.apart.identical)
