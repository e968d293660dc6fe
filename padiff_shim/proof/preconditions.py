"""What must hold before outputs say anything: equal modes, inputs, weights, random draws, and settings that no call shows."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from types import CodeType
from typing import Any, NamedTuple

import numpy as np
import paddle
import torch

from ..dispatch.call_site import CallSite, at_line, call_site
from ..errors import TransferError
from ..measure.bits import same_bits
from ..text import joined, listed, many, tr
from ..trees import as_array, copied, leaves
from ..weights import pairing
from ..weights.explicit import Used
from ..weights.mapping import REMEDY, Mapping as WeightMapping, in_one_line, without_partner
from ..weights.transfer import carry
from ..weights.tree import Weight, WeightSide as Tree
from . import agreement
from .agreement import Array, RunOutcome, difference_text
from .findings import Cause, Mistake, ProgramPlace, ProofVerdict, Stage
from .locate import tied_differently
from .match import kind
from .programs import Inputs, ModelSide, PaddleSide, TorchSide, attempted, in_place
from .proof import Proof
from .trace import Capture, Model, Onlooker, Tensor, TraceOperand, shape_of, tensors_in

# ---- Weights without partner: which a proof can do without.


def unmatched(original: ModelSide, port: ModelSide, mapping: WeightMapping, *, trains: bool) -> tuple[list[str], list[Weight]]:
    """Notes on the weights without partner that a proof can do without, and the weights that it cannot do without.

    A proof does without weights that nobody trains (buffers, masks, tables: each side keeps its own, and outputs show an effect),
    and without weights that no compared output depends on: of layers that are not called, of a pooler that the other side lacks.
    If nothing is trained (``trains``), also without the port's surplus weights that have no effect: a norm's scale of ones, a
    bias of zeros.
    """
    notes, needed = [], []
    sides = {side.framework: side for side in (original, port)}
    for framework, weights in zip((mapping.src, mapping.dst), mapping.left):
        constants = [weight for weight in weights if weight.buffer or not weight.trainable]
        trained = [weight for weight in weights if weight not in constants]
        used = _reaching_outputs(sides[framework], sides["paddle" if framework == "torch" else "torch"], trained)
        unused = [weight for weight in trained if weight not in used]
        surplus = used if framework == "paddle" and not trains else []  # a weight that the port lacks, or trains, is a mistake
        layers, values = sides[framework].layers, sides[framework].parameters()
        neutral = [
            weight
            for weight in surplus
            if is_neutral(weight.name, layers.get(weight.name.rpartition(".")[0]), as_array(values[weight.name]))
        ]
        needed += [weight for weight in used if weight not in neutral]
        reasons = (
            (constants, tr("not trained; each side keeps its own")),
            (neutral, without_effect(weight.name for weight in neutral)),
            (unused, tr("nothing that is compared depends on it")),
        )
        for alone, why in reasons:
            listing = listed([f"{weight.name} {list(weight.shape)}" for weight in alone])
            notes += (
                [tr("{framework} {listed}: without partner, and {why}", framework=framework, listed=listing, why=why)]
                if alone
                else []
            )
    return notes, needed


def without_effect(names: Iterable[str]) -> str:
    """What to say of weights that change nothing yet, and what their layers' constructors take instead: scales and biases apart."""
    roles = {name.rpartition(".")[2] == "bias" for name in names}
    attributes = [attribute for is_bias, attribute in ((False, "weight_attr=False"), (True, "bias_attr=False")) if is_bias in roles]
    return tr("without effect as ones and zeros; a training changes them: write {attributes}", attributes=", ".join(attributes))


def is_neutral(name: str, layer: Model, values: Array) -> bool:
    """Whether a weight of a layer of Paddle's own is a bias of zeros, or a norm's scale of ones: without effect.

    Args:
        name: the weight's, with or without the path of its layer.
        layer: its layer.
        values: its own.
    """
    if not type(layer).__module__.startswith("paddle.nn."):
        return False
    role, kind = name.rpartition(".")[2], type(layer).__name__.lower().rstrip("123d")
    if role == "bias":
        return not values.any()
    return role in ("weight", "scale") and kind.endswith("norm") and bool((values == 1).all())


def _reaching_outputs(side: ModelSide, other: ModelSide, weights: Sequence[Weight]) -> list[Weight]:
    """The weights on which an output of both sides depends."""
    if not weights:
        return []
    before, beside = side.run_forward(), other.run_forward()
    pair = (before, beside) if side.framework == "torch" else (beside, before)
    common = {id(array) for row in agreement.outputs(*pair) for array in row[1:]}
    compared = [path for path, array in before.outputs.items() if id(array) in common]
    if not _changes(side, weights, before, compared):
        return []
    return [weight for weight in weights if _changes(side, [weight], before, compared)]


