"""The dtype in which an op computes, and the calls that Paddle refuses or has no kernel for: learnt from the native op."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import paddle
import torch
from paddle.base import core

from ..frameworks import autocast
from ..frameworks.autocast import OFF, grad_tracer
from ..frameworks.memory import FLOATS, HALVES, PADDLE_DTYPES, TENSOR_TYPES, dtype_of, has_elements, torch_dtype
from ..frameworks.versions import IS_3
from ..interrupts import let_pass
from ..table.op import Op
from ..table.reasons import COMPLEX, INTEGER, MIXED, NATIVE_REFUSES, Reason, StayNative
from ..table.signature import REFUSALS
from ..torch_versions import has_avx512
from .frames import PAUSE, stand, standing
from .operands import CallOperands, each

# Promotion differs between Paddle versions, between operators and with 0-D operands. So for each combination of operand types the
# program's first call is made natively, too, and the dtype of its result is kept. Its operands are the program's own: a kernel
# writes outside of its memory where a size and an attribute do not fit each other, and asking must do nothing that the program
# does not do. Torch takes many a call that Paddle refuses (a number for a bool, a maximum over groups of one): so the first call
# of each kind is made natively as well.
#
# Where Paddle has no kernel in a dtype of 16 bits (below), the native op runs on the same values one precision up: 16 bits in
# float32, float32 beside them in float64. What it refuses there it refuses, and what it promotes there it promotes.

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


# Operands of a call on both sides, the dtypes that autocast gives them, the op's arguments, and those of Paddle's call.
BoundCall = tuple[CallOperands, Sequence[Any] | None, Sequence[Any], tuple[Any, ...], dict[str, Any]]


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
            # Of a call that draws random numbers the dtype of its first operand, if Paddle's list has no kernel of it
            dtype = _first_dtype(values)
            return dtype if is_listed_without(self._op.name, dtype) else ""
        if self._runs:
            return self._taken.get(self._kind(values, targets))
        return "" if self._op.limits.cpu else _first_dtype(values)

    def ask(self, call: BoundCall) -> str:
        """The dtype in which Paddle has no kernel for the call, mostly ""; StayNative if it refuses the call."""
        _, targets, values, _, _ = call
        lacks = self.taken(values, targets)
        if lacks is None:
            lacks = self._answer(call).lacks
            self._take(values, targets, lacks)
        return lacks

    def _kind(self, values: Sequence[Any], targets: Sequence[Any] | None) -> Hashable:
        """Dtypes and ranks of the operands, types of those that are numbers; types of the attributes, and how large they are."""
        leading = self._op.leading
        operands = tuple([_of_operand(value) for value in values[:leading]])
        return operands, tuple([_of_attribute(value) for value in values[leading:]]), None if targets is None else tuple(targets)

    def _take(self, values: Sequence[Any], targets: Sequence[Any] | None, lacks: str) -> None:
        make_room(self._taken)
        self._taken[self._kind(values, targets)] = lacks

    def find(self, call: BoundCall) -> torch.dtype | None:
        """The dtype to compute in (None: as the operands are), or StayNative."""
        inputs, targets, _, _, _ = call
        key: tuple[Any, ...] = tuple(
            [side.dtype if isinstance(side, torch.Tensor) else type(value) for side, value in zip(inputs.torch, inputs.paddle)]
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
                rule = self._known[key] = self._learn(call)
                if rule == Rule() and targets is None and (len(dtypes) == 1 or self._op.exact):
                    self.plain.add(kinds)
        if rule.refusal is not None:
            raise StayNative(rule.refusal)
        return rule.cast

    def _learn(self, call: BoundCall) -> Rule:
        inputs, targets, values, _, _ = call
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
        answer = self._answer(call)
        self._take(values, targets, answer.lacks)
        result = answer.dtype
        if result is None or not (result.is_floating_point or result.is_complex):
            return Rule() if self._op.integer or answer.lacks else Rule(refusal=INTEGER)
        real = len(dtypes) == 1 and bool(dtypes & _COMPLEX) and not result.is_complex  # of complex numbers: eigenvalues, lengths
        return Rule() if self._op.promote == "none" or dtypes == {result} or real else Rule(cast=result)

    def _answer(self, call: BoundCall) -> NativeAnswer:
        """What the native op says of the program's call, made with copies of what it writes into, and of what autocast casts."""
        inputs, targets, values, args, kwargs = call
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

    def _is_refused_of_one(self, inputs: CallOperands, values: Sequence[Any]) -> bool:
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
        # Whether the result has the operands' dtype, without a run of the native op
        any_dtype = is_without_kernel(error) and (self._op.promote == "same" or self._op.exact or self._op.random is not None)
        floats = [dtype for dtype in dtypes if dtype is not None and dtype.is_floating_point]
        return next((dtype_of(dtype) for dtype in floats if dtype in HALVES or any_dtype), "")

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
    if not op.limits.cpu:
        return paddle.is_compiled_with_cuda()
    return not op.limits.avx512 or not IS_3 or has_avx512()  # 2.6 has none for the CPU, and says so


