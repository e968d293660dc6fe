"""Calls that are not compared: Paddle's own kernels, counted with the reason, and passed on to a shadow stream if one is kept."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import paddle

from .. import planting
from ..dispatch import raised
from ..dispatch.containers import flat
from ..dispatch.door import Door
from ..dispatch.frames import Frame
from ..dispatch.plan import Unlisted
from ..frameworks.memory import FLOATS, grad_tracer
from ..gradients.writes import WRITES
from ..runs.compare_run import CompareRun
from ..signals import let_pass
from ..table.reasons import DRAWN, NO_REFERENCE, RANDOM, STATIC, StayNative
from . import lacking
from .packing import watched
from .replicas import Replicas
from .sampling import Sampling
from .shadow import Shadow

_NOTHING: dict[str, Any] = {}


class NativeCalls:
    """The part of the plan of compare mode that runs Paddle's kernels alone."""

    carries_torch = False  # the program goes on with Torch's results

    def __init__(self, run: CompareRun, sampling: Sampling, shadow: Shadow | None) -> None:
        self.run, self.sampling, self.shadow = run, sampling, shadow
        self.aside = ""  # non-empty: nothing is compared in this process, for this reason
        self.replicas: Replicas | None = None  # of several ranks: what is logged of values that all of them hold
        self.step = 0
        self.updated = False  # an optimizer ran: the next covered call begins a new step

    def step_ends(self) -> None:
        """What the ranks of a distributed run hold in common goes into the log."""
        if self.replicas is not None:
            self.replicas.end(self.step)

    def timed(self, door: Door, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Paddle's own call, timed where there is a budget."""
        if not self.sampling.accounts:
            return self.own(door, args, kwargs)
        start = self.sampling.clock()
        try:
            return self.own(door, args, kwargs)
        finally:
            self.sampling.native(self.sampling.clock() - start)

    def own(self, door: Door, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Paddle's own call, uncompared; in float32 where it has no kernel in 16 bits, and the program is to go on.

        Raises:
            RuntimeError: there is no kernel, and the program goes on with Paddle's results alone; the text says what to write.
        """
        try:
            return door.native(*args, **kwargs)
        except RuntimeError as error:
            dtype = lacking.dtype_of(door.op, error, args, kwargs)
            if not dtype:
                raise
            if not self.carries_torch:
                raise lacking.advised(error, dtype) from None
        self.run.recorder.add_native(door.op.name, lacking.REASON.format(dtype=dtype), 0)
        return lacking.in_float32(door.native, args, kwargs, dtype, 0 if door.entry.inplace else None)

    def uncompared(self, door: Door, reason: str, result: Any, args: Any = (), kwargs: Any = _NOTHING) -> Any:
        """Count a covered call that was not compared; returns its result."""
        self.run.recorder.add_native(door.op.name, reason, elements(result))
        if not door.entry.inplace:
            self.moved(door.original, args, kwargs, result)
        return result

    def native(self, door: Door, frame: Frame, why: StayNative, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call that the mode's filters leave out, or that does not fit the op's parameters."""
        if why.why is RANDOM:  # a draw is to a comparison what an op without reference is
            planting.uncompared(door.op.name, "it draws random numbers")
            drawn = Unlisted(door.op.name, door.entry.target, RANDOM, door.native, updates=False)
            return self.unlisted(drawn, frame, args, kwargs)
        result = self.own(door, args, kwargs)
        if door.op.exact:
            self.moved(door.original, args, kwargs, result)
        if why.why not in (STATIC, DRAWN) and grad_tracer() is not None:
            frame.tally.native[door.op.name, why.reason] += 1
        return result

    def unlisted(self, other: Unlisted, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A float op without reference: Paddle's kernel, counted."""
        result = other.original(*args, **kwargs)
        if grad_tracer() is None or other.reason is DRAWN:
            return result  # a graph is being built, or nothing is rounded
        entered = self.sampling.enter() if self.sampling.accounts else 0.0
        self.run.recorder.add_native(other.name, other.reason.text, elements(result))
        if other.updates:
            self.updated = True
        elif other.reason is NO_REFERENCE and not other.name.endswith("_"):
            self.moved(other.original, args, kwargs, result)
        if self.sampling.accounts:
            self.sampling.leave(entered)
        return result

    def update(self, other: Unlisted, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Paddle's kernel, counted."""
        if self.replicas is not None and not self.aside and grad_tracer() is not None:
            entered = self.sampling.enter() if self.sampling.accounts else 0.0
            self.replicas.note(other, args, self.step)
            if self.sampling.accounts:
                self.sampling.leave(entered)
        return self.unlisted(other, frame, args, kwargs)

    def optimizing(
        self, part: str, original: Callable[..., Any], frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Natively: what it calls is compared op by op."""
        return original(*args, **kwargs)

    def passed(self, other: Unlisted) -> None:
        """Steps are counted while the frame stands idle, too."""
        if other.updates:
            self.updated = True

    def exact(self, name: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Nothing to compare; a shadow stream passes through."""
        dtype = ""
        try:
            result = original(*args, **kwargs)
        except RuntimeError as error:
            let_pass(error)
            dtype = raised.lacks(name, error, args, kwargs) if name not in WRITES else ""
            if not dtype:
                raise
            if not self.carries_torch:
                raise lacking.advised(error, dtype) from None
        if dtype:
            result = lacking.in_float32(original, args, kwargs, dtype)
        self.moved(original, args, kwargs, result)
        return result

    def py_layer(self, name: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Natively."""
        return original(*args, **kwargs)

    def packing(self, frame: Frame, pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> tuple[Any, Any]:
        """Watched: what comes back with other bits is not Paddle's kernel's to answer for."""
        return watched(pack, unpack)

    def layer_ends(self, frame: Frame, layer: Any, result: Any) -> None:
        """Nothing to do."""

    def moved(self, original: Callable[..., Any], args: Any, kwargs: Any, result: Any) -> None:
        """Pass a shadow stream, if one is kept, on through a call that is not compared."""
        if self.shadow is None or self.aside or grad_tracer() is None:
            return
        try:
            self.shadow.carry(original, args, kwargs, result)
        except Exception as error:  # the stream ends here; the program does not
            let_pass(error)
            self.run.warn(f"a shadow was not passed on: {type(error).__name__}: {str(error)[:200]}")


def elements(result: Any) -> int | None:
    """How many floats a call's results hold; None where these are integers alone.

    What is no tensor (None, a text) or holds no memory (an output not asked for) has none.
    """
    tensors = [tensor for tensor in flat(result) if isinstance(tensor, paddle.Tensor) and tensor._is_initialized()]
    floats = [math.prod(tensor.shape) for tensor in tensors if tensor.dtype in FLOATS]
    return None if tensors and not floats else sum(floats)
