"""A native op over tape tensors as one node of torch's graph: an island.

Without it the op would be Paddle's own node over sentinels, and right all the same (see :mod:`.backward`), but the gradients of a
tensor that others use too would be added up in another order than Torch's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import paddle
import torch

from ..dispatch.frames import top
from ..frameworks.memory import FLOATS, TENSOR_TYPES, as_operand, grad_tracer, to_paddle
from ..frameworks.surroundings import undisturbed
from ..frameworks.versions import attribute
from . import clean
from .calls import NESTS, freed
from .local import LOCAL
from .nodes import led_to
from .operands import Operands, has_twin
from .session import native_engine
from .twins import TAPE, forget, sentinel, taped


def on_tape(values: Sequence[Any]) -> bool:
    """Whether a tensor among the arguments (one level into lists) is on the tape and wants a gradient."""
    for value in values:
        kind = type(value)
        if kind in TENSOR_TYPES:
            if not value.stop_gradient and taped(value) is not None:
                return True
        elif (kind is list or kind is tuple) and value and type(value[0]) in TENSOR_TYPES and on_tape(value):
            return True
    return False


def recording() -> bool:
    """Whether Paddle records gradients now."""
    tracer = grad_tracer()
    return tracer is not None and tracer._has_grad


def moving_a_leaf(args: Sequence[Any]) -> bool:
    """Whether the first argument is a leaf that wants a gradient, and Paddle records one."""
    tensor: Any = args[0] if args else None
    if type(tensor) not in TENSOR_TYPES or tensor.stop_gradient or not tensor.is_leaf or tensor.dtype not in FLOATS:
        return False
    return tensor._is_initialized() and recording()  # 2.6 gives tensors without elements no memory


def native(name: str, original: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The native function's result, made by an island where these arguments are on the tape."""
    taken = recording() and (on_tape(args) or (kwargs and on_tape(list(kwargs.values()))))
    if kwargs.get("out") is not None:  # Paddle gives that very tensor another node
        result = original(*args, **kwargs)
        forget(kwargs["out"])
        return result
    if not taken:
        return original(*args, **kwargs)
    return island(name, original, args, kwargs)


class Cell:
    """The native call behind an island: its results and the operands that it was made with."""

    __slots__ = ("freed", "name", "once", "operands", "outs")

    def __init__(self, name: str, outs: list[Any], operands: Operands, *, once: bool) -> None:
        self.name = name
        self.outs: Any = outs
        self.operands: Any = operands
        self.once = once  # a second backward would crash Paddle (PyLayer)
        self.freed: Any = None  # the backward without ``retain_graph`` that was here

    def reached(self, session: Any) -> bool:
        """A backward has come here; whether the native graph must stay for another one."""
        if self.outs is None or (self.freed is not None and self.freed is not session):
            raise freed(self.name)
        if session is None or session.retain:
            return True
        self.freed = session
        return bool(session.keeps)  # this very backward may come back

    def gradients(self, pairs: Sequence[tuple[Any, torch.Tensor]], *, retain: bool) -> list[torch.Tensor | None]:
        """Paddle's backward of the call. What comes back is torch's own memory."""
        outs, given = [], []
        for out, grad in pairs:
            outs.append(out)
            given.append(to_paddle(grad.contiguous()))  # the engine copies what it is started with
        inlets = self.operands.inlets
        outer, LOCAL.session = LOCAL.session, None  # what the engine reaches is no part of the backward around it
        try:
            # Not run_partial_grad: its state is one per process, and two threads at once corrupt memory.
            clean.run_backward(outs, given, retain, *clean.NO_PATH)
        finally:
            LOCAL.session = outer
            found = [inlet.taken() for inlet in inlets]
        if self.once or not retain:
            self.outs, self.operands = None, None
        return found


class _Island(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, cell: Cell, *sides: torch.Tensor) -> Any:
        ctx.cell = cell
        ctx.set_materialize_grads(False)
        return tuple(map(as_operand, cell.outs))  # a view has the strides of the same one in Torch

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        cell, session = ctx.cell, LOCAL.session
        retain = cell.reached(session)
        pairs = [(out, grad) for out, grad in zip(cell.outs, grads) if grad is not None]
        if not pairs:
            return (None,) * (1 + len(cell.operands.inlets))
        if torch.is_grad_enabled():
            return (None, *_again(cell, pairs))
        return (None, *cell.gradients(pairs, retain=retain))


