"""What answers a port's calls in the runs of a proof: Torch's kernels, Paddle's, or Torch's in a wider dtype."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FrameType
from typing import Any, NamedTuple

import paddle
import torch
from torch.overrides import TorchFunctionMode

from ..dispatch.call_site import CallSite, call_site
from ..dispatch.dtypes import HALF_NAMES
from ..dispatch.entry_point import EntryPoint, Unlisted
from ..dispatch.frames import Frame, paused
from ..dispatch.operands import CallOperands
from ..dispatch.prepare import NO_CASTS, Prepared
from ..frameworks.memory import FLOATS, PADDLE_DTYPES, TENSOR_TYPES, TORCH_DTYPES, to_torch
from ..modes.mode import Mode
from ..modes.options import ModeOptions, ReferenceOptions, selection
from ..runs.run import Run
from ..substitution.execute import BY_DEFINITION, Substitution
from ..substitution.moves import followed
from ..substitution.plan import Substituting
from ..table.op import AUTOCAST
from ..table.reasons import COMPLEX, NOT_DRAWN, StayNative
from ..table.signature import REFUSALS
from ..trees import leaves, mapped
from .arguments import ApiCall, call_of_frame, call_of_movement, call_of_op, copied, frames_of_api
from .trace import Capture, Onlooker

_TORCHS_NAMES = {
    "real": "select", "imag": "select", "conj": "_conj",
    "multiply": "mul", "subtract": "sub", "divide": "div", "concat": "cat", "elementwise_pow": "pow", "cast": "_to_copy",
    "equal": "eq", "not_equal": "ne", "greater_than": "gt", "greater_equal": "ge", "less_than": "lt", "less_equal": "le",
}  # fmt: skip


TORCHS = frozenset({"batch_norm", "instance_norm", AUTOCAST})  # by Torch's definition in a proof
VIEWS_IN_PLACE = frozenset({"flatten_", "reshape_", "squeeze_", "transpose_", "unsqueeze_"})  # they write no element


class Defined(NamedTuple):
    """How Paddle defines an op differently from Torch, and the first call for which that matters."""

    how: str
    site: CallSite
    layer: str


class OnTorch(Substituting):
    """Reference mode's plan, with Torch's random numbers and optimizers; it remembers which ops :class:`Natively` is for."""

    def __init__(self) -> None:
        # Statistics by Torch's definition can be compared. All other definitions stay the port's.
        super().__init__("torch", draws=True, torchs=TORCHS)
        self.drawn: set[str] = set()
        self.layer: Callable[[], str] = str  # returns the path of the running layer
        self.until: CodeType | None = None  # the function that calls the model
        self.of_complex: dict[str, bool] = {}  # undeclared ops of complex numbers: whether Torch answers as Paddle does
        self.defined: dict[str, Defined] = {}  # ops that Paddle defines differently for a call's operands
        self.capture: Onlooker | None = None  # of the run
        self._behind: tuple[FrameType | None, FrameType | None] = None, None  # see frames_of_api: of the last call of Paddle's API,
        self._api: ApiCall | None = None  # and the calls that they answer
        self._whole: ApiCall | None = None
        self._calls: list[ApiCall] = []

    def exact(self, name: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An op that moves values; where Paddle moves them itself, the capture gets to know."""
        with self._answering(lambda: call_of_movement(name, args)) as call, self._writing(name, args):
            result = super().exact(name, original, args, kwargs)
            _note_shape(call, result)
        if self.capture is not None:
            with paused():
                real = not any(_is_held(leaf) and leaf.dtype not in _REAL for _, leaf in leaves((result, args)))
                pairs = [] if kwargs else followed(name, args, result)
                pairs = [(side, like) for side, like in pairs if real or side.numel() == args[0].size]
                for side, like in pairs:
                    self.capture.moved(side, like)
            if not pairs and not real:  # which Torch moves
                self._write_down(name, result, args, kwargs)
        return result

    def _writing(self, name: str, args: tuple[Any, ...]) -> contextlib.AbstractContextManager[None]:
        """Within it the capture gets to know of the elements that Paddle sets."""
        target = self.target(name, args)
        if not isinstance(self.capture, Capture) or name in VIEWS_IN_PLACE or not _is_held(target) or target.dtype not in FLOATS:
            return contextlib.nullcontext()
        self._copy_operands(target)
        others = [leaf for _, leaf in leaves(args) if _is_held(leaf) and leaf is not target]
        with paused():
            sides = [to_torch(tensor.detach()) for tensor in (target, *others)]
        return self.capture.writing(name.strip("_").replace("_dygraph", ""), sides[0], sides[1:])

    def _copy_operands(self, target: Any) -> None:
        """Keep what calls were given in memory that is about to be written."""
        for call in self._calls:
            for name, operand in call.arguments.items():
                if type(operand) in TENSOR_TYPES and operand._is_initialized() and operand._is_shared_buffer_with(target):
                    call.arguments[name] = copied(operand)

    def native(self, entry_point: EntryPoint, frame: Frame, why: StayNative, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call for Paddle's kernel; Torch's answers one of complex numbers, if it gives the same."""
        if why.why is COMPLEX and not entry_point.entry.inplace:
            result = self._of_complex(entry_point, frame, args, kwargs)
            if result is not None:
                return result
        result = super().native(entry_point, frame, why, args, kwargs)
        if self.capture is not None and not self._gives_back(entry_point, result, args, kwargs):
            with self._answering(lambda: call_of_op(entry_point.entry, entry_point.original, args, kwargs)) as call:
                self._write_down(entry_point.op.name, result, args, kwargs)
                _note_shape(call, result)
        return result

    def unlisted(self, other: Unlisted, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of an op without reference."""
        result = super().unlisted(other, frame, args, kwargs)
        self._write_down(other.name, result, args, kwargs)
        return result

    def _of_complex(self, entry_point: EntryPoint, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The answer of Torch's kernels to a call of complex numbers, which the table does not declare; None if Paddle's differs.

        A run whose calls are written down may get other values on purpose: there an earlier run's answer counts.
        """
        if self.of_complex.get(entry_point.op.name, True) is False:
            return None
        try:
            result = super().call(entry_point.of_complex, frame, entry_point.bind(args, kwargs), args, kwargs)
        except (StayNative, RuntimeError, TypeError, ValueError, IndexError):
            return None
        if self.capture is None or entry_point.op.name not in self.of_complex:
            with paused(), paddle.no_grad():
                pairs = [leaves(answer) for answer in (result, entry_point.native(*args, **kwargs))]
            sides = [[to_torch(tensor.detach()) for _, tensor in tensors if _is_held(tensor)] for tensors in pairs]
            self.of_complex[entry_point.op.name] = len(sides[0]) == len(sides[1]) and all(map(_alike, *sides))
        return result if self.of_complex[entry_point.op.name] else None

    def _gives_back(self, entry_point: EntryPoint, result: Any, args: Any, kwargs: Any) -> bool:
        """Whether a call returns an operand's elements (joined to nothing); the capture gets to know."""
        if not entry_point.op.exact or type(result) not in TENSOR_TYPES:
            return False
        with paused():
            side, operands = to_torch(result), [leaf for _, leaf in leaves((args, kwargs)) if type(leaf) in TENSOR_TYPES]
            likes = [to_torch(operand) for operand in operands if (operand.shape, operand.dtype) == (result.shape, result.dtype)]
        likes = [like for like in likes if like.data_ptr() != side.data_ptr() and torch.equal(like, side)]
        for like in likes:
            self.capture.moved(side, like)  # type: ignore[union-attr]
        return bool(likes)

    def _write_down(self, name: str, result: Any, args: Any, kwargs: Any) -> None:
        """Tell the capture of a call that Paddle's kernel answered: else its result would have no source."""
        if self.capture is None:
            return
        operands, results = ([leaf for _, leaf in leaves(values) if _is_held(leaf)] for values in ((args, kwargs), result))
        if operands and results:
            with paused():
                sides = ([to_torch(leaf.detach()) for leaf in tensors] for tensors in (operands, results))
                self.capture.write_down(_TORCHS_NAMES.get(name, name), *sides)

    def call(
        self, entry_point: EntryPoint, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """One call."""
        if _draws(entry_point, values) or entry_point.op.limits.wanting is not None:
            self.drawn.add(entry_point.op.name)
        if entry_point.entry.inplace and self._calls and type(args[0]) in TENSOR_TYPES:
            self._copy_operands(args[0])
        remarks: list[str] = frame.run.warnings  # type: ignore[attr-defined]  # a proof opens its modes with a run
        before = len(remarks)
        with self._answering(lambda: call_of_op(entry_point.entry, entry_point.original, args, kwargs)) as call:
            result = super().call(entry_point, frame, values, args, kwargs)
            _note_shape(call, result)
        if entry_point.op.definition is not None and len(remarks) > before:
            remark = remarks[before].removeprefix(f"{entry_point.op.name}: ").removesuffix(BY_DEFINITION)
            self.defined.setdefault(entry_point.op.name, Defined(remark, call_site(self.until), self.layer()))
        return result

    @contextlib.contextmanager
    def _answering(self, without_function: Callable[[], ApiCall | None]) -> Iterator[ApiCall | None]:
        """Within it the capture knows which call of Paddle's API is being answered; ``without_function``: that of the op itself."""
        capture = self.capture
        if not isinstance(capture, Capture) or capture.api is not None:
            yield None
            return
        *behind, line, layers = frames_of_api(self.until)
        if behind[0] is None or behind[0] is not self._behind[0]:
            call = without_function() if behind[0] is None else call_of_frame(behind[0])
            if behind[1] is not self._behind[1]:
                self._whole = None if behind[1] is None else call_of_frame(behind[1])
            if call is not None:
                call.whole, call.layers = self._whole, layers
                for made in filter(None, (call, call.whole)):
                    made.place = None if line is None else (line.f_code, line.f_lasti, line.f_lineno)
                self._calls.append(call)
            self._behind, self._api = (behind[0], behind[1]), call
        capture.api = self._api
        try:
            yield self._api
        finally:
            capture.api = None


class InWider(OnTorch):
    """The same in a wider dtype: whatever says a narrower dtype means the wider one."""

    hurries = False  # each call has to pass here

    def __init__(self, dtype: str) -> None:
        super().__init__()
        self._widened = PaddleWidened(dtype)

    def call(
        self, entry_point: EntryPoint, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """One call."""
        make = functools.partial(super().call, entry_point, frame)
        wide = (self._widened(entry_point.entry.target, part) for part in (values, args, kwargs))
        return self._promoted(make(*wide), args, kwargs, lambda *of_floats: make(entry_point.bind(*of_floats), *of_floats))

    def native(self, entry_point: EntryPoint, frame: Frame, why: StayNative, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One that runs on Paddle's kernel."""
        make = functools.partial(super().native, entry_point, frame, why)
        return self._promoted(make(*(self._widened(entry_point.entry.target, part) for part in (args, kwargs))), args, kwargs, make)

    def unlisted(self, other: Unlisted, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One of an op without reference."""
        make = functools.partial(super().unlisted, other, frame)
        return self._promoted(make(*(self._widened(other.name, part) for part in (args, kwargs))), args, kwargs, make)

    def _promoted(self, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], make: Callable[..., Any]) -> Any:
        """A result; where Paddle makes narrower floats of whole numbers (``uint8 / 255.``), that of the same numbers as floats."""
        operands = [leaf for _, leaf in leaves((args, kwargs)) if _is_held(leaf)]
        narrow = type(result) in TENSOR_TYPES and result.dtype in self._widened.wide
        if not narrow or not operands or any(leaf.dtype in FLOATS for leaf in operands):
            return result
        try:
            return make(*mapped((args, kwargs), lambda leaf: self._wide(leaf) if _is_held(leaf) else leaf))
        except (StayNative, *REFUSALS):  # whole numbers are places to it
            return self._wide(result)

    def _wide(self, tensor: Any) -> Any:
        """A tensor in the wider dtype."""
        with paused():
            made = tensor.astype(self._widened.name)
        self._write_down("cast", made, (tensor,), {})
        return made

    def exact(self, name: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One that moves values, or makes some."""
        return super().exact(name, original, *(self._widened(name, part) for part in (args, kwargs)))


class Trying(InWider):
    """The same for calls that no program makes: formulas alone answer, for Paddle's kernels do not stand any arguments."""

    def call(
        self, entry_point: EntryPoint, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """One call, of an op with tensors."""
        if entry_point.op.exact and entry_point.dtype_at is not None:  # a cast, which any kernel stands
            return entry_point.native(
                *self._widened(entry_point.entry.target, args), **self._widened(entry_point.entry.target, kwargs)
            )
        if not entry_point.op.leading or entry_point.entry.inplace:
            raise ValueError(entry_point.op.name)
        values = self._widened(entry_point.entry.target, values)
        operands, attributes = (
            (values[0], values[1:])
            if entry_point.op.operands
            else (values[: entry_point.op.tensors], values[entry_point.op.tensors :])
        )
        with paused():
            sides = [to_torch(operand.detach()) if type(operand) in TENSOR_TYPES else operand for operand in operands]
        if entry_point.transposed is not None:
            sides[entry_point.transposed] = sides[entry_point.transposed].T.contiguous()
        behind = entry_point.torchs if entry_point.op.name in self.torchs else entry_point
        return Substitution(behind).computed(frame, values, Prepared(CallOperands(list(operands), sides, []), attributes, NO_CASTS))

    def native(self, entry_point: EntryPoint, frame: Frame, why: StayNative, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One for which there is no formula."""
        raise ValueError(entry_point.op.name)

    def unlisted(self, other: Unlisted, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One of an op without reference."""
        raise ValueError(other.name)


class Natively(Substituting):
    """Paddle's kernels; calls that draw random numbers draw Torch's all the same, or nothing were comparable.

    A call that would end the process wants one gradient more.
    """

    def __init__(self) -> None:
        super().__init__("paddle", draws=True, lends=False)

    def call(
        self, entry_point: EntryPoint, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """One call of an op that may draw, or end the process."""
        if entry_point.op.limits.wanting is not None:
            args, kwargs = survivable(entry_point, values, args, kwargs)
            return entry_point.native(*args, **kwargs)
        if not _draws(entry_point, values):
            raise StayNative(NOT_DRAWN)
        return super().call(entry_point, frame, values, args, kwargs)


_REAL = frozenset(dtype for dtype in FLOATS if not str(dtype).rpartition(".")[2].startswith("complex"))


class GoingBack(Natively):
    """The same; notes the line of the call whose backward began last.

    Args:
        until: code of the function that calls the model.
    """

    def __init__(self, until: CodeType) -> None:
        super().__init__()
        self.last: CallSite | None = None
        self._until = until

    def native(self, entry_point: EntryPoint, frame: Frame, why: StayNative, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of an op of the table."""
        return self._watched(super().native(entry_point, frame, why, args, kwargs))

    def unlisted(self, other: Unlisted, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One of an op without reference."""
        return self._watched(super().unlisted(other, frame, args, kwargs))

    def exact(self, name: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One that moves values."""
        return self._watched(super().exact(name, original, args, kwargs))

    def _watched(self, result: Any) -> Any:
        site = call_site(self._until)
        for _, leaf in leaves(result):
            if type(leaf) in TENSOR_TYPES and not leaf.stop_gradient:
                leaf.register_hook(functools.partial(self._begin, site))
        return result

    def _begin(self, site: CallSite, _: Any) -> None:
        self.last = site


def _note_shape(call: ApiCall | None, result: Any) -> None:
    if call is not None and type(result) in TENSOR_TYPES:
        call.shape = tuple(result.shape)


def _is_held(leaf: Any) -> bool:
    """Whether a tensor's numbers can be looked at, whole numbers included: what is rounded to these comes from somewhere."""
    return type(leaf) in TENSOR_TYPES and leaf.is_dense() and leaf._is_initialized() and leaf.size > 0


def _alike(result: torch.Tensor, native: torch.Tensor) -> bool:
    """Whether two results are the same up to rounding, which is float32's: in that Paddle computes complex128's ``exp``, too."""
    digits = torch.finfo(torch.float32).eps ** 0.5 if result.dtype.is_floating_point or result.is_complex() else 0.0
    alike = result.shape == native.shape and result.dtype == native.dtype
    return alike and torch.allclose(result, native, digits, digits, equal_nan=True)


def _draws(entry_point: EntryPoint, values: tuple[Any, ...]) -> bool:
    return entry_point.op.random is not None and bool(entry_point.op.random(*values))


def survivable(entry_point: EntryPoint, values: tuple[Any, ...], args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The arguments of a native call; an operand wants a gradient if Paddle's backward would end the process without it."""
    operand: Any = None if entry_point.op.limits.wanting is None else values[entry_point.op.limits.wanting]
    backward = any(type(value) in TENSOR_TYPES and not value.stop_gradient for value in values)
    if type(operand) not in TENSOR_TYPES or not operand.stop_gradient or not backward:
        return args, kwargs
    with paused():
        alias = operand.detach()
    alias.stop_gradient = False
    return mapped((args, kwargs), lambda value: alias if value is operand else value)


_PLAIN = ReferenceOptions()


def opened(plan: Substituting, *, ops: Iterable[str] | None = None, layout: str = "contiguous") -> Mode:
    """A mode in which the plan answers all ops, or these; ``layout``: of Linear weights."""
    enabled, _ = selection(_PLAIN if ops is None else ReferenceOptions(ops=ops), opener="reference")
    return Mode(Run("torch", layout), enabled, None, plan, ModeOptions(to_static="eager"))


# ---- Runs in a wider dtype of models that name a dtype: positions made as float32, a norm computed in it, a cast to bfloat16.
#
# Such a model does not run in float64 (a product of float32 and float64 is refused), or computes a part in float32 where the other
# program may not: that would look like a mistake. So in these runs whatever names a narrower dtype means the wider one in both
# programs, and what has a narrower dtype all the same (an attribute that is no buffer) is widened in front of a call.


_WIDE = {  # what is widened, and to what
    "float64": {"complex64": "complex128", **dict.fromkeys(("float32", *HALF_NAMES), "float64")},
    "float32": dict.fromkeys(HALF_NAMES, "float32"),
}


class WiderDtype(TorchFunctionMode):
    """Within it Torch's functions make and read ``dtype`` where the program says a narrower one; of complex numbers its own."""

    def __init__(self, dtype: str) -> None:
        super().__init__()
        self._wide = {TORCH_DTYPES[name]: TORCH_DTYPES[wide] for name, wide in _WIDE[dtype].items()}
        names = {"float": "float32", "half": "float16", "bfloat16": "bfloat16", "cfloat": "complex64"}
        self._casts = {getattr(torch.Tensor, method): TORCH_DTYPES[name] for method, name in names.items()}

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = getattr(function, "__name__", ""), kwargs or {}
        if (cast := self._casts.get(function)) in self._wide:
            return args[0].to(self._wide[cast])
        if name in ("__get__", "__set__") or "out" in kwargs:
            return function(*args, **kwargs)
        change = self._of_dtype if _writes(name) else self._of_value
        return function(*_changed(args, change), **_changed(kwargs, change))

    def _of_dtype(self, value: Any) -> Any:
        return self._wide.get(value, value) if isinstance(value, torch.dtype) else value

    def _of_value(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.to(self._wide[value.dtype]) if value.dtype in self._wide and not value.requires_grad else value
        return self._of_dtype(value)


class PaddleWidened:
    """The same for the arguments of Paddle's calls."""

    def __init__(self, dtype: str) -> None:
        self.name, self._names = dtype, _WIDE[dtype]
        self.wide = {PADDLE_DTYPES[name]: PADDLE_DTYPES[wide] for name, wide in self._names.items()}

    def __call__(self, name: str, arguments: Any) -> Any:
        """The arguments of a call, widened; ``name``: of its op."""
        return _changed(arguments, self._of_dtype if _writes(name) else self._of_value)

    def _of_dtype(self, value: Any) -> Any:
        if type(value) is str:
            return self._names.get(value, value)
        return self.wide.get(value, value) if type(value) is type(PADDLE_DTYPES["float32"]) else value

    def _of_value(self, value: Any) -> Any:
        if type(value) in TENSOR_TYPES:
            if value.dtype not in self.wide or not value.stop_gradient or not value._is_initialized():
                return value
            with paused():
                return value.astype(self.wide[value.dtype])
        return self._of_dtype(value)


def _writes(name: str) -> bool:
    """Whether a function writes into an operand, whose dtype then stays."""
    name = name.rpartition(".")[2]  # of paddle.Tensor.__mul__
    plain = name.strip("_")
    return name in ("__setitem__", "_setitem_dygraph") or (name.endswith("_") and name != f"__{plain}__") or name.startswith("__i")


def _changed(value: Any, change: Callable[[Any], Any]) -> Any:
    """An argument, or what a tuple, list or dict of them holds, changed; itself if nothing changed."""
    if type(value) in (tuple, list):
        parts = [_changed(part, change) for part in value]
        return value if all(part is before for part, before in zip(parts, value)) else type(value)(parts)
    if type(value) is dict:
        return {key: _changed(part, change) for key, part in value.items()}
    return change(value)