def _changes(side: ModelSide, weights: Sequence[Weight], before: RunOutcome, compared: Sequence[str]) -> bool:
    """Whether other weights change an output."""
    parameters = side.parameters()
    generator = np.random.default_rng(0)
    changed: list[tuple[object, Array]] = []
    try:
        for weight in weights:
            parameter = parameters.get(weight.name)
            if parameter is None:
                return True  # its effect is not known
            values = as_array(parameter).copy()
            if values.dtype.kind != "f":
                return True
            changed.append((parameter, values))
            noise = generator.standard_normal(values.shape).astype(values.dtype)
            side.fill(parameter, values + noise)
        after = side.run_forward()
    except Exception:  # a model that does not run with other weights needs these
        return True
    finally:
        for parameter, values in changed:
            side.fill(parameter, values)
    return any(path not in after.outputs or not same_bits(before.outputs[path], after.outputs[path]) for path in compared)


# ---- Initial weights: a training from scratch depends on their distribution, which a proof does not see, for it copies them.

_FEWEST, _MOST = 32, 1 << 14  # of numbers: fewer have no spread that says something, and more are not looked at
_SURE = 6.0  # standard errors
_LAYERS = frozenset({"Linear", "Conv1d", "Conv2d", "Conv3d"})
_WRITE = "paddle.nn.initializer.KaimingUniform(negative_slope=math.sqrt(5), nonlinearity='leaky_relu')"


def drawn_differently(original: ModelSide, port: ModelSide, mapping: WeightMapping) -> list[str]:
    """A note on weights that have Torch's default distribution in the original, and another in the port; none without such.

    Torch draws weights of linear layers and convolutions evenly between ``-1 / sqrt(n)`` and ``1 / sqrt(n)``, of n inputs.
    """
    weights, others, layers = original.parameters(), port.parameters(), original.layers
    rows = []
    for pair in mapping:
        name, partner = pair.name("torch"), pair.name("paddle")
        weight = weights.get(name)
        kind = type(layers.get(name.removesuffix(".weight"))).__name__
        if pair.rule is not None or weight is None or partner not in others or kind not in _LAYERS or weight.numel() < _FEWEST:
            continue
        expected, actual = _some(weight), _some(others[partner])
        if _is_torchs(expected, weight[0].numel()) and _unlike(expected, actual):
            words = {"partner": partner, "std": actual.std(), "std2": expected.std()}
            rows.append(tr("{partner} has a standard deviation of {std:.2g}, in the original {std2:.2g}", **words))
    if not rows:
        return []
    return [
        tr(
            "initial weights have another distribution, which matters when training from scratch: {rows} (Torch's: {write})",
            rows=listed(rows, separator="; "),
            write=_WRITE,
        )
    ]


def _some(weight: Tensor) -> Array:
    """The first numbers of a weight."""
    return in_place(weight).reshape(-1)[:_MOST].astype(np.float64)


def _is_torchs(values: Array, inputs: int) -> bool:
    """Whether numbers spread as Torch draws them for a layer with so many inputs."""
    bound = 1.0 / math.sqrt(inputs)
    even = abs(float(values.std()) * math.sqrt(3) / bound - 1) <= _SURE * _error(values)
    return even and bool(np.abs(values).max() <= bound * (1 + 1e-6))


def _unlike(expected: Array, actual: Array) -> bool:
    ratio = float(actual.std()) / float(expected.std())
    return abs(ratio - 1) > _SURE * math.hypot(_error(expected), _error(actual)) + 0.1


def _error(values: Array) -> float:
    """The relative standard error of a standard deviation, at most that of normal numbers."""
    return 1.0 / math.sqrt(2 * values.size)


# ---- Random numbers that one program alone draws: from there on both streams are shifted.
#
# A draw for a layerdrop of 0 has no effect. So where both programs draw by different calls, each draw of the port begins where its
# partner in the original began.


class Draw(NamedTuple):
    """A call that draws random numbers: Torch's op, the shape of what it draws, and its line."""

    name: str
    shape: tuple[int, ...]
    site: CallSite

    @property
    def call(self) -> tuple[str, tuple[int, ...]]:
        """What has to be equal for two draws to be partners."""
        return self.name, self.shape


class Draws(Onlooker):
    """Within it the draws from Torch's generator are noted; ``begin`` is called before each with its number.

    A draw that begins where the draw before it began is the same draw: a run without effect learns what a backward reads.
    """

    def __init__(self, begin: Callable[[int], None], until: CodeType | None = None) -> None:
        super().__init__()
        self.draws: list[Draw] = []
        self._begin, self._until = begin, until
        self._state: torch.Tensor | None = None  # of the generator before the last draw

    @classmethod
    def noting(cls, names: Mapping[int, str], layer: Callable[[], str], until: CodeType | None = None) -> Draws:
        """The draws of a run, as its capture."""
        return cls(lambda number: None, until)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        drawing = torch.Tag.nondeterministic_seeded in function.tags and (kwargs or {}).get("generator") is None
        if drawing:
            state = torch.get_rng_state()
            if self._state is not None and torch.equal(self._state, state):
                self.draws.pop()
            self._state = state
            self._begin(len(self.draws))
        result = function(*args, **(kwargs or {}))
        if drawing:
            shape = tuple(next((tensor.shape for tensor in tensors_in(result)), ()))
            self.draws.append(Draw(shape_of(function).base, shape, call_site(self._until)))
        return result


