"""THE FLOW of one call, from Paddle's arguments to the result of the torch kernel.

    hook -> gate (mode, filters) -> bind -> bridge -> autocast -> dtype rule -> reference kernel -> tape -> count

Whatever does not fit leaves the flow as :class:`StayNative` and runs natively, recorded with its reason.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from ..errors import StayedNativeError
from ..frameworks import autocast, weights
from ..frameworks.memory import check_target, dtype_of, grad_tracer, hand_over, own, stream_of, to_torch, torch_dtype
from ..frameworks.versions import EMPTY_WORKS
from ..gradients import inplace, islands
from ..gradients.formula import gradients
from ..gradients.twins import Call, finish
from ..substitution.shortcut import shortcut
from ..table.op import Entry, Op
from ..table.signature import REFUSALS, StayNative, binder, refused
from . import site
from .dtypes import DtypeRules
from .frames import Frame, paused, top
from .operands import NUMBERS, STATIC, Inputs, bridge, with_gradient, without_gradient

EMPTY = "zero-size tensor: nothing is rounded, and Paddle has its own rules for it"
FILTERED = "filtered out by ops= or exclude="
OUTSIDE_LAYERS = "filtered out by layers="


class Casts(NamedTuple):
    """Autocast's casts of single operands, then the promotion of all to the result's dtype."""

    targets: list[torch.dtype | None] | None
    promotion: torch.dtype | None

    @property
    def none(self) -> bool:
        """Nothing is cast."""
        return self.targets is None and self.promotion is None

    def apply(self, tensors: Sequence[Any]) -> list[Any]:
        """The operands as the kernel gets them."""
        converted = list(tensors)
        for index, tensor in enumerate(converted):
            if isinstance(tensor, torch.Tensor):
                if self.targets is not None and (target := self.targets[index]) is not None:
                    tensor = tensor.to(target)
                converted[index] = tensor if self.promotion is None else tensor.to(self.promotion)
        return converted


class Hollow(NamedTuple):
    """Stands in a vjp for a tensor whose values the backward does not read."""

    shape: torch.Size
    dtype: torch.dtype


class Prepared(NamedTuple):
    """A bound call on torch's side."""

    inputs: Inputs
    attributes: tuple[Any, ...]
    casts: Casts


