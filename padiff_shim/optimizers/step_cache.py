"""An optimizer's step while it runs, and what is reused from one step to the next: tensors of each parameter, whole steps."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from numbers import Number
from operator import is_not
from typing import Any, NamedTuple

import paddle
import torch
from paddle.regularizer import L2Decay

from ..dispatch.entry_point import Unlisted, gate
from ..dispatch.frames import Frame
from ..frameworks.memory import HALVES, TENSOR_TYPES, as_it_lies
from ..frameworks.versions import PaddleOptimizer, PaddleTensor, attribute, set_attribute
from ..frameworks.windows import Windows, on_torchs_side
from ..table import reasons
from ..table.reasons import StayNative
from .update import Gathered, Item, Update

# ---- An optimizer's step while it runs: its learning rate, the decay it puts off, and updates that wait to be made together.
#
# Paddle's C functions get a learning rate of float32, and gradients to which L2 decay was added in a rounding of its own. Torch's
# optimizers take the number that the program wrote, and add the decay themselves. Both are known to the optimizer alone.

_NONE: dict[str, Any] = {}
_NUMBERS = frozenset({int, float})
_ROUNDED = 2.0**-22  # two roundings to float32, as a ratio


class WaitingUpdate(NamedTuple):
    """One update of one parameter; in one that is kept the frame, the gradient and the learning rate are None."""

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
        self.made: list[tuple[WaitingUpdate, Any]] = []  # updates on Torch's side, with what was crossed
        self.whole = True  # no update was native
        self.pairs: list[tuple[Any, Any]] = []  # of updates that are made again: parameters with their gradients
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
            known = self._read[id(tensor)] = tensor, on_torchs_side(tensor, tensor).item()
        return known[1]

    def learning_rate(self, tensor: PaddleTensor, param: PaddleTensor) -> float:
        """The learning rate of an update: the unrounded number, if that is what the tensor was made of."""
        factor = (getattr(param, "optimize_attr", None) or _NONE).get("learning_rate", 1.0)
        key = id(tensor), factor
        known = self._rates.get(key)
        if known is None:
            known = self._rates[key] = self._exact(self.read(tensor), factor)
        return known

    def common_rate(self, tensor: PaddleTensor) -> float:
        """The learning rate of a parameter without a factor; ``tensor``: the optimizer's."""
        return self._exact(self.read(tensor), 1.0)

    @staticmethod
    def factors(params: Sequence[Any]) -> list[float] | None:
        """What the learning rates of these parameters are multiplied by; None where one is no plain number."""
        factors = [(getattr(param, "optimize_attr", None) or _NONE).get("learning_rate", 1.0) for param in params]
        plain = _NUMBERS.issuperset(map(type, factors)) or all(isinstance(factor, (int, float)) for factor in factors)
        return factors if plain else None

    def repeated_rate(self, common: float, factor: float) -> float | None:
        """The learning rate of an update whose tensor was not made; None where only that tells it."""
        if factor == 1.0:
            return common
        return common * factor if common == self.base() else None

    def decay_of(self, param: PaddleTensor) -> float:
        """The coefficient of the L2 decay that was put off."""
        known = self.decays.get(id(param))
        return 0.0 if known is None else known[0]

    def arguments(self, call: WaitingUpdate) -> tuple[Any, ...]:
        """The arguments of an update; the gradient and the learning rate are put back where a repeated update left them out."""
        args, declared = list(call.args), call.declared
        grad = next((grad for param, grad in self.pairs if param is args[0]), None)
        if call.frame is None and grad is not None:
            args[declared.place_of_grad] = grad
            if declared.place_of_rate is not None:
                args[declared.place_of_rate] = self.optimizer._create_param_lr((args[0], grad))
        return tuple(args)

    def _exact(self, rounded: float, factor: Any) -> float:
        if not isinstance(factor, (int, float)):
            return rounded
        exact = self.base() if factor == 1.0 else self.base() * factor
        return exact if abs(exact - rounded) <= _ROUNDED * abs(exact) else rounded