class Streams:
    """The random streams of two programs that draw different numbers.

    Args:
        original, port: the draws of one run of each.
    """

    def __init__(self, original: Sequence[Draw], port: Sequence[Draw]) -> None:
        self._sizes = len(original), len(port)
        matcher = SequenceMatcher(None, [draw.call for draw in original], [draw.call for draw in port], autojunk=False)
        blocks = matcher.get_matching_blocks()
        self._partners = {block.b + at: block.a + at for block in blocks for at in range(block.size)}
        self._states: list[torch.Tensor] = []  # of the generator before each draw of the original's last run
        left = [draw for at, draw in enumerate(original) if at not in self._partners.values()]
        more = [draw for at, draw in enumerate(port) if at not in self._partners]
        self.notes = [
            tr(
                "{side} draws random numbers that {other} does not ({draws}, first {name} of {shape} at "
                "{at_line}): both streams were aligned by the other draws",
                side=side,
                other=other,
                draws=len(draws),
                name=draws[0].name,
                shape=list(draws[0].shape),
                at_line=at_line(draws[0].site.file, draws[0].site.line),
            )
            for side, other, draws in ((tr("the original"), tr("the port"), left), (tr("the port"), tr("the original"), more))
            if draws
        ]

    def of_original(self) -> contextlib.AbstractContextManager[Any]:
        """Around a run of the original."""
        self._states = []
        return Draws(self._noted)

    def of_port(self) -> contextlib.AbstractContextManager[Any]:
        """Around a run of the port after one of the original."""
        return Draws(self._aligned)

    def _noted(self, number: int) -> None:
        self._states[number:] = [torch.get_rng_state()]

    def _aligned(self, number: int) -> None:
        """A draw of the port begins where its partner began, if it has one; step by step in a training."""
        step, place = divmod(number, self._sizes[1])
        partner = self._partners.get(place)
        at = None if partner is None else step * self._sizes[0] + partner
        if at is not None and at < len(self._states):
            torch.set_rng_state(self._states[at])


def _draws(outcome: RunOutcome) -> list[Draw]:
    assert isinstance(outcome.capture, Draws)
    return outcome.capture.draws


def align_draws(original: ModelSide, port: ModelSide) -> list[str]:
    """Align the streams of both from now on, if they draw differently; notes on that."""
    for side in (original, port):  # without a draw in the forward there is none in the backward
        if not _draws(side.run_forward(Draws.noting)):
            return []
    draws = [_draws(side.run(Draws.noting)) for side in (original, port)]
    if [draw.call for draw in draws[0]] == [draw.call for draw in draws[1]]:
        return []
    streams = Streams(*draws)
    original.drawing, port.drawing = streams.of_original, streams.of_port
    return streams.notes


# ---- Mistakes that no call shows: a setting that rearranges a layer's calls, an op that Paddle defines differently.
#
# Each is tried: the port runs with the original's, and it is a mistake if that brings the outputs nearer.

Undo = Callable[[], None]
_MUCH, _NEAR = 0.1, 1e-3  # shares: much nearer, of a distance; rounding, of the largest element
_FEW = 4  # layers that are tried one by one
_SHOWN = 8  # lengths of a packed sequence that a text shows


class _Adjustment(NamedTuple):
    """One setting of the original for the port.

    ``name``: of the setting. ``text``: what to say. ``layers``: paths of layers, the original's and the port's, that must
    answer alike then. ``apply``: gives it to the port, and returns what takes it back. ``shown``: where it shows: the path of a
    layer of the original, and that of the port's.
    """

    name: str
    text: str
    layers: list[tuple[str, str]]
    apply: Callable[[], Undo]
    shown: tuple[str, str]


class _Setting(NamedTuple):
    """A setting of a layer of Paddle that the layer's calls do not show.

    ``kinds``: of layers, Torch's -> Paddle's. ``unlike``: a text where two layers differ in it; "" where they do not.
    """

    kinds: dict[type, type]
    unlike: Callable[[Any, Any], str]
    apply: Callable[[Any, Any], Undo]


@contextlib.contextmanager
def mending_settings(
    original: TorchSide, port: PaddleSide, mapping: WeightMapping, runs: tuple[RunOutcome, RunOutcome]
) -> Iterator[list[Mistake]]:
    """Within it the port has the original's settings that bring its outputs nearer: these are mistakes.

    Args:
        original, port: the models.
        mapping: how their weights belong together.
        runs: the outcomes of both.
    """
    mistakes: list[Mistake] = []
    settled: set[tuple[str, tuple[str, str]]] = set()
    expected, actual = runs
    original.rewind()
    with contextlib.ExitStack() as stack:
        stack.callback(port.forget_wide)
        adjustments = (of(original, port, mapping) for of in (_of_layers, _of_sequences))
        for adjustment in list(itertools.chain.from_iterable(adjustments)):
            parts = {(adjustment.name, pair) for pair in adjustment.layers}
            if parts and parts <= settled:
                continue
            undo = adjustment.apply()
            after = attempted(port.run_forward)  # a layer may refuse another layer's setting
            if after is None or not _mends(adjustment, expected, actual, after):
                undo()
                continue
            stack.callback(undo)
            settled |= parts
            actual = after
            mistakes.append(_mistake_of(adjustment, original, port))
        port.forget_wide()
        yield mistakes


