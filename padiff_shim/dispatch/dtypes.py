"""In which dtype an op computes, and which calls Paddle refuses: not derived from tables but asked of the native op.

Promotion differs between Paddle versions, between operators and with 0-D operands. So for each combination of operand types the
program's first call is made natively, too, and the dtype of its result is kept. Its operands are the program's own: a kernel writes
outside of its memory where a size and an attribute do not fit each other, and asking must do nothing that the program does not do.
Torch takes many a call that Paddle refuses (a number for a bool, a maximum over groups of one): so the first call of each kind
(:mod:`.kinds`) is made natively as well.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import paddle
import torch

from ..frameworks.memory import AMP_OFF, grad_tracer, torch_dtype
from ..frameworks.torch_settings import has_avx512
from ..frameworks.versions import IS_3
from ..signals import let_pass
from ..table.op import Op
from ..table.reasons import COMPLEX, INTEGER, MIXED, NATIVE_REFUSES, Reason, StayNative
from .frames import PAUSE, stand, standing
from .kinds import kind_of_call, make_room
from .operands import Inputs

NO_KERNEL = "(NotFound)"  # in what Paddle says where it has none for a device and a dtype
_NO_KERNEL_AT_ALL = "(NotFound) The kernel `"  # where it has none for any: in Paddle 2.6 flash_attn on a CPU
_HALVES = frozenset({torch.float16, torch.bfloat16})
_COMPLEX = frozenset({torch.complex64, torch.complex128})


class Rule(NamedTuple):
    """What the native op does with these operand types."""

    cast: torch.dtype | None = None  # every tensor goes to this dtype first
    refusal: Reason | None = None


class DtypeRules:
    """The rules of one entry point, learnt as calls arrive."""

    def __init__(self, op: Op, original: Callable[..., Any], overwritten: Sequence[int] = ()) -> None:
        """``overwritten``: positions of the operands that the native op writes into."""
        self._op, self._original, self._overwritten = op, original, overwritten
        self._known: dict[tuple[Any, ...], Rule] = {}
        self._taken: set[Hashable] = set()  # kinds of calls that the native op has answered
        self._runs = has_kernel(op)  # to ask another one would end the process
        self.plain: set[tuple[Any, ...]] = set()  # combinations of operand types that need no cast

    def takes(self, values: Sequence[Any], targets: Sequence[Any] | None = None) -> bool:
        """Whether Paddle is known to take a bound call of this kind."""
        drawing = self._op.random is not None and self._op.random(*values)  # to ask would draw from Paddle's generator
        return not self._runs or drawing or self._kind(values, targets) in self._taken

    def ask(
        self, inputs: Inputs, targets: Sequence[Any] | None, values: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """StayNative if the native op refuses the call ``values``; not where Paddle has no kernel, or none in 16 bits."""
        if not self.takes(values, targets):
            try:
                self._answer(inputs, args, kwargs)
            except StayNative as why:
                halves = any(isinstance(side, torch.Tensor) and side.dtype in _HALVES for side in inputs.torch)
                if _NO_KERNEL_AT_ALL not in why.reason and not (halves and NO_KERNEL in why.reason):
                    raise
            self._take(values, targets)

    def _kind(self, values: Sequence[Any], targets: Sequence[Any] | None) -> Hashable:
        leading = self._op.leading
        return kind_of_call(values[:leading], values[leading:]), None if targets is None else tuple(targets)

    def _take(self, values: Sequence[Any], targets: Sequence[Any] | None) -> None:
        make_room(self._taken)
        self._taken.add(self._kind(values, targets))

    def find(
        self, inputs: Inputs, targets: Sequence[Any] | None, values: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> torch.dtype | None:
        """The dtype to compute in (None: as they are), or StayNative. ``targets``: dtypes that autocast gives the operands."""
        key: tuple[Any, ...] = tuple(
            [side.dtype if isinstance(side, torch.Tensor) else type(given) for side, given in zip(inputs.torch, inputs.paddle)]
        )
        if targets is not None:
            key = (*key, *targets)
        rule, kinds = self._known.get(key), key
        if rule is None:
            dtypes = {side.dtype for side in inputs.torch if isinstance(side, torch.Tensor)}
            if len(dtypes) > 1:  # promotion may treat 0-D tensors otherwise
                key = (*key, *[side.ndim == 0 if isinstance(side, torch.Tensor) else None for side in inputs.torch])
                rule = self._known.get(key)
            if rule is None:
                rule = self._known[key] = self._learn(inputs, targets, values, args, kwargs)
                if rule == Rule() and targets is None and (len(dtypes) == 1 or self._op.exact):
                    self.plain.add(kinds)
        if rule.refusal is not None:
            raise StayNative(rule.refusal)
        return rule.cast

    def _learn(
        self, inputs: Inputs, targets: Sequence[Any] | None, values: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Rule:
        dtypes = {side.dtype for side in inputs.torch if isinstance(side, torch.Tensor)}
        if dtypes & _COMPLEX and not self._op.complex:
            return Rule(refusal=COMPLEX)
        moved = self._op.exact and not dtypes & _COMPLEX  # not every Paddle moves complex numbers
        if self._op.promote == "same" or moved or not self._runs or self._op.random is not None:
            floats = {dtype for dtype in dtypes if dtype.is_floating_point or dtype.is_complex}
            if len(floats) == 1 or (self._op.random is not None and not floats):
                return Rule()
            return Rule(refusal=MIXED if floats else INTEGER)
        if self._op.promote == "alike" and len({kind for kind in _given(inputs, targets) if kind.is_floating_point}) > 1:
            return Rule(refusal=MIXED)
        result = self._answer(inputs, args, kwargs)
        self._take(values, targets)
        if result is None or not (result.is_floating_point or result.is_complex):
            return Rule() if self._op.integer else Rule(refusal=INTEGER)
        real = len(dtypes) == 1 and bool(dtypes & _COMPLEX) and not result.is_complex  # of complex numbers: eigenvalues, lengths
        return Rule() if self._op.promote == "none" or dtypes == {result} or real else Rule(cast=result)

    def _answer(self, inputs: Inputs, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.dtype | None:
        """The dtype in which the native op answers the program's call, made with copies of what it writes into."""
        written = [inputs.paddle[index] for index in self._overwritten]

        def made() -> Any:
            copies = {id(tensor): tensor.clone() for tensor in written if isinstance(tensor, paddle.Tensor)}
            return self._original(*exchanged(args, copies), **{key: exchanged(value, copies) for key, value in kwargs.items()})

        try:
            shown = _unseen(made, autocast=True)
        except Exception as error:
            let_pass(error)
            text = (str(error).strip().splitlines() or [repr(error)])[0][:100]
            # Not kept as a rule: the refusal may be due to this call's other arguments (an axis out of range).
            raise StayNative(NATIVE_REFUSES, error=text) from None
        while isinstance(shown, (list, tuple)):  # of several results the first one says it
            shown = shown[0]
        return torch_dtype(getattr(shown, "dtype", None))


