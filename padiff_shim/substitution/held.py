"""The tensors of a parameter's update on Torch's side, kept from one step to the next.

Crossing takes a microsecond a tensor, and an update has six. So the crossed tensors are kept with the optimizer, and checked at
each step: the same Paddle tensors, over the same memory, not written in a way that Paddle counts (such as a change of shape).

Beside parameters of 16 bits without master weights Paddle keeps accumulators of float32. Its definition computes in float32, and
rounds the parameter; Torch's keeps states of 16 bits, whose numbers float32 accumulators hold as well. Either way copies in one
dtype are made for the step, and written back.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from numbers import Number
from typing import Any

import torch

from ..frameworks.memory import HALVES, TENSOR_TYPES, as_it_lies
from ..frameworks.versions import attribute, set_attribute
from ..frameworks.windows import on_torchs_side
from ..optimizers.update import Item, Update
from ..table import reasons
from ..table.reasons import StayNative

_SEEN = "_padiff_seen"  # attribute of accumulators that an update of ours has written
_NUMBERS = frozenset({"beta1", "beta2", "epsilon", "momentum", "coefficient"})  # which Paddle also takes as tensors
_SWITCHES = frozenset({"multi_precision", "global_powers", "lazy", "with_decay", "amsgrad", "nesterov", "centered", "always_adapt"})
# Tensors, words and numbers that not every call has.
_OPTIONAL = frozenset({"master", "skip", "moment2_max", "regularization", "rows"})
_APART = frozenset({"param", "grad", "lr", "master"})  # crossed in a way of their own, or not at all
PLAIN = (Number, str, type(None))  # what cannot be written
FLOATS = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
_COUNTS = frozenset({"beta1_pow", "beta2_pow", "decay_pow", "mu_product", "rho"})  # one number each, from which steps are counted
_MIXED = FLOATS - {torch.float64}  # dtypes of a parameter and its accumulators that may differ


class Held:
    """One parameter's update: what was crossed, and what says that it still is right."""

    __slots__ = (
        "_copied", "_form", "_has_master", "_numbers", "_places", "_seen", "_velocity", "declared", "guard", "item", "key", "mixed",
        "numbers", "unfinished", "written"
    )  # fmt: skip

    def __init__(self, declared: Update, names: Sequence[str], args: Sequence[Any], *, narrow: bool = False) -> None:
        """``narrow``: accumulators have the dtype of a parameter of 16 bits, as Torch's definition has it; else it is float32."""
        given = dict(zip(names, args))
        if given.get("skip") is not None:
            raise StayNative(reasons.SKIPPED_BY_TENSOR)
        if given.get("global_powers"):
            raise StayNative(reasons.SHARED_POWERS)
        for name, value in given.items():
            if not _is_taken(name, value):
                raise StayNative(reasons.SETTING, name=name, value=str(value))
        self.guard = [_mark(i, value) for i, value in enumerate(args) if _is_kept(names[i], value)]
        self._places = [i for i, value in enumerate(args) if names[i] not in ("grad", "lr") and not _is_kept(names[i], value)]
        self._numbers = tuple([args[i] for i in self._places])
        self.numbers = {names[i]: _in_formula(names[i], _number(args[i])) for i in self._places}
        self.declared, self.key = declared, _short((declared, names, tuple(self.numbers.values())))
        tensors = {name: as_it_lies(value) for name, value in given.items() if _is_kept(name, value) and name not in _APART}
        self.written = as_it_lies(given["param"])
        master = given.get("master") if given.get("multi_precision") else None
        tensors["param"] = self.written if master is None else as_it_lies(master)
        self._has_master = master is not None
        self._copied = self._in_one_dtype(tensors, narrow=narrow)
        self.mixed = bool(self._copied) or self._has_master is not (master is not None)  # copies of one step, not to be kept
        _check(tensors)
        self._form = tensors["param"].dtype, tensors["param"].shape, tensors["param"].device
        self.item = Item(tensors)
        self._velocity = given[declared.velocity] if declared.velocity else None
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

    def take(self, param: Any, grad: Any, side: torch.Tensor | None = None) -> None:
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
                raise StayNative(reasons.STATE_DTYPE, param=_word(self.written), other=_word(side))
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


def _mark(place: int, tensor: Any) -> tuple[int, Any, int, int]:
    return place, tensor, tensor.data_ptr(), tensor._inplace_version()


def _is_kept(name: str, value: Any) -> bool:
    return type(value) in TENSOR_TYPES and name not in _NUMBERS and name not in ("grad", "lr")


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


def _check(tensors: dict[str, torch.Tensor]) -> None:
    """Nothing may fail once something is written."""
    param = tensors["param"]
    if not param.numel():
        raise StayNative(reasons.EMPTY)
    for name, side in tensors.items():
        if side.dtype not in FLOATS:
            raise StayNative(reasons.COMPLEX if side.is_complex() else reasons.MIXED)
        if not side.is_contiguous():
            raise StayNative(reasons.STATE_LAYOUT)
        if name in _COUNTS and side.dtype in HALVES:
            raise StayNative(reasons.HALF_POWERS)
        if side.shape == param.shape and side.dtype is not param.dtype and name not in _COUNTS:
            raise StayNative(reasons.STATE_DTYPE, param=_word(param), other=_word(side))


def _word(side: torch.Tensor) -> str:
    return str(side.dtype).rpartition(".")[2]


_of: weakref.WeakKeyDictionary[Any, dict[int, Held]] = weakref.WeakKeyDictionary()


def held(optimizer: Any, declared: Update, args: Sequence[Any], *, narrow: bool) -> Held:
    """The bridged update of one parameter by an optimizer (None: by nobody that is known). Raises StayNative.

    ``narrow``: see :class:`Held`.
    """
    known = _of.setdefault(optimizer, {}) if optimizer is not None else {}
    update = known.get(id(args[0]))
    if update is None or update.declared is not declared or not update.fits(args):
        update = Held(declared, declared.names(len(args)), args, narrow=narrow)
        if update.mixed:
            known.pop(id(args[0]), None)
        else:
            known[id(args[0])] = update
    return update