class _ThreadStep(threading.local):
    """The step that runs in one thread, and the decay that was put off for the next one."""

    now: ParameterPass | None = None
    refused: int | None = None  # the identity of an optimizer whose step differs from its last one, as was seen before it began
    decays: tuple[Any, dict[int, tuple[float, Callable[[], Any]]]] | None = None


_here = _ThreadStep()


def now() -> ParameterPass | None:
    """The pass that runs in this thread."""
    return _here.now


def forget_decays() -> None:
    """No decay is put off for the next pass."""
    _here.decays = None


def refuse_repeat(optimizer: PaddleOptimizer) -> None:
    """Note that the next pass over this optimizer's parameters differs from the last one, so that it is not compared again."""
    _here.refused = id(optimizer)


def take_refused(optimizer: PaddleOptimizer) -> bool:
    """Whether :func:`refuse_repeat` was called for the pass that begins."""
    last_refused, _here.refused = _here.refused, None
    return last_refused == id(optimizer)


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
        elif not _adds_it_in_its_kernel(optimizer, own):
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


def _adds_it_in_its_kernel(optimizer: PaddleOptimizer, own: Any) -> bool:
    """Momentum's kernel adds the decay of a parameter itself."""
    return optimizer.type == "momentum" and type(own) is L2Decay


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
PLAIN = (Number, str, type(None))  # what cannot be written
FLOATS = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
_COUNTS = frozenset({"beta1_pow", "beta2_pow", "decay_pow", "mu_product", "rho"})  # one number each, from which steps are counted
_MIXED = FLOATS - {torch.float64}  # dtypes of a parameter and its accumulators that may differ


class CrossedUpdate:
    """One parameter's update: what was crossed, and what says that it still is right."""

    __slots__ = (
        "_copied", "_form", "_has_master", "_numbers", "_places", "_seen", "_velocity", "declared", "guard", "item", "key", "mixed",
        "numbers", "unfinished", "written"
    )  # fmt: skip

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
        self.guard = [_mark(i, value) for i, value in enumerate(args) if _is_state(names[i], value)]
        self._places = [i for i, value in enumerate(args) if names[i] not in ("grad", "lr") and not _is_state(names[i], value)]
        self._numbers = tuple([args[i] for i in self._places])
        self.numbers = {names[i]: _in_formula(names[i], _number(args[i])) for i in self._places}
        self.declared, self.key = declared, _short((declared, names, tuple(self.numbers.values())))
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
        states = {name: side for name, side in tensors.items() if side.shape == param.shape and name not in (*_COUNTS, "param")}
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

    def numbers_are_plain(self) -> bool:
        """Whether none of the numbers is read from a tensor or an array, which may be written."""
        return all(isinstance(value, PLAIN) for value in self._numbers)

    def take(self, param: PaddleTensor, grad: PaddleTensor, side: torch.Tensor | None = None) -> None:
        """The gradient of this step, crossed (``side``: if it is already) and checked; to be held until the update is made."""
        if side is None:
            side = on_torchs_side(param, grad)
        self.item.grad = self._fitting(side)
        if not self._seen:
            self.item.fresh = not bool(self.item.tensors[self.declared.velocity].any())

    def _fitting(self, side: torch.Tensor) -> torch.Tensor:
        dtype, shape, device = self._form
        if side.shape != shape or side.device != device or not side.is_contiguous():
            raise StayNative(reasons.STATE_LAYOUT)
        if side.dtype is not dtype:
            if not self._has_master:
                raise StayNative(reasons.STATE_DTYPE, param=_dtype_word(self.written), other=_dtype_word(side))
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


def _short(key: Any) -> int:
    """A number for each combination of an update and its numbers: hashed once, and not at each step."""
    return _keys.setdefault(key, len(_keys))


