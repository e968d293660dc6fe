"""The torch tensor behind a Paddle tensor that wants gradients.

A result of a substituted op is two things over the same memory: the Paddle tensor that the program holds, and its *twin*, the torch
tensor with torch's own graph behind it. The Paddle tensor is a *sentinel*: its Paddle node is one float wide and carries a hook, so
that whoever reaches it with Paddle's engine arrives at the twin; ``is_leaf``, ``stop_gradient`` and ``grad_fn`` are as natively.

Where torch's graph begins stand *leaf twins*: of parameters and other leaves, and of tensors that Paddle's own nodes computed
(*frontiers*). Their gradients are handed to Paddle through an alias of the tensor, never to the tensor itself: ``Layer.to`` leaves
the old dtype in the accumulation node, and the alias keeps the edge if ``stop_gradient`` is set later.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import paddle
import torch

from ..frameworks.memory import as_operand, dtype_of, hand_over, own, to_torch
from ..frameworks.versions import attribute, set_attribute
from ..postponed import engine_runs, postpone
from ..records.tally import Tally
from . import clean
from .local import LOCAL as LOCAL
from .local import Watched

TAPE, LEAF, COPY = "_padiff_tape", "_padiff_leaf", "_padiff_copy"  # attributes of Paddle tensors

_FREED = (
    "(Fatal) The TensorWrappers of {op} do not exist. This may be because:\n"
    "You calculate backward twice for the same subgraph without setting retain_graph=True."
)
_MODIFIED = (
    "(PermissionDenied) Tensor '{name}' used in gradient computation of op '{op}' has been modified by an inplace operation. Its "
    "version is {now} but the expected version is {then}. Please fix your code to void calling an inplace operator after using the "
    "Tensor which will used in gradient computation."
)


_alive: dict[int, None] = {}  # tape tensors that live: while there are any, the engine's doors stay
_tinies: dict[int, weakref.ref[Any]] = {}  # what the sentinels of all threads are made of
_last_died: list[Callable[[], None]] = []  # told when the last of them has died


def when_last_dies(told: Callable[[], None]) -> None:
    """Who is told, each time, that no tensor is on the tape any more."""
    _last_died[:] = [told]


def alive() -> bool:
    """Whether any Paddle tensor is on the tape."""
    return bool(_alive)


def floats(dtype: torch.dtype) -> tuple[Any, Any]:
    """One float that wants a gradient, and one for hooks to return. Two, because the engine writes what a hook returns."""
    found = LOCAL.floats.get(dtype)
    if found is None:
        tiny = paddle.zeros([1], dtype="float32").cpu().astype(dtype_of(dtype)).detach()
        passed = tiny.clone().detach()
        tiny.stop_gradient = False
        found = LOCAL.floats[dtype] = tiny, passed
        key = id(tiny)
        _tinies[key] = weakref.ref(tiny, lambda gone: _tinies.pop(key, None) if _tinies.get(key) is gone else None)
    return found


def tinies() -> list[Any]:
    """What the sentinels that live are made of, those of other threads too."""
    return [tiny for tiny in (reference() for reference in list(_tinies.values())) if tiny is not None]


class Taped:
    """What hangs on a Paddle tensor that is on the tape. Copies of the tensor are not on it."""

    __slots__ = ("__weakref__", "apart", "deaf", "hooks", "made_of", "pointer", "retained", "seated", "twin", "version")

    def __init__(self, twin: torch.Tensor, tensor: Any, *, seated: bool = True) -> None:
        self.twin = twin
        self.seated = seated  # whether the tensor's node is a sentinel; that of a view is Paddle's own: see :mod:`.seats`
        self.made_of = floats(twin.dtype)[0] if seated else None  # also when its thread has ended
        self.hooks: dict[int, Any] | None = None
        self.retained = False
        self.deaf = False  # the result of a PyLayer: Paddle calls hooks on it, and ignores what they return
        self.version, self.pointer = tensor.inplace_version, tensor.data_ptr()
        self.apart = self.pointer != twin.data_ptr()  # laid out by torch with strides, for Paddle in other memory
        _alive[id(self)] = None

    def __del__(self) -> None:
        _alive.pop(id(self), None)
        if not _alive:
            for told in _last_died:
                told()

    def __deepcopy__(self, memo: Any) -> None:
        return None

    def __reduce__(self) -> Any:
        return _nothing, ()

    def current(self, tensor: Any) -> bool:
        """Whether the twin is still the tensor: what wrote into it since is in Paddle's graph, and not in torch's."""
        if self.version != tensor.inplace_version or self.pointer != tensor.data_ptr():
            return False
        return not self.apart or torch.equal(self.twin.detach(), to_torch(tensor))

    def arrive(self, grad: Any) -> Any:
        """Hook of the sentinel: Paddle's engine has come here. Torch's turn is when Paddle's has ended."""
        session = LOCAL.session
        passed = floats(self.twin.dtype)[1]
        if session is None:
            from .backward import strayed

            strayed(self, grad)
        else:
            session.arrived(self, grad)
        return passed


