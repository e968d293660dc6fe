"""PaDiff's functions: ``auto_diff``, and weights, gradients and data compared on their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from ..errors import TransferError, described
from ..text import tr
from ..trees import as_array, leaves
from .arguments import AutoDiffCall, check_left_behind, collected, options_of, read
from .differences import LayerFinder, StageDifference, Tolerance
from .models import LayerMap, Model, create_model, log
from .pairs import Pairing, assign, gradients, pair, values
from .report import Report, explained, publish
from .running import ModelRun, TrainedSide, VisitRecorder, trained

if TYPE_CHECKING:
    _Losses = tuple[Callable[[Any], Any], Callable[[Any], Any]] | list[Callable[[Any], Any]] | None
    _Inputs = tuple[Mapping[str, Any], Mapping[str, Any]] | list[Mapping[str, Any]]
    _Optimizers = tuple[Any, Any] | list[Any] | None


@overload
def auto_diff(
    layer: Any, module: Any, example_inp: _Inputs, auto_weights: bool = True, options: Mapping[str, Any] | None = None,
    layer_map: Any = None, loss_fn: _Losses = None, optimizer: _Optimizers = None, steps: int = 1,
) -> bool: ...  # fmt: skip


@overload
def auto_diff(
    base_model: Any, raw_model: Any, inputs: _Inputs, loss_fns: _Losses = None, optimizers: _Optimizers = None, **options: Any
) -> bool: ...


def auto_diff(*args: Any, **keywords: Any) -> bool:
    """Run two models side by side, and say whether they agree; print where they differ first, and why.

    Takes the calls of PaDiff 0.1 and 0.2 (the Paddle layer comes first, and weights are copied from the Torch module) and of 0.3
    (any two models, and weights are copied from the first one). The models themselves run: afterwards they hold equal weights and
    the gradients of the last step. Nothing else of them changes, and nothing of the frameworks.

    Args:
        base_model, raw_model (or layer, module): models, or handles of :func:`padiff_shim.autodiff.create_model`.
        inputs (or example_inp, inp): a pair of dicts of keyword arguments, in the order of the models.
        auto_init (or auto_weights): copy the weights first.
        loss_fns (or loss_fn): a pair of functions of the output; without them the backward starts from the output's mean.
        optimizers (or optimizer): a pair of optimizers, or of functions that update and clear gradients.
        layer_map: a :class:`padiff_shim.autodiff.LayerMap`, or a dict of layers of one model -> layers of the other.
        options: a dict of the following options, which are also accepted as keywords.
        atol, rtol: ``|base - raw| <= atol + rtol * |base|``, published as 0 and 1e-7. If both are missing, the Paddle model runs on
            Torch's kernels, and a difference that :func:`padiff_shim.prove` shows to be rounding counts as equal.
        compare_mode: ``"strict"``, each element; ``"mean"`` or ``"abs_mean"``, the tensors' means alone.
        diff_phase: ``"both"``, ``"forward"``, or, with ``single_step``, ``"backward"``.
        single_step: each layer of the raw model goes on with the base model's values, and each is judged.
        steps: number of training steps, with ``optimizers``.
        kernels: the kernels of the Paddle model, ``"native"`` or ``"torch"``.
        explain: whether :func:`padiff_shim.prove` explains a difference.
        report_dir: folder for the report, or None.
        seed: seed of all random generators in each run; their states are restored.

    Returns:
        True if the models agree.

    Raises:
        ArgumentError: an argument is missing, unknown or not accepted.
        FileError: the report cannot be written.

    Errors of the models themselves are raised unchanged.

    Example:
        >>> import paddle, torch, padiff_shim
        >>> inputs = {"input": paddle.ones([2, 3])}, {"input": torch.ones(2, 3)}
        >>> padiff_shim.auto_diff(paddle.nn.Linear(3, 4), torch.nn.Linear(3, 4), inputs, report_dir=None)  # doctest: +ELLIPSIS
        [AutoDiff] Your options:
        ...
        [AutoDiff] SUCCESS !!!
        True
    """
    call = read(args, keywords)
    log(f"Your options:\n{call.options}")
    for note in call.options.notes:
        log(note)
    if not call.options.tolerance_given and call.options.kernels == "torch":
        log(
            tr("neither atol nor rtol is given: Paddle's model runs on Torch's kernels, and what is proven to be rounding is equal")
        )
    report = _run(call)
    publish(report)
    return report.agree


def _run(call: AutoDiffCall) -> Report:
    base, raw = call.models
    report = Report(call)
    try:
        pairing = assign(base, raw, call.layer_map) if call.options.auto_init else pair(base, raw, call.layer_map)
    except TransferError as error:
        report.reason = tr("Assign weight Failed !!! {error}", error=error)
        return report
    if call.options.auto_init:
        log(tr("Assign weight success !!! ({base} -> {raw})", base=base.name, raw=raw.name))
    elif pairing.lonely:
        log(tr("weights without partner are not compared: {lonely}", lonely=", ".join(pairing.lonely[:8])))
    for note in pairing.notes:
        log(note)
    report.difference = _trained(call, pairing, report)
    report.agree = report.difference is None and not report.reason
    return report


def _trained(call: AutoDiffCall, pairing: Pairing, report: Report) -> StageDifference | None:
    """Run all steps; the first difference ends them."""
    losses, optimizers = call.losses or (None, None), call.optimizers or (None, None)
    sides = [
        trained(model, inputs, loss, optimizer, seed=call.options.seed, shim=call.options.kernels == "torch")
        for model, inputs, loss, optimizer in zip(call.models, call.inputs, losses, optimizers)
    ]
    options = call.options
    finder = LayerFinder(call.models, pairing, Tolerance(options.atol, options.rtol, options.compare_mode))
    check = _Check(call, pairing, finder, report)
    for step in range(options.steps):
        for phase in _phases(call):
            with sides[0].restoring(phase.restored), sides[1].restoring(phase.restored):
                difference = check.phase(sides, phase, step)
            if difference is not None or report.reason:
                return difference
        if call.optimizers is not None:
            for side in sides:
                side.update()
            difference = finder.weights(step)
            if difference is not None:
                report.explanation = None
                return difference
        report.steps = step + 1
    return None


class _Phase(NamedTuple):
    """One run of both models.

    Args:
        name: what is compared, ``"forward"``, ``"backward"`` or ``"both"``.
        follow: the values of the base model that the raw model goes on with, ``"forward"`` or ``"backward"``; "" for its own.
        restored: whether buffers are restored afterwards.
    """

    name: str
    follow: str
    restored: bool


def _phases(call: AutoDiffCall) -> list[_Phase]:
    phase, restored = call.options.diff_phase, call.optimizers is None
    if not call.options.single_step:
        return [_Phase(phase, "", restored)]
    forward, backward = _Phase("forward", "forward", True), _Phase("backward", "backward", restored)
    return {"both": [forward, backward], "forward": [forward], "backward": [backward]}[phase]


class _Check:
    """Runs both models for a phase, and judges their results."""

    def __init__(self, call: AutoDiffCall, pairing: Pairing, finder: LayerFinder, report: Report) -> None:
        self._call, self._pairing, self._finder, self._report = call, pairing, finder, report

    def phase(self, sides: list[TrainedSide], phase: _Phase, step: int) -> StageDifference | None:
        """The first difference that is not only rounding."""
        back = phase.name != "forward"
        until = TrainedSide.forward.__code__
        base = sides[0].forward(VisitRecorder(until), step, backward=back)
        follow = (lambda visit: self._finder.partner(base.recorder, visit)) if phase.follow else None
        raw = sides[1].forward(VisitRecorder(until, follow, phase.follow), step, backward=back)
        for difference in self._differences(base, raw, phase, step):
            if difference is not None and not self._is_rounding(difference):
                return difference
        return None

    def _differences(self, base: ModelRun, raw: ModelRun, phase: _Phase, step: int) -> Iterator[StageDifference | None]:
        """The difference of each stage, one after the other."""
        if phase.name != "backward":
            yield self._finder.forward(base, raw, step, every_layer=phase.follow == "forward")
            yield self._finder.loss(base, raw, step)
        if failed := raw.failed or base.failed:
            self._report.reason = failed
        elif phase.name != "forward":
            yield self._finder.backward(base, raw, step, every_layer=phase.follow == "backward")

    def _is_rounding(self, difference: StageDifference) -> bool:
        """Whether the proof shows that a difference is rounding; with a tolerance no difference counts as rounding."""
        options = self._call.options
        explanation = explained(self._call, self._pairing, difference) if options.explain else None
        self._report.explanation = explanation
        if explanation is None or options.tolerance_given or not explanation.right:
            return False
        log(tr("{difference} That is rounding: {headline}", difference=difference, headline=explanation.headline))
        return True


_NOTHING = object()


def assign_weight(base_model: Any, raw_model: Any, layer_map: Any = None) -> bool:
    """Copy all weights of one model into the other, or none; see :func:`padiff_shim.transfer_weights`.

    For a Paddle layer and a Torch module without a handle of ``create_model``, weights are copied from the Torch module (PaDiff
    0.2); otherwise from the first model (0.3).

    Returns:
        Whether the weights were copied; if not, the reason is printed.

    Raises:
        ArgumentError: an argument is not accepted.
    """
    base, raw = _ordered_models(base_model, raw_model)
    try:
        pairing = assign(base, raw, LayerMap.of(layer_map, (base, raw)))
    except TransferError as error:
        log(tr("Assign weight Failed !!! {error}", error=error))
        return False
    for note in pairing.notes:
        log(note)
    log(tr("Assign weight success !!! ({base} -> {raw})", base=base.name, raw=raw.name))
    return True


def check_weight(layer: Any, module: Any, options: Any = None, layer_map: Any = None) -> bool:
    """Whether the weights of two models are equal now, within ``options`` (atol, rtol, compare_mode); prints those that are not."""
    return _check(layer, module, options, layer_map, values, "weight")


def check_grad(layer: Any, module: Any, options: Any = None, layer_map: Any = None) -> bool:
    """Whether the gradients of two models' weights are equal now, within ``options``; prints those that are not."""
    return _check(layer, module, options, layer_map, gradients, "grad")