def _first_dtype(values: Sequence[Any]) -> str:
    """The dtype of a bound call's first tensor."""
    return next((dtype_of(torch_dtype(value.dtype)) for value in values if type(value) in TENSOR_TYPES), "")


def _given(inputs: CallOperands, targets: Sequence[Any] | None) -> list[torch.dtype]:
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
        tracer._has_grad, tracer._amp_level = False, level if autocasting else OFF
        stand((*before, PAUSE))
        return made()
    finally:
        tracer._has_grad, tracer._amp_level = recorded, level
        stand(before)


def exchanged(value: Any, others: Mapping[int, Any] | Callable[[Any], Any]) -> Any:
    """The same argument with tensors exchanged for others, by their ids; or whatever it holds, by a function."""
    if isinstance(value, (list, tuple)):
        return type(value)(exchanged(item, others) for item in value)
    return others(value) if callable(others) else others.get(id(value), value)


def exchanged_in(
    args: tuple[Any, ...], kwargs: dict[str, Any], others: Mapping[int, Any] | Callable[[Any], Any]
) -> tuple[Any, dict[str, Any]]:
    """:func:`exchanged` of all arguments of a call."""
    return exchanged(args, others), {key: exchanged(value, others) for key, value in kwargs.items()}


def probe(probes: Mapping[str, Callable[..., Any]], original: Callable[..., Any]) -> dict[str, Any]:
    """What the installed Paddle's own function shows to an op's probes; also while a static program is built."""
    with paddle.base.dygraph.guard(paddle.CPUPlace()):
        return _unseen(lambda: {name: test(original, paddle.to_tensor) for name, test in probes.items()})


# ---- Kinds of calls: what Paddle takes once, or refuses, it takes or refuses again.

_MOST = 4096  # kinds of calls that are remembered: more come with attributes that change at each call
_SMALL = 64  # whole numbers up to here are kinds of their own: axes, sizes of windows, groups


def make_room(known: dict[Any, Any] | set[Any]) -> None:
    """Forget what is known of kinds of calls, where it is of more than a program that repeats itself has."""
    if len(known) >= _MOST:
        known.clear()


