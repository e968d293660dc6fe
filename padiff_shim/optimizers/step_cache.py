"""An optimizer's step while it runs, and what is reused from one step to the next: tensors of each parameter."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from paddle.regularizer import L2Decay

from ..dispatch.entry_point import Unlisted
from ..frameworks.memory import HALVES, TENSOR_TYPES, as_it_lies, dtype_of
from ..frameworks.versions import PaddleOptimizer, PaddleTensor, attribute, set_attribute
from ..table import reasons
from ..table.reasons import StayNative
from .update import Item, Update

# ---- An optimizer's step while it runs: its learning rate, the decay it puts off, and updates that wait to be made together.
#
# Paddle's C functions get a learning rate of float32, and gradients to which L2 decay was added in a rounding of its own. Torch's
# optimizers take the number that the program wrote, and add the decay themselves. Both are known to the optimizer alone.

_NONE: dict[str, Any] = {}
_ROUNDED = 2.0**-22  # two roundings to float32, as a ratio


class WaitingUpdate(NamedTuple):
    """One update of one parameter."""

    declared: Update
    other: Unlisted
    frame: Any  # a Frame, or None
    args: tuple[Any, ...]
    lists: dict[str, bool] | None = None  # of a call for several parameters: see Update.lists


class ParameterPass:
    """One pass of an optimizer over (a group of) its parameters."""

    def __init__(self, optimizer: PaddleOptimizer, *, collects: bool) -> None:
        self.optimizer = optimizer
        self.collects = collects  # updates may wait: nothing reads in between what they write
        self.waiting: dict[int, WaitingUpdate] = {}  # by the identity of the parameter
        self.decays: dict[int, tuple[float, Callable[[], Any]]] = {}  # by the identity of the parameter
        self._base: float | None = None
        self._read: dict[int, tuple[Any, float]] = {}  # tensors of learning rates, and what they hold
        self._rates: dict[tuple[int, Any], float] = {}

    def base(self) -> float:
        """The optimizer's learning rate as its program wrote it, or its schedule computed it."""
        if self._base is None:
            rate = self.optimizer._learning_rate
            self._base = float(rate() if callable(rate) else rate)
        return self._base

    def read(self, tensor: PaddleTensor) -> float:
        """What a tensor with a learning rate holds."""
        known = self._read.get(id(tensor))
        if known is None:
            known = self._read[id(tensor)] = tensor, as_it_lies(tensor).item()
        return known[1]

    def learning_rate(self, tensor: PaddleTensor, param: PaddleTensor) -> float:
        """The learning rate of an update: the unrounded number, if that is what the tensor was made of."""
        factor = (getattr(param, "optimize_attr", None) or _NONE).get("learning_rate", 1.0)
        key = id(tensor), factor
        known = self._rates.get(key)
        if known is None:
            known = self._rates[key] = self._exact(self.read(tensor), factor)
        return known

    def decay_of(self, param: PaddleTensor) -> float:
        """The coefficient of the L2 decay that was put off."""
        known = self.decays.get(id(param))
        return 0.0 if known is None else known[0]

    def _exact(self, rounded: float, factor: Any) -> float:
        if not isinstance(factor, (int, float)):
            return rounded
        exact = self.base() if factor == 1.0 else self.base() * factor
        return exact if abs(exact - rounded) <= _ROUNDED * abs(exact) else rounded


class _ThreadStep(threading.local):
    """The step that runs in one thread, and the decay that was put off for the next one."""

    now: ParameterPass | None = None
    decays: tuple[Any, dict[int, tuple[float, Callable[[], Any]]]] | None = None


_here = _ThreadStep()


def now() -> ParameterPass | None:
    """The pass that runs in this thread."""
    return _here.now


def is_paddles(optimizer: PaddleOptimizer) -> bool:
    """Whether the optimizer makes its updates as Paddle's own classes do."""
    return str(type(optimizer)._append_optimize_op.__module__).startswith("paddle.optimizer.")