def check_dataloader(first_loader: Iterable[Any], second_loader: Iterable[Any], **options: Any) -> bool:
    """Whether two loaders give equal batches, within ``options`` (atol, rtol, compare_mode); prints the first that is not.

    Batches are tensors, arrays, or tuples, lists and dicts of them. If a loader ends before the other, the data differ.
    """
    tolerance = _tolerance(options)
    for number, (batch, partner) in enumerate(zip_longest(first_loader, second_loader, fillvalue=_NOTHING)):
        difference = _batches_differ(batch, partner, tolerance)
        if difference:
            log(tr("check dataloader failed!!! batch {number}: {difference}", number=number, difference=difference))
            return False
    return True


def _batches_differ(first: Any, second: Any, tolerance: Tolerance) -> str:
    """How two batches differ; "" if they are equal within the tolerance."""
    if first is _NOTHING or second is _NOTHING:
        return tr("the first loader has ended" if first is _NOTHING else "the second loader has ended")
    first_leaves, second_leaves = leaves(first), leaves(second)
    if [path for path, _ in first_leaves] != [path for path, _ in second_leaves]:
        return f"tensors {[path for path, _ in first_leaves]} and {[path for path, _ in second_leaves]}"
    if not first_leaves and first != second:
        return f"{described(first)} and {described(second)}"
    differences = (
        (path, tolerance.difference(as_array(base), as_array(raw))) for (path, base), (_, raw) in zip(first_leaves, second_leaves)
    )
    return next((f"{path}: {difference}".removeprefix(": ") for path, difference in differences if difference), "")


def _check(layer: Any, module: Any, options: Any, layer_map: Any, read: Callable[..., Any], what: str) -> bool:
    base, raw = _ordered_models(layer, module)
    finder = LayerFinder((base, raw), pair(base, raw, LayerMap.of(layer_map, (base, raw))), _tolerance(options))
    wrong = finder.differing(read)
    for base_name, raw_name, difference in wrong:
        log(f"{what} of {base.name}.{base_name} and {raw.name}.{raw_name}: {difference}")
    if not wrong:
        log(f"{what} compared.")
    return not wrong


def _ordered_models(layer: Any, module: Any) -> tuple[Model, Model]:
    marked = isinstance(layer, Model) or isinstance(module, Model)
    first, second = create_model(layer), create_model(module)
    turned = not marked and (first.framework, second.framework) == ("paddle", "torch")
    return (second, first) if turned else (first, second)


def _tolerance(options: Mapping[str, Any] | None) -> Tolerance:
    check_left_behind(options or {}, loss=True, optimizers=True)
    checked = options_of(collected({}, options, ()), optimizers=True, alike=True)
    return Tolerance(checked.atol, checked.rtol, checked.compare_mode)
