"""The Torch tensors behind Paddle tensors that want gradients: twins, and the leaf twins where Torch's graph begins."""

from __future__ import annotations

import functools
import itertools
import threading
import weakref
from collections.abc import Callable
from typing import Any

import torch

from ..frameworks.memory import FLOATS, as_operand, hand_over, put_numpy, takes_numpy, to_paddle, to_torch
from ..frameworks.versions import IS_3, PaddleTensor, attribute, grad_node, set_attribute
from . import paddle_graph
from .calls import TapeCall
from .paddle_graph import LOCAL, copied, floats, place

# ---- The torch tensor behind a Paddle tensor that wants gradients.
#
# A result of a substituted op is two things over the same memory: the Paddle tensor that the program holds, and its *twin*, the
# torch tensor with torch's own graph behind it. The Paddle tensor is a *sentinel*: its Paddle node is one float wide and carries
# a hook, so that whoever reaches it with Paddle's engine arrives at the twin; ``is_leaf``, ``stop_gradient`` and ``grad_fn`` are
# as natively.
#
# Leaf twins stand where Torch's graph begins: see below.

TAPE = "_padiff_tape"  # attribute of Paddle tensors


class _Presence:
    """Held by every tape tensor: it dies with the last of them, so that nothing has to be counted as they come and go."""

    __slots__ = ("__weakref__",)


_present = weakref.ref(_Presence())  # what the tape tensors hold
_arriving = threading.RLock()
_last_died: list[Callable[[], None]] = []  # called when the last of them has died


def _presence() -> _Presence:
    """For a tape tensor where none lives."""
    global _present
    with _arriving:
        presence = _present()
        if presence is None:
            presence = _Presence()
            _present = weakref.ref(presence, _gone)
        return presence


def _gone(_: Any) -> None:
    for callback in _last_died:
        callback()


_strays: list[
    Callable[[Arriving, Any], None]
] = []  # what is done where an engine that no backward of ours began reaches a sentinel


def on_stray_gradient(done: Callable[[Arriving, Any], None]) -> None:
    """Have ``done`` take the gradient of a sentinel to Torch if no backward of the tape is running."""
    _strays[:] = [done]


def on_last_death(callback: Callable[[], None]) -> None:
    """Have ``callback`` called each time that no tensor is on the tape any more."""
    _last_died[:] = [callback]


def alive() -> bool:
    """Whether any Paddle tensor is on the tape: while one is, the engine stays intercepted."""
    return _present() is not None


class Arriving:
    """Where gradients come from Paddle's engine to torch's: ``twin`` is torch's side."""

    __slots__ = ()
    twin: torch.Tensor

    def arrive(self, grad: PaddleTensor) -> Any:
        """Hook of the sentinel: Paddle's engine has come here. Torch's turn is when Paddle's has ended."""
        session = LOCAL.session
        passed = floats(self.twin)[1]
        if session is None:
            _strays[0](self, grad)
        else:
            session.arrived(self, grad)
        return passed


