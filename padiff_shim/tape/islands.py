"""Native ops over tape tensors as one node of Torch's graph, ops that write into a tensor among them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import paddle
import torch

from ..dispatch.dtypes import exchanged
from ..dispatch.frames import top
from ..dispatch.operands import flat
from ..frameworks.autocast import autocast_off, grad_tracer
from ..frameworks.memory import FLOATS, TENSOR_TYPES, as_operand, as_result, to_paddle, to_torch
from ..frameworks.torch_state import undisturbed
from ..frameworks.versions import PaddleTensor, attribute, grad_node, set_attribute
from ..language import logged, tr
from . import paddle_graph
from .backward import native_engine
from .calls import NESTS, TapeCall, freed
from .hooks import exchange_node, exchange_sentinel
from .paddle_graph import LOCAL, floats, leads_to_tape, led_to
from .twins import TAPE, Arriving, Taped, attach, forget, only_sentinel, sentinel, taped, twin, with_history, with_hook

# ---- The operands of a native call on the tape: aliases, whose gradients come to an island.

_KEEPS, _PASSES_ON, _NOTHING = "keeps", "passes on", "nothing"  # what an inlet does with a gradient


class _Inlet(Arriving):
    """Where an operand enters a native call: the gradient that Paddle's engine brings is the island's, or goes on to Torch."""

    __slots__ = ("action", "arrived", "missing", "twin")

    def __init__(self, side: torch.Tensor) -> None:
        self.twin = side
        self.arrived: torch.Tensor | None = None
        self.action = _KEEPS
        self.missing = False  # a PyLayer has returned None for it: what arrives are zeros of ours

    def arrive(self, grad: PaddleTensor) -> Any:
        """Hook of the alias that stands for the operand."""
        if self.action is _NOTHING:
            return None
        if self.missing:
            return floats(self.twin)[1]
        if self.action is _PASSES_ON:
            return super().arrive(grad)
        self.arrived = to_torch(grad).clone()  # torch's own memory: Paddle goes on to use the gradient's
        return floats(self.twin)[1]

    def take(self) -> torch.Tensor | None:
        """What has arrived, once."""
        arrived, self.arrived = self.arrived, None
        return arrived


def has_twin(tensor: PaddleTensor) -> bool:
    """Whether a tensor can be one of Torch's that wants a gradient."""
    return tensor.dtype in FLOATS and bool(tensor.is_dense())


