"""Second derivatives of a compared call: replayed natively beside Torch's, when a backward goes through a gradient's own graph.

With ``create_graph=True`` Paddle's node makes gradients that have a graph of their own. What comes back to them in a later backward
is noted. When that has returned, the call, its backward and the backward of that run once more on Paddle's kernels, on detached
operands, and once as Torch's formula; both are judged as any other formula is.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import paddle
import torch

from .. import numerics
from ..dispatch.frames import paused
from ..frameworks.memory import as_operand, to_paddle, to_torch
from ..frameworks.torch_state import put_aside
from ..frameworks.versions import grad_node
from ..interrupts import after_engine, engine_runs
from ..numerics.measured import JointFormula, JointResult
from ..numerics.ties import TiedCall
from ..runlog.counts import THIRD_UNCHECKED
from ..tape.calls import gradients
from ..tape.paddle_graph import backward_options, register_silent_hook, walked
from ..verdicts import Judgement
from .compared_call import ComparedCall, ComparedTensor, Run


class GradientCall:
    """The backward of a compared call, whose results have a graph: a call of its own.

    ``incoming``: the gradients of the call's results, by position; ``wanting``: those of them that want a gradient themselves.
    """

    def __init__(self, subject: ComparedCall, incoming: Mapping[int, Any]) -> None:
        self.subject = subject
        self.incoming = {position: as_operand(grad).clone() for position, grad in incoming.items()}
        self.wanting = [position for position, grad in incoming.items() if not grad.stop_gradient]
        self.differentiated: list[int] = []  # operands whose gradients the backward computed: they decide what kernels do
        self.arriving: dict[
            int, torch.Tensor
        ] = {}  # the gradients of the gradients of these operands, in the backward that is running

    def look_on(self, gradients: Mapping[int, Any], incoming: Mapping[int, Any]) -> None:
        """See what comes to these gradients, by operand. ``incoming``: with their graphs."""
        wanting = [node.node_ptr() for position in self.wanting if (node := grad_node(incoming[position])) is not None]
        for operand, gradient in gradients.items():
            if gradient is None or not gradient._is_initialized():
                continue
            self.differentiated.append(operand)
            if not gradient.stop_gradient:
                register_silent_hook(gradient, self._arrives, operand)
            if any(_leads_past(gradient, place) for place in wanting):
                self._try(operand)

    def _try(self, operand: int) -> None:
        """A gradient depends on the incoming one, but its graph does not lead there: what comes to it may reach no hook.

        So it is judged with a gradient of ones.
        """
        operand_side = self.subject.operands[operand]
        arrived = {operand: torch.ones_like(operand_side.t() if operand == self.subject.entry_point.transposed else operand_side)}
        after_engine(functools.partial(self.subject.comparison.second_derivatives, self, arrived))

    def _arrives(self, operand: int, grad: Any) -> None:
        comparison = self.subject.comparison
        if grad is None or not grad._is_initialized() or comparison.aside:
            return
        if not engine_runs():
            comparison.uncounted(self.subject)
            return
        if backward_options([grad])[1]:
            comparison.uncounted(self.subject, THIRD_UNCHECKED)
        if operand in self.arriving or not self.arriving:  # as of a first backward: a second one within one engine call is another
            self.arriving = {}
            after_engine(functools.partial(comparison.second_derivatives, self, self.arriving))
        with put_aside():
            self.arriving[operand] = as_operand(grad).clone()

    @property
    def replayable(self) -> bool:
        """Whether the call can be made again on the same operands."""
        subject = self.subject
        operands = [id(subject.inputs.paddle[index]) for index in subject.inputs.needs]
        written = [id(subject.inputs.paddle[index]) for index in subject.entry_point.overwritten]
        return (
            subject.replay is not None
            and not (subject.lacks or subject.altered)
            and set(operands).isdisjoint(written)
            and all(len(_occurrences(subject.replay, place)) == operands.count(place) for place in operands)
            and subject.place.fields["amp"] == "off"
            and all(tensor.inplace_version == version for tensor, version in subject.saved)
        )

    def natively(self, arrived: Mapping[int, torch.Tensor]) -> list[Any]:
        """Paddle's second derivatives, of the operands that want a gradient and of the incoming gradients that do."""
        subject = self.subject
        assert subject.replay is not None
        incoming = {position: to_paddle(grad.clone()) for position, grad in self.incoming.items()}
        for position in self.wanting:
            incoming[position].stop_gradient = False
        with paddle.enable_grad(), paused():
            results, leaves = subject.made_again(*subject.replay)
            inner = [*leaves, *(incoming[position] for position in self.wanting)]
            firsts = paddle.grad(
                [results[position] for position in incoming],
                [leaves[subject.inputs.needs.index(operand)] for operand in self.differentiated],
                list(incoming.values()),
                create_graph=True,
                allow_unused=True,
            )
            pairs = [
                (first, to_paddle(arrived[operand].clone()))
                for operand, first in zip(self.differentiated, firsts)
                if operand in arrived and first is not None and not first.stop_gradient
            ]
            outs, grads = [first for first, _ in pairs], [grad for _, grad in pairs]
            return paddle.grad(outs, inner, grads, allow_unused=True) if outs else [None] * len(inner)

    def cases(self, arrived: Mapping[int, torch.Tensor]) -> list[SecondDerivative]:
        """Both sides' second derivatives for these gradients of gradients."""
        subject, needs, at = self.subject, self.subject.inputs.needs, self.subject.entry_point.transposed
        returning = {operand: grad.t() if operand == at else grad for operand, grad in arrived.items()}
        operands = [*(subject.operands[index] for index in needs), *self.incoming.values(), *returning.values()]
        formula, positions = partial(self._formula, list(self.incoming), list(returning)), list(self.incoming)
        places = [*range(len(needs)), *(len(needs) + positions.index(position) for position in self.wanting)]
        together = JointFormula(formula, operands, places, sum(operands[place].numel() for place in places))
        references = formula(*operands, chosen=places, run=subject.run)
        cases = []
        for index, (place, native, reference) in enumerate(zip(places, self.natively(arrived), references)):
            if native is None and not reference.any():
                continue
            side = torch.zeros_like(reference) if native is None else to_torch(native)
            if native is not None and place < len(needs) and needs[place] == at:
                side = side.t()
            position = self.wanting[place - len(needs)] if place >= len(needs) else None
            name = subject.name_of(needs[place]) if position is None else f"grad[{position}]" if position else "grad"
            cases.append(SecondDerivative(subject, name, JointResult(together, index), side, reference))
        return cases

    def _formula(
        self,
        positions: Sequence[int],
        returning: Sequence[int],
        *tensors: torch.Tensor,
        chosen: Sequence[int],
        run: Run | None = None,
    ) -> list[torch.Tensor]:
        """The second derivatives at the places ``chosen`` of the operands and incoming gradients, which come first in ``tensors``.

        ``positions``: of the results that have an incoming gradient; ``returning``: operands whose gradient gets a gradient.
        """
        inner = [tensor.detach().requires_grad_() for tensor in tensors[: len(self.subject.inputs.needs) + len(positions)]]
        with torch.enable_grad():
            firsts = self.subject.gradients_of(positions, *inner, chosen=returning, run=run, create_graph=True)
            return gradients(list(zip(firsts, tensors[len(inner) :])), [inner[place] for place in chosen])