class Taped(Arriving):
    """What hangs on a Paddle tensor that is on the tape. Copies of the tensor are not on it."""

    __slots__ = (
        "_presence",
        "answers",
        "apart",
        "hook_side",
        "hooks",
        "ignores_answers",
        "made_of",
        "outside",
        "pointer",
        "retained",
        "shape",
        "strides",
        "twin",
        "version",
    )  # fmt: skip

    def __init__(self, twin: torch.Tensor, tensor: PaddleTensor, made_of: Any) -> None:
        self.twin = self.hook_side = twin  # hook_side: where hooks see the gradient
        self.made_of = (
            made_of  # of which float a sentinel's node is, also when its thread has ended; None: see :attr:`has_sentinel`
        )
        self.hooks: dict[int, Any] | None = None
        self.answers: object | None = None  # under which a backward keeps what they made of the gradient
        self.retained = False
        self.outside: Any = None  # a tensor with the node that Paddle made for a view: see hooks.give_sentinel
        self.ignores_answers = False  # the result of a PyLayer: Paddle calls hooks on it, and ignores what they return
        self.version, self.pointer = tensor._inplace_version(), tensor.data_ptr()
        self.shape, self.strides = tensor.shape, tensor.strides if self.pointer else ()  # see leaf
        self.apart = self.pointer != twin.data_ptr()  # laid out by torch with strides, for Paddle in other memory
        self._presence = _present() or _presence()

    @property
    def has_sentinel(self) -> bool:
        """Whether the tensor's node is a sentinel; that of a view is Paddle's own: see hooks.give_sentinel."""
        return self.made_of is not None

    def __deepcopy__(self, memo: Any) -> None:
        return None

    def __reduce__(self) -> Any:
        return type(None), ()

    def current(self, tensor: PaddleTensor) -> bool:
        """Whether the twin is still the tensor: what wrote into it since is in Paddle's graph, and not in torch's."""
        # Its shape and strides, too: ``tensor.data = tensor.data.t()`` changes neither memory nor version.
        if self.version != tensor._inplace_version() or self.pointer != tensor.data_ptr():
            return False
        if self.shape != tensor.shape or (self.pointer and self.strides != tensor.strides):
            return False
        return not self.apart or torch.equal(self.twin.detach(), to_torch(tensor))


class WithoutGradient(Arriving):
    """Of a result without a gradient of its own, whose Paddle node is that of ``twin``: what arrives is no gradient of anything."""

    __slots__ = ("twin",)

    def __init__(self, twin: torch.Tensor) -> None:
        self.twin = twin

    def arrive(self, grad: PaddleTensor) -> Any:
        """Paddle's node would run with zeros for the other results."""
        passed = super().arrive(to_paddle(torch.zeros_like(self.twin, memory_format=torch.contiguous_format).detach()))
        if IS_3:
            return passed
        return to_paddle(to_torch(passed).to(to_torch(grad).dtype))  # Paddle 2.6 refuses a hook that changes the dtype


