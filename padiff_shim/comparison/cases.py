"""What is judged: one tensor of a call, a result or a gradient, with all that a verdict on it needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..frameworks.memory import dtype_of
from ..numerics import moved
from ..numerics.ties import TiedCall
from ..verdicts import Judgement, Side, Verdict

if TYPE_CHECKING:
    from .describe import Spot
    from .subject import Subject

MISSING = {"missing": 1}  # statistics of a gradient that Paddle does not give
CHANGED = "changed in place before it was judged"
OVERTAKEN = "an operand was changed in place since the call was made: the kernels' backward need not read it, the formula does"


def describe_tensor(tensor: torch.Tensor) -> dict[str, Any]:
    """Shape and dtype of a judged tensor."""
    return {"shape": list(tensor.shape), "dtype": dtype_of(tensor.dtype)}


class Case:
    """One tensor of a call as both kernels computed it. ``spot``: the fields of its record that are known before any verdict.

    ``counted``: those that count calls and steps.
    """

    __slots__ = ("counted", "extra", "mine", "spot", "subject", "theirs", "waits", "watched")

    counted: dict[str, Any]
    spot: Spot

    def __init__(self, subject: Subject, mine: torch.Tensor, theirs: torch.Tensor) -> None:
        self.subject, self.mine, self.theirs = subject, mine, theirs
        self.extra: Mapping[str, Any] | None = None  # statistics known already
        self.waits = False
        self.watched: Sequence[tuple[Any, int]] = ()  # Paddle tensors and their in-place versions, while it waits

    def quantity(self) -> Any:
        """The oracle's formula and bound (:class:`padiff_shim.numerics.oracle.staging.Quantity`), or None where there are none."""
        raise NotImplementedError

    @property
    def told(self) -> bool:
        """Whether :meth:`given` is all that :meth:`quantity` is made of."""
        raise NotImplementedError

    def given(self) -> Sequence[Any]:
        """The call's arguments, and the incoming gradient."""
        raise NotImplementedError

    def array(self, place: int) -> np.ndarray:
        """A tensor of :meth:`given` on the host, for NumPy."""
        raise NotImplementedError

    def kernels(self) -> dict[str, Any]:
        """Both kernels as functions of the operands, for tensors without a bound of their own."""
        raise NotImplementedError

    def tied(self, kernels: Mapping[str, Any]) -> TiedCall:
        """The case as ties are asked of it. ``kernels``: as :meth:`kernels` gives them."""
        raise NotImplementedError

    def moved(self, sides: tuple[torch.Tensor, torch.Tensor], *, rng: np.random.Generator, audit: bool) -> Judgement:
        """The verdict on both sides of an op that moves or chooses values."""
        raise NotImplementedError

    def tensors(self) -> dict[str, Any]:
        """What a script needs that shows the case alone."""
        subject = self.subject
        return {**dict(zip(subject.door.names, subject.values())), "paddle": self.mine, "torch": self.theirs}

    def wait(self, involved: Sequence[Any]) -> None:
        """It is judged later: in-place changes of these Paddle tensors would make that impossible.

        Not every write is counted (``set_value``): Paddle's result is kept as it is now, and operands see :meth:`overtaken`.
        """
        self.waits, self.mine = True, self.mine.clone()
        self.watched = [(tensor, tensor.inplace_version) for tensor in involved if hasattr(tensor, "inplace_version")]

    @property
    def changed(self) -> Judgement | None:
        """The verdict on a case that can no longer be judged."""
        if self.watched and any(tensor.inplace_version != version for tensor, version in self.watched):
            return Judgement(Verdict.UNVERIFIED, reason=CHANGED)
        return None

    def incoming(self) -> Iterator[tuple[str, torch.Tensor]]:
        """The incoming gradients, by name."""
        yield from ()

    def overtaken(self) -> bool:
        """Whether the formula would be asked of other operands than the call had."""
        return self.waits and self.subject.overtaken()

    @property
    def bytes(self) -> int:
        """Memory of both results."""
        return 2 * self.mine.numel() * self.mine.element_size()