def _mistake_of(adjustment: _Adjustment, original: TorchSide, port: PaddleSide) -> Mistake:
    expected, actual = adjustment.shown
    layers = tuple(path for _, path in adjustment.layers)
    return Mistake(Cause.ATTRIBUTE, adjustment.text, _place(original, expected), _place(port, actual), layers)


def _mends(adjustment: _Adjustment, expected: RunOutcome, before: RunOutcome, after: RunOutcome) -> bool:
    """Whether layers answer as the original's with it, and did not without; or outputs come much nearer.

    That outputs come somewhat nearer may be chance, where something else is wrong, too.
    """
    apart, nearer = (  # another shape is farther than all others
        (bool(agreement.shapes_differ(expected, run)), agreement.largest_of_rows(agreement.outputs(expected, run)))
        for run in (before, after)
    )
    if nearer < apart and (nearer[0] < apart[0] or nearer[1] <= _MUCH * apart[1]) and not nearer[0]:
        return True
    rows = [[_answers(expected, run, *pair) for pair in adjustment.layers] for run in (before, after)]
    return bool(rows[1]) and all(rows[1]) and not all(rows[0])


def _answers(expected: RunOutcome, run: RunOutcome, original: str, port: str) -> bool:
    """Whether a layer of the port returns what its partner returns, up to rounding."""
    pairs = list(zip(expected.layers.get(original, ()), run.layers.get(port, ())))
    if not pairs or any(wanted.shape != value.shape for wanted, value in pairs):
        return False
    return not agreement.far_apart([(port, wanted, value) for wanted, value in pairs], _NEAR)


def of_recurrences(original: TorchSide, port: PaddleSide) -> list[str]:
    """Settings in which recurrences of one name differ, so that they do not have the same weights."""
    modules = {path: module for path, module in original.layers.items() if type(module) in _RECURRENT}
    layers: dict[str, Any] = {path: layer for path, layer in port.layers.items() if path in modules}
    lines = []
    for path, module in modules.items():
        layer = layers.get(path)
        if layer is None or type(layer) is not _RECURRENT[type(module)]:
            continue
        ways = [repr("bidirect" if both else "forward") for both in (layer.num_directions == 2, module.bidirectional)]
        settings = (
            _against("direction", ways[0], "bidirectional", module.bidirectional, ways[1]),
            _against("num_layers", layer.num_layers, "num_layers", module.num_layers, module.num_layers),
        )
        lines += [joined(": ", (path or tr("the model"), text)) for text in settings if text]
    return lines


def _against(name: str, own: Any, torchs: str, other: Any, wanted: Any, note: str = "") -> str:
    """How a setting differs from Torch's of the name ``torchs``, and what to write, behind a note; "" if it does not."""
    words = {"name": name, "own": own, "torchs": torchs, "other": other, "wanted": wanted, "note": note}
    return "" if own == wanted else tr("{name}={own} against {torchs}={other} ({note}write {name}={wanted})", **words)


def _of_layers(
    original: TorchSide, port: PaddleSide, mapping: WeightMapping, settings: Sequence[_Setting] = ()
) -> Iterator[_Adjustment]:
    """The settings in which layers differ from their partners: of all such layers at once, and of each where they are few."""
    modules, layers = original.layers, port.layers
    for setting in settings or _SETTINGS:
        unlike: list[tuple[str, str, str]] = []  # paths, and what to say
        for path, module in modules.items():
            within = any(f"{path}.".startswith(f"{above}." if above else "") for above, _, _ in unlike)
            kind = next((setting.kinds[kind] for kind in type(module).__mro__ if kind in setting.kinds), None)
            partner = None if kind is None else _partner(path, kind, layers, mapping)
            if within or partner is None:  # a layer within such a layer has it from there
                continue
            if text := setting.unlike(module, layers[partner]):
                unlike.append((path, partner, text))
        for group in [unlike, *([row] for row in unlike if 1 < len(unlike) <= _FEW)] if unlike else []:
            pairs = [row[:2] for row in group]

            def apply(setting: _Setting = setting, pairs: list[tuple[str, str]] = pairs) -> Undo:
                undo = contextlib.ExitStack()
                for path, partner in pairs:
                    undo.callback(setting.apply(modules[path], layers[partner]))
                return undo.close

            yield _Adjustment(setting.unlike.__name__, group[0][2], pairs, apply, pairs[0])


def _partner(path: str, kind: type, layers: Mapping[str, Any], mapping: WeightMapping) -> str | None:
    """The path of the port's layer of a kind for one of the original's: by its weights, else by its name."""
    for pair in mapping:
        name, partner = pair.name("torch"), pair.name("paddle")
        if not path or name.startswith(f"{path}."):
            while partner and type(layers.get(partner)) is not kind:
                partner = partner.rpartition(".")[0]
            return partner if type(layers.get(partner)) is kind else None
    return path if type(layers.get(path)) is kind else None


def _place(side: ModelSide, path: str) -> ProgramPlace | None:
    """The line where a layer is called first, or the model's own forward; None if it is never called, or has another name, too."""
    sites, layer = list[CallSite](), side.layers.get(path)
    if layer is None:
        return None
    hook = layer.register_forward_pre_hook(lambda *_: sites.append(call_site(ModelSide._pass.__code__)))
    try:
        side.run_forward()
    finally:
        hook.remove()
    if not sites:
        return None
    code = type(layer).forward.__code__
    site = sites[0] if path else CallSite(code.co_filename, code.co_firstlineno, code.co_name)
    return ProgramPlace.at(site, path, type(layer).__name__)


