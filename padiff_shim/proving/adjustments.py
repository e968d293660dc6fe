"""What makes a port differ though no call shows it: a setting that rearranges a layer's calls, an op that Paddle defines otherwise.

Each is tried: the port runs with what the original says, and it is a mistake if that brings the outputs nearer.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import paddle
import torch

from ..dispatch.site import Site, call_site
from ..weights.mapping import Mapping as Weights
from . import outcomes
from .advice import advice_on_definition
from .cause import WRITTEN_OTHERWISE, Cause
from .findings import Mistake, Place
from .outcome import Outcome
from .paddle_side import PaddleSide
from .plans import Defined
from .sides import Side, out_of_memory
from .torch_side import TorchSide

Undo = Callable[[], None]
_MUCH, _NEAR = 0.1, 1e-3  # shares: of a distance that is much nearer, of the largest element for rounding
_FEW = 4  # layers that are tried one by one


class _Adjustment(NamedTuple):
    """What gives the port the original's, by the name of the setting or op, and what to say of it.

    ``layers``: paths of the layers that shall answer as their partners do then, the original's and the port's.
    ``places``: finds the calls of both programs that show it.
    """

    name: str
    text: str
    layers: list[tuple[str, str]]
    apply: Callable[[], Undo]
    places: Callable[[], tuple[Place | None, Place | None]]


class _Setting(NamedTuple):
    """A setting of a layer of Paddle's that the calls of the layer do not show.

    ``kinds``: of layers, Torch's -> Paddle's. ``unlike``: what to say where two have it otherwise; "" where they have not.
    """

    kinds: dict[type, type]
    unlike: Callable[[Any, Any], str]
    apply: Callable[[Any, Any], Undo]


@contextlib.contextmanager
def adjusted(original: TorchSide, port: PaddleSide, mapping: Weights, runs: tuple[Outcome, Outcome]) -> Iterator[list[Mistake]]:
    """Within it the port has the original's settings and definitions, as far as they bring its outputs nearer: these mistakes.

    Args:
        original, port: the models.
        mapping: how their weights belong together.
        runs: what both gave.
    """
    mistakes: list[Mistake] = []
    settled: set[tuple[str, tuple[str, str]]] = set()
    expected, actual = runs
    with contextlib.ExitStack() as stack:
        stack.callback(port.forget_wide)
        for adjustment in [*_of_layers(original, port, mapping), *_of_definitions(original, port, mapping)]:
            parts = {(adjustment.name, pair) for pair in adjustment.layers}
            if parts and parts <= settled:
                continue
            undo = adjustment.apply()
            after = _run(port)
            if after is None or not _mends(adjustment, expected, actual, after):
                undo()
                continue
            stack.callback(undo)
            settled |= parts
            actual = after
            layers = tuple(path for _, path in adjustment.layers)
            mistakes.append(Mistake(Cause.ATTRIBUTE, adjustment.text, *adjustment.places(), layers))
        port.forget_wide()
        yield mistakes


def _mends(adjustment: _Adjustment, expected: Outcome, before: Outcome, after: Outcome) -> bool:
    """Whether layers answer as the original's with it, which they have not before; or outputs come much nearer.

    That they come nearer at all may be chance, where something else is wrong, too.
    """
    apart, nearer = (_distance(expected, run) for run in (before, after))
    if nearer < apart and (nearer[0] < apart[0] or nearer[1] <= _MUCH * apart[1]) and not nearer[0]:
        return True
    rows = [[_answers(expected, run, *pair) for pair in adjustment.layers] for run in (before, after)]
    return bool(rows[1]) and all(rows[1]) and not all(rows[0])


def _answers(expected: Outcome, run: Outcome, original: str, port: str) -> bool:
    """Whether a layer of the port returns what its partner does, up to rounding."""
    pairs = list(zip(expected.layers.get(original, ()), run.layers.get(port, ())))
    if not pairs or any(wanted.shape != value.shape for wanted, value in pairs):
        return False
    return not outcomes.far_apart([(port, wanted, value) for wanted, value in pairs], _NEAR)


def of_recurrences(original: TorchSide, port: PaddleSide) -> list[str]:
    """What recurrences of one name have otherwise, so that they have not the same weights."""
    modules = {path: module for path, module in original.layers.items() if type(module) in _RECURRENT}
    layers: dict[str, Any] = {path: layer for path, layer in port.layers.items() if path in modules}
    lines = []
    for path, module in modules.items():
        layer = layers.get(path)
        if layer is None or type(layer) is not _RECURRENT[type(module)]:
            continue
        if module.bidirectional is not (layer.num_directions == 2):
            words = ("forward", "bidirect") if module.bidirectional else ("bidirect", "forward")
            against = f"direction={words[0]!r} against bidirectional={module.bidirectional}"
            lines.append(f"{path or 'the model'}: {against} (write direction={words[1]!r})")
        if module.num_layers != layer.num_layers:
            against = f"num_layers={layer.num_layers} against {module.num_layers}"
            lines.append(f"{path or 'the model'}: {against} (write num_layers={module.num_layers})")
    return lines


def _run(port: PaddleSide) -> Outcome | None:
    """A forward of the port; None if it does not run so."""
    try:
        return port.run_forward()
    except Exception as error:  # whatever a layer makes of a setting that is not its own
        if out_of_memory(error):
            raise
        return None


def _distance(original: Outcome, port: Outcome) -> tuple[bool, float]:
    """How far outputs are apart; what has another shape is farther than all others."""
    return bool(outcomes.shapes_differ(original, port)), outcomes.widest(outcomes.outputs(original, port))


def _of_layers(original: TorchSide, port: PaddleSide, mapping: Weights) -> Iterator[_Adjustment]:
    """The settings that layers have otherwise than their partners: of all such layers at once, and of each where they are few."""
    layers = port.layers
    for setting in _SETTINGS:
        unlike: list[tuple[str, str, str]] = []  # paths, and what to say
        for path, module in original.layers.items():
            within = any(f"{path}.".startswith(f"{above}." if above else "") for above, _, _ in unlike)
            partner = _partner(path, setting.kinds[type(module)], layers, mapping) if type(module) in setting.kinds else None
            if within or partner is None:  # of a layer within such a one it is not its own
                continue
            if text := setting.unlike(module, layers[partner]):
                unlike.append((path, partner, text))
        groups = [unlike, *([row] for row in unlike if 1 < len(unlike) <= _FEW)] if unlike else []
        yield from (_of_group(setting, group, original, port) for group in groups)


def _of_group(setting: _Setting, group: Sequence[tuple[str, str, str]], original: TorchSide, port: PaddleSide) -> _Adjustment:
    """One setting of these layers."""
    path, partner, text = group[0]

    def apply() -> Undo:
        modules, layers = original.layers, port.layers
        undo = [setting.apply(modules[module], layers[layer]) for module, layer, _ in group]

        def back() -> None:
            for take_back in undo:
                take_back()

        return back

    def places() -> tuple[Place | None, Place | None]:
        return _place(original, original.layers[path], path), _place(port, port.layers[partner], partner)

    return _Adjustment(setting.unlike.__name__, text, [row[:2] for row in group], apply, places)


def _partner(path: str, kind: type, layers: Mapping[str, Any], mapping: Weights) -> str | None:
    """The path of the port's layer of a kind for one of the original's: that of its weights, else the one of its name."""
    for pair in mapping:
        name, partner = pair.name("torch"), pair.name("paddle")
        if not path or name.startswith(f"{path}."):
            while partner and type(layers.get(partner)) is not kind:
                partner = partner.rpartition(".")[0]
            return partner if type(layers.get(partner)) is kind else None
    return path if type(layers.get(path)) is kind else None


def _place(side: Side, layer: Any, path: str) -> Place | None:
    """The line where a layer is called first, or of a model itself that of its forward; None if it never is."""
    sites: list[Site] = []
    hook = layer.register_forward_pre_hook(lambda *_: sites.append(call_site(Side._pass.__code__)))
    try:
        side.run_forward()
    finally:
        hook.remove()
    if not sites:
        return None
    code = type(layer).forward.__code__
    site = sites[0] if path else Site(code.co_filename, code.co_firstlineno, code.co_name)
    return Place.at(site, path, type(layer).__name__)


def _of_definitions(original: TorchSide, port: PaddleSide, mapping: Weights) -> Iterator[_Adjustment]:
    """The ops of the port of which its run has said that Paddle defines them otherwise for what they are given."""
    for op, defined in port.defined.items():

        def apply(op: str = op) -> Undo:
            before = port.torchs
            port.torchs = before | {op}
            return functools.partial(setattr, port, "torchs", before)

        path = next((pair.name("torch").rpartition(".")[0] for pair in mapping if _holds(defined.layer, pair.name("paddle"))), None)

        def places(path: str | None = path, op: str = op, defined: Defined = defined) -> tuple[Place | None, Place | None]:
            module = original.layers.get(path) if path is not None else None  # of several names of one layer the last is unknown
            place = None if module is None or path is None else _place(original, module, path)
            return place, Place.at(defined.site, defined.layer, op)

        text = f"{op}: {defined.how}{advice_on_definition(op)}"
        yield _Adjustment(op, text, [] if path is None else [(path, defined.layer)], apply, places)


def _holds(layer: str, name: str) -> bool:
    """Whether a weight is a layer's own."""
    return bool(layer) and name.rpartition(".")[0] == layer