class ZerosBehind(torch.autograd.Function):
    """The same for a float result: the values ``memory``, behind which ``result_with_gradient``, a result beside it, gets zeros."""

    @staticmethod
    def forward(ctx: Any, memory: torch.Tensor, result_with_gradient: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(result_with_gradient)
        return memory.view_as(memory)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return None, torch.zeros_like(ctx.saved_tensors[0])


class _Written(torch.autograd.Function):
    """The values of ``memory`` with the history of ``side``, whose memory it is."""

    @staticmethod
    def forward(ctx: Any, side: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        ctx.set_materialize_grads(False)  # zeros in place of nothing would go on to what Paddle does not walk
        return memory.detach()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return grad, None


def with_history(side: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
    """The values that ``memory`` has now, with the history of ``side``."""
    with torch.enable_grad():
        return _Written.apply(side, memory)


def _renewed(tensor: PaddleTensor, record: Taped) -> Taped | None:
    """The record of a tensor that was written through another one over its memory, or given other memory: its node is the same."""
    if not record.has_sentinel or record.shape != tensor.shape or FLOATS.get(tensor.dtype) is not record.twin.dtype:
        return None
    if tensor.stop_gradient or not _led_by(tensor, record.made_of):
        return None
    renewed = Taped(with_history(record.twin, to_torch(tensor)), tensor, record.made_of)
    renewed.hook_side, renewed.hooks, renewed.retained, renewed.ignores_answers = (
        record.hook_side,
        record.hooks,
        record.retained,
        record.ignores_answers,
    )
    renewed.answers, renewed.outside = record.answers, record.outside
    set_attribute(tensor, TAPE, renewed)
    return renewed


def _led_by(tensor: PaddleTensor, tiny: PaddleTensor) -> bool:
    """Whether the node of a tensor is a sentinel of this float, and no other that Paddle has made since."""
    node = grad_node(tensor)
    behind = [] if node is None else node.next_functions
    return len(behind) == 1 and behind[0] is not None and behind[0].node_ptr() == place(tiny)


def taped(tensor: PaddleTensor) -> Taped | None:
    """The tape record of a tensor, if it is on the tape now."""
    record = attribute(tensor, TAPE)
    if record is None or record.current(tensor):
        return record
    return _renewed(tensor, record)


def taped_root(tensor: PaddleTensor) -> Taped | None:
    """The same for one that a backward starts at, whose node a call with ``out=`` may have exchanged outside of all modes."""
    record = taped(tensor)
    if record is None or not record.has_sentinel or _led_by(tensor, record.made_of):
        return record
    forget(tensor)
    return None


def only_sentinel(tensor: PaddleTensor) -> bool:
    """Whether the node of a tensor is one that the tape has made, and no leaf was ever in its place."""
    record = attribute(tensor, TAPE)
    if record is None or not record.has_sentinel or attribute(tensor, LEAF) is not None:
        return False
    return _led_by(tensor, record.made_of)


def forget(out: Any) -> None:
    """A call with ``out=`` has given a tensor, or several, another node, which counts as no write: its twin is none any more."""
    for tensor in out if isinstance(out, (list, tuple)) else (out,):
        if attribute(tensor, TAPE) is not None:
            set_attribute(tensor, TAPE, None)
        twins = attribute(tensor, LEAF)
        if twins is not None:
            twins.now = None, None


def twin(tensor: PaddleTensor) -> torch.Tensor:
    """The torch side of a float tensor that wants a gradient."""
    record = taped(tensor)
    return record.twin if record is not None else leaf(tensor)


def share(tensor: PaddleTensor, other: Any) -> Any:
    """``other`` is a second Python object over the same Paddle tensor: it has the same twins."""
    for name in (TAPE, LEAF, COPY):
        twins = attribute(tensor, name) if name == TAPE else leaf_twins(tensor, name)
        if twins is not None:
            set_attribute(other, name, twins)
    return other


def sentinel(source: Any, side: torch.Tensor) -> Any:
    """A Paddle tensor with the memory of ``source``, on the tape with the twin ``side``. Gradients must be on."""
    tiny = floats(side)[0]
    return attach(_over(source, tiny, side.dtype), side, tiny)


def with_hook(source: Any, result_with_gradient: torch.Tensor, hook: Callable[[Any], Any]) -> Any:
    """A Paddle tensor with the memory of ``source`` whose node is a float with ``hook``; not on the tape.

    ``result_with_gradient``: a result beside it, whose dtype the float has.
    """
    tiny = floats(result_with_gradient)[0]
    if not IS_3 and source.dtype not in FLOATS:  # what arrives has its dtype there, and no leaf adds up whole numbers
        tiny = paddle_graph.cast(tiny, source.dtype)
    result = _over(source, tiny, result_with_gradient.dtype)
    paddle_graph.register_grad_hook(result, hook)
    return result


def _over(source: Any, tiny: PaddleTensor, dtype: torch.dtype) -> Any:
    result = copied(tiny, dtype)
    source._share_underline_tensor_to(result)
    return result


def attach(tensor: PaddleTensor, side: torch.Tensor, tiny: PaddleTensor) -> Any:
    """Put a tensor with a node of its own, that of the float ``tiny``, on the tape."""
    record = Taped(side, tensor, tiny)
    paddle_graph.register_grad_hook(tensor, record.arrive)
    set_attribute(tensor, TAPE, record)
    return tensor


def taped_result(side: torch.Tensor) -> Any:
    """A Paddle tensor over the memory of ``side``, on the tape with it as twin. Gradients must be on."""
    if not takes_numpy(side):
        return sentinel(hand_over(side.detach()), side)
    tiny = floats(side)[0]
    result = copied(tiny, side.dtype)
    put_numpy(side, result)
    return attach(result, side, tiny)


def wrap(side: torch.Tensor) -> Any:
    """A torch tensor with a graph as a Paddle tensor on the tape; one without, as one that wants gradients all the same."""
    if not side.requires_grad:
        side = side.detach().requires_grad_().view_as(side)
    return taped_result(side)


def wrap_apart(side: torch.Tensor) -> Any:
    """The same over a copy: torch's graph goes on to read the memory of a gradient, and may hand one to several tensors."""
    copy = side.detach().clone(memory_format=torch.contiguous_format)
    return sentinel(hand_over(copy), side) if side.requires_grad else wrap(copy)


def finish_call(call: TapeCall, side: torch.Tensor, reads_result: bool) -> Any:
    """The result of a substituted call, which shares no memory with an operand: a Paddle tensor on the tape."""
    call.behind(side)
    result = taped_result(side)
    if reads_result:  # not the result itself: it leads to the call
        call.keep(result.detach())
    return result


# ---- Leaf twins: where torch's graph begins, and how their gradients come to Paddle.
#
# A leaf twin belongs to a parameter or another leaf, or to a tensor that Paddle's own nodes computed (a *frontier*). Its gradient
# is handed to Paddle at an *entrance*: a tensor with an edge to the leaf's accumulation (never the leaf itself: ``Layer.to``
# leaves the old dtype there, and the entrance keeps its edge if ``stop_gradient`` is set later). An entrance is one float wide,
# since Paddle's engine copies the gradients that it is started with; a hook exchanges that float for the gradient itself.

LEAF, COPY = "_padiff_leaf", "_padiff_copy"  # attributes of Paddle tensors


class LeafTwins:
    """The leaf twins of one Paddle tensor: the present one, and those that older graphs still hold.

    Threads share it: each change is one step, and two threads that make a twin at once get one each.
    """

    __slots__ = ("all", "apart", "now", "spared")

    def __init__(self) -> None:
        self.now: tuple[Any, Any] = None, None  # what tells whether the present twin is valid, and that twin
        self.all: list[weakref.ref[Any]] = []
        self.apart = False  # the present one has memory of its own: Torch has no negative strides
        self.spared = False  # a Linear weight's: torch's graph begins at the weight as it lies, and not at a copy

    def __deepcopy__(self, memo: Any) -> LeafTwins:
        return LeafTwins()

    def __reduce__(self) -> Any:
        return LeafTwins, ()


_frontiers: dict[int, weakref.ref[Any]] = {}  # twins of what Paddle's own nodes computed; a WeakSet is not for threads


def frontiers() -> list[torch.Tensor]:
    """The leaf twins that live of tensors that Paddle's own nodes computed."""
    return [side for side in (reference() for reference in list(_frontiers.values())) if side is not None]


def frontiers_live() -> bool:
    """Whether any of them does."""
    return bool(_frontiers)


def leaf(tensor: PaddleTensor) -> torch.Tensor:
    """The leaf twin of a tensor that is not on the tape; made once per value of it."""
    twins = attribute(tensor, LEAF) or leaf_twins(tensor, LEAF)
    # With its shape and strides: ``tensor.data = tensor.data.t()`` changes neither memory nor version.
    pointer = tensor.data_ptr()
    strides = tensor.strides if pointer else None  # a tensor without memory may have none, and asking for them ends the process
    key = (pointer, tensor._inplace_version(), tensor.is_leaf, tensor.shape, strides)
    known, side = twins.now
    if known != key or (twins.apart and not torch.equal(side.detach(), as_operand(tensor))):  # a write that Paddle does not count
        side = _begin(tensor, as_operand(tensor), twins, transposed=False)
        twins.now = key, side
        twins.apart = side.data_ptr() != pointer
    return side


def weight_leaf(tensor: PaddleTensor, valid: torch.Tensor) -> torch.Tensor:
    """The [out, in] copy of a Linear weight, which is a leaf, as a leaf; ``valid``: that copy, up to date."""
    twins = leaf_twins(tensor, COPY)
    key = (valid.data_ptr(), valid.shape, valid.dtype)
    known, side = twins.now
    if known != key:
        side = _begin(tensor, valid.detach(), twins, transposed=True)
        twins.now = key, side
    return side


def lies_in_graph(tensor: PaddleTensor) -> bool:
    """Whether torch's graph begins at this Linear weight as it lies."""
    twins = attribute(tensor, COPY)
    return twins is not None and twins.spared


def begin_as_it_lies(tensor: PaddleTensor) -> bool:
    """From now on torch's graph begins at this Linear weight as it lies; False while a graph still begins at a copy of it.

    For gradients at one leaf are added up in torch's order, and those at two in another.
    """
    twins = leaf_twins(tensor, COPY)
    key, side = twins.now
    present = weakref.ref(side) if side is not None else lambda: None
    twins.now = None, None
    del side  # a graph that holds it keeps it
    if any(reference() is not None for reference in list(twins.all)):
        twins.now = (key, present()) if present() is not None else (None, None)
        return False
    twins.spared = True
    return True


def is_linear_weight(tensor: PaddleTensor) -> bool:
    """Whether it was the weight of a Linear that wants its gradient."""
    twins = attribute(tensor, COPY)
    return twins is not None and (twins.spared or twins.now[1] is not None)


_making = threading.Lock()


def leaf_twins(tensor: PaddleTensor, name: str) -> LeafTwins:
    """What a Paddle tensor keeps of its leaf twins."""
    twins = attribute(tensor, name)
    if twins is None:
        with _making:  # two threads that meet a parameter at once find one and the same
            twins = attribute(tensor, name)
            if twins is None:
                twins = LeafTwins()
                set_attribute(tensor, name, twins)
    return twins


_numbers = itertools.count(1)


class GradientPlace:
    """Where the gradient of a leaf twin goes (its attribute ``_place``)."""

    __slots__ = ("entrance", "freed", "frontier", "number", "transposed")

    def __init__(self, entrance: PaddleTensor, *, frontier: bool, transposed: bool) -> None:
        self.entrance, self.frontier, self.transposed = entrance, frontier, transposed
        self.number = next(_numbers)  # the higher the later it was made
        self.freed: Any = None  # a frontier's: the backward without ``retain_graph`` that was here


def _begin(tensor: PaddleTensor, side: torch.Tensor, twins: LeafTwins, *, transposed: bool) -> torch.Tensor:
    """Make ``side`` a leaf of torch's graph whose gradient goes to ``tensor``."""
    side = side.requires_grad_()
    side._place = GradientPlace(_entrance(tensor, side), frontier=not tensor.is_leaf, transposed=transposed)
    if not tensor.is_leaf:
        key = id(side)
        _frontiers[key] = weakref.ref(side, lambda gone: _frontiers.pop(key, None) if _frontiers.get(key) is gone else None)
    twins.all.append(weakref.ref(side, twins.all.remove))
    return side


def creation_number(side: torch.Tensor) -> int:
    """The higher the later it was made; 0 where a leaf of torch's graph stands for no tensor of Paddle's."""
    place = getattr(side, "_place", None)
    return 0 if place is None else place.number


def _entrance(tensor: PaddleTensor, side: torch.Tensor) -> Any:
    entrance = paddle_graph.alias(tensor)
    # What a hook hands back without elements is dropped by Paddle's engine, which is then started with it.
    if 0 not in tensor.shape:
        copied(floats(side)[1], side.dtype)._share_underline_tensor_to(entrance)
        paddle_graph.register_grad_hook(entrance, functools.partial(_exchanged, id(side)))
    return entrance


def _exchanged(key: int, tiny: PaddleTensor) -> Any:
    """Hook of an entrance: the gradient in place of the float that Paddle's engine was started with."""
    return LOCAL.session.deliveries.pop(key)


def deliver(side: torch.Tensor, grad: PaddleTensor, roots: list[Any], grads: list[Any]) -> None:
    """Have Paddle's engine, started at ``roots`` with ``grads``, take a gradient to the tensor of a leaf twin.

    ``grad``: a Paddle tensor whose memory nobody else holds; the leaf's ``grad`` becomes that very memory.
    """
    roots.append(side._place.entrance)
    if side.numel():
        LOCAL.session.deliveries[id(side)] = grad
        grads.append(floats(side)[1])
    else:
        grads.append(grad)