def _mark(place: int, tensor: PaddleTensor) -> tuple[int, Any, int, int]:
    return place, tensor, tensor.data_ptr(), tensor._inplace_version()


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
        if side.dtype in HALVES and (name in _COUNTS or name in made_of):
            raise StayNative(reasons.HALF_POWERS if name in _COUNTS else reasons.HALF_STATE)
        as_param = (side.shape == param.shape or name in made_of) and name not in _COUNTS and not counts_steps
        if as_param and side.dtype is not param.dtype:
            raise StayNative(reasons.STATE_DTYPE, param=_dtype_word(param), other=_dtype_word(side))


def _dtype_word(side: torch.Tensor) -> str:
    return str(side.dtype).rpartition(".")[2]


_updates: weakref.WeakKeyDictionary[Any, dict[int, CrossedUpdate]] = weakref.WeakKeyDictionary()


def crossed_update(optimizer: PaddleOptimizer, declared: Update, args: Sequence[Any], *, narrow: bool) -> CrossedUpdate:
    """The bridged update of one parameter by an optimizer (None: by nobody that is known). Raises StayNative.

    ``narrow``: see :class:`CrossedUpdate`.
    """
    if declared.made_of:
        args = _with_accumulators(optimizer, declared, args)
    known = _updates.setdefault(optimizer, {}) if optimizer is not None else {}
    update = known.get(id(args[0]))
    if update is None or update.declared is not declared or not update.fits(args):
        update = CrossedUpdate(declared, declared.names(len(args)), args, narrow=narrow)
        if update.mixed:
            known.pop(id(args[0]), None)
        else:
            known[id(args[0])] = update
    return update


def _with_accumulators(optimizer: PaddleOptimizer, declared: Update, args: Sequence[Any]) -> Sequence[Any]:
    """The arguments with the optimizer's accumulators in the place of what it made of them for this call."""
    if optimizer is None:
        raise StayNative(reasons.NO_OPTIMIZER)
    accumulators = [declared.made_of.get(name) for name in declared.names(len(args))]
    return [
        value if accumulator is None else optimizer._get_accumulator_master(accumulator, args[0])
        for value, accumulator in zip(args, accumulators)
    ]


# ---- An optimizer's step that is as its last one: made again without building each parameter's call anew.
#
# From step to step nothing changes but values, gradients and the learning rate. Paddle's optimizers look all of it up again for
# each parameter: attributes, accumulators by their names, a learning rate. So the calls of a step are kept, with what they were
# made of; if that is as it was, the updates are those that were kept, with the new gradients. Whatever is not the same takes the
# long way.

_NEW_EACH_TIME = frozenset({"helper", "_learning_rate"})  # attributes: the one says nothing, the other is read at each step
_DECAY_FILTER = "_apply_decay_param_fun"  # a program's function, called for each parameter
_UNKNOWN = ("_lr_ratio", "_exclude_from_weight_decay_fn", "fused_states_buffer")  # with these a step is never kept
_SHARDED = "_need_shard_auto"  # of a parameter whose accumulators Paddle is going to lay out over processes
_PLAINEST = frozenset({bool, int, float, str, type(None)})  # of what is plain, that which needs no looking up
_GROUPINGS = 16  # of parameters that are known
_METHODS = ("_append_optimize_op", "_create_accumulators", "_create_param_lr", "_finish_update")


class RepeatedUpdate(NamedTuple):
    """One parameter's update of a step: its call without gradient and learning rate, with what was crossed."""

    pair: tuple[WaitingUpdate, CrossedUpdate]
    param: PaddleTensor
    regularizer: Any


Groups = dict[Any, list[tuple[WaitingUpdate, CrossedUpdate]]]  # by their numbers, the learning rate and the decay
Gatherer = Callable[[Sequence[Item]], Gathered]


class Again(NamedTuple):
    """The updates of a pass that is as the last one, and what tells what is known of the parameters of a group."""

    groups: Groups
    gathered: Gatherer


class Before:
    """What an optimizer was before a pass over (a group of) its parameters, and the options of that group."""

    def __init__(self, optimizer: PaddleOptimizer, pairs: Any) -> None:
        self.kind = _kind(optimizer)
        self.attributes = _attributes(optimizer)
        self.options = _options(optimizer, pairs)


