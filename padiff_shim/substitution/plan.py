"""Reference mode's plan: Torch's kernels where the table has a formula, Paddle's own with the reason where not."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..dispatch import call_site, frames
from ..dispatch.entry_point import EntryPoint, Unlisted, gate
from ..dispatch.frames import Frame
from ..errors import StayedNativeError
from ..frameworks import autocast, randomness
from ..frameworks.autocast import grad_tracer
from ..frameworks.memory import FLOATS
from ..language import logged
from ..optimizers import clipping, step_cache
from ..optimizers.step import Updating, coupled
from ..optimizers.update import CLIPPERS, updates
from ..runlog.counts import ENGINES, MOVES, NATIVE, OPTIMIZER, RECOMPUTED, REDRAWN, REFERENCE, Clock, ClockPlace, rounds
from ..table.op import AUTOCAST
from ..table.reasons import DRAWN, EMPTY, FORKED, INDEPENDENT, RANDOM, STATIC, TORCH_RAISED, StayNative
from ..tape import islands, views
from ..tape.calls import RecomputedBlock
from ..tape.paddle_graph import LOCAL
from . import amp, moves
from .execute import Drawing, Substitution

_RUN_ONCE = logged(
    "recompute(use_reentrant=False): a backward outside of the mode did not run its block once more, as it does natively: running "
    "statistics and counters differ"
)
PACKED = logged(
    "saved_tensors_hooks: what native calls keep for their backward passes through them; what substituted calls keep is Torch's, "
    "does not, and stays in memory"
)
# Calls that stay native for these reasons may be made in float32 where there is no kernel: see moves.
RAISED = (EMPTY, RANDOM, DRAWN)


class Substituting:
    """The plan of reference mode (:class:`padiff_shim.dispatch.entry_point.Plan`)."""

    on_tape, tracks_layers = True, False
    hurries = True  # calls may take the short way past the plan
    looks: float = 256  # how many calls that stay native for one reason are looked up by line

    def __init__(
        self, definition: str = "paddle", *, draws: bool = False, torchs: frozenset[str] = frozenset(), lends: bool = True
    ) -> None:
        """``lends=False``: automatic mixed precision stays off on a CPU, too, as Paddle's kernels have it."""
        self.draws = draws
        self.lends = lends  # Torch's kernels answer calls for which Paddle has none
        self.torchs = torchs  # ops that are computed by Torch's definition, which is another
        self.autocasts = ("torch" if AUTOCAST in torchs else "paddle") if lends else ""
        self.definition = definition  # of optimizers and clippers, where Paddle's and Torch's differ
        self.updating = Updating(definition, self._count_native)

    def call(
        self, entry_point: EntryPoint, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Torch's kernel, counted."""
        tracer = grad_tracer()
        may_cast = tracer is not None and tracer._amp_dtype != "float32" and self.autocasts == "paddle" and entry_point.op.leading
        if may_cast and autocast.active(tracer):
            result = amp.parted(entry_point, values)
            if result is not None:
                return result
        behind = entry_point.torchs if self.torchs and entry_point.op.name in self.torchs else entry_point
        substitution = behind.substitution
        if substitution is None:
            substitution = behind.substitution = Substitution(behind) if entry_point.op.leading else Drawing(entry_point)
        quick = substitution.quick
        if quick is not None and entry_point not in frame.quick:  # else the entry point has tried it
            if self.hurries and entry_point.op.random is None and not entry_point.op.integer:
                frame.quick[entry_point] = quick
            result = quick(frame, values)
            if result is not None:
                return _noted(entry_point, frame, result)
        result = substitution.execute(frame, values, args, kwargs)
        frame.tally.substituted[entry_point.op.name] += 1
        return _noted(entry_point, frame, result)

    def native(self, entry_point: EntryPoint, frame: Frame, why: StayNative, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Paddle's kernel, on the tape as an island, counted with the reason."""
        if autocast.HERE.on and self.autocasts and not entry_point.entry.inplace:
            if why.why is TORCH_RAISED and (autocast.spreads(grad_tracer()) or not entry_point.python):
                with contextlib.suppress(StayNative), autocast.autocast_off():
                    upcast = amp.in_float32(args, kwargs)  # on Torch's kernel, if 16 bits were what it refused
                    return self.call(entry_point, frame, entry_point.bind(*upcast), *upcast)
            if entry_point.python:
                return entry_point.original(*args, **kwargs)  # its parts are seen, each with casts of its own
            name = entry_point.op.amp[0] or entry_point.op.name
            return amp.recast(name, functools.partial(self._on_paddle, entry_point, frame, why), args, kwargs)
        return self._on_paddle(entry_point, frame, why, args, kwargs)

    def _on_paddle(
        self, entry_point: EntryPoint, frame: Frame, why: StayNative, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if why.why is STATIC or grad_tracer() is None:
            return entry_point.original(*args, **kwargs)  # a graph is being traced: nothing is computed here
        if entry_point.op.exact and (why.exact or why.why is FORKED):  # what moves values loses nothing on Paddle's kernel
            return (
                entry_point.original(*args, **kwargs)
                if entry_point.entry.inplace
                else self.exact(entry_point.op.name, entry_point.original, args, kwargs)
            )
        if self.lends and why.why in (INDEPENDENT, TORCH_RAISED) and entry_point.rules.taken(entry_point.bind(args, kwargs)):
            if why.why is INDEPENDENT:
                return self._without_gradient(entry_point, frame, args, kwargs)
            if entry_point.python:  # Torch has none for the whole function; the ops that it is made of are seen one by one
                return entry_point.original(*args, **kwargs)
        paddle = entry_point.native
        if entry_point.entry.inplace and len(entry_point.op.results) == 1 and entry_point.op.name != "cast":
            make: Callable[..., Any] = functools.partial(_write_natively, entry_point.op.name, 0, paddle)
        elif entry_point.entry.inplace:
            make = paddle
        else:
            make = functools.partial(_native, entry_point.op.name, paddle)
        if why.why in RAISED and self.lends:
            result = moves.call_in_float32(entry_point.op.name, make, args, kwargs, 0 if entry_point.entry.inplace else None)
        else:
            result = make(*args, **kwargs)
        self._count(frame, entry_point.op.name, entry_point.entry.target, why.reason, exact=why.exact or entry_point.op.exact)
        return result

    def _without_gradient(self, entry_point: EntryPoint, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a call that has no gradient, though an operand wants one, and that Paddle has no kernel for."""
        tracer = grad_tracer()
        recorded = tracer._has_grad
        try:
            tracer._has_grad = False
            return self.call(entry_point, frame, entry_point.bind(args, kwargs), args, kwargs)
        finally:
            tracer._has_grad = recorded

    def unlisted(self, other: Unlisted, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The same for an op without reference."""
        if autocast.HERE.on and self.autocasts and not (other.name.endswith("_") or other.updates):
            return amp.recast(other.name, functools.partial(self._unlisted, other, frame), args, kwargs)
        return self._unlisted(other, frame, args, kwargs)

    def _unlisted(self, other: Unlisted, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if grad_tracer() is None:
            return other.original(*args, **kwargs)
        if other.name.endswith("_"):
            result = other.original(*args, **kwargs)
        else:
            result = islands.native(other.name, other.original, args, kwargs)
        self._count(frame, other.name, other.path, other.reason.text, exact=other.reason.exact)
        return result

    def update(self, other: Unlisted, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Torch's optimizer, in place, where its form is known."""
        if grad_tracer() is None or kwargs:
            return other.original(*args, **kwargs) if grad_tracer() is None else self.unlisted(other, frame, args, kwargs)
        declared = updates()[other.name]
        make = self.updating.call if other.name == declared.function else self.updating.merged
        return make(declared, other, frame, args)

    def _count_native(self, frame: Frame, name: str, target: str, why: StayNative) -> None:
        self._count(frame, name, target, why.reason, exact=why.exact)

    def optimizing(
        self, part: str, original: Callable[..., Any], frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A step with its learning rate, its L2 decay, and clipping by Torch."""
        if grad_tracer() is None:
            return original(*args, **kwargs)
        if part == "Optimizer._create_optimization_pass":
            return self.updating.step(original, frame, args, kwargs)
        if part == "Optimizer.append_regularization_ops":
            return step_cache.leave_decay(coupled(args[0]), original, args, kwargs)
        kind, _, function = part.partition(".")
        clipper, definition = kind, self.definition
        if kind == "utils":  # both define it alike
            args, kwargs = clipping.with_list(args, kwargs)
            clipper, definition = function, "torch"
        name = CLIPPERS[clipper]
        try:
            gate(frame, name)
            clipped = clipping.CLIPPING[clipper](definition, *args, **kwargs)
        except StayNative as why:
            self._count(frame, name, f"paddle.nn.{part}", why.reason, exact=True)
            return original(*args, **kwargs)
        if clipped is NotImplemented:
            return original(*args, **kwargs)
        frame.tally.substituted[name] += 1
        frame.tally.definitions[name, definition] += 1
        return clipped

    def _count(self, frame: Frame, name: str, target: str, reason: str, *, exact: bool) -> None:
        tally = frame.tally
        tally.native[name, reason] += 1
        if tally.native[name, reason] <= self.looks:
            tally.lines[name, reason, call_site.layer_path(), call_site.call_site()] += 1
        frame.run.on_the_way()
        if frame.strict and not exact:
            raise StayedNativeError(
                "strict mode: op {name} ({target}) stays native: {reason}", name=repr(name), target=target, reason=reason
            )

    def passed(self, other: Unlisted) -> None:
        """Never: only a comparison stands idle."""

    def exact(self, name: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Native, or by torch where Paddle would copy element by element; on the tape a view on both sides or an island.

        So is what moves a leaf: behind Paddle's own node its share of the leaf's gradient would be added last, and apart.
        """
        if autocast.HERE.on and self.autocasts and not (name in islands.WRITES or name.endswith("_")):
            return amp.recast(name, functools.partial(self._exact, name, original), args, kwargs)
        return self._exact(name, original, args, kwargs)

    @staticmethod
    def target(name: str, args: tuple[Any, ...]) -> Any:
        """What a call that moves values writes; None where it writes nothing."""
        place = islands.WRITES.get(name, len(args))
        return args[place] if place < len(args) else None

    def _exact(self, name: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not self.lends:
            return self._moved(name, original, *args, **kwargs)
        if name in moves.NAMES:  # of which a kernel in 16 bits was missing before
            return moves.call_in_float32(
                name, functools.partial(self._moved, name, original), args, kwargs, islands.WRITES.get(name)
            )
        try:
            return self._moved(name, original, *args, **kwargs)
        except RuntimeError as error:
            if not moves.lacks_kernel(name, error, args, kwargs, islands.WRITES.get(name)):
                raise
        return moves.call_in_float32(name, functools.partial(self._moved, name, original), args, kwargs, islands.WRITES.get(name))

    def _moved(self, name: str, original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        if name in islands.WRITES:
            if name == "_setitem_dygraph" and not kwargs and moves.leaves_memory(args):
                return moves.set_in_copy(functools.partial(self._moved, name, original), *args)
            if name in moves.SETS and not kwargs and moves.set_by_torch(name, original, args):
                return None if name == "_setitem_dygraph" else args[0]
            return islands.write_natively(name, islands.WRITES[name], original, args, kwargs)
        if name in views.VIEWS and not kwargs:
            result = moves.move(name, original, args)
            if result is not None:
                return result
        if islands.moving_a_leaf(args):
            return islands.island(name, original, args, kwargs)
        result = islands.native(name, original, args, kwargs)
        return moves.laid_out_as_torchs(name, args, result) if name in moves.LAID_OUT and self.lends else result

    def moved(self, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """Nothing to do: the tape sees what it calls."""

    def writes(self, name: str, frame: Frame, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """As what moves values elsewhere."""
        return self.exact(name, original, args, kwargs)

    def py_layer(self, name: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An island where gradients are recorded; not in a forked child, where nothing else is on the tape either."""
        frame = frames.top()
        if frame is None or frame.aside or not islands.recording():
            return original(*args, **kwargs)
        return islands.island(name, original, args, kwargs, once=True)

    def packing(self, frame: Frame, pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> tuple[Any, Any]:
        """As they are: native calls have nothing else. What recompute packs first stands for what the tape's calls keep."""
        recomputes = getattr(pack, "__module__", "").endswith(".recompute")
        frame.run.warn(RECOMPUTED if recomputes else PACKED)
        first = pack(None) if recomputes else None  # None where the block runs once more

        def again() -> None:
            here = frames.below()
            if here is not None and isinstance(here.plan, Substituting):
                before = randomness.states()
                unpack(first)
                if randomness.states() != before:
                    frame.run.warn(REDRAWN)
            else:  # Paddle's own calls would pack more than Torch's did
                frame.run.warn(_RUN_ONCE)

        if first is not None:
            LOCAL.block = RecomputedBlock(again)
        return pack, unpack

    def layer_begins(self, frame: Frame) -> None:
        """Nothing to do."""

    def layer_ends(self, frame: Frame, layer: Any, result: Any) -> None:
        """Nothing to do."""

    def backward_begins(self, frame: Frame) -> None:
        """Nothing to do."""

    def backward_ends(self, frame: Frame) -> None:
        """A training's regular pause."""
        frame.run.on_the_way(backward=True)


def _write_natively(name: str, place: int, original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    return islands.write_natively(name, place, original, args, kwargs)


def _native(name: str, original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    return islands.native(name, original, args, kwargs)


def _noted(entry_point: EntryPoint, frame: Frame, result: Any) -> Any:
    """The result of a substituted call; one of integers is counted as no float call."""
    if entry_point.op.integer and result.dtype not in FLOATS:
        frame.tally.integers[entry_point.op.name] += 1
    return result


# ---- Reference mode that notes of each call its layer, its line and its time (``reference(profile=True)``).


@contextmanager
def _measured(frame: Frame, part: str, op: str) -> Iterator[None]:
    """What runs inside is a call; one that raises (a call that has to stay native) took time and is none."""
    clock = _clock(frame)
    clock.begin(ClockPlace(part, op, call_site.layer_path(), call_site.call_site()))
    done = False
    try:
        yield
        done = True
    finally:
        clock.end(counts=done)


def _clock(frame: Frame) -> Clock:
    if frame.tally.clock is None:
        frame.tally.clock = Clock()
    return frame.tally.clock


class Profiled(Substituting):
    """The plan of reference mode with a clock in it. No call takes the short way past the plan."""

    tracks_layers, hurries, looks = True, False, math.inf

    def call(
        self, entry_point: EntryPoint, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Torch's kernel."""
        with _measured(frame, REFERENCE, entry_point.op.name):
            return super().call(entry_point, frame, values, args, kwargs)

    def native(self, entry_point: EntryPoint, frame: Frame, why: StayNative, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Paddle's kernel; where nothing is rounded it is no float call."""
        with _measured(frame, NATIVE if rounds(why.reason) else MOVES, entry_point.op.name):
            return super().native(entry_point, frame, why, args, kwargs)

    def unlisted(self, other: Unlisted, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The same for an op without reference."""
        with _measured(frame, NATIVE if rounds(other.reason.text) else MOVES, other.name):
            return super().unlisted(other, frame, args, kwargs)

    def update(self, other: Unlisted, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An optimizer's update."""
        with _measured(frame, OPTIMIZER, other.name.rstrip("_")):
            return super().update(other, frame, args, kwargs)

    def optimizing(
        self, part: str, original: Callable[..., Any], frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A step's parts: what its updates leave of the time."""
        if part == "Optimizer.step":  # none is made as the last one
            return original(*args, **kwargs)
        kind, _, function = part.partition(".")
        with _measured(frame, OPTIMIZER, function if kind == "utils" else kind):
            return super().optimizing(part, original, frame, args, kwargs)

    def exact(self, name: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An op that moves values: called without a frame, and measured inside of the calls of a mode alone."""
        frame = frames.below()
        if frame is None:
            return super().exact(name, original, args, kwargs)
        with _measured(frame, MOVES, name):
            return super().exact(name, original, args, kwargs)

    def backward_begins(self, frame: Frame) -> None:
        """Both engines; the nodes of calls take the time over (:meth:`Clock.passing`)."""
        _clock(frame).begin(ENGINES)

    def backward_ends(self, frame: Frame) -> None:
        """Whatever call had it last."""
        _clock(frame).end()
        super().backward_ends(frame)