def _of_sequences(original: TorchSide, port: PaddleSide, mapping: WeightMapping) -> Iterator[_Adjustment]:
    """The recurrences whose original reads packed sequences: Paddle's take the lengths of these as an argument."""
    layers = port.layers
    for path, lengths in _packed_lengths(original).items():
        module = original.layers[path]
        partner = _partner(path, _RECURRENT[type(module)], layers, mapping)
        if partner is None:
            continue

        def apply(partner: str = partner, lengths: list[int] = lengths) -> Undo:
            return layers[partner].register_forward_pre_hook(functools.partial(_with_lengths, lengths)).remove

        text = tr(
            "sequence_length=None against {lengths}, the lengths of Torch's packed sequence (pass sequence_length=lengths)",
            lengths=lengths if len(lengths) <= _SHOWN else f"[{', '.join(map(str, lengths[:_SHOWN]))}, ...]",
        )
        yield _Adjustment("sequence_length", text, [], apply, (path, partner))


def _packed_lengths(original: TorchSide) -> dict[str, list[int]]:
    """Path of a recurrence -> the lengths of the packed sequences that it reads, if they are those of all its calls."""
    lengths: dict[str, list[list[int]]] = {}

    def note(path: str, _: torch.nn.Module, arguments: tuple[Any, ...]) -> None:
        if arguments and isinstance(arguments[0], torch.nn.utils.rnn.PackedSequence):
            packed = arguments[0]
            sizes = packed.batch_sizes.tolist()
            rows = [sum(size > row for size in sizes) for row in range(sizes[0])]
            order = range(len(rows)) if packed.unsorted_indices is None else packed.unsorted_indices.tolist()
            lengths.setdefault(path, []).append([rows[place] for place in order])

    recurrences = {path: module for path, module in original.layers.items() if type(module) in _RECURRENT}
    if recurrences:
        with contextlib.ExitStack() as hooks:
            for path, module in recurrences.items():
                hooks.callback(module.register_forward_pre_hook(functools.partial(note, path)).remove)
            original.run_forward()
    return {path: calls[0] for path, calls in lengths.items() if all(call == calls[0] for call in calls)}


