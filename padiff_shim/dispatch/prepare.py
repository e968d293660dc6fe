"""A call made ready for any plan: operands on Torch's side, attributes, casts; the arguments of calls that create tensors."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import paddle
import torch

from ..frameworks import autocast
from ..frameworks.autocast import grad_tracer, torch_autocast
from ..frameworks.memory import HALVES, TENSOR_TYPES, check_target, dtype_of, torch_dtype
from ..frameworks.versions import PaddleTracer
from ..table import reasons
from ..table.reasons import StayNative
from .entry_point import EntryPoint
from .frames import Frame
from .operands import NUMBERS, CallOperands, beside_graph, bridge

# ---- The arguments of a call that creates a tensor from numbers alone, as Torch's.


def _number(value: Any) -> Any:
    """A number, which Paddle also takes as a tensor of one element."""
    return value.item() if isinstance(value, paddle.Tensor) else value


def _shape(shape: Any) -> tuple[int, ...]:
    """A shape: a tensor, or a sequence of numbers and tensors of one element."""
    sizes = shape.tolist() if isinstance(shape, paddle.Tensor) else shape
    return tuple([int(_number(size)) for size in (sizes if isinstance(sizes, (list, tuple)) else [sizes])])


def _dtype(dtype: Any) -> torch.dtype:
    """A dtype; Paddle's default where the call names none."""
    torch_type = torch_dtype(paddle.get_default_dtype() if dtype is None else dtype)
    if torch_type is None:
        raise StayNative(reasons.NO_TWIN, dtype=dtype)
    return torch_type


def _device(place: Any) -> torch.device:
    """Torch's device of a place."""
    place = paddle.base.framework._current_expected_place() if place is None else place
    match = _PLACE.fullmatch(str(place))
    if match is None:
        raise StayNative(reasons.PLACE, place=place)
    kind, index = match.groups()
    return torch.device("cpu") if kind == "cpu" else torch.device("cuda", int(index or 0))


_PLACE = re.compile(r"Place\((cpu|gpu)(?::(\d+))?\)")


def _parameter(var: Any) -> torch.Tensor:
    """Somewhere to draw a parameter's values, which has no memory yet."""
    if getattr(var, "is_dist", bool)():
        raise StayNative(reasons.DISTRIBUTED)
    return torch.empty(_shape(var.shape), dtype=_dtype(var.dtype), device=_device(None))


# By the names of parameters.
_READERS: dict[str, Callable[[Any], Any]] = {"shape": _shape, "dtype": _dtype, "place": _device, "var": _parameter}


def readers(names: Sequence[str]) -> list[Callable[[Any], Any]]:
    """For each parameter of an op without operands what makes Torch's argument of Paddle's."""
    return [_READERS.get(name, _number) for name in names]


# ---- A bound call, made ready for any plan: operands on torch's side, attributes, and the casts that they need.
#
#     bind -> bridge -> autocast -> dtype rule
#
# Whatever does not fit leaves as :class:`StayNative`.


class Casts(NamedTuple):
    """Autocast's casts of single operands, then the promotion of all to the result's dtype; or Torch's own autocast."""

    targets: list[torch.dtype | None] | None
    promotion: torch.dtype | None
    region: torch.dtype | None = None  # in which dtype Torch's autocast runs the formula, which then casts by itself

    @property
    def none(self) -> bool:
        """Nothing is cast."""
        return self.targets is None and self.promotion is None and self.region is None

    @property
    def settings(self) -> tuple[Any, ...]:
        """What decides, beside operands and attributes, which tensors a backward reads: of what is cast, the copy."""
        return (*(self.targets or ()), self.region)

    def run(self, entry_point: EntryPoint, tensors: Sequence[Any], attributes: tuple[Any, ...]) -> Any:
        """The op's formula of these operands."""
        if self.region is not None:
            with torch_autocast(self.region):
                return entry_point.torch(tensors, attributes)
        return entry_point.torch(tensors if self.none else self.apply(tensors), attributes)

    def apply(self, tensors: Sequence[Any]) -> list[Any]:
        """The operands as the kernel gets them."""
        converted = list(tensors)
        for index, tensor in enumerate(converted):
            if isinstance(tensor, torch.Tensor):
                if self.targets is not None and (target := self.targets[index]) is not None:
                    tensor = tensor.to(target)
                converted[index] = tensor if self.promotion is None else tensor.to(self.promotion)
        return converted


NO_CASTS = Casts(None, None)


class Prepared(NamedTuple):
    """A bound call on torch's side."""

    inputs: CallOperands
    attributes: tuple[Any, ...]
    casts: Casts


