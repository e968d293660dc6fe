"""In which dtype an op computes, and which calls Paddle refuses: not derived from tables but asked of the native op.

Promotion differs between Paddle versions, between operators and with 0-D operands. So for each combination of operand types the
program's first call is made natively, too, and the dtype of its result is kept. Its operands are the program's own: a kernel writes
outside of its memory where a size and an attribute do not fit each other, and asking must do nothing that the program does not do.
Torch takes many a call that Paddle refuses (a number for a bool, a maximum over groups of one): so the first call of each kind
(:mod:`.kinds`) is made natively as well.

Where Paddle has no kernel in a dtype of 16 bits (:mod:`.lacking`), it is asked with the same values one precision up: 16 bits in
float32, float32 beside them in float64. What it refuses there it refuses, and what it promotes there it promotes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import paddle
import torch

from ..frameworks import autocast
from ..frameworks.memory import AMP_OFF, HALVES, TENSOR_TYPES, dtype_of, grad_tracer, torch_dtype
from ..frameworks.torch_settings import has_avx512
from ..frameworks.versions import IS_3
from ..signals import let_pass
from ..table.op import Op
from ..table.reasons import COMPLEX, INTEGER, MIXED, NATIVE_REFUSES, Reason, StayNative
from ..table.signature import REFUSALS
from .frames import PAUSE, stand, standing
from .kinds import kind_of_call, make_room
from .lacking import dtype_without_kernel, is_listed_without, is_old_form_without_kernel, is_without_kernel
from .operands import Inputs

_ENDING = frozenset({"renorm", "ctc_loss"})  # ops of which Paddle's kernels end the process, see docs/defects.md
_COMPLEX = frozenset({torch.complex64, torch.complex128})


class Rule(NamedTuple):
    """What the native op does with these operand types."""

    cast: torch.dtype | None = None  # every tensor goes to this dtype first
    refusal: Reason | None = None


class NativeAnswer(NamedTuple):
    """What the native op says of a call."""

    dtype: torch.dtype | None  # of its first result
    lacks: str = ""  # the dtype in which Paddle has no kernel for the call


class DtypeRules:
    """The rules of one entry point, learnt as calls arrive."""

    def __init__(self, op: Op, original: Callable[..., Any], overwritten: Sequence[int] = ()) -> None:
        """``overwritten``: positions of the operands that the native op writes into."""
        self._op, self._original, self._overwritten = op, original, overwritten
        self._known: dict[tuple[Any, ...], Rule] = {}
        # Kinds of calls that the native op has answered -> the dtype in which Paddle has no kernel for them, or "".
        self._taken: dict[Hashable, str] = {}
        self._runs = has_kernel(op)  # to ask another one would end the process
        self.plain: set[tuple[Any, ...]] = set()  # combinations of operand types that need no cast

    def taken(self, values: Sequence[Any], targets: Sequence[Any] | None = None) -> str | None:
        """Of a bound call of a kind that Paddle is known to take the dtype in which it has no kernel, mostly ""; else None."""
        if self._op.random is not None and self._op.random(*values):  # to ask would draw from Paddle's generator
            return self._listed(values)
        if self._runs:
            return self._taken.get(self._kind(values, targets))
        return "" if self._op.cpu else _first_dtype(values)

    def ask(
        self, inputs: Inputs, targets: Sequence[Any] | None, values: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> str:
        """The dtype in which Paddle has no kernel for the call ``values``, mostly ""; StayNative if it refuses the call."""
        lacks = self.taken(values, targets)
        if lacks is None:
            lacks = self._answer(inputs, targets, values, args, kwargs).lacks
            self._take(values, targets, lacks)
        return lacks

    def _listed(self, values: Sequence[Any]) -> str:
        """Of a call that draws random numbers the dtype of its first operand, if Paddle's list has no kernel of it."""
        dtype = _first_dtype(values)
        return dtype if is_listed_without(self._op.name, dtype) else ""

    def _kind(self, values: Sequence[Any], targets: Sequence[Any] | None) -> Hashable:
        leading = self._op.leading
        return kind_of_call(values[:leading], values[leading:]), None if targets is None else tuple(targets)

    def _take(self, values: Sequence[Any], targets: Sequence[Any] | None, lacks: str) -> None:
        make_room(self._taken)
        self._taken[self._kind(values, targets)] = lacks

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
            if floats and self._op.promote == "none":  # the formula says what it takes
                return Rule()
            return Rule(refusal=MIXED if floats else INTEGER)
        if self._op.promote == "alike" and len({kind for kind in _given(inputs, targets) if kind.is_floating_point}) > 1:
            return Rule(refusal=MIXED)
        answer = self._answer(inputs, targets, values, args, kwargs)
        self._take(values, targets, answer.lacks)
        result = answer.dtype
        if result is None or not (result.is_floating_point or result.is_complex):
            return Rule() if self._op.integer or answer.lacks else Rule(refusal=INTEGER)
        real = len(dtypes) == 1 and bool(dtypes & _COMPLEX) and not result.is_complex  # of complex numbers: eigenvalues, lengths
        return Rule() if self._op.promote == "none" or dtypes == {result} or real else Rule(cast=result)

    def _answer(
        self, inputs: Inputs, targets: Sequence[Any] | None, values: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> NativeAnswer:
        """What the native op says of the program's call, made with copies of what it writes into, and of what autocast casts."""
        copies = {id(tensor): tensor.clone for tensor in map(inputs.paddle.__getitem__, self._overwritten) if _is_tensor(tensor)}
        dtypes = {id(tensor): torch_dtype(tensor.dtype) for tensor in inputs.paddle if _is_tensor(tensor)}
        if targets is not None and autocast.HERE.on:  # on a CPU C++ makes no casts
            cast = {id(tensor): (tensor, target) for tensor, target in zip(inputs.paddle, targets) if target is not None}
            copies.update({key: functools.partial(tensor.astype, dtype_of(target)) for key, (tensor, target) in cast.items()})
            dtypes.update({key: target for key, (_, target) in cast.items()})
        try:
            return NativeAnswer(self._dtype(args, kwargs, copies))
        except Exception as error:
            let_pass(error)
            lacks = self._lacks(error, dtypes.values())
            if not lacks or self._is_refused_of_one(inputs, values):
                raise _refusal(error) from None
        # Weights of float32 beside an operand of 16 bits are no mixture where the op leaves dtypes to its kernel.
        up = {torch.float32: "float64"} if self._op.promote != "none" and set(dtypes.values()) & HALVES else {}
        up.update(dict.fromkeys(HALVES, "float32"))
        raised = {
            id(tensor): functools.partial(tensor.astype, up[dtypes[id(tensor)]])
            for tensor in inputs.paddle
            if _is_tensor(tensor) and dtypes[id(tensor)] in up
        }
        try:
            dtype = self._dtype(args, kwargs, {**copies, **raised})
        except Exception as error:
            let_pass(error)
            if is_without_kernel(error) or dtype_without_kernel(error):  # it computes in a dtype that an attribute names
                return NativeAnswer(None, lacks)
            raise _refusal(error) from None
        if dtype is torch.float64 and torch.float64 not in dtypes.values():
            return NativeAnswer(torch.float32, lacks)
        return NativeAnswer(torch_dtype(f"paddle.{lacks}") if dtype is torch.float32 else dtype, lacks)

    def _is_refused_of_one(self, inputs: Inputs, values: Sequence[Any]) -> bool:
        """Whether Torch refuses a call of a tensor of one element, of which this op's kernel in float32 ends the process."""
        tensors = [side for side in inputs.torch if isinstance(side, torch.Tensor)]
        if self._op.name not in _ENDING or all(side.numel() > 1 for side in tensors):
            return False
        sides = [
            side.detach().float() if isinstance(side, torch.Tensor) and side.is_floating_point() else side for side in inputs.torch
        ]
        try:
            with torch.no_grad():
                self._op.reference(*sides, *values[self._op.tensors :])
        except REFUSALS:
            return True
        return False

    def _lacks(self, error: Exception, dtypes: Iterable[Any]) -> str:
        """The dtype in which Paddle has no kernel, by its error; "" for another error."""
        if not (is_without_kernel(error) or is_old_form_without_kernel(error)):
            return dtype_without_kernel(error)
        any_dtype = is_without_kernel(error) and self._keeps_dtype()
        floats = [dtype for dtype in dtypes if dtype is not None and dtype.is_floating_point]
        return next((dtype_of(dtype) for dtype in floats if dtype in HALVES or any_dtype), "")

    def _keeps_dtype(self) -> bool:
        """Whether the operands' dtype is that of the result, about which nothing is asked."""
        return self._op.promote == "same" or self._op.exact or self._op.random is not None

    def _dtype(self, args: tuple[Any, ...], kwargs: dict[str, Any], exchange: dict[int, Callable[[], Any]]) -> torch.dtype | None:
        """The dtype of the native op's first result; ``exchange``: what it gets in the place of a tensor, by that one's id."""

        def made() -> Any:
            positional, keywords = exchanged_in(args, kwargs, {key: make() for key, make in exchange.items()})
            return self._original(*positional, **keywords)

        shown = _unseen(made, autocasting=True)
        while isinstance(shown, (list, tuple)):  # of several results the first one says it
            shown = shown[0]
        return torch_dtype(getattr(shown, "dtype", None))


def _is_tensor(value: Any) -> bool:
    return isinstance(value, paddle.Tensor)


def _refusal(error: Exception) -> StayNative:
    """Not kept as a rule: the refusal may be due to this call's other arguments (an axis out of range)."""
    return StayNative(NATIVE_REFUSES, error=(str(error).strip().splitlines() or [repr(error)])[0][:100])


def has_kernel(op: Op) -> bool:
    """Whether Paddle's kernel of an op can run on this processor, or on another device of this Paddle, at all."""
    if not op.cpu:
        return paddle.is_compiled_with_cuda()
    return not op.avx512 or not IS_3 or has_avx512()  # 2.6 has none for the CPU, and says so


def _first_dtype(values: Sequence[Any]) -> str:
    """The dtype of a bound call's first tensor."""
    return next((dtype_of(torch_dtype(value.dtype)) for value in values if type(value) in TENSOR_TYPES), "")


def _given(inputs: Inputs, targets: Sequence[Any] | None) -> list[torch.dtype]:
    """The dtypes in which a native op gets its tensors."""
    sides = [(index, side) for index, side in enumerate(inputs.torch) if isinstance(side, torch.Tensor)]
    return [(targets[index] if targets else None) or side.dtype for index, side in sides]


def apart(original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], exchange: dict[int, Any]) -> Any:
    """A native op on other tensors (by the ids of the given ones), apart from the program: no graph, no autocast, no mode."""
    args, kwargs = exchanged_in(args, kwargs, exchange)
    return _unseen(lambda: original(*args, **kwargs))


def _unseen(made: Callable[[], Any], *, autocasting: bool = False) -> Any:
    """What is made with no graph and no mode, and no autocast but on demand. A Ctrl-C leaves none of them switched off."""
    tracer, before = grad_tracer(), standing()
    recorded, level = tracer._has_grad, tracer._amp_level
    try:
        tracer._has_grad, tracer._amp_level = False, level if autocasting else AMP_OFF
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


def exchanged_in(args: tuple[Any, ...], kwargs: dict[str, Any], others: dict[int, Any]) -> tuple[Any, dict[str, Any]]:
    """:func:`exchanged` of all arguments of a call."""
    return exchanged(args, others), {key: exchanged(value, others) for key, value in kwargs.items()}


def ask(questions: Mapping[str, Callable[..., Any]], original: Callable[..., Any]) -> dict[str, Any]:
    """What the installed Paddle's own function answers to an op's questions; also while a static program is built."""
    with paddle.base.dygraph.guard(paddle.CPUPlace()):
        return _unseen(lambda: {name: question(original, paddle.to_tensor) for name, question in questions.items()})