def _occurrences(value: Any, place: int) -> list[Any]:
    """A tensor, by its id, as often as arguments hold it."""
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in _occurrences(item, place)]
    if isinstance(value, dict):
        return _occurrences(list(value.values()), place)
    return [value] if id(value) == place else []


_MOST = 256  # nodes to look at


def _leads_past(gradient: Any, place: int) -> bool:
    """Whether the graph of a gradient, which is small, does not lead to the node at this place."""
    reached = [other for other, _ in itertools.islice(walked([grad_node(gradient)]), _MOST)]
    return len(reached) < _MOST and place not in reached


class SecondDerivative(ComparedTensor):
    """A second derivative of a call, with respect to an operand, or to an incoming gradient (``grad``)."""

    def __init__(
        self, subject: ComparedCall, name: str, kernel: JointResult, native: torch.Tensor, reference: torch.Tensor
    ) -> None:
        super().__init__(subject, native, reference)
        self.kernel, self.counted = kernel, subject.counted
        self.spot = subject.place.second(name, native)

    def quantity(self) -> None:
        """No op's model speaks of second derivatives."""

    def kernels(self) -> dict[str, Any]:
        def other(*tensors: torch.Tensor, run: Run) -> torch.Tensor:
            together = self.kernel.together
            return together.formula(*tensors, chosen=[together.places[self.kernel.index]], run=run)[0]

        variants = self.subject.variants(other)
        return {"torch_kernel": self.kernel, "paddle_kernel": None, "operands": self.kernel.together.operands, "variants": variants}

    def tied(self, kernels: Mapping[str, Any]) -> TiedCall:
        needs, attributes = self.subject.inputs.needs, self.subject.attributes
        return TiedCall(kernels["torch_kernel"], kernels["operands"], len(needs), attributes, False, self.native.dtype)

    def moved(self, sides: tuple[torch.Tensor, torch.Tensor], *, rng: np.random.Generator, audit: bool) -> Judgement:
        return numerics.fallback(*sides, rng=rng, audit=audit, **self.kernels())