def _of_operand(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return (type(value), *[_of_operand(item) for item in value])
    return (value.dtype, value.ndim) if type(value) in TENSOR_TYPES else type(value)


def _of_attribute(value: Any) -> Hashable:
    kind = type(value)
    if kind is int:
        return kind, value if abs(value) <= _SMALL else math.copysign(value.bit_length(), value)
    if kind is float:
        return kind, _of_float(value)
    if kind in (bool, str):
        return kind, value
    if isinstance(value, (list, tuple)):
        return (kind, *[_of_attribute(item) for item in value])
    if type(value) in TENSOR_TYPES or torch_dtype(value) is None:
        return _of_operand(value)
    return str(value)


def _of_float(value: float) -> Hashable:
    """Its sign and exponent, and whether it is whole or a power of two, where limits lie: a program may change it at each step."""
    if not math.isfinite(value):
        return str(value)
    mantissa, exponent = math.frexp(value)
    return math.copysign(1, value), exponent, abs(mantissa) == 0.5, value.is_integer()


# ---- The dtype in which a native op has no kernel: Paddle says so in an error of one form, and keeps a list of its kernels.

# A CPU's kernels are of float32 and float64; those of 16 bits Paddle has for other devices, and documents for all of them.
HALF_NAMES = frozenset({"float16", "bfloat16"})
# "(NotFound) The kernel with key (CPU, Undefined(AnyLayout), bfloat16) of kernel `matmul` is not registered."
_OF_A_DTYPE = re.compile(r"\(NotFound\) The kernel with key \(\w+, [^,]*, (\w+)\) of kernel `\w+` is not registered")
_OF_ANY = "(NotFound) The kernel `"  # where it has none for the device at all: in Paddle 2.6 flash_attn on a CPU
_OF_OLD_FORM = "(NotFound) There are no kernels which are registered in the "  # of the legacy form, which names no dtype


def dtype_without_kernel(error: Exception) -> str:
    """The dtype of 16 bits in which a native op would have computed, had Paddle a kernel of it; ``""`` for all other errors."""
    match = _OF_A_DTYPE.search(str(error))
    return match.group(1) if match is not None and match.group(1) in HALF_NAMES else ""


def is_without_kernel(error: Exception) -> bool:
    """Whether Paddle has no kernel of an op for the device, whatever the dtype."""
    return _OF_ANY in str(error)


def is_old_form_without_kernel(error: Exception) -> bool:
    """Whether the legacy form of an op found no kernel, be it for the dtype or at all."""
    return _OF_OLD_FORM in str(error)


@functools.cache
def _registered() -> Mapping[str, frozenset[str]]:
    """Kernels of this Paddle by name -> the dtypes that they are of on a CPU."""
    kernels: dict[str, list[str]] = core._get_registered_phi_kernels("function")  # type: ignore[attr-defined]
    return {
        name: frozenset(key.strip("()").split(", ")[-1] for key in keys if key.startswith("(CPU")) for name, keys in kernels.items()
    }


def is_listed_without(kernel: str, dtype: str) -> bool:
    """Whether Paddle lists a CPU kernel of this name, but none of ``dtype``. For what cannot be tried: a call that draws."""
    dtypes = _registered().get(kernel, frozenset())
    return dtype in HALF_NAMES and "float32" in dtypes and dtype not in dtypes


# ---- A native call made in float32, on the same values, where Paddle has no kernel in 16 bits.
#
# All numbers of 16 bits are numbers of float32. So an op that moves, chooses or counts values gives in float32 what it would give
# in 16 bits; one that computes gives its result with another rounding, which is no result of a kernel in 16 bits.

DTYPES = {name: PADDLE_DTYPES[name] for name in HALF_NAMES}
_FLOAT32 = PADDLE_DTYPES["float32"]
Cast = Callable[[Any, str], Any]  # a tensor, and the dtype to have it in
_SHARING = frozenset({"coalesce_tensor"})  # gives tensors other memory, which copies in float32 would not get


def _values(*arguments: Any) -> Iterator[Any]:
    for value in arguments:
        if isinstance(value, dict):
            yield from _values(*value.values())
        elif isinstance(value, (list, tuple)):
            yield from _values(*value)
        else:
            yield value


def dtype_of_call(args: Any, kwargs: dict[str, Any]) -> str:
    """The first dtype of 16 bits among the operands, else among the attributes; "" if there is none."""
    values = list(_values(args, kwargs))
    dtypes = [value.dtype for value in values if type(value) in TENSOR_TYPES] + values
    return next((name for dtype in dtypes for name, half in DTYPES.items() if type(dtype) is type(half) and dtype == half), "")


def lacks(name: str, error: Exception, args: Any, kwargs: dict[str, Any], *, mixed: bool = False) -> str:
    """The dtype in which Paddle has no kernel ``name``, by its error, if a call in float32 can stand for this one; or "".

    ``mixed``: operands of float32 beside those of 16 bits ask for no promotion.
    """
    dtype = dtype_of_call(args, kwargs) if is_old_form_without_kernel(error) else dtype_without_kernel(error)
    return dtype if dtype and is_sound(name, args, kwargs) and is_of_one_dtype(args, kwargs, dtype, mixed=mixed) else ""


def is_sound(name: str, args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether a call in float32 does what it says, and no more than that.

    Of nothing ``expand_as`` makes what nobody wrote; its backward, and ``spectral_norm``, end the process (docs/defects.md): in 16
    bits they are refused.
    """
    if name not in ("expand_as", "spectral_norm"):
        return name not in _SHARING
    return all(has_elements(value) for value in _values(args, kwargs) if type(value) in TENSOR_TYPES)


def is_of_one_dtype(args: Any, kwargs: dict[str, Any], dtype: str, *, mixed: bool = False) -> bool:
    """Whether all floats of a call are of this dtype, so that nothing is promoted.

    A dtype that only an attribute names is that of the result alone: the operands are float32.
    """
    floats = {value.dtype for value in _values(args, kwargs) if type(value) in TENSOR_TYPES and value.dtype in FLOATS}
    alike = ({DTYPES[dtype]}, {_FLOAT32}, set()) if not mixed else ({DTYPES[dtype]}, {DTYPES[dtype], _FLOAT32})
    return floats in alike and dtype_of_call(args, kwargs) == dtype


def in_float32(make: Callable[..., Any], args: Any, kwargs: dict[str, Any], dtype: str, cast: Cast) -> tuple[Any, dict[int, Any]]:
    """``make(*args, **kwargs)`` on the same values in float32.

    Args:
        dtype: of 16 bits, which the operands have, or which an attribute names.
        cast: makes a float32 tensor of one of 16 bits, and the other way round.

    Returns:
        The result, in ``dtype`` again; and the tensors of float32 that stood for those of 16 bits, by the identity of these.
    """
    half = DTYPES[dtype]
    tensors = {id(value): value for value in _values(args, kwargs) if type(value) in TENSOR_TYPES and value.dtype == half}
    wide = {key: cast(tensor, "float32") for key, tensor in tensors.items()}
    args, kwargs = exchanged_in(
        args, kwargs, lambda value: _FLOAT32 if type(value) is type(half) and value == half else wide.get(id(value), value)
    )
    result = make(*args, **kwargs)

    def narrow(_: int, value: Any) -> Any:
        if type(value) not in TENSOR_TYPES or value.dtype != _FLOAT32 or any(value is tensor for tensor in wide.values()):
            return value
        return cast(value, dtype) if value._is_initialized() else paddle.empty(value.shape, dtype)

    return each(result, narrow), wide