class Substitution:
    """One entry point of one op; :meth:`hook` is what the entry point is redirected to."""

    def __init__(self, op: Op, entry: Entry, original: Callable[..., Any], *, python: bool = False) -> None:
        self.op, self.entry, self.original, self.python = op, entry, original, python
        self.bind = binder(entry, op.params)
        self.rules = DtypeRules(op, original, returns_list=entry.returns_list)
        self.saves = frozenset(op.saves)
        self.names = op.names
        self.numbers = [self.names.index(name) for name in entry.numbers]
        self.transposed = self.names.index("weight") if op.layouts else None
        self.dtype_at = self.names.index("dtype") if "dtype" in self.names else None

    def hook(self) -> Callable[..., Any]:
        """The redirected function: passes through unless a mode is open here."""
        original, name, bind, execute, native = self.original, self.op.name, self.bind, self.execute, self.native
        quick = shortcut(self.op, self.entry, self.rules, self.transposed, self.dtype_at) or (lambda frame, values: None)

        def hook(*args: Any, **kwargs: Any) -> Any:
            frame = top()
            if frame is None or frame.idle:
                return original(*args, **kwargs)
            try:
                if frame.aside or frame.layers is not None or name not in frame.enabled:
                    self.gate(frame)
                values = bind(args, kwargs)
                if frame.compare is not None:
                    return frame.compare.call(self, frame, values, args, kwargs)
                result = quick(frame, values)
                if result is None:
                    result = execute(frame, values, args, kwargs)
            except StayNative as why:
                return native(frame, why, args, kwargs)
            frame.tally.substituted[name] += 1
            return result

        return functools.wraps(original)(hook) if self.python else hook

    def saved_names(self, inputs: Inputs) -> frozenset[str]:
        """Names of what the backward reads."""
        beside_number = self.op.saves_beside_number
        if beside_number is not None and any(type(value) in NUMBERS for value in inputs.torch):
            return frozenset(beside_number)
        return self.saves

    def versions(self, inputs: Inputs, result: Any = None) -> list[tuple[Any, int]]:
        """The Paddle tensors whose in-place version must not change before the backward, with their versions."""
        names = self.saved_names(inputs)
        saved = []
        for index, operand in enumerate(inputs.paddle):
            if self.names[0 if self.op.operands else index] in names and hasattr(operand, "inplace_version"):
                saved.append((operand, operand.inplace_version))
        if result is not None and "out" in names and (saved or names is self.saves):
            saved.append((result, result.inplace_version))
        return saved

    def gate(self, frame: Frame) -> None:
        """The filters of the mode."""
        if frame.aside:
            raise StayNative(frame.aside)
        if self.op.name not in frame.enabled:
            raise StayNative(FILTERED, exact=True)
        if frame.layers is not None and not frame.layers.accepts(site.layer_path()):  # type: ignore[attr-defined]
            raise StayNative(OUTSIDE_LAYERS, exact=True)

    def native(self, frame: Frame, why: StayNative, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the call on Paddle's kernel and record why."""
        if why.reason == STATIC or grad_tracer() is None:
            return self.original(*args, **kwargs)  # a graph is being traced: nothing is computed here
        call = self.original if self.entry.inplace else islands.calling(self.op.name, self.original, args, kwargs)
        if self.python:
            with paused():  # what the function calls inside is part of this call
                result = call(*args, **kwargs)
        else:
            result = call(*args, **kwargs)
        frame.tally.native[self.op.name, why.reason] += 1
        if frame.strict and not why.exact:
            raise StayedNativeError(f"strict mode: op {self.op.name!r} ({self.entry.target}) stays native: {why.reason}")
        return result

    def execute(self, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Bridge and compute one bound call; with gradients wanted, on the tape."""
        inputs, attributes, casts = self.prepare(frame, values, args, kwargs)
        if self.entry.inplace and inputs.needs and inplace.refused(inputs.paddle[0]):
            raise StayNative("in-place on a leaf that wants a gradient: Paddle refuses")
        with stream_of(first_tensor(inputs.torch)):
            return self.compute(frame, inputs, attributes, casts)

    def prepare(self, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Prepared:
        """The bound call on torch's side: operands, attributes, and the casts that they need; or StayNative."""
        op = self.op
        if op.operands:
            operands, attributes = values[0], values[1:]
        else:
            operands, attributes = values[: op.tensors], values[op.tensors :]
        tracer = grad_tracer()
        if tracer is None:
            raise StayNative(STATIC)
        inputs = bridge(frame, operands, tracer._has_grad, self.transposed)
        if self.dtype_at is not None and attributes[self.dtype_at - op.tensors] is not None:
            attributes = self.convert_dtype(attributes)
        if any(isinstance(inputs.torch[index], torch.Tensor) for index in self.numbers):
            raise StayNative("a tensor where this entry point takes a number")
        if self.entry.inplace:
            check_target(inputs.paddle, elementwise=op.elementwise)
        if (inputs.needs or not EMPTY_WORKS) and any(isinstance(t, torch.Tensor) and not t.numel() for t in inputs.torch):
            raise StayNative(EMPTY, exact=True)
        targets = self.autocast(tracer, inputs) if autocast.active(tracer) else None
        cast = self.rules.find(inputs, targets, args, kwargs)
        return Prepared(inputs, attributes, Casts(targets, cast))

    def convert_dtype(self, attributes: tuple[Any, ...]) -> tuple[Any, ...]:
        """The dtype attribute as torch's."""
        at = self.dtype_at - self.op.tensors  # type: ignore[operator]
        dtype = torch_dtype(attributes[at])
        if dtype is None:
            raise StayNative(f"dtype {attributes[at]} has no torch twin")
        return (*attributes[:at], dtype, *attributes[at + 1 :])

    def autocast(self, tracer: Any, inputs: Inputs) -> list[torch.dtype | None]:
        """Per operand the dtype that Paddle's autocast would give it."""
        tensors = [t for t in inputs.torch if isinstance(t, torch.Tensor)]
        dtypes = [dtype_of(t.dtype) for t in tensors]
        name = self.op.amp[any(type(t) in NUMBERS for t in inputs.torch)] or self.op.name
        chosen = autocast.destination(tracer, name, dtypes, on_accelerator=any(t.is_cuda for t in tensors))
        queue = iter(autocast.casts(name, chosen, dtypes))
        return [torch_dtype(next(queue)) if isinstance(t, torch.Tensor) else None for t in inputs.torch]

    def run(self, tensors: Sequence[Any], attributes: tuple[Any, ...]) -> torch.Tensor:
        """The op's torch formula."""
        try:
            return self.op.reference(list(tensors), *attributes) if self.op.operands else self.op.reference(*tensors, *attributes)
        except REFUSALS as error:
            raise refused(error) from None

    def compute(self, frame: Frame, inputs: Inputs, attributes: tuple[Any, ...], casts: Casts) -> Any:
        """Run the reference; with gradients wanted, on the tape."""
        sides = inputs.torch

        def run(*tensors: Any) -> torch.Tensor:
            return self.run(tensors if casts.none else casts.apply(tensors), attributes)

        if not inputs.needs:
            return self.deliver(inputs, without_gradient(run, inputs.paddle, sides))
        return self.on_tape(frame, inputs, run)

    def on_tape(self, frame: Frame, inputs: Inputs, run: Callable[..., torch.Tensor]) -> Any:
        """The result with gradients wanted: torch's own graph goes on behind it."""
        sides = list(inputs.torch)
        for index in inputs.needs:
            sides[index] = with_gradient(frame, inputs.paddle[index], transposed=index == self.transposed)
        target = inputs.paddle[0] if self.entry.inplace else None
        with torch.enable_grad():
            if target is not None:  # what torch keeps for the backward must not be overwritten
                sides = [side.clone() if tensor is target else side for side, tensor in zip(sides, inputs.paddle)]
            out = run(*sides)
        if not out.requires_grad:
            raise StayNative("Torch's result does not depend on what wants a gradient")
        saved, names = self.versions(inputs), self.saved_names(inputs)
        reads_result = "out" in names and (bool(saved) or names is self.saves)
        if self.op.copies_result is not None and self.op.copies_result(inputs.torch):
            out = out.clone()  # torch's graph keeps the other one
        renew = weights.renewer(inputs.paddle[self.transposed], sides[self.transposed]) if self.transposed is not None else None
        call = Call(self.op.name, frame.tally, [(t, v) for t, v in saved if t is not target], renew)
        if target is None:
            result = finish(call, out, sides, reads_result=reads_result)
            return [result] if self.entry.returns_list else result
        if out.shape != inputs.torch[0].shape or out.dtype != inputs.torch[0].dtype:
            raise StayNative("in-place result of another shape or dtype")
        return inplace.write(call, target, out, reads_result=reads_result)

    def differentiate(
        self, inputs: Inputs, run: Callable[..., torch.Tensor], attributes: tuple[Any, ...], *, plain: bool
    ) -> tuple[torch.Tensor, Callable[..., Sequence[torch.Tensor | None]], bool]:
        """The reference's result, its backward, and whether that is the op's own ``vjp`` (else torch's autograd).

        The backward takes the gradient of the result and gives those of the operands ``inputs.needs``, or of fewer if asked.
        """
        sides, needs, formula = inputs.torch, inputs.needs, self.op.vjp
        if formula is not None and plain and (self.op.vjp_when is None or self.op.vjp_when((*sides, *attributes))):
            # No torch graph, and nothing is kept that the backward does not read.
            out = run(*sides)
            saves = self.saved_names(inputs)
            kept = [
                Hollow(v.shape, v.dtype) if isinstance(v, torch.Tensor) and name not in saves else v
                for name, v in zip(self.names, (*sides, *attributes))
            ]
            result = out if "out" in saves else None
            return out, lambda grad, wanted=needs: formula(grad, result, kept, wanted), True
        copy = sides[self.transposed] if self.transposed is not None else None
        leaves = {index: sides[index].detach().requires_grad_() for index in needs}
        for index, leaf in leaves.items():
            sides[index] = leaf
        with torch.enable_grad():
            out = run(*sides)

        def found(grad: torch.Tensor, wanted: Sequence[int] = needs) -> list[torch.Tensor]:
            return gradients(out, [leaves[index] for index in wanted], grad)

        if self.transposed is not None and 0 in needs:  # only the gradient of x reads the weight
            return out, weights.renewing(found, inputs.paddle[self.transposed], copy), False
        return out, found, False

    def deliver(self, inputs: Inputs, out: torch.Tensor) -> Any:
        """The result without gradients: a new Paddle tensor, or written into the first operand."""
        if not self.entry.inplace:
            pointer = out.data_ptr()
            for side in inputs.torch:
                if isinstance(side, torch.Tensor) and side.data_ptr() == pointer:
                    out = own(out, inputs.torch)
            result = hand_over(out)
            return [result] if self.entry.returns_list else result
        target, tensor = inputs.torch[0], inputs.paddle[0]
        if out.shape != target.shape or out.dtype != target.dtype:
            raise StayNative("in-place result of another shape or dtype")
        try:
            to_torch(tensor).copy_(out)  # not into ``target``: that may be a copy with the strides of a Torch program
        except REFUSALS as error:  # elements that overlap
            raise refused(error) from None
        tensor._bump_inplace_version()
        return tensor


def first_tensor(sides: Sequence[Any]) -> torch.Tensor:
    """The first operand that is a tensor: its device is the call's."""
    return next(side for side in sides if isinstance(side, torch.Tensor))