def has_kernel(op: Op) -> bool:
    """Whether Paddle's kernel of an op can run on this processor at all."""
    return not op.avx512 or not IS_3 or has_avx512()  # 2.6 has none for the CPU, and says so


def _given(inputs: Inputs, targets: Sequence[Any] | None) -> list[torch.dtype]:
    """The dtypes in which a native op gets its tensors."""
    sides = [(index, side) for index, side in enumerate(inputs.torch) if isinstance(side, torch.Tensor)]
    return [(targets[index] if targets else None) or side.dtype for index, side in sides]


def apart(original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], exchange: dict[int, Any]) -> Any:
    """A native op on other tensors (by the ids of the given ones), apart from the program: no graph, no autocast, no mode."""
    given = exchanged(args, exchange), {key: exchanged(value, exchange) for key, value in kwargs.items()}
    return _unseen(lambda: original(*given[0], **given[1]))


def _unseen(made: Callable[[], Any], *, autocast: bool = False) -> Any:
    """What is made with no graph and no mode, and no autocast but on demand. A Ctrl-C leaves none of them switched off."""
    tracer, before = grad_tracer(), standing()
    recorded, level = tracer._has_grad, tracer._amp_level
    try:
        tracer._has_grad, tracer._amp_level = False, level if autocast else AMP_OFF
        stand((*before, PAUSE))
        return made()
    finally:
        tracer._has_grad, tracer._amp_level = recorded, level
        stand(before)


def exchanged(value: Any, others: dict[int, Any]) -> Any:
    """The same argument with tensors exchanged for others, by their ids."""
    if isinstance(value, (list, tuple)):
        return type(value)(exchanged(item, others) for item in value)
    return others.get(id(value), value)


def ask(questions: Mapping[str, Callable[..., Any]], original: Callable[..., Any]) -> dict[str, Any]:
    """What the installed Paddle's own function answers to an op's questions; also while a static program is built."""
    with paddle.base.dygraph.guard(paddle.CPUPlace()):
        return _unseen(lambda: {name: question(original, paddle.to_tensor) for name, question in questions.items()})