class Repeat:
    """One pass as it was: what it was made of, and its updates."""

    def __init__(self, before: Before, here: ParameterPass, updates: list[RepeatedUpdate]) -> None:
        self.before, self.updates = before, updates
        declared = updates[0].pair[0].declared
        marks = [mark for repeated in updates for mark in repeated.pair[1].guard]
        self._crossed = [tensor for _, tensor, _, _ in marks]
        self._pointers, self._versions = [mark[2] for mark in marks], [mark[3] for mark in marks]
        self._params = [repeated.param for repeated in updates]
        self._regularizers = [repeated.regularizer for repeated in updates]
        self.undecayed = all(regularizer is None for regularizer in self._regularizers)
        self._decaying = [repeated.pair[1].numbers.get("with_decay") for repeated in updates]
        self._items = [repeated.pair[1].item for repeated in updates]
        self._gathered: list[Gathered] = []
        self._windows = Windows()
        self._grouped: tuple[Any, dict[Any, list[tuple[WaitingUpdate, CrossedUpdate]]]] = (
            None,
            {},
        )  # what they were grouped by, and the groups
        self.name, self.rated = declared.name, declared.place_of_rate is not None
        self._state = [id(tensor) for tensor in _state(here.optimizer)]
        after = vars(here.optimizer)
        self.changed = {name: after[name] for name, value in _attributes(here.optimizer).items() if _moved(before, name, value)}

    def again(self, here: ParameterPass, parameters: Any, pairs: Sequence[tuple[Any, Any]]) -> Groups | None:
        """The updates of this pass, if all is as it was; gradients are crossed. Raises StayNative where one cannot be.

        Args:
            here: the pass.
            given: the parameters as the optimizer got them, with the options of their group if they are one.
            pairs: those that are updated, with their gradients.
        """
        optimizer = here.optimizer
        if len(pairs) != len(self.updates) or not self._is_of(optimizer, parameters):
            return None
        tensor, decay_filter = optimizer._global_learning_rate(), getattr(optimizer, _DECAY_FILTER, None)
        if type(optimizer._learning_rate) is not float or type(tensor) not in TENSOR_TYPES:
            optimizer._create_global_learning_rate()  # a schedule's number goes into the tensor
            tensor = optimizer._global_learning_rate()
        params = [param for param, _ in pairs]
        if any(map(is_not, params, self._params)):
            return None
        if any(map(is_not, [getattr(param, "regularizer", None) for param in params], self._regularizers)):
            return None
        if decay_filter is not None and [bool(decay_filter(param.name)) for param in params] != self._decaying:
            return None
        factors = here.factors(params) if self.rated else [1.0] * len(params)
        if factors is None:
            return None
        decays = [here.decay_of(param) for param in params] if here.decays else [0.0] * len(params)
        common = here.common_rate(tensor) if self.rated else 0.0
        groups: Groups = {}
        for (key, factor, decay), group in self._groups(factors, decays).items():
            rate = here.repeated_rate(common, factor)
            if rate is None:
                return None
            groups.setdefault((key, rate, decay), []).extend(group)
        if not self._stand():  # behind all that is the program's own: its schedules, its functions
            return None
        self._take(pairs)
        return groups

    def _groups(self, factors: list[float], decays: list[float]) -> Groups:
        """The updates by their numbers, factors and decays."""
        if self._grouped[0] != (factors, decays):
            groups: Groups = {}
            for (pair, *_), factor, decay in zip(self.updates, factors, decays):
                groups.setdefault((pair[1].key, factor, decay), []).append(pair)
            self._grouped = (factors, decays), groups
        return self._grouped[1]

    def _take(self, pairs: Sequence[tuple[Any, Any]]) -> None:
        """The gradients of this step."""
        if not self._windows.show([grad for _, grad in pairs]):
            self._windows, seen = Windows(), Windows(pairs)
            for ((_, update), *_), (param, grad), side in zip(self.updates, pairs, seen.sides or [None] * len(pairs)):
                update.take(param, grad, side)
            if not seen.sides or any(map(is_not, [item.grad for item in self._items], seen.sides)):  # crossed, of another dtype
                return
            self._windows = seen
        for item, side in zip(self._items, self._windows.sides):
            item.grad = side

    def gathered(self, items: Sequence[Item]) -> Gathered:
        """What is known of these parameters; they are grouped as at the last step, mostly."""
        for known in self._gathered:
            if known.items == items:
                return known
        gathered = Gathered(items)
        self._gathered = [*self._gathered[1 - _GROUPINGS :], gathered]
        return gathered

    def _stand(self) -> bool:
        """Whether all tensors that were crossed lie where they lay, and were not written in a way that Paddle counts."""
        return [tensor.data_ptr() for tensor in self._crossed] == self._pointers and [
            tensor._inplace_version() for tensor in self._crossed
        ] == self._versions

    def _is_of(self, optimizer: PaddleOptimizer, parameters: Any) -> bool:
        return (
            _kind(optimizer) == self.before.kind
            and _attributes(optimizer) == self.before.attributes
            and _options(optimizer, parameters) == self.before.options
            and [id(tensor) for tensor in _state(optimizer)] == self._state
            and _is_off(optimizer._get_auxiliary_var("found_inf"))
        )


