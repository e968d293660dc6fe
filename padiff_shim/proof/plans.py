"""What answers a port's calls in the runs of a proof: Torch's kernels, Paddle's, a wider dtype; and single calls run again."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import paddle
import torch
from torch.overrides import TorchFunctionMode

from ..dispatch.call_site import CallSite, call_site
from ..dispatch.dtypes import HALF_NAMES
from ..dispatch.entry_point import EntryPoint, Unlisted
from ..dispatch.frames import Frame, paused
from ..dispatch.operands import wanting
from ..dispatch.prepare import Prepared, prepare
from ..frameworks.memory import FLOATS, TENSOR_TYPES, to_torch
from ..modes.mode import Mode
from ..modes.options import ReferenceOptions
from ..modes.selection import selection
from ..runs.run import Run
from ..substitution.execute import BY_DEFINITION
from ..substitution.moves import followed
from ..substitution.plan import Substituting
from ..table.op import AUTOCAST
from ..table.reasons import COMPLEX, NOT_DRAWN, StayNative
from .programs import ModelSide, NotWider, OutOfMemory
from .trace import Onlooker
from .values import as_array, leaves, mapped

# ---- Runs in a wider dtype of models that say a dtype: positions made as float32, a norm computed in it, a cast to bfloat16.
#
# Without it such a model does not run in float64 (a product of float32 and float64 is refused), or computes a part of it in
# float32,
# where the other program may not: that would be taken for a mistake. So in these runs whatever says a narrower dtype says float64
# in
# both programs, and what is of such a dtype all the same (an attribute that is no buffer) is widened before a call is given it.

_Answer = TypeVar("_Answer")
_NARROWER = {"float64": ("float32", *HALF_NAMES), "float32": tuple(HALF_NAMES)}  # what is widened to a dtype


def in_wider(original: ModelSide, port: ModelSide, question: Callable[[], _Answer]) -> _Answer:
    """What is asked of runs of both in a wider dtype; :attr:`.sides.Side.wider` then tells which it was.

    In float64, widened, or where one does not run so, as the models are; then without kernels that have no float64, where the
    original has a switch for that (:meth:`.sides.Side.simplify`). Models of 16 bits that run in none of these run in float32.

    Raises:
        NotWider: one runs in none of these ways; or there is no memory for it.
    """
    ways = [("float64", True, False), ("float64", False, False), ("float64", True, True)]
    ways += [("float32", True, False)] if original.dtype() in HALF_NAMES else []
    error: NotWider | None = None
    for dtype, widening, simple in ways:
        if simple and not original.can_be_simple():
            continue
        for side in (original, port):
            side.wider, side.widening, side.simple, side.not_wider = dtype, widening, simple, error
        try:
            return question()
        except OutOfMemory:
            raise
        except NotWider as why:
            error = error or why
        finally:
            for side in (original, port):
                side.widening = False
                side.forget_wide()
    assert error is not None
    raise error


class WiderDtype(TorchFunctionMode):
    """Within it Torch's functions make and are given ``dtype`` where the program says a narrower one."""

    def __init__(self, dtype: str) -> None:
        super().__init__()
        self._dtype = getattr(torch, dtype)
        self._narrower = frozenset(getattr(torch, name) for name in _NARROWER[dtype])
        self._casts = {torch.Tensor.float: torch.float32, torch.Tensor.half: torch.float16, torch.Tensor.bfloat16: torch.bfloat16}

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = getattr(function, "__name__", ""), kwargs or {}
        if self._casts.get(function) in self._narrower:
            return args[0].to(self._dtype)
        if name in ("__get__", "__set__") or "out" in kwargs:
            return function(*args, **kwargs)
        change = self._of_dtype if _writes(name) else self._of_value
        return function(*_changed(args, change), **_changed(kwargs, change))

    def _of_dtype(self, value: Any) -> Any:
        return self._dtype if isinstance(value, torch.dtype) and value in self._narrower else value

    def _of_value(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.to(self._dtype) if value.dtype in self._narrower and not value.requires_grad else value
        return self._of_dtype(value)


class PaddleWidened:
    """The same for the arguments of calls of Paddle's."""

    def __init__(self, dtype: str) -> None:
        self._name, self._dtype = dtype, getattr(paddle, dtype)
        self._names = _NARROWER[dtype]
        self._narrower = frozenset(getattr(paddle, name) for name in self._names)

    def __call__(self, name: str, arguments: Any) -> Any:
        """The arguments of a call, widened; ``name``: of its op."""
        return _changed(arguments, self._of_dtype if _writes(name) else self._of_value)

    def _of_dtype(self, value: Any) -> Any:
        if type(value) is str:
            return self._name if value in self._names else value
        return self._dtype if type(value) is type(self._dtype) and value in self._narrower else value

    def _of_value(self, value: Any) -> Any:
        if type(value) in TENSOR_TYPES:
            if value.dtype not in self._narrower or not value.stop_gradient or not value._is_initialized():
                return value
            with paused():
                return value.astype(self._name)
        return self._of_dtype(value)


def _writes(name: str) -> bool:
    """Whether a function writes into what it is given, whose dtype then stays."""
    plain = name.strip("_")
    return name in ("__setitem__", "_setitem_dygraph") or (name.endswith("_") and name != f"__{plain}__") or name.startswith("__i")


def _changed(value: Any, change: Callable[[Any], Any]) -> Any:
    """An argument, or what a tuple, list or dict of them holds, changed; itself if nothing was."""
    if type(value) in (tuple, list):
        parts = [_changed(part, change) for part in value]
        return value if all(part is before for part, before in zip(parts, value)) else type(value)(parts)
    if type(value) is dict:
        return {key: _changed(part, change) for key, part in value.items()}
    return change(value)


# ---- What answers a port's calls in the runs of a proof: Torch's kernels, or Paddle's but for random numbers.

# Torch's names of what Paddle's kernels answer in a proof.
_TORCHS_NAMES = {"multiply": "mul", "subtract": "sub", "divide": "div", "concat": "cat", "elementwise_pow": "pow"}
TORCHS = frozenset({"batch_norm", AUTOCAST})  # what a proof takes by Torch's definition


class Defined(NamedTuple):
    """How Paddle defines an op otherwise than Torch, and the first call for which that matters."""

    how: str
    site: CallSite
    layer: str


class OnTorch(Substituting):
    """Reference mode's plan, with Torch's random numbers and optimizers; it remembers which ops :class:`Natively` is for."""

    def __init__(self, torchs: frozenset[str] = TORCHS) -> None:
        # Statistics by Torch's definition can be compared. What else is defined otherwise, the port computes as it will.
        super().__init__("torch", draws=True, torchs=torchs)
        self.drawn: set[str] = set()
        self.layer: Callable[[], str] = str  # tells the path of the layer that is running
        self.of_complex: dict[str, bool] = {}  # ops without a declaration for complex numbers: whether Torch answers as Paddle does
        self.defined: dict[str, Defined] = {}  # ops that Paddle defines otherwise for what a call was given
        self.capture: Onlooker | None = None  # which writes down what is computed

    def exact(self, name: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One that moves values; where Paddle does so by itself, the capture is told."""
        result = super().exact(name, original, args, kwargs)
        if self.capture is not None:
            with paused():
                pairs = [] if kwargs else followed(name, args, result)
                for side, like in pairs:
                    self.capture.moved(side, like)
            if not pairs and any(
                _is_float(leaf) and leaf.is_complex() for _, leaf in leaves(result)
            ):  # what Torch moves is of reals
                self._write_down(name, result, args, kwargs)
        return result

    def native(self, door: EntryPoint, frame: Frame, why: StayNative, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One that Paddle's kernel answers; of complex numbers Torch's all the same, if it gives the same."""
        if why.why is COMPLEX and not door.entry.inplace:
            result = self._of_complex(door, frame, args, kwargs)
            if result is not None:
                return result
        result = super().native(door, frame, why, args, kwargs)
        if self.capture is not None and not self._gives_back(door, result, args, kwargs):
            self._write_down(door.op.name, result, args, kwargs)
        return result

    def unlisted(self, other: Unlisted, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One of an op without reference."""
        result = super().unlisted(other, frame, args, kwargs)
        self._write_down(other.name, result, args, kwargs)
        return result

    def _of_complex(self, door: EntryPoint, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The answer of Torch's kernels to a call of complex numbers, of which the table declares none; None if it is another.

        A run of which the calls are written down may be given other values on purpose: there an earlier one's calls tell.
        """
        if self.of_complex.get(door.op.name, True) is False:
            return None
        try:
            result = super().call(door.of_complex, frame, door.bind(args, kwargs), args, kwargs)
        except (StayNative, RuntimeError, TypeError, ValueError, IndexError):
            return None
        if self.capture is None or door.op.name not in self.of_complex:
            with paused(), paddle.no_grad():
                pairs = [leaves(answer) for answer in (result, door.native(*args, **kwargs))]
            sides = [[to_torch(tensor.detach()) for _, tensor in tensors] for tensors in pairs]
            self.of_complex[door.op.name] = len(sides[0]) == len(sides[1]) and all(map(_alike, *sides))
        return result if self.of_complex[door.op.name] else None

    def _gives_back(self, door: EntryPoint, result: Any, args: Any, kwargs: Any) -> bool:
        """Whether a call gives back what an operand holds (joined to nothing); the capture is told."""
        if not door.op.exact or type(result) not in TENSOR_TYPES or result.dtype not in FLOATS:
            return False
        with paused():
            side, operands = to_torch(result), [leaf for _, leaf in leaves((args, kwargs)) if type(leaf) in TENSOR_TYPES]
            likes = [to_torch(operand) for operand in operands if operand.shape == result.shape]
        likes = [like for like in likes if like.data_ptr() != side.data_ptr() and torch.equal(like, side)]
        for like in likes:
            self.capture.moved(side, like)  # type: ignore[union-attr]
        return bool(likes)

    def _write_down(self, name: str, result: Any, args: Any, kwargs: Any) -> None:
        """Tell the capture of a call that Paddle's kernel has answered: else its result would come of nothing."""
        if self.capture is None:
            return
        operands, results = ([leaf for _, leaf in leaves(values) if _is_float(leaf)] for values in ((args, kwargs), result))
        if operands and results:
            with paused():
                sides = ([to_torch(leaf.detach()) for leaf in tensors] for tensors in (operands, results))
                self.capture.write_down(_TORCHS_NAMES.get(name, name), *sides)

    def call(self, door: EntryPoint, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One call."""
        if _draws(door, values) or door.op.wanting is not None:
            self.drawn.add(door.op.name)
        remarks: list[str] = frame.run.warnings  # type: ignore[attr-defined]  # a proof opens its modes with a run
        before = len(remarks)
        result = super().call(door, frame, values, args, kwargs)
        if door.op.definition is not None and len(remarks) > before:
            remark = remarks[before].removeprefix(f"{door.op.name}: ").removesuffix(BY_DEFINITION)
            self.defined.setdefault(door.op.name, Defined(remark, call_site(ModelSide._pass.__code__), self.layer()))
        return result


class InWider(OnTorch):
    """The same in a run in a wider dtype, in which whatever says a narrower one says that."""

    hurries = False  # each call has to come by

    def __init__(self, dtype: str, torchs: frozenset[str] = TORCHS) -> None:
        super().__init__(torchs)
        self._widened = PaddleWidened(dtype)

    def call(self, door: EntryPoint, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One call."""
        return super().call(door, frame, *(self._widened(door.entry.target, held) for held in (values, args, kwargs)))

    def native(self, door: EntryPoint, frame: Frame, why: StayNative, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One that runs on Paddle's kernel."""
        return super().native(door, frame, why, *(self._widened(door.entry.target, held) for held in (args, kwargs)))

    def unlisted(self, other: Unlisted, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One of an op without reference."""
        return super().unlisted(other, frame, *(self._widened(other.name, held) for held in (args, kwargs)))

    def exact(self, name: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One that moves values, or makes some."""
        return super().exact(name, original, *(self._widened(name, held) for held in (args, kwargs)))


class Natively(Substituting):
    """Paddle's kernels; calls that draw random numbers draw Torch's all the same, or nothing were comparable.

    What would end the process is asked for one gradient more.
    """

    def __init__(self) -> None:
        super().__init__("paddle", draws=True, lends=False)

    def call(self, door: EntryPoint, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One call of an op that may draw, or end the process."""
        if door.op.wanting is not None:
            args, kwargs = survivable(door, values, args, kwargs)
            return door.native(*args, **kwargs)
        if not _draws(door, values):
            raise StayNative(NOT_DRAWN)
        return super().call(door, frame, values, args, kwargs)


def _is_float(leaf: Any) -> bool:
    return type(leaf) in TENSOR_TYPES and leaf.dtype in FLOATS and leaf._is_initialized() and leaf.size > 0


def _alike(result: torch.Tensor, native: torch.Tensor) -> bool:
    """Whether two results are one up to rounding."""
    digits = torch.finfo(result.dtype).eps ** 0.5 if result.dtype.is_floating_point or result.is_complex() else 0.0
    alike = result.shape == native.shape and result.dtype == native.dtype
    return alike and torch.allclose(result, native, digits, digits, equal_nan=True)


def _draws(door: EntryPoint, values: tuple[Any, ...]) -> bool:
    return door.op.random is not None and bool(door.op.random(*values))


def survivable(door: EntryPoint, values: tuple[Any, ...], args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The arguments of a native call, of which an operand wants a gradient if Paddle's backward ends the process without it."""
    operand: Any = None if door.op.wanting is None else values[door.op.wanting]
    backward = any(type(value) in TENSOR_TYPES and not value.stop_gradient for value in values)
    if type(operand) not in TENSOR_TYPES or not operand.stop_gradient or not backward:
        return args, kwargs
    with paused():
        alias = operand.detach()
    alias.stop_gradient = False
    return mapped((args, kwargs), lambda value: alias if value is operand else value)


_PLAIN = ReferenceOptions()


def opened(plan: Substituting, *, ops: Iterable[str] | None = None, layout: str = "contiguous") -> Mode:
    """A mode in which that plan answers all ops, or these; ``layout``: of Linear weights."""
    enabled, _ = selection(_PLAIN if ops is None else ReferenceOptions(ops=ops), door="reference")
    return Mode(Run("torch", layout), enabled, None, plan, strict=False, all_threads=False)


# ---- Calls of a port that are kept, so that each can be gone back through by itself: natively, by Torch, and in float64.

Array = np.ndarray[Any, Any]
Key = tuple[str, str, int]  # layer, op, and the how-maniest call of it


class KeptCall:
    """One call: its operands before it, what it made, and the gradients that its results were handed by the backward.

    ``wanted`` are the operands, in the order of the op's parameters, whose gradients the call's backward gives.
    """

    def __init__(self, door: EntryPoint, frame: Frame, values: Any, args: Any, kwargs: Any) -> None:
        self.door = door
        copies: dict[int, Any] = {}

        def copied(tensor: Any) -> Any:
            if not isinstance(tensor, paddle.Tensor):
                return tensor
            if id(tensor) not in copies:
                copies[id(tensor)] = tensor, _copy(tensor)  # the tensor too: no identity is given out twice
            return copies[id(tensor)][1]

        with paused():
            self.args, self.kwargs = mapped(args, copied), mapped(kwargs, copied)
            operands = mapped(values, copied)
        with paddle.no_grad():
            self.prepared: Prepared = prepare(door, frame, operands, self.args, self.kwargs)
        self.wanted = wanting(self.prepared.inputs.paddle, self.prepared.inputs.torch)
        self.made: list[Array] = []
        self.handed: list[Array | None] = []

    def follow(self, made: Sequence[Any]) -> None:
        """Keep the results, and the gradient of each as soon as a backward hands it over."""
        self.made = [as_array(tensor).copy() for tensor in made]
        self.handed = [None] * len(made)
        for place, tensor in enumerate(made):
            if not tensor.stop_gradient:
                tensor.register_hook(self._handing(place))

    def _handing(self, place: int) -> Callable[[Any], None]:
        def keep(gradient: Any) -> None:
            known, array = self.handed[place], as_array(gradient)
            self.handed[place] = array.copy() if known is None else known + array

        return keep

    @property
    def answered(self) -> bool:
        """Whether a backward went through it."""
        return bool(self.wanted) and any(gradient is not None and gradient.any() for gradient in self.handed)

    def operand(self, place: int) -> Array:
        """The values of one operand."""
        return as_array(self.prepared.inputs.paddle[place])

    def torchs(self, *, double: bool) -> tuple[list[Array], list[Array | None]]:
        """The results of the op's formula on these operands, and the gradients of the wanted ones; ``double``: in float64."""
        inputs, attributes, casts = self.prepared
        sides = [_side(side, double=double, wanted=at in self.wanted) for at, side in enumerate(inputs.torch)]
        with torch.enable_grad():
            out = self.door.torch(sides, attributes) if double else casts.run(self.door, sides, attributes)
        made = [tensor for _, tensor in leaves(out)]
        results = [as_array(tensor) for tensor in made]
        pairs = [
            (tensor, torch.from_numpy(gradient).to(tensor))
            for tensor, gradient in zip(made, self.handed)
            if gradient is not None and tensor.requires_grad and gradient.shape == tuple(tensor.shape)
        ]
        if not pairs:
            return results, [None] * len(self.wanted)
        ends, starts = zip(*pairs)
        gradients = torch.autograd.grad(ends, [sides[at] for at in self.wanted], starts, allow_unused=True)
        turned = [
            gradient.t() if at == self.door.transposed and gradient is not None else gradient
            for at, gradient in zip(self.wanted, gradients)
        ]
        return results, self._summed([None if gradient is None else as_array(gradient) for gradient in turned])

    def paddles(self) -> tuple[list[Array], list[Array | None]]:
        """The same of Paddle's kernels; an operand that stands in several places has its whole gradient in the first."""
        fresh: dict[int, Any] = {}

        def leaf(tensor: Any) -> Any:
            if not isinstance(tensor, paddle.Tensor):
                return tensor
            if id(tensor) not in fresh:
                fresh[id(tensor)] = tensor.detach()
                fresh[id(tensor)].stop_gradient = tensor.stop_gradient
            copy = fresh[id(tensor)]
            return copy.clone() if self.door.entry.inplace else copy

        with paused(), paddle.enable_grad():
            made = [tensor for _, tensor in leaves(self.door.native(*mapped(self.args, leaf), **mapped(self.kwargs, leaf)))]
            pairs = [
                (tensor, paddle.to_tensor(gradient).astype(tensor.dtype))
                for tensor, gradient in zip(made, self.handed)
                if gradient is not None and not tensor.stop_gradient and list(gradient.shape) == list(tensor.shape)
            ]
            if not pairs:
                return [as_array(tensor) for tensor in made], [None] * len(self.wanted)
            operands = [self.prepared.inputs.paddle[at] for at in self.wanted]
            distinct = {id(operand): fresh[id(operand)] for operand in operands if id(operand) in fresh}
            ends, starts = map(list, zip(*pairs))
            gradients = paddle.grad(ends, list(distinct.values()), starts, allow_unused=True)
        by_operand = dict(zip(distinct, gradients))
        answers = [by_operand.pop(id(operand), None) for operand in operands]
        return [as_array(tensor) for tensor in made], [None if array is None else as_array(array) for array in answers]

    def _summed(self, gradients: Sequence[Array | None]) -> list[Array | None]:
        """Gradients of the wanted operands, those of one that stands in several places added up in the first."""
        first: dict[int, int] = {}
        sums: list[Array | None] = []
        for at, gradient in zip(self.wanted, gradients):
            known = first.setdefault(id(self.prepared.inputs.paddle[at]), len(sums))
            if known < len(sums):
                other = sums[known]
                sums[known] = gradient if other is None else other if gradient is None else other + gradient
                gradient = None
            sums.append(gradient)
        return sums


def _copy(tensor: Any) -> Any:
    """Its values as they are now; what is written later, as a parameter by an optimizer, is another's."""
    copy = tensor.detach().clone()
    copy.stop_gradient = tensor.stop_gradient
    return copy


def _side(side: Any, *, double: bool, wanted: bool) -> Any:
    """An operand of Torch's, as one that a graph begins with."""
    if not isinstance(side, torch.Tensor):
        return side
    side = side.detach()
    if double and side.is_floating_point():
        side = side.to(torch.float64, copy=True)
    return side.requires_grad_() if wanted else side


class Keeping(Substituting):
    """Reference mode's plan, or Paddle's kernels, that keeps every call which rounds.

    Args:
        native: calls run on Paddle's kernels; what draws random numbers draws Torch's all the same.
        layer: tells the path of the layer that is running.
    """

    def __init__(self, *, native: bool, layer: Callable[[], str]) -> None:
        super().__init__("torch", draws=True, torchs=TORCHS)
        if native:
            self.autocasts = ""
        self.calls: dict[Key, KeptCall] = {}
        self._native, self._layer = native, layer
        self._times: collections.Counter[tuple[str, str]] = collections.Counter()

    def call(self, door: EntryPoint, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One call, kept."""
        if (door.op.random is not None and door.op.random(*values)) or not door.op.leading:
            return super().call(door, frame, values, args, kwargs)
        record = KeptCall(door.torchs if door.op.name in self.torchs else door, frame, values, args, kwargs)
        if self._native:
            args, kwargs = survivable(door, values, args, kwargs)
            result = door.native(*args, **kwargs)
        else:
            result = super().call(door, frame, values, args, kwargs)
            frame.quick.clear()  # a shorter way would pass by here
        record.follow([tensor for _, tensor in leaves(result)])
        place = self._layer(), door.op.name
        self.calls[(*place, self._times[place])] = record
        self._times[place] += 1
        return result

    def native(self, door: EntryPoint, frame: Frame, why: StayNative, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Paddle's kernel; of a native run beside no tape."""
        return door.native(*args, **kwargs) if self._native else super().native(door, frame, why, args, kwargs)

    def unlisted(self, other: Unlisted, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The same for an op without reference."""
        return other.original(*args, **kwargs) if self._native else super().unlisted(other, frame, args, kwargs)

    def exact(self, name: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The same for what moves values."""
        return original(*args, **kwargs) if self._native else super().exact(name, original, args, kwargs)

    def py_layer(self, name: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The same for a function with a backward of its own."""
        return original(*args, **kwargs) if self._native else super().py_layer(name, original, args, kwargs)
