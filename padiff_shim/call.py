"""THE FLOW of one call, from Paddle's arguments to the result of the torch kernel.

    hook -> gate (mode, filters) -> bind -> bridge -> autocast -> dtype rule -> reference kernel -> graft -> count

Whatever does not fit leaves the flow as :class:`StayNative` and runs natively, recorded with its reason.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from . import amp, layout, site
from .autograd import Node, attach, autograd
from .bind import REFUSALS, StayNative, binder, refused
from .bridge import check_target, dtype_of, grad_tracer, hand_over, own, stream_of, to_torch, torch_dtype
from .dialect import EMPTY_WORKS
from .errors import StayedNativeError
from .modes import Frame, paused, top
from .op import Entry, Op
from .operands import NUMBERS, STATIC, Inputs, bridge, without_gradient
from .rules import DtypeRules
from .shortcut import Hollow, shortcut

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

    def versions(self, inputs: Inputs, result: Any) -> list[tuple[Any, int]]:
        """The Paddle tensors whose in-place version must not change before the backward, with their versions."""
        names = self.saved_names(inputs)
        saved = []
        for index, operand in enumerate(inputs.paddle):
            if self.names[0 if self.op.operands else index] in names and hasattr(operand, "inplace_version"):
                saved.append((operand, operand.inplace_version))
        if "out" in names and (saved or names is self.saves):
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
        if self.python:
            with paused():  # what the function calls inside is part of this call
                result = self.original(*args, **kwargs)
        else:
            result = self.original(*args, **kwargs)
        frame.tally.native[self.op.name, why.reason] += 1
        if frame.strict and not why.exact:
            raise StayedNativeError(f"strict mode: op {self.op.name!r} ({self.entry.target}) stays native: {why.reason}")
        return result

    def execute(self, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Bridge, compute and graft one bound call."""
        inputs, attributes, casts = self.prepare(frame, values, args, kwargs)
        if self.entry.inplace and inputs.needs:
            raise StayNative("in-place under autograd: Paddle's node keeps the history")
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
        targets = self.autocast(tracer, inputs) if amp.active(tracer) else None
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
        chosen = amp.destination(tracer, name, dtypes, on_accelerator=any(t.is_cuda for t in tensors))
        queue = iter(amp.casts(name, chosen, dtypes))
        return [torch_dtype(next(queue)) if isinstance(t, torch.Tensor) else None for t in inputs.torch]

    def run(self, tensors: Sequence[Any], attributes: tuple[Any, ...]) -> torch.Tensor:
        """The op's torch formula."""
        try:
            return self.op.reference(list(tensors), *attributes) if self.op.operands else self.op.reference(*tensors, *attributes)
        except REFUSALS as error:
            raise refused(error) from None

    def compute(self, frame: Frame, inputs: Inputs, attributes: tuple[Any, ...], casts: Casts) -> Any:
        """Run the reference; with gradients wanted, graft its backward."""
        sides = inputs.torch

        def run(*tensors: Any) -> torch.Tensor:
            return self.run(tensors if casts.none else casts.apply(tensors), attributes)

        if not inputs.needs:
            return self.deliver(inputs, without_gradient(run, inputs.paddle, sides))
        out, vjp, formula = self.differentiate(inputs, run, attributes, plain=casts.none)
        replayed = run if not formula or self.saved_names(inputs) else None  # else the backward reads nothing but the gradient
        return self.graft(frame, inputs, out, vjp, replayed, list(sides) if replayed else None)

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

        def gradients(grad: torch.Tensor, wanted: Sequence[int] = needs) -> list[torch.Tensor]:
            return autograd(out, [leaves[index] for index in wanted], grad)

        if self.transposed is not None and 0 in needs:  # only the gradient of x reads the weight
            return out, layout.renewing(gradients, inputs.paddle[self.transposed], copy), False
        return out, gradients, False

    def graft(self, frame: Frame, inputs: Inputs, out: torch.Tensor, vjp: Any, run: Callable[..., Any] | None, sides: Any) -> Any:
        """Hand the result to Paddle with its backward attached."""
        needs = inputs.needs
        sources = [inputs.paddle[index] for index in needs]
        mine = out.detach()
        if self.op.copies_result is not None and self.op.copies_result(inputs.torch):
            mine = mine.clone()
        result = hand_over(own(mine, inputs.torch))
        saved = self.versions(inputs, result)
        compute = None
        if run is not None:

            def compute(*xs: torch.Tensor) -> torch.Tensor:
                values = list(sides)
                for index, x in zip(needs, xs):
                    values[index] = x.t() if index == self.transposed else x
                return run(*values)

        if self.transposed is not None:
            vjp = self.transposing(vjp, needs)
        node = Node(self.op.name, frame.tally, sources, saved, vjp, compute)
        dtypes = [inputs.torch[index].dtype for index in needs]
        result = attach(result, node, sources, dtypes, out.dtype)
        return [result] if self.entry.returns_list else result

    def transposing(self, vjp: Any, needs: list[int]) -> Any:
        """The weight's gradient comes as [out, in]; Paddle's weight is [in, out]."""

        def transposed(grad: torch.Tensor) -> list[torch.Tensor]:
            grads = vjp(grad)
            return [g.t().contiguous() if i == self.transposed else g for i, g in zip(needs, grads)]

        return transposed

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