def _is_off(found_inf: Any) -> bool:
    """Whether no scaler has found anything: what it left to be read is read by Paddle."""
    return found_inf is None or found_inf is False


def _kind(optimizer: PaddleOptimizer) -> tuple[Any, ...]:
    kind = type(optimizer)
    return (kind, *[getattr(kind, name, None) for name in _METHODS])


def _attributes(optimizer: PaddleOptimizer) -> dict[str, Any]:
    """What an optimizer says of itself: see :func:`_word`."""
    return {name: _word(value) for name, value in vars(optimizer).items() if name not in _NEW_EACH_TIME}


def _options(optimizer: PaddleOptimizer, pairs: Any) -> list[dict[str, Any]]:
    """The options of this group of parameters and of all others; a program may change either between two steps."""
    own = {name: value for name, value in pairs.items() if name != "params"} if isinstance(pairs, dict) else {}
    return [
        {name: _word(value) for name, value in options.items()}
        for options in (own, getattr(optimizer, "_default_dict", None) or {})
    ]


def _word(value: Any) -> Any:
    """A plain value itself, a tensor's identity, and the type of anything else, which is compared elsewhere."""
    kind = type(value)
    if kind in _PLAINEST or _is_plain_kind(kind):  # type: ignore[arg-type]
        return value
    return id(value) if issubclass(kind, paddle.Tensor) else kind


@functools.lru_cache(maxsize=256)  # for an abstract class this is a call in Python
def _is_plain_kind(kind: Any) -> bool:
    return issubclass(kind, PLAIN)


def _moved(before: Before, name: str, value: Any) -> bool:
    return name not in before.attributes or before.attributes[name] != value


def _state(optimizer: PaddleOptimizer) -> list[Any]:
    """All accumulators and master weights, in order."""
    tensors = [tensor for kind in optimizer._accumulators.values() for tensor in kind.values()]
    return tensors + list(getattr(optimizer, "_master_weights", {}).values())


def pairs_with_grad(pairs: Any) -> list[tuple[Any, Any]]:
    """The parameters of a pass that are updated, with their gradients."""
    all_pairs = pairs["params"] if isinstance(pairs, dict) else pairs
    return [pair for pair in all_pairs if pair[1] is not None and not pair[0].stop_gradient]


_repeats: weakref.WeakKeyDictionary[Any, dict[int, Repeat]] = weakref.WeakKeyDictionary()  # by the identity of the first parameter


def known_pass(optimizer: PaddleOptimizer, first: Any) -> Repeat | None:
    """The pass of an optimizer that is kept, by the first of its parameters."""
    return _repeats.get(optimizer, {}).get(id(first))


