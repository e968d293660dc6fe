"""What is judged: one tensor of a call, a result or a gradient, with all that a verdict on it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from ..frameworks.memory import dtype_of
from ..records.encoding import Written
from ..verdicts import Judgement, Verdict
from .results import name_of

if TYPE_CHECKING:
    from .subject import Subject

CHANGED = "changed in place before it was judged"
OVERTAKEN = "an operand was changed in place since the call was made: the kernels' backward need not read it, the formula does"


def describe_tensor(tensor: torch.Tensor) -> dict[str, Any]:
    """Shape and dtype of a judged tensor."""
    return {"shape": list(tensor.shape), "dtype": dtype_of(tensor.dtype)}


class Case:
    """One tensor of a call as both kernels computed it. ``extra``: statistics known already."""

    phase = ""

    def __init__(self, subject: Subject, name: str, mine: torch.Tensor, theirs: torch.Tensor) -> None:
        self.subject, self.name, self.mine, self.theirs = subject, name, mine, theirs
        self._written: Written | None = None
        self.extra: Mapping[str, Any] = {}
        self.waits = False
        self.watched: Sequence[tuple[Any, int]] = ()  # Paddle tensors and their in-place versions, while it waits

    def counted(self) -> dict[str, Any]:
        """The fields of its record that count calls and steps."""
        return self.subject.counted

    def written(self) -> Written:
        """The other fields that are known before any verdict."""
        if self._written is None:
            self._written = self.subject.place.written(self.phase, self.name, self.mine.shape, self.mine.dtype)
        return self._written

    def quantity(self) -> Any:
        """The oracle's formula and bound (:class:`padiff_shim.numerics.oracle.staging.Quantity`), or None where there are none."""
        raise NotImplementedError

    def given(self) -> Sequence[Any] | None:
        """What :meth:`quantity` is made of: the call's arguments and the incoming gradient; None where there is none."""
        raise NotImplementedError

    def kernels(self) -> dict[str, Any]:
        """Both kernels as functions of the operands, for tensors without a bound of their own."""
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

    def overtaken(self) -> bool:
        """Whether the formula would be asked of other operands than the call had."""
        return self.waits and self.subject.overtaken()

    @property
    def bytes(self) -> int:
        """Memory of both results."""
        return 2 * self.mine.numel() * self.mine.element_size()


class Result(Case):
    """A result of a call. ``call``: Paddle's arguments."""

    phase = "forward"

    def __init__(self, subject: Subject, position: int, mine: torch.Tensor, theirs: torch.Tensor, call: Any) -> None:
        super().__init__(subject, name_of(subject.door.op, position), mine, theirs)
        self.position, self.call = position, call

    def counted(self) -> dict[str, Any]:
        """A further result of a call says which one it is."""
        return {**self.subject.counted, "result": self.position} if self.position else self.subject.counted

    def quantity(self) -> Any:
        """The op's model is that of its first result."""
        model, given = self.subject.door.op.model, self.given()
        return None if model is None or given is None else model.forward(given)

    def given(self) -> Sequence[Any] | None:
        return None if self.position else self.subject.values()

    def kernels(self) -> dict[str, Any]:
        return self.subject.kernels(self.position, *self.call)


class Gradient(Case):
    """The gradient of an operand. ``grads``: the incoming gradients, by the position of their result."""

    phase = "backward"

    def __init__(
        self, subject: Subject, operand: int, grads: Mapping[int, torch.Tensor], mine: torch.Tensor, theirs: torch.Tensor
    ) -> None:
        super().__init__(subject, subject.place.gradient(operand), mine, theirs)
        self.operand, self.grads = operand, grads

    def quantity(self) -> Any:
        """The op's model knows the gradient that comes through the first result."""
        subject, op = self.subject, self.subject.door.op
        if op.model is None or list(self.grads) != [0]:
            return None
        asked = f"operands.{self.operand}" if op.operands else subject.name_of(self.operand)
        return op.model.gradient(asked, subject.values(), subject.outs[0], self.grads[0])

    def given(self) -> Sequence[Any] | None:
        return (*self.subject.values(), self.grads[0]) if list(self.grads) == [0] else None

    def kernels(self) -> dict[str, Any]:
        return self.subject.gradient_kernels(self.operand, self.grads)

    def overtaken(self) -> bool:
        return self.subject.overtaken()

    def tensors(self) -> dict[str, Any]:
        names = {position: "grad" if not position else f"grad[{position}]" for position in self.grads}
        return {**super().tensors(), **{names[position]: grad for position, grad in self.grads.items()}}