# Without the Python around it, which serves functorch.
_apply: Callable[..., Any] = super(torch.autograd.Function, _Island).apply


def _again(cell: Cell, pairs: list[tuple[Any, torch.Tensor]]) -> list[torch.Tensor | None]:
    """The backward of an island as an island, for ``create_graph``."""
    operands = cell.operands.joined()
    given = [operands.enter(to_paddle(grad.detach().clone(memory_format=torch.contiguous_format)), grad) for _, grad in pairs]
    with native_engine(), paddle.enable_grad(), cell.operands.unheard():
        outs = clean.run_partial_grad(
            [out for out, _ in pairs], list(cell.operands.aliases), given, True, True, True, True, [], *clean.NO_PATH
        )
    places = [index for index, out in enumerate(outs) if out is not None]
    made = [outs[index] for index in places]
    found: list[torch.Tensor | None] = [None] * len(outs)
    if not places:
        return found
    # The gradient of a sum does not depend on what was summed: no backward from there may walk, and free, what that came from.
    led = operands.led_to_by(made)
    sides = _apply(Cell(f"{cell.name}_grad", made, operands, once=False), *operands.sides) if led else map(as_operand, made)
    for index, side in zip(places, sides):
        found[index] = side.clone()
    return found


def island(name: str, original: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], *, once: bool = False) -> Any:
    """Make a native call whose operands want gradients; its differentiable results are on the tape.

    Where operands or results of whole numbers, or sparse ones, want gradients as well, the results keep Paddle's own nodes, which
    lead to the tape.

    Args:
        once: Paddle cannot run backward through it a second time (PyLayer: it would crash the process).
    """
    operands = Operands()
    given, named = _entering(operands, args, kwargs)
    return _left(name, original(*given, **named), operands, once=once)


@undisturbed
def _entering(operands: Operands, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a native call, each operand exchanged for its alias."""
    return [operands.alias(value) for value in args], {key: operands.alias(value) for key, value in kwargs.items()}


@undisturbed
def _left(name: str, outs: Any, operands: Operands, *, once: bool) -> Any:
    """The results of a native call; those that are differentiable on the tape."""
    if type(outs) in TENSOR_TYPES:
        flat = [outs]
    else:
        _flatten(outs, flat := [])
    wanting = [out for out in flat if type(out) in TENSOR_TYPES and not out.stop_gradient and _made(out)]
    if not wanting or not operands.led_to_by(wanting):
        return outs
    if (operands.twinless and any(led_to(wanting, operands.twinless))) or not all(map(has_twin, wanting)):
        operands.pass_on()
        return outs
    ends = begun(Cell(name, wanting, operands, once=once))
    results = list(map(sentinel, wanting, ends))
    if once:
        for result in results:
            attribute(result, TAPE).deaf = True
    if outs is wanting[0]:
        return results[0]
    return _exchanged(outs, {id(out): result for out, result in zip(wanting, results)})


def begun(cell: Cell) -> tuple[torch.Tensor, ...]:
    """Torch's sides of the results of a native call, with one node of torch's graph behind them."""
    if torch.is_grad_enabled():
        ends = _apply(cell, *cell.operands.sides)
    else:
        with torch.enable_grad():
            ends = _apply(cell, *cell.operands.sides)
    if cell.once:
        NESTS.behind(ends[0])
    frame = top()
    if frame is not None and frame.tally.clock is not None:
        ends[0].grad_fn.register_prehook(frame.tally.clock.passing(cell.name))
    return ends


def _made(out: Any) -> bool:
    """Whether an output was asked for: hsigmoid_loss's path, on a default tree, holds no memory; nothing else is without."""
    return bool(out._is_initialized() or out._is_dense_tensor_hold_allocation())


def _flatten(value: Any, into: list[Any]) -> None:
    if isinstance(value, (list, tuple)):
        for item in value:
            _flatten(item, into)
    else:
        into.append(value)


def _exchanged(value: Any, exchange: dict[int, Any]) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)([_exchanged(item, exchange) for item in value])
    return exchange.get(id(value), value)
