"""``padiff_shim.auto_diff``: PaDiff's question in PaDiff's words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, overload

from ..errors import TransferError
from .calling import Call, read
from .comparing import Tolerance
from .explaining import Explanation, explained
from .finding import Difference, Finder
from .pairing import Pairing, assign, pair
from .printing import log, told
from .recording import Recorder
from .reporting import Report, reported
from .running import Pass, Trained, trained

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
    """Run two models side by side, and say whether they agree; print where they part first, and why.

    Takes the calls of PaDiff 0.1, 0.2 (Paddle's layer first; the Torch module's weights are taken) and 0.3 (any two models; the
    first one's weights are taken). The models are run themselves: they have equal weights and the gradients of the last step
    afterwards. Nothing else of them, and nothing of the frameworks, is changed.

    Args:
        base_model, raw_model (or layer, module): models, or handles of :func:`padiff_shim.autodiff.create_model`.
        inputs (or example_inp, inp): a pair of dicts of keyword arguments, in the order of the models.
        auto_init (or auto_weights): take the weights over first.
        loss_fns (or loss_fn): a pair of functions of the output; without, the mean of the output is gone back from.
        optimizers (or optimizer): a pair of optimizers, or of functions that update and clear gradients.
        layer_map: a :class:`padiff_shim.autodiff.LayerMap` or a dict of layers that stand for each other.
        options: a dict of what follows, which may also be given by name.
        atol, rtol: ``|base - raw| <= atol + rtol * |base|``, published as 0 and 1e-7. If neither is given, the Paddle model runs on
            Torch's kernels, and what :func:`padiff_shim.prove` shows to be rounding counts as equal.
        compare_mode: ``"strict"``, each element; ``"mean"`` or ``"abs_mean"``, the tensors' means alone.
        diff_phase: ``"both"``, ``"forward"``, or, with ``single_step``, ``"backward"``.
        single_step: each layer of the raw model goes on with the base model's values, and each is judged.
        steps: of the training, with ``optimizers``.
        kernels: whose kernels the Paddle model runs on, ``"native"`` or ``"torch"``.
        explain: whether a difference is explained by :func:`padiff_shim.prove`.
        report_dir: folder for the report, or None.
        seed: all random generators begin with it in each run, and are put back.

    Returns:
        True if the models agree.

    Raises:
        ArgumentError: an argument that is missing, unknown, or of a kind that is not accepted.
        FileError: the report cannot be written.

    Errors of the models themselves are raised unchanged.
    """
    call = read(args, keywords)
    log(f"Your options:\n{call.options}")
    for note in call.options.notes:
        log(note)
    if not call.options.tolerance_given and call.options.kernels == "torch":
        log("neither atol nor rtol is given: Paddle's model runs on Torch's kernels, and what is proven to be rounding is equal")
    report = _run(call)
    reported(report)
    return report.agree


def _run(call: Call) -> Report:
    base, raw = call.models
    report = Report(call)
    try:
        pairing = assign(base, raw, call.layer_map) if call.options.auto_init else pair(base, raw, call.layer_map)
    except TransferError as error:
        report.reason = f"Assign weight Failed !!! {error}"
        return report
    if call.options.auto_init:
        log(f"Assign weight success !!! ({base.name} -> {raw.name})")
    elif pairing.lonely:
        log(f"weights without partner are not compared: {', '.join(pairing.lonely[:8])}")
    for note in pairing.notes:
        log(note)
    report.difference = _trained(call, pairing, report)
    report.agree = report.difference is None
    return report


def _trained(call: Call, pairing: Pairing, report: Report) -> Difference | None:
    """All steps, until one differs."""
    losses, optimizers = call.losses or (None, None), call.optimizers or (None, None)
    sides = [
        trained(model, inputs, loss, optimizer, seed=call.options.seed, shim=call.options.kernels == "torch")
        for model, inputs, loss, optimizer in zip(call.models, call.inputs, losses, optimizers)
    ]
    options = call.options
    finder = Finder(call.models, pairing, Tolerance(options.atol, options.rtol, options.compare_mode))
    check = _Check(call, pairing, finder, report)
    for step in range(options.steps):
        for phase in _phases(call):
            with sides[0].kept(buffers=phase.restored), sides[1].kept(buffers=phase.restored):
                found = check.phase(sides, phase, step)
            if found is not None:
                return found
        if call.optimizers is not None:
            for side in sides:
                side.update()
            found = finder.weights(step)
            if found is not None:
                report.explanation = None
                return found
        report.steps = step + 1
    return None


class _Phase:
    """One run of both models: what is looked at, what the raw model goes on with, and whether it leaves no trace."""

    def __init__(self, name: str, follow: str, restored: bool) -> None:
        self.name, self.follow, self.restored = name, follow, restored


def _phases(call: Call) -> list[_Phase]:
    phase, kept = call.options.diff_phase, call.optimizers is None
    if not call.options.single_step:
        return [_Phase(phase, "", kept)]
    forward, backward = _Phase("forward", "forward", True), _Phase("backward", "backward", kept)
    return {"both": [forward, backward], "forward": [forward], "backward": [backward]}[phase]


class _Check:
    """Runs both models for a phase, and judges what they gave."""

    def __init__(self, call: Call, pairing: Pairing, finder: Finder, report: Report) -> None:
        self._call, self._pairing, self._finder, self._report = call, pairing, finder, report

    def phase(self, sides: list[Trained], phase: _Phase, step: int) -> Difference | None:
        """The first difference that counts."""
        back = phase.name != "forward"
        until = Trained.forward.__code__
        base = sides[0].forward(Recorder(until), step, backward=back)
        follow = (lambda visit: self._finder.partner(base.recorder, visit)) if phase.follow else None
        raw = sides[1].forward(Recorder(until, follow, phase.follow), step, backward=back)
        self._report.passes = (base, raw)
        for found in self._differences(base, raw, phase, step):
            if found is not None and not self._innocent(found):
                return found
        return None

    def _differences(self, base: Pass, raw: Pass, phase: _Phase, step: int) -> Any:
        """What differs in each stage, one after the other."""
        if phase.name != "backward":
            yield self._finder.forward(base, raw, step, every_layer=phase.follow == "forward")
            yield self._finder.loss(base, raw, step)
        if phase.name != "forward":
            yield self._finder.backward(base, raw, step, every_layer=phase.follow == "backward")

    def _innocent(self, found: Difference) -> bool:
        """Whether a difference is rounding, where no tolerance says how much of it may be."""
        self._report.explanation = explanation = self._explained(found)
        if explanation is None or self._call.options.tolerance_given or not explanation.right:
            return False
        log(f"{told(found)} That is rounding: {explanation.headline}")
        return True

    def _explained(self, found: Difference) -> Explanation | None:
        return explained(self._call, self._pairing, found) if self._call.options.explain else None