class Operands:
    """The operands of a native call that want gradients: each is exchanged for an alias over its memory, with an inlet as node.

    Attributes:
        twinless: those of whole numbers and sparse ones that want a gradient as well; their own nodes stay.
        shown: code of the program sees the aliases (a PyLayer's): what it computes from one with a gradient is on the tape.
        slots: by the PyLayer's arguments, as its backward returns gradients, the inlets of the tensors in each.
    """

    __slots__ = ("aliases", "inlets", "known", "shown", "sides", "slots", "twinless")

    def __init__(self, *, shown: bool = False) -> None:
        self.shown = shown
        self.slots: list[list[_Inlet | None]] = []
        self.known: dict[int, Any] = {}
        self.aliases: list[Any] = []
        self.inlets: list[_Inlet] = []
        self.sides: list[torch.Tensor] = []
        self.twinless: list[Any] = []

    def alias(self, value: Any) -> Any:
        """The argument with every tensor that wants a gradient exchanged."""
        kind = type(value)
        if kind in TENSOR_TYPES:
            if value.stop_gradient:
                return value
            if not has_twin(value):
                self.twinless.append(value)
                return value
            alias = None if self.shown else self.known.get(id(value))  # a PyLayer returns a gradient for each place
            if alias is None:
                alias = self.known[id(value)] = self.enter(value, twin(value))
            return alias
        if kind is list or kind is tuple:
            return kind([self.alias(item) for item in value])
        return value

    def enter(self, value: Any, side: torch.Tensor) -> Any:
        """A tensor over the memory of ``value``, whose gradient comes to a new inlet."""
        inlet = _Inlet(side)
        alias = with_hook(value, side, inlet.arrive)
        if self.shown:
            set_attribute(alias, TAPE, Taped(side, alias, floats(side)[0]))
        self.sides.append(side)
        self.inlets.append(inlet)
        self.aliases.append(alias)
        return alias

    def lay_out(self, arguments: Sequence[Any]) -> None:
        """Note where a PyLayer was given which operand."""
        inlets = {id(alias): inlet for alias, inlet in zip(self.aliases, self.inlets)}
        for value in arguments:
            tensors = [item for item in (value if isinstance(value, (list, tuple)) else [value]) if type(item) in TENSOR_TYPES]
            if tensors:
                self.slots.append([inlets.get(id(tensor)) for tensor in tensors])

    def with_zeros(self, answer: Any) -> Any:
        """What a PyLayer's backward returned; zeros for the None of an operand, at which Paddle's engine ends the process."""
        grads = answer if isinstance(answer, tuple) else (answer,)

        def filled(inlet: _Inlet | None, grad: Any) -> Any:
            if inlet is None:
                return grad
            inlet.missing = grad is None
            return to_paddle(torch.zeros_like(inlet.twin, memory_format=torch.contiguous_format).detach()) if grad is None else grad

        return (
            tuple(
                [
                    type(grad)(map(filled, slot, grad)) if isinstance(grad, (list, tuple)) else filled(slot[0], grad)
                    for slot, grad in zip(self.slots, grads)
                ]
            )
            + grads[len(self.slots) :]
        )

    def led_to_by(self, results: Sequence[Any]) -> bool:
        """Keep only the operands that Paddle's graph leads to from the results of the call; whether there are any.

        The others can get no gradient. And a state that each step reads and writes anew (a quantiser's scale) would,
        as an operand, hold the graph of the step before, and that one the graph of the step before it. A PyLayer's operand
        that is a result, too, has the PyLayer's node by now.
        """
        if len(self.sides) == 1 and not self.sides[0].is_leaf:  # the usual case: what wants a gradient because of it leads to it
            return True
        reached = [led or self.returned(alias, results) for led, alias in zip(led_to(results, self.aliases), self.aliases)]
        if any(reached) and not all(reached):
            self.known.clear()
            self.aliases, self.inlets, self.sides = (
                [member for member, is_reached in zip(members, reached) if is_reached]
                for members in (self.aliases, self.inlets, self.sides)
            )
        return any(reached)

    def returned(self, alias: Any, results: Sequence[Any]) -> bool:
        """Whether a PyLayer has returned this operand as it came."""
        return self.shown and any(paddle_graph.same_node(alias, result) for result in results)

    def joined(self) -> Operands:
        """The same operands, to which others may be added."""
        other = Operands(shown=self.shown)
        other.aliases, other.inlets, other.sides = [*self.aliases], [*self.inlets], [*self.sides]
        return other

    def pass_on(self) -> None:
        """From now on gradients that arrive go on to torch, whose engine begins at steps, not at leaves."""
        for inlet in self.inlets:
            inlet.action = _PASSES_ON
            if inlet.twin.is_leaf:
                with torch.enable_grad():
                    inlet.twin = inlet.twin.view_as(inlet.twin)

    @contextmanager
    def inlets_off(self) -> Iterator[None]:
        """Inside, gradients that arrive stay with Paddle's engine."""
        for inlet in self.inlets:
            inlet.action = _NOTHING
        try:
            yield
        finally:
            for inlet in self.inlets:
                inlet.action = _KEEPS


# ---- An in-place op on the tape: computed out of place in torch's graph, then written into the memory of the tensor.
#
# The tensor gets a sentinel of its own for the new value: whoever used the old one still leads to the old twin.


def refuses_writes(tensor: PaddleTensor) -> bool:
    """Whether Paddle refuses in-place ops on it: a leaf that wants a gradient."""
    return bool(tensor.is_leaf and not tensor.stop_gradient)


def twin_before_write(tensor: PaddleTensor) -> torch.Tensor:
    """The twin of a tensor that is about to be written with what wants a gradient, as Paddle goes on from it.

    Natively what it was made of gets its gradient also where ``stop_gradient`` was set since; and the ``grad`` of a leaf that
    wanted none becomes the gradient of the value that it has now.
    """
    if not tensor.stop_gradient:
        return twin(tensor)
    if not tensor._is_initialized():
        return as_operand(tensor)
    tensor.stop_gradient = False
    try:
        return twin(tensor)
    finally:
        tensor.stop_gradient = True


def write(call: TapeCall, tensor: PaddleTensor, side: torch.Tensor, *, reads_result: bool) -> Any:
    """``tensor`` takes the values of ``side`` in its own memory, and its history."""
    call.behind(side)
    memory = tensor.detach()
    values = to_torch(memory)
    with torch.no_grad():
        values.copy_(side)
    written = with_history(side, values)
    memory._bump_inplace_version()
    if reads_result:
        call.keep(memory)
    return take(tensor, memory, written)