def defined_otherwise(mistakes: list[Mistake], defined: Mapping[str, Defined]) -> list[Mistake]:
    """The mistakes, in which calls that differ within an op that Paddle defines otherwise are one: that definition."""
    for op, definition in defined.items():
        within = [wrong for wrong in mistakes if wrong.paddle and (wrong.paddle.file, wrong.paddle.line) == definition.site[:2]]
        lines = {(wrong.torch.file, wrong.torch.line) for wrong in within if wrong.torch and wrong.cause in WRITTEN_OTHERWISE}
        others = [wrong for wrong in mistakes if wrong.torch and wrong.cause in WRITTEN_OTHERWISE]
        parts = [wrong for wrong in others if wrong.torch and (wrong.torch.file, wrong.torch.line) in lines]
        if parts:
            whole = replace(within[0], cause=Cause.ATTRIBUTE, text=f"{op}: {definition.how}{advice_on_definition(op)}")
            mistakes = [whole if wrong is parts[0] else wrong for wrong in mistakes if wrong is parts[0] or wrong not in parts]
    return mistakes


def _time_major(module: Any, layer: Any) -> str:
    wanted = not module.batch_first
    if layer.time_major is wanted:
        return ""
    return (
        f"time_major={layer.time_major} against batch_first={module.batch_first} (Paddle's {type(layer).__name__} reads "
        f"[{'time, batch' if layer.time_major else 'batch, time'}, size], Torch's "
        f"[{'time, batch' if wanted else 'batch, time'}, size]: write time_major={wanted})"
    )