def _nothing() -> None:
    return None


class Leaf:
    """The leaf twins of one Paddle tensor: the present one, and those that older graphs still hold.

    Threads share it: each change is one step, and two threads that make a twin at once get one each.
    """

    __slots__ = ("all", "now")

    def __init__(self) -> None:
        self.now: tuple[Any, Any] = None, None  # what tells whether the present twin is valid, and that twin
        self.all: list[weakref.ref[Any]] = []

    def __deepcopy__(self, memo: Any) -> Leaf:
        return Leaf()

    def __reduce__(self) -> Any:
        return Leaf, ()


_frontiers: dict[int, weakref.ref[Any]] = {}  # twins of what Paddle's own nodes computed; a WeakSet is not for threads


def frontiers() -> list[torch.Tensor]:
    """The leaf twins that live of tensors that Paddle's own nodes computed."""
    return [side for side in (reference() for reference in list(_frontiers.values())) if side is not None]


def _frontier(side: torch.Tensor) -> None:
    key = id(side)
    _frontiers[key] = weakref.ref(side, lambda gone: _frontiers.pop(key, None) if _frontiers.get(key) is gone else None)


def taped(tensor: Any) -> Taped | None:
    """The tape record of a tensor, if it is on the tape now."""
    record = attribute(tensor, TAPE)
    return record if record is not None and record.current(tensor) else None


def twin(tensor: Any) -> torch.Tensor:
    """The torch side of a float tensor that wants a gradient."""
    record = taped(tensor)
    return record.twin if record is not None else leaf(tensor)


def leaf(tensor: Any) -> torch.Tensor:
    """The leaf twin of a tensor that is not on the tape; made once per value of it."""
    held = _held(tensor, LEAF)
    key = (tensor.data_ptr(), tensor.inplace_version, tensor.is_leaf)
    known, side = held.now
    if known != key:
        side = _begin(tensor, as_operand(tensor), held, transposed=False)
        held.now = key, side
    return side


def weight_leaf(tensor: Any, copy: Callable[[], torch.Tensor]) -> torch.Tensor:
    """The [out, in] copy of a Linear weight, which is a leaf, as a leaf; ``copy()`` gives a valid one."""
    valid, held = copy(), _held(tensor, COPY)
    key = (valid.data_ptr(), valid.shape, valid.dtype)
    known, side = held.now
    if known != key:
        side = _begin(tensor, valid.detach(), held, transposed=True)
        held.now = key, side
    return side


_making = threading.Lock()


def _held(tensor: Any, name: str) -> Leaf:
    held = attribute(tensor, name)
    if held is None:
        with _making:  # two threads that meet a parameter at once find one and the same
            held = attribute(tensor, name)
            if held is None:
                held = Leaf()
                set_attribute(tensor, name, held)
    return held