def _with_lengths(lengths: list[int], _: Model, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The arguments of a recurrence of Paddle with lengths, if it got none."""
    inputs, states, own = (*arguments, None, None)[:3]
    return (inputs, states, paddle.to_tensor(lengths)) if own is None else None


def _axes_read(layer: Model, wanted: bool) -> str:
    """The order of axes that a recurrence reads, and Torch's."""
    own, other = (tr("time, batch") if time_major else tr("batch, time") for time_major in (layer.time_major, wanted))
    words = {"name": type(layer).__name__, "own": own, "other": other}
    return tr("Paddle's {name} reads [{own}, size], Torch's [{other}, size]: ", **words)


def _attribute(kinds: dict[type, type], name: str, torchs: str, wanted: Callable[[bool], bool]) -> _Setting:
    """An attribute of a layer, and of those in it; ``torchs``: the name of Torch's, of which the value is made."""

    def unlike(module: Model, layer: Model) -> str:
        other = getattr(module, torchs)
        note = _axes_read(layer, wanted(other)) if name == "time_major" else ""
        return _against(name, getattr(layer, name), torchs, other, wanted(other), note)

    def apply(module: Model, layer: Model) -> Undo:
        undo = contextlib.ExitStack()
        for part in layer.sublayers(include_self=True):
            if hasattr(part, name):
                undo.callback(setattr, part, name, getattr(part, name))
                setattr(part, name, wanted(getattr(module, torchs)))
        return undo.close

    return _Setting(kinds, unlike, apply)


def _batch_first(module: Model, layer: Model) -> str:
    attention = module if isinstance(module, torch.nn.MultiheadAttention) else module.self_attn
    if attention.batch_first:
        return ""
    return tr(
        "batch_first=False in Torch's {name}, which reads [time, batch, size], where Paddle's {name2} "
        "always reads [batch, time, size]: transpose what it is given and what it returns, "
        "x.transpose([1, 0, 2])",
        name=type(module).__name__,
        name2=type(layer).__name__,
    )


_NORMS = {
    "SpectralNorm": "spectral_norm",
    "_SpectralNorm": "spectral_norm",
    "WeightNorm": "weight_norm",
    "_WeightNorm": "weight_norm",
}


def _norm_of_weight(layer: Model) -> Any:
    """The hook, or the parametrization, that norms a layer's weight; None if nothing does."""
    parametrized = getattr(layer, "parametrizations", None) or {}
    hooks = [*layer._forward_pre_hooks.values(), *(part for parts in parametrized.values() for part in parts)]
    return next((hook for hook in hooks if type(hook).__name__ in _NORMS), None)


def _unlike_norms(module: Model, layer: Model) -> dict[str, tuple[Any, Any]]:
    """The arguments in which the norms of two layers' weights differ: the port's, and what Paddle's has to be."""
    hook, own = _norm_of_weight(module), _norm_of_weight(layer)
    wanted = {name: getattr(hook, name) for name in _OF_NORMS if hasattr(hook, name) and hasattr(own, name)}
    if "dim" in wanted:  # -1: the weight is normed as a whole
        dim = -1 if wanted["dim"] is None else wanted["dim"]
        wanted["dim"] = 1 - dim if isinstance(module, torch.nn.Linear) and dim >= 0 else dim
    return {name: (getattr(own, name), value) for name, value in wanted.items() if getattr(own, name) != value}


_OF_NORMS = ("dim", "n_power_iterations", "eps")


def _norm_differs(module: Model, layer: Model) -> str:
    hook, own = _norm_of_weight(module), _norm_of_weight(layer)
    if hook is None:
        return ""
    turned = isinstance(module, torch.nn.Linear)
    if own is None:
        kind, dim = _NORMS[type(hook).__name__], -1 if hook.dim is None else 1 - hook.dim if turned else hook.dim
        call = f"paddle.nn.utils.{kind}({type(layer).__name__}(...), dim={dim})"
        return tr("the original has {norm}, the port has not (write {write})", norm=kind, write=call)
    texts = [
        tr(
            "{name}={own} of {norm} against {other} ({turned}write {name}={wanted})",
            name=name,
            own=value,
            norm=_NORMS[type(own).__name__],
            other=getattr(hook, name),
            turned=tr("Paddle's Linear holds [in, out], Torch's [out, in]: ") if turned and name == "dim" else "",
            wanted=wanted,
        )
        for name, (value, wanted) in _unlike_norms(module, layer).items()
    ]
    return joined(", ", texts)


def _set_norm(module: Model, layer: Model) -> Undo:
    """The port's norm gets the original's arguments, and the vectors that belong to them."""
    hook, own = _norm_of_weight(module), _norm_of_weight(layer)
    unlike, undo = {} if own is None else _unlike_norms(module, layer), contextlib.ExitStack()
    for name, (value, wanted) in unlike.items():
        undo.callback(setattr, own, name, value)
        setattr(own, name, wanted)
    hooks = layer._forward_pre_hooks
    ends = ("_u", "_v") if unlike and hasattr(own, "n_power_iterations") else ()
    vectors = {end: as_array(getattr(hook, end, getattr(module, f"weight{end}", None))) for end in ends}

    def with_vectors(layer: Model, inputs: Any) -> Any:
        for end, vector in vectors.items():  # in front of the buffers, which are put back for each run
            layer.__dict__[f"{own.name}{end}"] = paddle.to_tensor(vector).astype(layer.weight_orig.dtype)
        return own(layer, inputs)

    (key,) = [key for key, known in hooks.items() if known is own] or [None]
    for end in vectors:
        undo.callback(layer.__dict__.pop, f"{own.name}{end}", None)
    if vectors:
        undo.callback(hooks.__setitem__, key, own)
        hooks[key] = with_vectors
    return undo.close


def _transposing(_: Any, layer: Model) -> Undo:
    """A layer gets each sequence with its first axes exchanged, and what it returns is exchanged back."""

    def turned(value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return type(value)(map(turned, value))
        return value.transpose([1, 0, 2]) if isinstance(value, paddle.Tensor) and value.ndim == 3 else value

    undo = contextlib.ExitStack()
    undo.callback(layer.register_forward_pre_hook(lambda _, arguments: turned(arguments)).remove)
    undo.callback(layer.register_forward_post_hook(lambda _, __, result: turned(result)).remove)
    return undo.close


_nn, _pnn = torch.nn, paddle.nn
_RECURRENT = {_nn.LSTM: _pnn.LSTM, _nn.GRU: _pnn.GRU, _nn.RNN: _pnn.SimpleRNN}
_TRANSFORMERS = {
    _nn.TransformerEncoderLayer: _pnn.TransformerEncoderLayer,
    _nn.TransformerDecoderLayer: _pnn.TransformerDecoderLayer,
}
_ATTENTION = {_nn.MultiheadAttention: _pnn.MultiHeadAttention}
_NORMED = {
    _nn.Linear: _pnn.Linear,
    **{getattr(_nn, f"Conv{axes}d"): getattr(_pnn, f"Conv{axes}D") for axes in (1, 2, 3)},
    **{getattr(_nn, f"ConvTranspose{axes}d"): getattr(_pnn, f"Conv{axes}DTranspose") for axes in (1, 2, 3)},
}
_NORMS_OF_WEIGHTS = _Setting(_NORMED, _norm_differs, _set_norm)
_SETTINGS = (
    _attribute(_RECURRENT, "time_major", "batch_first", operator.not_),
    _attribute(_TRANSFORMERS, "normalize_before", "norm_first", bool),
    _Setting({**_ATTENTION, **_TRANSFORMERS}, _batch_first, _transposing),
    _NORMS_OF_WEIGHTS,
)


# ---- What must hold before the outputs of two models say anything: equal modes, inputs and weights.

Trees = tuple[Tree, Tree]


def preconditions(
    original: TorchSide,
    port: PaddleSide,
    inputs: Inputs,
    mapping: WeightMapping,
    trees: Trees,
    weights: str,
    stages: list[Stage],
    *,
    trains: bool = False,
) -> tuple[Proof | None, list[str]]:
    """What must hold before outputs say anything: a proof if it does not hold, and notes.

    Args:
        original, port: the models.
        inputs: of both.
        mapping: how their weights belong together.
        trees: the weights of Torch and Paddle.
        weights: as for :func:`.prove.prove`.
        stages: gets the stages that were compared.
        trains: whether both are going to be trained.
    """
    if original.model.training != port.model.training:
        modes = ["training" if side.model.training else "evaluation" for side in (original, port)]
        reason = tr("the Torch module is in {words} mode, the Paddle layer in {words2} mode", words=modes[0], words2=modes[1])
        stages.append(Stage("mode", False, reason))
        return Proof(ProofVerdict.NOT_COMPARABLE, reason, stages=stages), []
    different = _inputs_differ(original, port, inputs)
    if different and original.dtype() != port.dtype():
        dtypes = {"dtype": port.dtype(), "dtype2": original.dtype()}
        advice = tr('prove(..., dtype="{dtype}") proves both in one', dtype=port.dtype())
        different += tr("; the port's weights are {dtype}, the original's {dtype2}: {advice}", **dtypes, advice=advice)
    stages.append(Stage("inputs", not different, different or tr("equal on both sides")))
    if different:
        return Proof(ProofVerdict.INPUTS_DIFFER, different, stages=stages), []
    return _weights(original, port, mapping, trees, weights, stages, trains=trains)


def _inputs_differ(original: TorchSide, port: PaddleSide, inputs: Inputs) -> str:
    """What differs between both sides' inputs; "" if nothing does."""
    tensors = [leaves(inputs.of(side.framework, side.dtype(), wide="", device=side._device())) for side in (original, port)]
    if len(tensors[0]) != len(tensors[1]):
        return tr("{tensors} for Torch, {others} for Paddle", tensors=many(len(tensors[0]), "tensor"), others=len(tensors[1]))
    for (path, original_input), (_, port_input) in zip(*tensors):
        expected, actual = as_array(original_input), as_array(port_input)
        if expected.shape != actual.shape or not np.array_equal(expected, actual, equal_nan=expected.dtype.kind in "fc"):
            return tr("input {path}: {how}", path=path or "0", how=difference_text(expected, actual))
    return ""


def _weights(
    original: TorchSide, port: PaddleSide, mapping: WeightMapping, trees: Trees, weights: str, stages: list[Stage], *, trains: bool
) -> tuple[Proof | None, list[str]]:
    """Make weights equal on both sides: a proof if that is not possible, and notes."""
    sides = trees if mapping.src == "torch" else trees[::-1]
    notes, refused = list[str](), ""
    if weights == "as-is":
        if not mapping:
            line = in_one_line(without_partner(mapping, *sides))
            notes = [tr("not compared, for they have no partner: {line}", line=line)]
    else:
        notes, refused = _incomplete(original, port, mapping, sides, trains=trains)
    for side in (original, port):
        side.rewind()
    verdict = ProofVerdict.NOT_COMPARABLE
    if not refused and weights == "as-is":
        unequal = mapping.check(original.model, port.model).differences
        # What the code makes, not a training: masks, tables, frequencies.
        made = [
            [slot.weight.buffer and not slot.role.startswith("running_") for slot in each.pair.slots if slot.weight]
            for each in unequal
        ]
        constants = [difference for difference, buffers in zip(unequal, made) if all(buffers)]
        if constants:
            listing = listed(constants, 3, "; ")
            notes.append(tr("constants that are not the same on both sides, and stay so: {constants}", constants=listing))
        refused = listed([difference for difference in unequal if difference not in constants], 3, "; ")
        verdict = ProofVerdict.WEIGHTS_DIFFER
    if refused:
        stages.append(Stage("weights", False, refused))
        norms = _of_layers(original, port, mapping, [_NORMS_OF_WEIGHTS]) if weights != "as-is" else ()
        wrong = [_mistake_of(apart, original, port) for apart in itertools.islice(norms, 1)]
        return Proof(ProofVerdict.CODE_DIFFERS if wrong else verdict, refused, stages=stages, mistakes=wrong), notes
    if weights != "as-is":
        try:
            carry(mapping, *sides)
        except TransferError as error:
            ties = tied_differently(mapping)  # one tensor of the port's cannot hold the several values of the original's
            if not ties:
                raise
            stages.append(Stage("weights", False, str(error)))
            return Proof(ProofVerdict.CODE_DIFFERS, str(error), stages=stages, mistakes=ties), notes
        _carry_wide(original, port, mapping)
    equal = many(len(mapping), "pair holds equal values", "pairs hold equal values")
    stages.append(Stage("weights", True, tr("{equal} ({how})", equal=equal, how=weights)))
    return None, notes


def _carry_wide(original: TorchSide, port: PaddleSide, mapping: WeightMapping) -> None:
    """In float64 a rule that computes has to compute in float64, too: its rounding is neither model's."""
    ruled = replace(mapping, pairs=[pair for pair in mapping if pair.rule is not None and not pair.is_exact])
    if ruled.pairs:
        source, target = (original, port) if mapping.src == "torch" else (port, original)
        target.when_widened = lambda copy: carry(ruled, source.wide_model(), copy)


def _incomplete(
    original: TorchSide, port: PaddleSide, mapping: WeightMapping, sides: Trees, *, trains: bool
) -> tuple[list[str], str]:
    """Notes on weights without partner, and why nothing can be compared; "" if it can."""
    notes, needed = unmatched(original, port, mapping, trains=trains) if not mapping else ([], [])
    if needed:
        lines = without_partner(mapping, *sides, [weight.name for weight in needed])
        return [*notes, *of_recurrences(original, port), REMEDY], tr(
            "weights without partner: {in_one_line}", in_one_line=in_one_line(lines)
        )
    return notes, pairing.undecided(mapping.undecided)


# ---- Which weights belong together by their use, where names do not tell.
#
# Order alone tells apart weights that lie flat on a layer, ``w1`` and ``w2`` of one shape, and nothing tells how a square weight
# lies. What a program does with them tells both. So both models run once, with random numbers in copies of these weights, and
# weights that are used first for the same belong together. Whether that is right, the proof shows.


class _Use(NamedTuple):
    """The first use of a weight: by which call, as which operand, and whether transposed (None if that does not show)."""

    name: str
    shape: tuple[int, ...]  # whichever way it lies
    call: str
    operand: str
    turned: bool | None


def is_doubted(mapping: WeightMapping) -> bool:
    """Whether a match leaves open which weights belong together, or how they lie."""
    return any(mapping.left) or any(pair.doubted or pair.turnable for pair in mapping)


def by_use(original: ModelSide, port: ModelSide, mapping: WeightMapping) -> list[Used]:
    """Pairs of the weights that a match leaves open; none if both models do not use as many of one shape.

    Args:
        original, port: sides whose models may be changed: all weights will hold random numbers.
        mapping: the match.
    """
    known = [pair for pair in mapping if not pair.doubted and pair.torch and pair.paddle]
    settled = {pair.torch for pair in known}, {pair.paddle for pair in known}
    try:
        uses = [_uses(side) for side in (original, port)]
    except Exception:  # a model that does not run with other weights shows nothing
        return []
    pairs = _paired_by_use(*([use for use in side_uses if use.name not in names] for side_uses, names in zip(uses, settled)))
    of_torch, of_paddle = ({use.name: use for use in side_uses} for side_uses in uses)
    turnable = [pair for pair in known if pair.turnable and pair.torch in of_torch and pair.paddle in of_paddle]
    return pairs + [_pair_of_uses(of_torch[pair.torch], of_paddle[pair.paddle]) for pair in turnable]


def _paired_by_use(original: list[_Use], port: list[_Use]) -> list[Used]:
    """Pairs of weights that are used for the same, in order of use; then of the others those of one shape."""
    pairs: list[Used] = []
    order = {use.name: place for place, use in enumerate(original)}
    for key in (lambda use: use[1:4], lambda use: use.shape):  # type: Callable[[_Use], Any]
        counts = Counter(map(key, original)), Counter(map(key, port))
        same = {use_key for use_key, count in counts[0].items() if counts[1][use_key] == count}
        for use_key in same:
            pairs += map(
                _pair_of_uses, (use for use in original if key(use) == use_key), (use for use in port if key(use) == use_key)
            )
        original, port = ([use for use in uses if key(use) not in same] for uses in (original, port))
    return sorted(pairs, key=lambda pair: order[pair.torch])


def _pair_of_uses(original: _Use, port: _Use) -> Used:
    turned = None if original.turned is None or port.turned is None else original.turned is not port.turned
    return Used(original.name, port.name, turned)


def _uses(side: ModelSide) -> list[_Use]:
    """The first use of each weight, in order."""
    generator, stored = np.random.default_rng(0), {}
    for name, parameter in side.parameters().items():
        if np.issubdtype(as_array(parameter).dtype, np.floating):
            side.fill(parameter, generator.standard_normal(tuple(parameter.shape)).astype(as_array(parameter).dtype))
            stored[name] = copied(parameter)  # rounded, in 16 bits
    uses: dict[str, _Use] = {}
    for node in side.run_forward(Capture).trace.nodes:
        for operand in sorted(node.operands, key=lambda operand_: -operand_.tensor.dim()):
            name = operand.value.label
            if operand.value.node is None and name in stored and name not in uses:
                shape = tuple(sorted(size for size in stored[name].shape if size != 1))
                uses[name] = _Use(name, shape, kind(node), operand.name, _is_turned(operand, stored[name]))
    return list(uses.values())


def _is_turned(operand: TraceOperand, stored: Array) -> bool | None:
    if stored.ndim != 2 or operand.tensor.dim() != 2:
        return None
    values = as_array(operand.tensor)
    return next((turned for turned, weight in ((False, stored), (True, stored.T)) if np.array_equal(values, weight)), None)


def note_of_use(used: Iterable[Used]) -> str:
    """A note on weights that were paired by their use."""
    pairs = [tr("{torch} and {paddle}", torch=pair.torch, paddle=pair.paddle) for pair in used]
    return tr(
        "names do not tell which of these weights belong together, or how they lie; they were paired by "
        "their use in the forward: {pairs}. If that is not how you take weights across, say so: "
        "layer_map=",
        pairs=listed(pairs),
    )