class Result(Case):
    """A result of a call. ``call``: Paddle's arguments."""

    __slots__ = ("call", "position")

    def __init__(self, subject: Subject, position: int, mine: torch.Tensor, theirs: torch.Tensor, call: Any) -> None:
        super().__init__(subject, mine, theirs)
        self.position, self.call = position, call
        self.spot = subject.place.result(position, mine)
        # A further result of a call says which one it is.
        self.counted = {**subject.counted, "result": position} if position else subject.counted

    def quantity(self) -> Any:
        """The op's model is that of its first result."""
        model = self.subject.door.op.model
        return None if model is None or self.position else model.forward(self.given())

    @property
    def told(self) -> bool:
        return not self.position

    def given(self) -> Sequence[Any]:
        return self.subject.values()

    def array(self, place: int) -> np.ndarray:
        return self.subject.array(place)

    def kernels(self) -> dict[str, Any]:
        return self.subject.kernels(self.position, *self.call)

    def tied(self, kernels: Mapping[str, Any]) -> TiedCall:
        subject, operands = self.subject, kernels["operands"]
        main = subject.kernels(0, *self.call)["torch_kernel"] if self.position else None
        return TiedCall(
            kernels["torch_kernel"], operands, len(operands), subject.attributes, True, self.mine.dtype,
            elementwise=subject.door.op.elementwise, main=main,
        )  # fmt: skip

    def moved(self, sides: tuple[torch.Tensor, torch.Tensor], *, rng: np.random.Generator, audit: bool) -> Judgement:
        kernels = self.kernels()
        return moved.results(*sides, kernels["torch_kernel"], kernels["operands"], kernels["variants"])


class WrittenOperand(Case):
    """An operand that Paddle's function wrote on its way, though it is no result of the op."""

    __slots__ = ("name",)

    def __init__(self, subject: Subject, operand: int) -> None:
        tensor = subject.operands[operand]
        super().__init__(subject, tensor, tensor)
        self.name = subject.name_of(operand)
        self.spot = subject.place.written(operand, tensor)
        self.counted = {**subject.counted, "result": len(subject.outs) + operand}  # no call of its own

    @property
    def verdict(self) -> Judgement:
        """It is Paddle's, whatever was written."""
        reason = f"Paddle's function writes {self.name}, an operand that is no result of it"
        return Judgement(Verdict.SEMANTICS, side=Side.PADDLE, hypothesis="writes-operand", reason=reason)


class Gradient(Case):
    """The gradient of an operand. ``grads``: the incoming gradients, by the position of their result.

    ``partners``: Paddle's and Torch's gradients of all operands, by operand.
    """

    __slots__ = ("grads", "operand", "partners")

    def __init__(
        self, subject: Subject, operand: int, grads: Mapping[int, torch.Tensor], mine: torch.Tensor, theirs: torch.Tensor
    ) -> None:
        super().__init__(subject, mine, theirs)
        self.operand, self.grads = operand, grads
        self.partners: Mapping[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self.spot, self.counted = subject.place.gradient(operand, mine), subject.counted

    def quantity(self) -> Any:
        """The op's model knows the gradient that comes through the first result."""
        subject, op = self.subject, self.subject.door.op
        if op.model is None or not self.told:
            return None
        asked = f"operands.{self.operand}" if op.operands else subject.name_of(self.operand)
        return op.model.gradient(asked, subject.values(), subject.outs[0], self.grads[0])

    @property
    def told(self) -> bool:
        return len(self.grads) == 1 and 0 in self.grads

    def given(self) -> Sequence[Any]:
        return (*self.subject.values(), self.grads[0])

    def array(self, place: int) -> np.ndarray:
        return self.subject.array(place, self.grads)

    def kernels(self) -> dict[str, Any]:
        return self.subject.gradient_kernels(self.operand, self.grads)

    def tied(self, kernels: Mapping[str, Any]) -> TiedCall:
        subject, needs = self.subject, self.subject.inputs.needs
        others = [operand for operand in self.partners if operand != self.operand]
        partner = None
        if len(others) == 1:
            kernel = subject.gradient_kernels(others[0], self.grads)["torch_kernel"]
            partner = (kernel, *self.partners[others[0]])
        return TiedCall(
            kernels["torch_kernel"], kernels["operands"], len(needs), subject.attributes, False, self.mine.dtype,
            elementwise=subject.door.op.elementwise, partner=partner,
        )  # fmt: skip

    def moved(self, sides: tuple[torch.Tensor, torch.Tensor], *, rng: np.random.Generator, audit: bool) -> Judgement:
        kernels, needs = self.kernels(), len(self.subject.inputs.needs)
        formula, operands, variants = (kernels[name] for name in ("torch_kernel", "operands", "variants"))
        return moved.gradients(*sides, formula, operands, needs, variants, rng=rng, audit=audit)

    def overtaken(self) -> bool:
        return self.subject.overtaken()

    def incoming(self) -> Iterator[tuple[str, torch.Tensor]]:
        for position, grad in self.grads.items():
            yield f"grad[{position}]" if position else "grad", grad

    def tensors(self) -> dict[str, Any]:
        return {**super().tensors(), **dict(self.incoming())}