def finishes_as_paddles(optimizer: PaddleOptimizer) -> bool:
    """Whether what the optimizer does behind its updates is done by Paddle's own class, and by nothing of this object alone."""
    own = str(type(optimizer)._finish_update.__module__).startswith("paddle.optimizer.")
    return own and "_finish_update" not in vars(optimizer)


def run(make: Callable[[ParameterPass], Any], args: tuple[Any, ...]) -> Any:
    """``Optimizer._create_optimization_pass``, which ``make`` makes."""
    outer, (owner, decays) = _here.now, _here.decays or (None, {})
    here = _here.now = ParameterPass(args[0], collects=is_paddles(args[0]))
    _here.decays = None
    if owner is args[0]:
        here.decays = decays
    try:
        return make(here)
    finally:
        _here.now = outer


def leave_decay(coupled: bool, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``Optimizer.append_regularization_ops``: decay that Torch's optimizer adds by itself is left to it."""
    _here.decays = None
    optimizer, pairs, regularization = _spelled(*args, **kwargs)
    if not coupled or not is_paddles(optimizer):
        return original(*args, **kwargs)
    leaves = str(type(optimizer)._create_regularization_of_grad.__module__).startswith("paddle.optimizer.")
    if leaves and regularization is None and all(getattr(param, "regularizer", None) is None for param, _ in pairs):
        _here.decays = optimizer, {}
        return list(pairs)
    decayed_pairs, decays = [], {}
    for pair in pairs:
        param, grad = pair
        own = getattr(param, "regularizer", None)
        chosen = regularization if own is None else own
        if chosen is None and leaves:
            pass
        elif grad is None or type(chosen) is not L2Decay or param.dtype != grad.dtype:
            [pair] = original(optimizer, [(param, grad)], regularization)
        elif optimizer.type != "momentum" or type(own) is not L2Decay:  # momentum's kernel adds the decay of a parameter itself
            decays[id(param)] = chosen._coeff, _adding(original, optimizer, param, grad, regularization)
        decayed_pairs.append(pair)
    _here.decays = optimizer, decays
    return decayed_pairs


def _adding(
    original: Callable[..., Any], optimizer: PaddleOptimizer, param: PaddleTensor, grad: PaddleTensor, regularization: Any
) -> Callable[[], Any]:
    """Paddle's own gradient with the decay in it."""
    return lambda: original(optimizer, [(param, grad)], regularization)[0][1]


def _spelled(optimizer: PaddleOptimizer, parameters_and_grads: Any, regularization: Any = None) -> tuple[Any, Any, Any]:
    return optimizer, parameters_and_grads, regularization


# ---- The tensors of a parameter's update on Torch's side, kept from one step to the next.
#
# Crossing takes a microsecond a tensor, and an update has six. So the crossed tensors are kept with the optimizer, and checked at
# each step: the same Paddle tensors, over the same memory, not written in a way that Paddle counts (such as a change of shape).
#
# Beside parameters of 16 bits without master weights Paddle keeps accumulators of float32. Its definition computes in float32,
# and rounds the parameter; Torch's keeps states of 16 bits, whose numbers float32 accumulators hold as well. Either way copies in
# one dtype are made for the step, and written back.

_SEEN = "_padiff_seen"  # attribute of accumulators that an update of ours has written
_HYPERPARAMETERS = frozenset({"beta1", "beta2", "epsilon", "momentum", "coefficient"})  # which Paddle also takes as tensors
_SWITCHES = frozenset({"multi_precision", "global_powers", "lazy", "with_decay", "amsgrad", "nesterov", "centered", "always_adapt"})
# Tensors, words and numbers that not every call has.
_OPTIONAL = frozenset({"master", "skip", "moment2_max", "regularization", "rows"})
_APART = frozenset({"param", "grad", "lr", "master"})  # crossed in a way of their own, or not at all
FLOATS = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
COUNTS = frozenset({"beta1_pow", "beta2_pow", "decay_pow", "mu_product", "rho"})  # one number each, from which steps are counted
_MIXED = FLOATS - {torch.float64}  # dtypes of a parameter and its accumulators that may differ


class CrossedUpdate:
    """One parameter's update: what was crossed, and what says that it still is right."""

    def __init__(self, declared: Update, names: Sequence[str], args: Sequence[Any], *, narrow: bool = False) -> None:
        """``narrow``: accumulators have the dtype of a parameter of 16 bits, as Torch's definition has it; else it is float32."""
        arguments = dict(zip(names, args))
        if arguments.get("skip") is not None:
            raise StayNative(reasons.SKIPPED_BY_TENSOR)
        if arguments.get("global_powers"):
            raise StayNative(reasons.SHARED_POWERS)
        for name, value in arguments.items():
            if not _is_taken(name, value):
                raise StayNative(reasons.SETTING, name=name, value=str(value))
        self.guard = [
            (i, value, value.data_ptr(), value._inplace_version()) for i, value in enumerate(args) if _is_state(names[i], value)
        ]
        self._places = [i for i, value in enumerate(args) if names[i] not in ("grad", "lr") and not _is_state(names[i], value)]
        self.numbers = {names[i]: _in_formula(names[i], _number(args[i])) for i in self._places}
        self.declared = declared
        # Of each combination of an update and its numbers a number: hashed once, and not at each step.
        self.key = _keys.setdefault((declared, names, tuple(self.numbers.values())), len(_keys))
        tensors = {name: as_it_lies(value) for name, value in arguments.items() if _is_state(name, value) and name not in _APART}
        self.written = as_it_lies(arguments["param"])
        master = arguments.get("master") if arguments.get("multi_precision") else None
        tensors["param"] = self.written if master is None else as_it_lies(master)
        self._has_master = master is not None
        self._copied = self._in_one_dtype(tensors, narrow=narrow)
        self.mixed = bool(self._copied) or self._has_master is not (master is not None)  # copies of one step, not to be kept
        _check(tensors, declared.made_of)
        self._form = tensors["param"].dtype, tensors["param"].shape, tensors["param"].device
        self.item = Item(tensors)
        self._velocity = arguments[declared.velocity] if declared.velocity else None
        self._seen = self._velocity is None or attribute(self._velocity, _SEEN) is not None
        self.unfinished = self._has_master or self.mixed or not self._seen

    def _in_one_dtype(self, tensors: dict[str, torch.Tensor], *, narrow: bool) -> dict[str, torch.Tensor]:
        """Exchanges accumulators of another dtype, or the parameter, for copies; returns the accumulators by name."""
        param = tensors["param"]
        states = {name: side for name, side in tensors.items() if side.shape == param.shape and name not in (*COUNTS, "param")}
        others = [side for side in states.values() if side.dtype is not param.dtype]
        if not others or not {param.dtype, *(side.dtype for side in others)} <= _MIXED:
            return {}
        if param.dtype is not torch.float32 and not narrow:
            tensors["param"] = param.float()
            self._has_master = True
        dtype = tensors["param"].dtype
        copied = {name: side for name, side in states.items() if side.dtype is not dtype}
        tensors.update({name: side.to(dtype) for name, side in copied.items()})
        return copied

    def fits(self, args: Sequence[Any]) -> bool:
        """Whether what is held is what these arguments are."""
        for i, tensor, pointer, version in self.guard:
            if args[i] is not tensor or tensor.data_ptr() != pointer or tensor._inplace_version() != version:
                return False
        # A tensor may be the same one with another number in it.
        return [_number(args[i]) for i in self._places] == list(self.numbers.values())

    def take(self, grad: PaddleTensor) -> None:
        """The gradient of this step, crossed and checked; it holds the memory until the update lets go of it."""
        self.item.grad = self._fitting(as_it_lies(grad).contiguous())
        if not self._seen:
            self.item.fresh = not bool(self.item.tensors[self.declared.velocity].any())

    def _fitting(self, side: torch.Tensor) -> torch.Tensor:
        dtype, shape, device = self._form
        if side.shape != shape or side.device != device:
            raise StayNative(reasons.STATE_LAYOUT)
        if side.dtype is not dtype:
            if not self._has_master:
                raise StayNative(reasons.STATE_DTYPE, param=dtype_of(self.written.dtype), other=dtype_of(side.dtype))
            return side.to(dtype)
        return side

    def finish(self) -> None:
        """An update was made that leaves something to do: the parameter takes over its master weight's values."""
        if self._velocity is not None and not self._seen:
            set_attribute(self._velocity, _SEEN, True)
            self._seen, self.item.fresh = True, False
            self.unfinished = self._has_master or self.mixed
        for name, side in self._copied.items():
            side.copy_(self.item.tensors[name])
        if self._has_master:
            self.written.copy_(self.item.tensors["param"])


_keys: dict[Any, int] = {}


def _is_state(name: str, value: Any) -> bool:
    return type(value) in TENSOR_TYPES and name not in _HYPERPARAMETERS and name not in ("grad", "lr")


def _number(value: Any) -> Any:
    return as_it_lies(value).item() if type(value) in TENSOR_TYPES else value


def _is_taken(name: str, value: Any) -> bool:
    """Whether Paddle's function takes a value of that type."""
    if name in _SWITCHES:
        return isinstance(value, (bool, type(None)))
    return name in _OPTIONAL or not isinstance(value, (str, type(None)))


def _in_formula(name: str, number: Any) -> Any:
    """As a formula takes it: Torch refuses a bool for a number, which Paddle takes."""
    return float(number) if isinstance(number, bool) and name not in _SWITCHES else number


def _check(tensors: dict[str, torch.Tensor], made_of: Mapping[str, str]) -> None:
    """Nothing may fail once something is written."""
    param = tensors["param"]
    if not param.numel():
        raise StayNative(reasons.EMPTY)
    for name, side in tensors.items():
        counts_steps = name in made_of and side.dtype is torch.int64
        if side.dtype not in FLOATS and not counts_steps:
            raise StayNative(reasons.COMPLEX if side.is_complex() else reasons.MIXED)
        if not side.is_contiguous():
            raise StayNative(reasons.STATE_LAYOUT)
        if side.dtype in HALVES and (name in COUNTS or name in made_of):
            raise StayNative(reasons.HALF_POWERS if name in COUNTS else reasons.HALF_STATE)
        as_param = (side.shape == param.shape or name in made_of) and name not in COUNTS and not counts_steps
        if as_param and side.dtype is not param.dtype:
            raise StayNative(reasons.STATE_DTYPE, param=dtype_of(param.dtype), other=dtype_of(side.dtype))


_updates: weakref.WeakKeyDictionary[Any, dict[int, CrossedUpdate]] = weakref.WeakKeyDictionary()


def crossed_update(optimizer: PaddleOptimizer, declared: Update, args: Sequence[Any], *, narrow: bool) -> CrossedUpdate:
    """The bridged update of one parameter by an optimizer (None: by nobody that is known). Raises StayNative.

    ``narrow``: see :class:`CrossedUpdate`.
    """
    if declared.made_of:  # what the optimizer made of its accumulators for this call gives place to these
        if optimizer is None:
            raise StayNative(reasons.NO_OPTIMIZER)
        accumulators = [declared.made_of.get(name) for name in declared.names(len(args))]
        args = [
            value if accumulator is None else optimizer._get_accumulator_master(accumulator, args[0])
            for value, accumulator in zip(args, accumulators)
        ]
    known = _updates.setdefault(optimizer, {}) if optimizer is not None else {}
    update = known.get(id(args[0]))
    if update is None or update.declared is not declared or not update.fits(args):
        update = CrossedUpdate(declared, declared.names(len(args)), args, narrow=narrow)
        if update.mixed:
            known.pop(id(args[0]), None)
        else:
            known[id(args[0])] = update
    return update
