"""Both kernels of a call as functions of its operands: what verdicts ask where there is no bound for a result."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from ..dispatch.containers import flat
from ..dispatch.door import Door
from ..dispatch.dtypes import apart
from ..dispatch.operands import Inputs
from ..frameworks.memory import to_paddle, to_torch
from ..gradients.formula import gradients
from ..numerics.judging.fallback import Variant
from ..numerics.oracle.together import Part, Together, Traces
from .describe import Places, kinds
from .results import of_paddle

Run = Callable[..., Any]


class Kernels:
    """The part of a :class:`.subject.Subject` that runs its call again, on whatever operands."""

    __slots__ = ("like", "results", "together")

    door: Door
    inputs: Inputs
    places: Places
    operands: list[Any]
    outs: list[Any]
    attributes: tuple[Any, ...]
    results: Together | None  # all results of Torch's that are judged by the formula
    together: tuple[Mapping[int, torch.Tensor], Together] | None  # the gradients for these incoming ones, as a formula
    like: Sequence[torch.Tensor]  # Paddle's results, where the op leaves open which of several there are; else none

    def run(self, *tensors: Any) -> Any:
        """Torch's formula on these operands."""
        return self._run_other(None, *tensors)

    def meaning(self, *tensors: Any) -> Any:
        """What both kernels are held against: Torch's formula, or the op's own oracle."""
        return self._run_other(self.door.op.oracle, *tensors)

    def variants(self, kernel: Callable[..., torch.Tensor]) -> dict[str, Variant]:
        """What a kernel may compute instead, by name: the call's numbers in float32, and what is known of the op.

        ``kernel``: the judged tensor as a function of the operands, and of ``run``, which stands for the op's formula.
        """
        op, attributes = self.door.op, tuple(_in_float32(value) for value in self.attributes)
        found = {}
        formulas = {name: (fault, partial(fault.formula, op.oracle or op.reference)) for name, fault in op.faults.items()}
        for name, (fault, formula) in formulas.items():
            found[name] = Variant(partial(kernel, run=partial(self._run_other, formula)), fault.precision, fault.narrow)
        if attributes != self.attributes:
            run = partial(self._run_other, None, attributes=attributes)
            found["numbers->float32"] = Variant(partial(kernel, run=run), precision=True, wide=True)
            for name, (fault, formula) in formulas.items():
                run = partial(self._run_other, formula, attributes=attributes)
                found[f"{name}+numbers->float32"] = Variant(partial(kernel, run=run), fault.precision, wide=True)
        return found

    def aligned(self, results: Any) -> Any:
        """A formula's results as near to Paddle's as the op's meaning allows."""
        if not self.like:
            return results
        assert self.door.op.aligned is not None
        return self.door.op.aligned(flat(results), self.like)

    def _run_other(self, formula: Callable[..., Any] | None, *tensors: Any, attributes: tuple[Any, ...] | None = None) -> Any:
        """Another formula than the op's (None: its own), or the same of other numbers."""
        return self.aligned(self.door.torch(tensors, self.attributes if attributes is None else attributes, formula))

    def kernels(self, position: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Both kernels as functions of the operands that are tensors, for results without a bound."""
        places = [index for index, side in enumerate(self.operands) if isinstance(side, torch.Tensor)]
        if self.results is None:
            self.results = self._results_of(places)
        results = self.results

        def torch_kernel(*tensors: torch.Tensor, run: Run = self.meaning) -> torch.Tensor:
            return results.formula(*tensors, chosen=[position], run=run)[0]

        def paddle_kernel(*tensors: torch.Tensor) -> torch.Tensor:
            copies = {id(self.inputs.paddle[place]): to_paddle(tensor.clone()) for place, tensor in zip(places, tensors)}
            found = apart(self.door.original, args, kwargs, copies)
            return to_torch(of_paddle(self.door, found)[position])

        kernels: dict[str, Any] = {
            "torch_kernel": Part(results, results.places.index(position)) if position in results.places else torch_kernel,
            "operands": results.operands,
            "variants": self.variants(torch_kernel),
        }
        repeatable = self.door.transposed is None and not self.door.overwritten and not self.door.op.once
        return {**kernels, "paddle_kernel": paddle_kernel if repeatable else None}

    def gradient_kernels(self, operand: int, grads: Mapping[int, torch.Tensor]) -> dict[str, Any]:
        """The same for the gradient of an operand; Paddle's is not run a second time."""
        if self.together is None or self.together[0] is not grads:
            operands = [*(self.operands[i] for i in self.inputs.needs), *grads.values()]
            elements = sum(self.operands[i].numel() for i in self.inputs.needs)
            formula, traces = partial(self._gradients_of, list(grads)), self._traces(tuple(grads), list(grads.values()))
            others = [side for i, side in enumerate(self.operands) if isinstance(side, torch.Tensor) and i not in self.inputs.needs]
            self.together = grads, Together(formula, operands, self.inputs.needs, elements, [*others, *self.like], traces)
        together, needs = self.together[1], self.inputs.needs

        def other(*tensors: torch.Tensor, run: Run) -> torch.Tensor:
            return together.formula(*tensors, chosen=[operand], run=run)[0]

        return {
            "torch_kernel": Part(together, needs.index(operand)),
            "paddle_kernel": None,
            "operands": together.operands,
            "variants": self.variants(other),
        }

    def _traces(self, positions: tuple[int, ...], incoming: Sequence[Any]) -> Traces:
        """What is known of the steps of such a call, or of its backward for gradients of the results at these positions."""
        needs = tuple(self.inputs.needs) if positions else ()
        key = self.door.op.name, positions, needs, kinds(self.operands), kinds(incoming), kinds(self.attributes)
        try:
            return self.places.traces.of(key)
        except TypeError:  # an attribute of no hashable kind
            return Traces()

    def _results_of(self, places: Sequence[int]) -> Together:
        """All results as a formula of the operands at these places."""

        def formula(*tensors: torch.Tensor, chosen: Sequence[int], run: Run = self.meaning) -> list[torch.Tensor]:
            sides = list(self.operands)
            for place, tensor in zip(places, tensors):
                sides[place] = tensor
            everything = flat(run(*sides))
            return [everything[position] for position in chosen]

        outs = {
            p: out
            for p, out in enumerate(self.outs)
            if isinstance(out, torch.Tensor) and (out.is_floating_point() or out.is_complex())
        }
        elements, operands = sum(out.numel() for out in outs.values()), [self.operands[place] for place in places]
        return Together(formula, operands, list(outs), elements, self.like, self._traces((), ()))

    def _gradients_of(
        self, positions: Sequence[int], *tensors: torch.Tensor, chosen: Sequence[int], run: Run | None = None
    ) -> list[torch.Tensor]:
        """The gradients of the operands ``chosen``, of operands that want one and the incoming gradients of these results."""
        needs = self.inputs.needs
        given, incoming = tensors[: len(needs)], tensors[len(needs) :]
        sides = list(self.operands)
        for index, tensor in zip(needs, given):
            sides[index] = tensor.detach().requires_grad_()
        others = {t.dtype for t in given}
        if len(others) == 1:
            dtype = others.pop()
            sides = [
                s.to(dtype) if isinstance(s, torch.Tensor) and s.is_floating_point() and not s.requires_grad else s for s in sides
            ]
        with torch.enable_grad():
            outs = flat((run or self.meaning)(*sides))
            return gradients([(outs[p], grad) for p, grad in zip(positions, incoming)], [sides[index] for index in chosen])


def _in_float32(value: Any) -> Any:
    """A Python number as a kernel holds it that has float32 for it; also those of a list."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(_in_float32, value)) if type(value) in (list, tuple) else value
    if not isinstance(value, float) or not math.isfinite(value):
        return value
    return float(torch.tensor(value, dtype=torch.float32))