def prepare(
    entry_point: EntryPoint, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Prepared:
    """The bound call on torch's side: operands, attributes, and the casts that they need; or StayNative."""
    op = entry_point.op
    if op.operands:
        operands, attributes = values[0], values[1:]
    elif op.tensors:
        operands, attributes = values[: op.tensors], values[op.tensors :]
    tracer = grad_tracer()
    if tracer is None:
        raise StayNative(reasons.STATIC)
    if not (op.operands or op.tensors):  # its result is made of numbers alone
        attributes = tuple([read(value) for read, value in zip(readers(entry_point.names), values)])
        return Prepared(CallOperands([], [], []), attributes, NO_CASTS)
    if entry_point.numbers:
        operands = _numbers(entry_point, operands)
    inputs = bridge(frame, operands, tracer._has_grad, entry_point.transposed, entry_point.op.integer_places)
    if tracer._has_grad:
        beside_graph(inputs, entry_point.without_integers)
    if entry_point.dtype_at is not None and attributes[entry_point.dtype_at - op.tensors] is not None:
        attributes = _convert_dtype(entry_point, attributes)
    if entry_point.entry.inplace:
        check_target(inputs.paddle, elementwise=op.elementwise)
    empty = [not side.numel() for side in inputs.torch if isinstance(side, torch.Tensor)]
    if any(empty) and (all(empty) or not op.passes_empty):
        raise StayNative(reasons.EMPTY)
    targets = None
    if autocast.active(tracer) and not (entry_point.entry.inplace or entry_point.op.name == "cast"):  # of which C++ casts nothing
        if autocast.HERE.on and frame.plan.autocasts == "torch":
            return Prepared(inputs, attributes, _torchs_autocast(entry_point, tracer, inputs))
        if not autocast.HERE.on or frame.plan.autocasts:
            targets = _autocast(entry_point, tracer, inputs)
    cast = entry_point.rules.find((inputs, targets, values, args, kwargs))
    return Prepared(inputs, attributes, NO_CASTS if targets is None and cast is None else Casts(targets, cast))


def _numbers(entry_point: EntryPoint, operands: Sequence[Any]) -> list[Any]:
    """The operands with Python numbers where this entry point takes them; Paddle reads them out of tensors of one element."""
    converted = list(operands)
    for index in entry_point.numbers:
        if type(converted[index]) in TENSOR_TYPES:
            if converted[index].size != 1 or not converted[index].stop_gradient:
                raise StayNative(reasons.TENSOR_FOR_NUMBER)
            converted[index] = converted[index].item()
    return converted


def _convert_dtype(entry_point: EntryPoint, attributes: tuple[Any, ...]) -> tuple[Any, ...]:
    """The dtype attribute as torch's."""
    at = entry_point.dtype_at - entry_point.op.tensors  # type: ignore[operator]
    dtype = torch_dtype(attributes[at])
    if dtype is None:
        raise StayNative(reasons.NO_TWIN, dtype=attributes[at])
    return (*attributes[:at], dtype, *attributes[at + 1 :])


def listed(entry_point: EntryPoint, operands: Sequence[Any]) -> str:
    """The name under which autocast lists a call: that of the kernel which Paddle runs on a GPU."""
    op = entry_point.op
    if op.layouts and operands[2] is not None and entry_point.entry.target != "paddle._C_ops.linear" and autocast.fuses_bias():
        return "linear_v2"
    kernel = entry_point.entry.target.rpartition(".")[2]
    if kernel.startswith("depthwise_"):
        return kernel
    return op.amp[any(type(operand) in NUMBERS for operand in operands)] or op.name


def _autocast(entry_point: EntryPoint, tracer: PaddleTracer, inputs: CallOperands) -> list[torch.dtype | None]:
    """Per operand the dtype that Paddle's autocast would give it."""
    tensors = [t for t in inputs.torch if isinstance(t, torch.Tensor)]
    dtypes = [dtype_of(t.dtype) for t in tensors]
    name = listed(entry_point, inputs.torch)
    chosen = autocast.destination(tracer, name, dtypes, on_accelerator=autocast.HERE.on or any(t.is_cuda for t in tensors))
    queue = iter(autocast.casts(name, chosen, dtypes))
    return [torch_dtype(next(queue)) if isinstance(t, torch.Tensor) else None for t in inputs.torch]


_NORMS = frozenset({"layer_norm", "group_norm", "instance_norm", "batch_norm"})


def _torchs_autocast(entry_point: EntryPoint, tracer: PaddleTracer, inputs: CallOperands) -> Casts:
    """Torch's autocast runs the formula. Torch has no lists of the program's own: what these name is cast before.

    So are weights of 16 bits of a norm of float32, as ``decorate`` leaves them: Torch's kernels refuse these.
    """
    name = listed(entry_point, inputs.torch)
    dtypes = [side.dtype for side in inputs.torch if isinstance(side, torch.Tensor)]
    refused = name in _NORMS and dtypes[0] is torch.float32 and not HALVES.isdisjoint(dtypes)
    if not refused and name not in autocast.listed_by_program(tracer):
        return Casts(None, None, torch_dtype(tracer._amp_dtype))
    return Casts(_autocast(entry_point, tracer, inputs), None)


def device_of(sides: Sequence[Any], attributes: Sequence[Any] = ()) -> torch.device:
    """The device of a call: its first tensor's; of a call without operands the one that it names."""
    tensor = next((side for side in sides if isinstance(side, torch.Tensor)), None)
    return next(value for value in attributes if isinstance(value, torch.device)) if tensor is None else tensor.device