def _set_everywhere(name: str, wanted: Callable[[Any], Any]) -> Callable[[Any, Any], Undo]:
    """Give a layer, and those in it, an attribute."""

    def apply(module: Any, layer: Any) -> Undo:
        held = [(part, getattr(part, name)) for part in layer.sublayers(include_self=True) if hasattr(part, name)]
        for part, _ in held:
            setattr(part, name, wanted(module))

        def undo() -> None:
            for part, value in held:
                setattr(part, name, value)

        return undo

    return apply


def _normalize_before(module: Any, layer: Any) -> str:
    if layer.normalize_before is module.norm_first:
        return ""
    return (
        f"normalize_before={layer.normalize_before} against norm_first={module.norm_first} "
        f"(write normalize_before={module.norm_first})"
    )


def _batch_first(module: Any, layer: Any) -> str:
    attention = module if isinstance(module, torch.nn.MultiheadAttention) else module.self_attn
    if attention.batch_first:
        return ""
    return (
        f"batch_first=False in Torch's {type(module).__name__}, which reads [time, batch, size], where Paddle's "
        f"{type(layer).__name__} always reads [batch, time, size]: transpose what it is given and what it returns, "
        "x.transpose([1, 0, 2])"
    )


def _transposing(_: Any, layer: Any) -> Undo:
    """A layer is given each sequence with its first axes exchanged, and what it returns is exchanged back."""

    def turned(value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return type(value)(map(turned, value))
        return value.transpose([1, 0, 2]) if isinstance(value, paddle.Tensor) and value.ndim == 3 else value

    before = layer.register_forward_pre_hook(lambda _, arguments: turned(arguments))
    behind = layer.register_forward_post_hook(lambda _, __, result: turned(result))

    def undo() -> None:
        before.remove()
        behind.remove()

    return undo


_nn, _pnn = torch.nn, paddle.nn
_RECURRENT = {_nn.LSTM: _pnn.LSTM, _nn.GRU: _pnn.GRU, _nn.RNN: _pnn.SimpleRNN}
_TRANSFORMERS = {
    _nn.TransformerEncoderLayer: _pnn.TransformerEncoderLayer,
    _nn.TransformerDecoderLayer: _pnn.TransformerDecoderLayer,
}
_ATTENTION = {_nn.MultiheadAttention: _pnn.MultiHeadAttention}
_SETTINGS = (
    _Setting(_RECURRENT, _time_major, _set_everywhere("time_major", lambda module: not module.batch_first)),
    _Setting(_TRANSFORMERS, _normalize_before, _set_everywhere("normalize_before", lambda module: module.norm_first)),
    _Setting({**_ATTENTION, **_TRANSFORMERS}, _batch_first, _transposing),
)