def share(tensor: Any, other: Any) -> Any:
    """``other`` is a second Python object over the same Paddle tensor: it has the same twins."""
    for name in (TAPE, LEAF, COPY):
        held = attribute(tensor, name) if name == TAPE else _held(tensor, name)
        if held is not None:
            set_attribute(other, name, held)
    return other


def _begin(tensor: Any, side: torch.Tensor, held: Leaf, *, transposed: bool) -> torch.Tensor:
    """Make ``side`` a leaf of torch's graph whose gradient goes to ``tensor``."""
    side = side.requires_grad_()
    door = clean.alias(tensor)
    side._door, side._transposed, side._frontier, side._freed = door, transposed, not tensor.is_leaf, None
    if not tensor.is_leaf:
        _frontier(side)
    held.all.append(weakref.ref(side, held.all.remove))
    with torch.enable_grad():
        return Watched.apply(side)


def freed(op: str) -> SystemError:
    """Paddle's error for a second backward without ``retain_graph``."""
    return SystemError(_FREED.format(op=op))


class Call:
    """One call's part in a backward, as a prehook of its torch node: counted, refused if freed or if what it reads has changed."""

    __slots__ = ("counted", "freed", "op", "renew", "saved", "tally")

    def __init__(
        self, op: str, tally: Tally | None, saved: Sequence[tuple[Any, int]], renew: Callable[[], Any] | None = None
    ) -> None:
        self.op, self.tally, self.saved = op, tally, saved  # saved: (Paddle tensor, its in-place version at forward)
        self.renew = renew  # brings a copy up to date that the backward reads
        self.freed: Any = None
        self.counted: Any = None  # the backward that was counted last

    def __call__(self, grads: Any) -> None:
        try:
            self._reached()
        except KeyboardInterrupt as stop:
            if not engine_runs():
                raise
            postpone(stop)  # natively it arrives when the backward has ended
            self._reached()

    def _reached(self) -> None:
        session = LOCAL.session
        if self.freed is not None and self.freed is not session:
            raise freed(self.op)
        for tensor, version in self.saved:
            if tensor.inplace_version != version:
                raise RuntimeError(_MODIFIED.format(name=tensor.name, op=self.op, now=tensor.inplace_version, then=version))
        if self.renew is not None:
            self.renew()
        if self.tally is not None and (session is None or self.counted is not session):  # once, of several results, too
            self.tally.backward[self.op] += 1
            self.counted = session
        if session is not None and not session.retain:
            self.freed, self.saved = session, ()


def sentinel(source: Any, side: torch.Tensor) -> Any:
    """A Paddle tensor with the memory of ``source``, on the tape with the twin ``side``. Gradients must be on."""
    result = clean.assign(floats(side.dtype)[0])  # a node that saves nothing: it cannot be freed
    source._share_underline_tensor_to(result)
    return attach(result, side)


def attach(tensor: Any, side: torch.Tensor) -> Any:
    """Put a tensor with a node of its own, one float wide, on the tape."""
    record = Taped(side, tensor)
    clean.register_grad_hook(tensor, record.arrive)
    set_attribute(tensor, TAPE, record)
    return tensor


def wrap(side: torch.Tensor) -> Any:
    """A torch tensor with a graph as a Paddle tensor on the tape; one without, as one that wants gradients all the same."""
    if not side.requires_grad:
        side = side.detach().requires_grad_().view_as(side)
    return sentinel(hand_over(side.detach()), side)


def finish(call: Call, side: torch.Tensor, operands: Sequence[Any], *, reads_result: bool) -> Any:
    """The result of a substituted call: a Paddle tensor on the tape. Never over the memory of an operand."""
    pointer = side.data_ptr()
    if side._is_view() or any(type(operand) is torch.Tensor and operand.data_ptr() == pointer for operand in operands):
        side = own(side, operands)
    source = hand_over(side.detach())
    if reads_result:
        call.saved = [*call.saved, (source, source.inplace_version)]
    side.grad_fn.register_prehook(call)
    return sentinel(source, side)