def take(tensor: PaddleTensor, memory: Any, written: torch.Tensor) -> Any:
    """``tensor`` takes another history, that of ``written``; ``memory``: another Paddle tensor over its memory, as it is now."""
    pair = floats(written)
    with autocast_off():
        if only_sentinel(tensor):
            exchange_sentinel(tensor, pair[0])
        else:
            exchange_node(tensor, pair)
    memory._share_underline_tensor_to(tensor)
    attach(tensor, written, pair[0])
    return tensor


# ---- A native op over tape tensors as one node of torch's graph: an island.
#
# Without it the op would be Paddle's own node over sentinels, and right all the same, but the gradients of a tensor that others
# use too would be added up in another order than Torch's.


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
    tensor: PaddleTensor = args[0] if args else None
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


class IslandCall:
    """The native call behind an island: its results and the operands that it was made with."""

    __slots__ = ("freed", "name", "native_results", "once", "operands")

    def __init__(self, name: str, native_results: list[Any], operands: Operands, *, once: bool) -> None:
        self.name = name
        self.native_results: Any = native_results
        self.operands: Any = operands
        self.once = once  # a PyLayer: Paddle's engine ends the process where it runs its node a second time
        self.freed: Any = None  # the backward without ``retain_graph`` that was here

    @property
    def rebased(self) -> bool:
        """Whether a PyLayer has returned an operand as it came: what leads to that is not seen from it any more."""
        return any(self.operands.returned(alias, self.native_results) for alias in self.operands.aliases)

    def reached(self, session: Any) -> bool:
        """A backward has come here; whether the native graph must stay for another one."""
        if self.native_results is None or (self.freed is not None and self.freed is not session):
            raise freed(self.name)
        if session is None or session.retain:
            return True
        self.freed = session
        return bool(session.keeps_graph)  # this very backward may come back

    def gradients(self, pairs: Sequence[tuple[Any, torch.Tensor]], *, retain: bool) -> list[torch.Tensor | None]:
        """Paddle's backward of the call. What comes back is torch's own memory."""
        results, first_gradient = [], []
        for result, grad in pairs:
            results.append(result)
            first_gradient.append(to_paddle(grad.contiguous()))  # the engine copies what it is started with
        inlets = self.operands.inlets
        # Where a graph stays, a PyLayer's node is run by way of a copy; else not by run_partial_grad: its state is one per process,
        # and two threads at once corrupt memory.
        copied = self.once and retain and self.freed is None and not self.rebased and _partial.acquire(blocking=False)
        try:
            with native_engine(), _passing(self.operands, None):
                if copied:
                    _run_copies(results, self.operands.aliases, first_gradient, create=False)
                else:
                    paddle_graph.run_backward(results, first_gradient, retain, *paddle_graph.NO_PATH)
        finally:
            if copied:
                _partial.release()
            grads = [inlet.take() for inlet in inlets]
        if not retain or (self.once and not copied):
            self.native_results, self.operands = None, None
        return grads


_partial = threading.Lock()


def _run_copies(results: Sequence[Any], inputs: Sequence[Any], grads: Sequence[Any], *, create: bool) -> list[Any]:
    """Paddle's engine over copies of the nodes from ``results`` to ``inputs``, which stay for another time."""
    wanted: list[Any] = paddle_graph.run_partial_grad(results, inputs, grads, True, create, True, True, [], *paddle_graph.NO_PATH)
    return wanted


class _Island(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, cell: IslandCall, *sides: torch.Tensor) -> Any:
        ctx.cell = cell
        ctx.set_materialize_grads(False)
        torch_results = tuple(map(as_result, cell.native_results))  # a view has the strides of the same view in Torch
        if cell.once:
            ctx.save_for_backward(*torch_results)
        return torch_results

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        cell, session = ctx.cell, LOCAL.session
        retain = cell.reached(session)
        pairs = [(out, grad) for out, grad in zip(cell.native_results, grads) if grad is not None]
        if not pairs:
            return (None,) * (1 + len(cell.operands.inlets))
        if torch.is_grad_enabled():
            return (None, *_backward_island(cell, pairs, ctx.saved_tensors))
        return (None, *cell.gradients(pairs, retain=retain))


# Without the Python around it, which serves functorch.
_apply: Callable[..., Any] = super(torch.autograd.Function, _Island).apply