def remember(before: Before, here: ParameterPass, pairs: Any) -> None:
    """Keep a pass that is over, if the next one may be made of it: all of its updates were Torch's, and known to the last word."""
    optimizer, alive = here.optimizer, pairs_with_grad(pairs)
    if not alive:
        return
    _repeats.get(optimizer, {}).pop(id(alive[0][0]), None)
    if not here.whole or len(here.made) != len(alive) or not _is_plain(optimizer):
        return
    made = {id(call.args[0]): (call, update) for call, update in here.made}
    if len(made) != len(alive) or any(id(param) not in made or not _is_known(*made[id(param)], param) for param, _ in alive):
        return
    updates = [_repeated(*made[id(param)], param) for param, _ in alive]
    repeat = Repeat(before, here, updates)
    if all(isinstance(value, PLAIN) for value in repeat.changed.values()) and not _asks_tensors(optimizer, pairs, updates):
        _repeats.setdefault(optimizer, {})[id(alive[0][0])] = repeat


def _repeated(call: WaitingUpdate, update: CrossedUpdate, param: PaddleTensor) -> RepeatedUpdate:
    bare = list(call.args)
    bare[call.declared.place_of_grad] = None  # a gradient must not outlive its step
    if call.declared.place_of_rate is not None:
        bare[call.declared.place_of_rate] = None
    return RepeatedUpdate((call._replace(frame=None, args=tuple(bare)), update), param, getattr(param, "regularizer", None))


def _is_plain(optimizer: PaddleOptimizer) -> bool:
    """Whether an optimizer is one of Paddle's own, and nothing of it is another's."""
    kind = type(optimizer)
    return (
        kind.__module__.startswith("paddle.optimizer.")
        and is_paddles(optimizer)
        and all(getattr(optimizer, name, None) is None for name in _UNKNOWN)
        and not any(callable(value) and hasattr(kind, name) for name, value in vars(optimizer).items())
    )


def _asks_tensors(optimizer: PaddleOptimizer, pairs: Any, updates: Sequence[RepeatedUpdate]) -> bool:
    """Whether a number may have been read out of a tensor, which may be written; what an update itself reads is read each time."""
    own = {name: value for name, value in vars(optimizer).items() if name not in _NEW_EACH_TIME}
    settings = [own, getattr(optimizer, "_default_dict", None) or {}, pairs if isinstance(pairs, dict) else {}]
    read = {id(value) for update in updates for value in update.pair[0].args}
    return any(isinstance(value, paddle.Tensor) and id(value) not in read for values in settings for value in values.values())


def _is_known(call: WaitingUpdate, update: CrossedUpdate, param: PaddleTensor) -> bool:
    """Whether all that a call was made of is compared: no number is a tensor's, no argument made anew, no decay the kernel's."""
    own = getattr(param, "regularizer", None)
    plain = update.numbers_are_plain() and not call.declared.made_of
    return plain and not (call.declared.name == "momentum" and own is not None) and not hasattr(param, _SHARDED)


def finish(optimizer: PaddleOptimizer, declared: Update, pairs: Any) -> None:
    """What an optimizer does behind all updates of a pass, where it is not known."""
    own = type(optimizer)._finish_update
    if declared.behind is None and own is not paddle.optimizer.Optimizer._finish_update:
        own(optimizer, paddle.static.default_main_program().global_block(), pairs)


def again(here: ParameterPass, frame: Frame, pairs: Any) -> Again | None:
    """The updates of a pass that is as the last one over these parameters; None where it is not, or cannot be."""
    alive = pairs_with_grad(pairs)
    repeat = known_pass(here.optimizer, alive[0][0]) if alive else None
    if repeat is None:
        return None
    try:
        gate(frame, repeat.name)
        groups = repeat.again(here, pairs, alive)
    except StayNative:
        return None
    if groups is None:
        return None
    here.optimizer.__dict__.update(repeat.changed)
    here.pairs = alive
    return Again(groups, repeat.gathered)
