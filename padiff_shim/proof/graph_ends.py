"""Where the port's graph ends, so that no gradient goes back: detach, no_grad, stop_gradient, tensors made anew, paddle.grad.

Each end is undone by itself: what brings the port's gradients nearer to the original's is a mistake. A tensor that was computed in
NumPy cannot be put back on the graph; there the values tell whether the outputs depend on it.
"""

from __future__ import annotations

import contextlib
import functools
import linecache
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import paddle
import torch
from paddle.base.dygraph import base

from ..dispatch.call_site import CallSite, call_site, is_library
from ..measure.bits import largest, largest_element
from ..present.annotations import Patch
from ..text import listed, tr, with_fields
from ..trees import is_tensor
from ..weights.mapping import Mapping
from ..weights.tree import Slot
from . import agreement
from .agreement import RunOutcome, floor_of
from .causes import BACKWARD, GOES_ON
from .expressions import Rewrite, operands_detached
from .findings import Cause, Fix, Mistake, ProgramPlace, merged
from .fixes import fix_of_detached, fix_of_training, in_place
from .locate import Differing
from .programs import ModelSide, PaddleSide, TorchSide, attempted

_OURS = __file__.rpartition("proof")[0]
_GRAD, _RECOMPUTE = "paddle.grad()", "recompute()"
_WRITE = {_GRAD: "create_graph=True", _RECOMPUTE: "use_reentrant=False"}
_MOVED = 1e-3  # of an array's numbers, to see whether outputs depend on it


class GraphEnd(NamedTuple):
    """A place where the port leaves the graph: ``number`` among those of a run. ``in_numpy``: with an array."""

    number: int
    call: str
    site: CallSite
    layer: str
    in_numpy: bool = False