def _backward_island(
    cell: IslandCall, pairs: Sequence[tuple[Any, torch.Tensor]], ends: Sequence[torch.Tensor]
) -> list[torch.Tensor | None]:
    """The backward of an island as an island, for ``create_graph``; what a PyLayer's backward made on the tape is there already.

    ``ends``: Torch's sides of a PyLayer's results.
    """
    if cell.rebased:
        raise RuntimeError(
            tr("no gradient of a gradient goes through {name}, which returns an argument as it came", name=cell.name)
        )
    operands = cell.operands.joined()
    first_gradient = [
        operands.enter(to_paddle(grad.detach().clone(memory_format=torch.contiguous_format)), grad) for _, grad in pairs
    ]
    members = {_node(grad): grad for grad in first_gradient}
    with (
        native_engine(),
        paddle.enable_grad(),
        cell.operands.inlets_off(),
        _results_shown(cell.native_results, ends),
        _passing(cell.operands, members),
    ):
        gradients = _run_copies([result for result, _ in pairs], cell.operands.aliases, first_gradient, create=True)
    frame = top()
    if cell.once and frame is not None and not any(map(_node, gradients)):
        frame.run.warn(
            logged(
                "a gradient of a gradient ends at the PyLayer {name}, as natively: what its backward returned has no graph (as in "
                "recompute with use_reentrant=True)",
                name=cell.name,
            )
        )
    grads: list[torch.Tensor | None] = [None] * len(gradients)
    made = {}
    for index, (gradient, inlet) in enumerate(zip(gradients, cell.operands.inlets)):
        if gradient is not None and not inlet.missing:
            member = members.get(_node(gradient))
            if member is None:
                made[index] = gradient
            else:
                grads[index] = twin(member)
    if not made:
        return grads
    results = [*made.values()]
    # The gradient of a sum does not depend on what was summed: no backward from there may walk, and free, what that came from.
    if operands.led_to_by(results):
        sides = _apply(IslandCall(f"{cell.name}_grad", results, operands, once=cell.once), *operands.sides)
    else:  # a PyLayer's operand that it got twice has a sum of gradients that are on the tape
        sides = [twin(out) if leads_to_tape(out) else as_operand(out) for out in results]
    for index, side in zip(made, sides):
        grads[index] = side.clone()
    return grads


@contextmanager
def _results_shown(results: Sequence[Any], ends: Sequence[torch.Tensor]) -> Iterator[None]:
    """Inside, the results that a PyLayer may have saved are on the tape: they would hold the graph that holds them."""
    for result, end in zip(results, ends):
        set_attribute(result, TAPE, Taped(end, result, None))
    try:
        yield
    finally:
        for result, _ in zip(results, ends):
            set_attribute(result, TAPE, None)


@contextmanager
def _passing(operands: Operands, members: dict[int | None, Any] | None) -> Iterator[None]:
    """Around Paddle's engine, where it comes to a PyLayer with these operands.

    ``members``: under ``create_graph`` what its backward is given that is on the tape, by the nodes, and then what it returns: the
    engine hands on other tensors over the same nodes.
    """
    outer, LOCAL.passing = LOCAL.passing, (operands, members) if operands.slots else None
    try:
        yield
    finally:
        LOCAL.passing = outer


def _node(tensor: PaddleTensor) -> int | None:
    node = None if tensor is None or tensor.stop_gradient else grad_node(tensor)
    return None if node is None else node.node_ptr()


def in_py_layer(original: Callable[..., Any]) -> Callable[..., Any]:
    """``PyLayerBackward.backward``, by which Paddle's engine calls a PyLayer's code."""

    def backward(context: Any, *grads: Any) -> Any:
        passing = LOCAL.passing
        if passing is None:
            return original(context, *grads)
        operands, members = passing
        if members is not None:
            grads = tuple([members.get(_node(grad), grad) if type(grad) in TENSOR_TYPES else grad for grad in grads])
        LOCAL.passing = None  # what it calls is no part of this
        try:
            answer = original(context, *grads)
        finally:
            LOCAL.passing = passing
        if members is not None:
            members.update({_node(grad): grad for grad in flat(answer) if on_tape([grad])})
        return operands.with_zeros(answer)

    return backward


def island(name: str, original: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], *, once: bool = False) -> Any:
    """Make a native call whose operands want gradients; its differentiable results are on the tape.

    Where operands or results of whole numbers, or sparse ones, want gradients as well, the results keep Paddle's own nodes, which
    lead to the tape.

    Args:
        once: Paddle cannot run backward through it a second time (PyLayer: it would crash the process).
    """
    operands = Operands(shown=once)
    positional, named = _with_aliases(operands, args, kwargs)
    if not once:
        return _results_on_tape(name, original(*positional, **named), operands, ())
    entered = [*positional, *named.values()]
    operands.lay_out(entered)
    native_results = original(*positional, **named)
    results = [out for out in flat(native_results) if type(out) in TENSOR_TYPES]
    made, returned, rebased = paddle_graph.places_of(results), set(map(id, results)), []
    for argument, source in zip(flat(entered), flat([*args, *kwargs.values()])):
        if type(argument) in TENSOR_TYPES and _node(argument) in made:
            if not refuses_writes(source):
                rebased.append((argument, source))
            elif id(argument) in returned:
                return original(*args, **kwargs)  # it raises: a leaf cannot take the PyLayer's history
    return _results_on_tape(name, native_results, operands, rebased, once=True)


@undisturbed
def _with_aliases(operands: Operands, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a native call, each operand exchanged for its alias."""
    return [operands.alias(value) for value in args], {key: operands.alias(value) for key, value in kwargs.items()}


@undisturbed
def _results_on_tape(name: str, outs: Any, operands: Operands, rebased: Sequence[tuple[Any, Any]], *, once: bool = False) -> Any:
    """The results of a native call; those that are differentiable on the tape.

    ``rebased``: arguments that a PyLayer has returned as they came, or marked as not in place, as its forward saw them and as the
    program passed them: natively these take the PyLayer's history.
    """
    sources = {id(argument): source for argument, source in rebased}
    tensors = {id(out): out for out in (*flat(outs), *(argument for argument, _ in rebased)) if type(out) in TENSOR_TYPES}
    differentiable_results = [
        out for out in tensors.values() if not out.stop_gradient and _made(out) and not (rebased and out.is_leaf)
    ]
    if not differentiable_results or not operands.led_to_by(differentiable_results):
        return outs
    if (operands.twinless and any(led_to(differentiable_results, operands.twinless))) or not all(
        map(has_twin, differentiable_results)
    ):
        operands.pass_on()
        return outs
    ends = torch_ends(IslandCall(name, differentiable_results, operands, once=once))
    results = [
        take(sources[id(out)], out.detach(), end) if id(out) in sources else sentinel(out, end)
        for out, end in zip(differentiable_results, ends)
    ]
    if once:
        for result in results:
            attribute(result, TAPE).ignores_answers = True
    if outs is differentiable_results[0]:
        return results[0]
    return exchanged(outs, {id(out): result for out, result in zip(differentiable_results, results)})


def torch_ends(cell: IslandCall) -> tuple[torch.Tensor, ...]:
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


# ---- Native ops that write into a tensor, as islands: the tensor takes the island's history.
#
# With Paddle's own node the tensor would be a frontier, and what leads to both sides of it would get its gradient in two parts,
# of which hooks would see each.

# What moves values in place, and into which argument.
WRITES = {
    **dict.fromkeys(
        """_setitem_dygraph fill_ fill_diagonal_ fill_diagonal_tensor_ flatten_ increment_ index_elementwise_put_
        index_elementwise_put_with_tensor_ index_put_ masked_fill_ put_along_axis_ reshape_ scatter_ set_value_
        set_value_with_tensor_ squeeze_ transpose_ tril_ triu_ unsqueeze_""".split(),  # noqa: SIM905
        0,
    ),
    "where_": 1,
    "assign_out_": 1,
}


def write_natively(name: str, place: int, original: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A native op that writes into an argument and returns it or nothing; an island where it meets the tape."""
    target: Any = args[place] if len(args) > place else None
    if type(target) not in TENSOR_TYPES or target.dtype not in FLOATS or refuses_writes(target) or not recording():
        return original(*args, **kwargs)
    if target.persistable:  # a state that goes from step to step (a quantiser's scale): its history would be that of all of them
        return original(*args, **kwargs)
    if not target.size or not (on_tape(args) or on_tape(list(kwargs.values()))):
        return original(*args, **kwargs)
    operands = Operands()
    first = target.stop_gradient and target._is_initialized()  # nobody wants a gradient of it, and the write may change that
    entered = operands.enter(target, twin_before_write(target)) if first else operands.alias(target)
    # With a node of its own, which is exchanged: that of the operand stays where a second derivative looks for it.
    alias = paddle.Tensor() if target.stop_gradient and not first else paddle_graph.alias(entered)
    target._share_underline_tensor_to(alias)
    positional = [alias if index == place else operands.alias(value) for index, value in enumerate(args)]
    outs = original(*positional, **{key: operands.alias(value) for key, value in kwargs.items()})
    own = operands.inlets[:1] if first else []
    led = operands.led_to_by([alias])  # not what the new values know nothing of: the old ones, of an assignment
    if alias.stop_gradient or (first and (not led or operands.inlets == own)):  # nothing that is written wants a gradient
        return target if outs is alias else outs
    (end,) = torch_ends(IslandCall(name, [alias], operands, once=False))
    take(target, alias.detach(), end)
    return target if outs is alias else outs