class Ends(contextlib.AbstractContextManager["Ends"]):
    """Within it the ends of the graph are noted.

    Args:
        layer: returns the path of the running layer.
        undone: numbers of ends that have no effect.
        moved: the number of an end whose array holds other numbers.
    """

    def __init__(self, layer: Callable[[], str], undone: Collection[int] = (), moved: int = -1) -> None:
        self.ends: list[GraphEnd] = []
        self._layer, self._undone, self._moved = layer, undone, moved
        self._arrays: list[tuple[Any, Any]] = []  # with the tensors on the graph that they come from
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Ends:
        tensor = paddle.Tensor
        for name in ("detach", "detach_"):
            self._exchange(tensor, name, functools.partial(self._detach, name))
        for name in ("numpy", "item", "tolist", "__array__"):
            self._exchange(tensor, name, functools.partial(self._leave, name))
        self._exchange(paddle, "to_tensor", self._to_tensor)
        self._exchange(paddle, "grad", self._grad)
        self._exchange(base, "_set_grad_enabled", self._set_grad)
        if (module := sys.modules.get("paddle.distributed.fleet.recompute.recompute")) is not None:
            self._exchange(module.RecomputeFunction, "apply", self._recompute)
        flag = tensor.stop_gradient
        setter = functools.partial(self._stop, flag)
        self._put(tensor, "stop_gradient", property(flag.__get__, lambda side, value: setter(side, value)))
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()

    def _exchange(self, owner: Any, name: str, instead: Callable[..., Any]) -> None:
        original = getattr(owner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            return instead(original, *args, **kwargs) if _of_the_program() else original(*args, **kwargs)

        self._put(owner, name, functools.wraps(original)(call))

    def _put(self, owner: Any, name: str, value: Any) -> None:
        self._stack.callback(setattr, owner, name, getattr(owner, name))
        setattr(owner, name, value)

    def _undoes(self, call: str, *, in_numpy: bool = False) -> bool:
        """Note an end; whether it has no effect."""
        self.ends.append(GraphEnd(len(self.ends), call, call_site(ModelSide._pass.__code__), self._layer(), in_numpy))
        return self.ends[-1].number in self._undone

    def _detach(self, name: str, original: Callable[..., Any], tensor: Any) -> Any:
        return tensor if not tensor.stop_gradient and self._undoes(f"{name}()") else original(tensor)

    def _stop(self, flag: Any, tensor: Any, value: bool) -> None:
        if not (value and not flag.__get__(tensor) and _of_the_program() and self._undoes("stop_gradient = True")):
            flag.__set__(tensor, value)

    def _set_grad(self, original: Callable[..., Any], mode: bool) -> None:
        if mode or not paddle.is_grad_enabled() or not self._undoes("no_grad()"):
            original(mode)

    def _grad(self, original: Callable[..., Any], outputs: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Gradients that are on no graph themselves: a penalty of them trains nothing."""
        settings = dict(zip(("grad_outputs", "retain_graph", "create_graph"), args)) | kwargs
        if not settings.get("create_graph") and len(args) < 4 and paddle.is_grad_enabled() and self._undoes(_GRAD):
            return original(outputs, inputs, **{**settings, "retain_graph": True, "create_graph": True})
        return original(outputs, inputs, *args, **kwargs)

    def _recompute(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """A block that is recomputed by a layer of Python's: without an input that wants a gradient its weights get none."""
        tensors = [arg for arg in args if is_tensor(arg)]
        if paddle.is_grad_enabled() and all(tensor.stop_gradient for tensor in tensors) and self._undoes(_RECOMPUTE):
            begun = {id(tensor): tensor.detach() for tensor in tensors if paddle.is_floating_point(tensor)}
            for tensor in begun.values():
                tensor.stop_gradient = False
            args = tuple(begun.get(id(arg), arg) for arg in args)
        return original(*args, **kwargs)

    def _leave(self, name: str, original: Callable[..., Any], tensor: Any, *args: Any, **kwargs: Any) -> Any:
        """A tensor's numbers in Python or NumPy."""
        values = original(tensor, *args, **kwargs)
        if tensor.stop_gradient or not paddle.is_grad_enabled():
            return values
        self._undoes(f"{name}()", in_numpy=True)
        if self.ends[-1].number == self._moved:
            values = np.asarray(values) * (1 + _MOVED) + _MOVED
            values = values.tolist() if name in ("item", "tolist") else values.astype(values.dtype)
        self._arrays.append((values, tensor))
        return values

    def _to_tensor(self, original: Callable[..., Any], data: Any = None, *args: Any, **kwargs: Any) -> Any:
        source = data if is_tensor(data) else next((tensor for array, tensor in self._arrays if array is data), None)
        if source is None or source.stop_gradient or not paddle.is_grad_enabled():
            return original(data, *args, **kwargs)
        made = original(data, *args, **kwargs)
        numbers = {end.number for end in self.ends if end.in_numpy and source is not data}
        undone = self._undoes("to_tensor()") if source is data else bool(numbers & set(self._undone))
        return source.astype(made.dtype).reshape(made.shape).clone() if undone else made


def _of_the_program() -> bool:
    """Whether a function of the program, and none of ours, has called Paddle."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if file != __file__ and (file.startswith(_OURS) or not is_library(file)):
            return not file.startswith(_OURS)
        frame = frame.f_back  # type: ignore[assignment]
    return False


@contextlib.contextmanager
def mending_ends(
    original: TorchSide, port: PaddleSide, mapping: Mapping, differing: Differing, runs: tuple[RunOutcome, RunOutcome]
) -> Iterator[list[Mistake]]:
    """Within it the port's graph goes on where the original's does: these ends are mistakes. ``differing``: of these ``runs``."""
    mistakes: list[Mistake] = []
    wrong = agreement.far_apart(agreement.outputs(*runs), original.epsilon**0.5)
    if not (differing.missing or (differing.backward and not wrong)):
        yield mistakes
        return
    before = port.drawing
    watched: list[Ends] = []

    @contextlib.contextmanager
    def around(undone: Collection[int], moved: int = -1) -> Iterator[None]:
        with before(), Ends(port.layer, undone, moved) as ends:
            watched.append(ends)
            yield

    def run(undone: Collection[int], moved: int = -1) -> RunOutcome | None:
        port.drawing = functools.partial(around, undone, moved)
        return attempted(port.run)

    try:
        actual = run(())
        ends, undone = (watched[0].ends if watched else []), list[int]()
        expected = (runs[0] if runs[0].gradients else original.run()) if ends else None
        apart = _apart(original, mapping, expected, actual)
        for group in [[end] for end in ends] + ([ends] if len(ends) > 1 else []):
            numbers = [end.number for end in group if end.number not in undone]
            if not any(apart) or not numbers:
                break
            after = _apart(original, mapping, expected, run([*undone, *numbers]))
            if after < apart:
                apart, undone = after, [*undone, *numbers]
        mended = [end for end in ends if end.number in undone]
        if any(apart) and not mended and not port.to_inputs:  # an input may be far from what NumPy got
            mended = [end for end in ends if end.in_numpy and _shows(actual, run((), end.number))][:1]
        port.drawing = functools.partial(around, undone) if undone else before
        mistakes += merged((end.site, _mistake(end)) for end in mended)
        yield mistakes
    finally:
        port.drawing = before
        port.forget_wide()


class _OwnLeaves(torch.overrides.TorchFunctionMode):
    """Within it ``made`` becomes true where a program begins a graph of its own, behind which no gradient reaches its inputs."""

    made = False

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.made |= function in (torch.Tensor.requires_grad_, torch.Tensor.requires_grad.__set__)
        return function(*args, **(kwargs or {}))


def ends_before_inputs(original: TorchSide, port: PaddleSide, mapping: Mapping) -> tuple[list[Mistake], str]:
    """Where the graph of a port that is right but for that ends before its inputs; and how their gradients differ.

    Paddle's own kernels are not asked for gradients that the program does not ask for: some end the process.
    """
    before, own = original.drawing, _OwnLeaves()

    @contextlib.contextmanager
    def watched() -> Iterator[None]:
        with before(), own:
            yield

    original.drawing, original.to_inputs, port.to_inputs = watched, True, True
    try:
        expected = attempted(original.run)  # not every step of an input has a gradient in Torch
        actual = attempted(port.run) if expected is not None and expected.of_inputs and not own.made else None
        if expected is None or actual is None:
            return [], ""
        differing = Differing.between(mapping, expected, actual)
        with mending_ends(original, port, mapping, differing, (expected, actual)) as ends:
            far = any(_apart(original, mapping, expected, actual))
            return ends, differing.missing or (differing.backward if far else "")
    finally:
        original.drawing, original.to_inputs, port.to_inputs = before, False, False


def with_graphs_ended(
    mistakes: list[Mistake], original: TorchSide, port: PaddleSide, mapping: Mapping, parts: Collection[str]
) -> list[Mistake]:
    """The mistakes; of a graph that goes on with the operand to detach: each of its line is tried, in memory.

    ``parts``: of a run, in which they show. Where the backward alone is wrong, a graph that goes on may look like other calls.
    """
    going_on, alone = [mistake for mistake in mistakes if mistake.cause is Cause.GRAPH_GOES_ON], set(parts) == {BACKWARD}
    if not mistakes or not (going_on or alone) or sys.version_info < (3, 11):
        return mistakes
    expected = original.run()
    apart, ended, fix = _apart(original, mapping, expected, port.run()), mistakes[0], None

    def run_with(patch: Patch) -> RunOutcome:
        with in_place({patch.file: patch.apply("".join(linecache.getlines(patch.file)))}):
            return port.run()

    for mistake in going_on or mistakes:
        place = mistake.paddle
        for patch in map(Rewrite.patch, operands_detached(place.file, place.line)) if place else ():
            after = _apart(original, mapping, expected, attempted(functools.partial(run_with, patch))) if patch else apart
            if after < apart and patch is not None and (going_on or not any(after)):
                apart, ended, fix = after, mistake, Fix(" ".join(patch.after.split()), patch.file, patch.line, patch=patch)
    if fix is None:
        return mistakes
    mended = [] if any(apart) else mistakes if alone else going_on
    rest = [mistake for mistake in mistakes if mistake is ended or mistake not in mended]
    text = ended.text if going_on else GOES_ON
    ending = replace(ended, cause=Cause.GRAPH_GOES_ON, text=text, write=fix.text, fix=fix)
    return [ending if mistake is ended else mistake for mistake in rest]


def trained_otherwise(original: TorchSide, port: PaddleSide, mapping: Mapping, differing: Differing) -> Iterator[Mistake]:
    """What is trained in one program alone; a mistake for all that the port freezes, and one for all that it trains."""
    if not differing.missing:
        return
    trained = original.trained_names(), port.trained_names()
    named = [
        pair  # another name of a tied weight is none of its own
        for pair in mapping
        if (pair.torch in original.parameters() or _is_buffer(pair.torch_slot))
        and (pair.paddle in port.parameters() or _is_buffer(pair.paddle_slot))
    ]
    here = [pair.paddle for pair in named if pair.paddle in trained[1] and pair.torch not in trained[0]]
    there = [pair.paddle for pair in named if pair.torch in trained[0] and pair.paddle not in trained[1]]
    texts = (
        tr("{names}: trained in the port, frozen in the original (write {write})"),
        tr("{names}: frozen in the port, trained in the original (write {write})"),
    )
    for names, frozen, text in zip((here, there), (True, False), texts):
        if names:
            fix = fix_of_training(port.model, names, frozen=frozen)
            layers = tuple(name.rpartition(".")[0] for name in names)
            place = ProgramPlace.at(CallSite(fix.file, fix.line, ""), layers[0], "stop_gradient") if fix.file else None
            words = with_fields(text, names=listed(names), write=fix.text)
            yield Mistake(Cause.TRAINED, words, None, place, layers, write=fix.text, fix=fix)


def _is_buffer(slot: Slot) -> bool:
    return slot.weight is not None and slot.weight.buffer


def _apart(side: TorchSide, mapping: Mapping, original: RunOutcome | None, port: RunOutcome | None) -> tuple[int, int]:
    """How many gradients one side alone has, and how many differ by half of the digits: sums may round in another order."""
    if original is None or port is None:
        return sys.maxsize, 0
    rows = agreement.gradients(mapping, original, port)
    alone = sum((expected is None) is not (actual is None) for _, expected, actual in rows)
    both = list(agreement.complete(rows))
    least = floor_of(side.dtype()) * max((largest_element(expected) for _, expected, _ in both), default=0.0)  # one may be 0 else
    far = [a.shape != b.shape or largest(a, b) > max(side.epsilon**0.5 * largest_element(a), least) for _, a, b in both]
    return alone, sum(far)


def _shows(before: RunOutcome | None, after: RunOutcome | None) -> bool:
    return before is not None and after is not None and bool(agreement.outputs_differ(before, after, lambda _: True))


def _mistake(end: GraphEnd) -> Mistake:
    text = tr("no gradient goes back behind {call}", call=end.call)
    fix = fix_of_detached(end.site) if end.call == "detach()" else None
    if end.call in _WRITE:
        fix = Fix(_WRITE[end.call], end.site.file, end.site.line)
    place = ProgramPlace.at(end.site, end.layer, end.call)
    return Mistake(Cause.GRAPH_ENDS, text, None, place, (end.layer,), write=fix.text if fix else "", fix=fix)
