"""The words of an optimizer: one declaration says which C function of Paddle's makes its update, and what Torch has for it."""

from __future__ import annotations

import functools
import importlib
import math
import operator
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ..table import reasons
from ..table.reasons import StayNative

# A formula computes in place on the tensors of a :class:`Batch`. ``torch`` is Torch's definition, its own functional optimizer.
# ``paddle`` is Paddle's where that is another one (an epsilon inside of a root); without it both define the same, up to rounding,
# and Torch's function serves for both.

_FAMILIES = ("adaptive", "descent")  # modules of this room that declare updates
CLIPPERS = {  # class in paddle.nn, or function in paddle.nn.utils -> what a run counts it by; see clipping.py
    "ClipGradByGlobalNorm": "clip_grad_by_global_norm",
    "ClipGradByNorm": "clip_grad_by_norm",
    "clip_grad_norm_": "clip_grad_norm",
}
_ABSENT = frozenset({"amsgrad", "moment2_max"})  # from arguments that Paddle 2.6 does not have


class Item:
    """The tensors of one parameter's update on Torch's side, over Paddle's memory, by the names of the C function's parameters.

    ``tensors["param"]`` is what is updated: the master weight if there is one. ``count`` is Torch's tensor that counts steps;
    ``left`` what an update has left, where only that says whether the count still holds.
    """

    def __init__(self, tensors: dict[str, Any]) -> None:
        self.tensors = tensors
        self._arrays: dict[str, Any] = {}
        self.grad: Any = None  # with the dtype of what is updated
        self.fresh = False  # no update was made with these accumulators yet
        self.count: Any = None
        self.left: Any = None

    def flat(self, name: str) -> Any:
        """A tensor that is filled with one number: as a flat NumPy array over its memory, or on a GPU as a flat tensor."""
        flat = self._arrays.get(name)
        if flat is None:
            tensor = self.tensors[name].view(-1)
            flat = self._arrays[name] = tensor if tensor.is_cuda else tensor.numpy()
        return flat


class Batch:
    """Updates of several parameters by one optimizer with the same numbers: what a formula computes.

    Tensors are lists, a tensor for each parameter, under the C function's names; numbers are numbers. ``lr`` is the number that the
    program wrote, not the float32 that Paddle makes of it. ``decay`` is the coefficient of L2 decay that belongs to the gradients,
    which Paddle would have added to them before.
    """

    def __init__(self, items: Sequence[Item], numbers: Mapping[str, Any], lr: float, decay: float) -> None:
        self.items, self.lr, self.decay = items, lr, decay
        self.grad = [item.grad for item in items]
        self._numbers = numbers
        self._kept: dict[Any, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if name in self._numbers:
            return self._numbers[name]
        if name in _ABSENT and name not in self.items[0].tensors:
            return None
        return self.once(name, lambda: [item.tensors[name] for item in self.items])

    def once(self, key: Any, find: Callable[[], Any]) -> Any:
        """What ``find`` returns, called once."""
        result = self._kept.get(key)
        if result is None:
            result = self._kept[key] = find()
        return result

    def of(self, items: Sequence[Item]) -> Batch:
        """The same for some of the parameters, or for others."""
        return Batch(items, self._numbers, self.lr, self.decay)

    @property
    def foreach(self) -> bool | None:
        """For Torch's functions: on a CPU one parameter after the other, on a GPU as they choose."""
        return None if self.items[0].tensors["param"].is_cuda else False

    def flat(self, name: str) -> list[Any]:
        """Tensors that are filled with one number each: see `Item.flat`."""
        return self.once((name, "flat"), lambda: [item.flat(name) for item in self.items])

    def dtypes(self, name: str) -> list[Any]:
        """The dtype of a tensor of each parameter."""
        return self.once((name, "dtype"), lambda: [item.tensors[name].dtype for item in self.items])

    def decayed(self) -> list[Any]:
        """The gradients with their L2 decay."""
        if not self.decay:
            return self.grad
        return [grad.add(param, alpha=self.decay) for grad, param in zip(self.grad, self.param)]


Formula = Callable[[Batch], None]


@dataclass(frozen=True, eq=False)
class Update:
    """One C function of ``paddle._C_ops`` that updates a parameter in place.

    Attributes:
        name: what a run counts it by.
        function: the C function's name.
        optimizer: the class in ``paddle.optimizer``.
        params: the C function's parameters, in order; ``+`` marks those that Paddle 2.6 does not have.
        results: the parameters that it returns.
        torch: Torch's definition, or None where Torch has no such optimizer.
        paddle: Paddle's definition, if it is another one.
        twin: Torch's optimizer in words.
        differs: how the definitions differ, in words.
        coupled: whether the formulas add L2 decay to the gradient, as Paddle's regularizers do.
        velocity: the accumulator that Torch begins with the first gradient, and Paddle with zero.
        made_of: arguments that Paddle's optimizer makes anew for each call -> the accumulators that it makes them of. The formula
            gets the accumulators under the arguments' names; whole numbers are allowed among them.
        at_once: Paddle's optimizer goes on to change what the update reads, so that updates cannot wait for one another.
        merged: parameters of the C function ``merged_<function>``, which takes lists; empty if there is none.
        legacy: parameters of the function of that name in ``paddle._legacy_C_ops``, where Paddle 2.6 calls that one; behind the bar
            those that are passed by name.
    """

    name: str
    function: str
    optimizer: str
    params: str
    results: str
    torch: Formula | None = None
    paddle: Formula | None = None
    twin: str = ""
    differs: str = ""
    coupled: bool = True
    velocity: str = ""
    made_of: Mapping[str, str] = field(default_factory=dict)
    at_once: bool = False
    merged: str = ""
    legacy: str = ""

    def formula(self, definition: str) -> tuple[Formula, str]:
        """What computes the update, and whose definition it is; where Torch has none, Paddle's."""
        chosen = self.torch if definition == "torch" or self.paddle is None else self.paddle
        chosen = chosen or self.paddle
        if chosen is None:
            raise ValueError(f"update {self.name!r} has no formula")
        return chosen, "torch" if chosen is self.torch else "paddle"

    def results_of(self, args: Sequence[Any]) -> Any:
        """What the C function returns: parameters and accumulators among its arguments."""
        return _picker(self.params, self.results, len(args))(args)

    def results_of_merged(self, args: Sequence[Any]) -> Any:
        """What ``merged_<function>`` returns."""
        return _picker(self.merged, self.results, len(args))(args)

    @functools.cached_property
    def place_of_grad(self) -> int:
        """Where the gradient stands; before the first parameter that a version lacks."""
        return self.params.split().index("grad")

    @functools.cached_property
    def place_of_rate(self) -> int | None:
        """Where the learning rate stands, before the first parameter that a version lacks; None where it is a state (Rprop)."""
        words = self.params.split()
        return words.index("lr") if "lr" in words else None

    def from_legacy(self, args: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments of the old function as those of the C function."""
        names = self.legacy.partition(" | ")[0].split()
        values = {**dict(zip(args[len(names) :: 2], args[len(names) + 1 :: 2])), **dict(zip(names, args))}
        return tuple(values.get(word) for word in self.params.split())

    def to_legacy(self, args: Sequence[Any]) -> list[Any]:
        """The same the other way round."""
        values = dict(zip(self.params.split(), args))
        tensors, _, numbers = self.legacy.partition(" | ")
        return [*map(values.get, tensors.split()), *[part for name in numbers.split() for part in (name, values[name])]]

    def names(self, count: int) -> tuple[str, ...]:
        """The parameters in the spelling of the Paddle version that has so many. Raises StayNative if none has."""
        return _spelled(self.params, count)

    def lists(self, args: Sequence[Any]) -> dict[str, bool]:
        """The parameters of ``merged_<function>``, and whether each is a list in these arguments. Raises StayNative if none fit."""
        return {name: isinstance(value, list) for name, value in zip(_spelled(self.merged, len(args)), args)}

    def in_lists(self, args: Sequence[Any], lists: Mapping[str, bool]) -> list[Any]:
        """The arguments of one parameter's call as those of ``merged_<function>``."""
        values = dict(zip((word.rstrip("+") for word in self.params.split()), args))
        return [[values[name]] if listed else values[name] for name, listed in lists.items()]

    def singly(self, args: Sequence[Any]) -> list[tuple[Any, ...]]:
        """The arguments of ``merged_<function>`` as those of one call for each parameter. Raises StayNative if lists do not fit."""
        values = dict(zip(_spelled(self.merged, len(args)), args))
        names = [word.rstrip("+") for word in self.params.split()]
        if len({len(value) for value in values.values() if isinstance(value, list)}) != 1:
            raise StayNative(reasons.UPDATE_FORM, count=len(args))
        return [
            tuple(value[i] if isinstance(value, list) else value for value in map(values.get, names))
            for i in range(len(values["param"]))
        ]


@functools.cache
def _spelled(params: str, count: int) -> tuple[str, ...]:
    words = params.split()
    for names in (tuple(word.rstrip("+") for word in words), tuple(word for word in words if not word.endswith("+"))):
        if len(names) == count:
            return names
    raise StayNative(reasons.UPDATE_FORM, count=count)


@functools.cache
def _picker(params: str, results: str, count: int) -> Callable[[Sequence[Any]], Any]:
    names = _spelled(params, count)
    return operator.itemgetter(*(names.index(word.rstrip("+")) for word in results.split() if word.rstrip("+") in names))


@functools.cache
def updates() -> dict[str, Update]:
    """All declared updates by the names of their C functions."""
    declared: dict[str, Update] = {}
    for family in _FAMILIES:
        module = importlib.import_module(f"{__package__}.{family}")
        for member in vars(module).values():
            if isinstance(member, Update):
                declared[member.function] = member
                if member.merged:
                    declared[f"merged_{member.function}"] = member
    return declared


def update(function: str, optimizer: str, params: str, results: str, **words: Any) -> Callable[[Formula], Update]:
    """Declare an update: decorates Torch's definition, or Paddle's with ``of="paddle"``."""
    of = words.pop("of", "torch")

    def declared(formula: Formula) -> Update:
        words[of] = formula
        return Update(function.rstrip("_"), function, optimizer, params, results, **words)

    return declared


# ---- How many steps an optimizer has made, read off the powers of beta that Paddle keeps.
#
# Torch corrects the bias of its averages with ``1 - beta ** step``, Paddle with a power that it multiplies by beta at each step,
# in the accumulator's dtype. Those products are the same everywhere, one IEEE product a step, so the sequence is made again here
# and the step looked up in it. Where a power no longer falls (it is zero, or so small that the product rounds to itself), the
# correction is exactly 1 in Torch's arithmetic, too.

_TYPES: dict[torch.dtype, Any] = {torch.float32: np.float32, torch.float64: np.float64}


class Powers:
    """The powers of one beta in one dtype: beta, beta * beta, ... each rounded. Threads share them."""

    def __init__(self, beta: float, dtype: torch.dtype) -> None:
        self._type = _TYPES[dtype]
        self._factor = self._type(beta)
        self._last = self._factor
        self._steps = {float(self._last): 1}
        self._one_at_a_time = threading.Lock()
        self.end: int | None = None  # the first step at which the power does not fall any more

    def exponent(self, power: float) -> tuple[int | None, bool]:
        """The exponent that gives this power (None if none does), and whether all later steps have this power, too."""
        with self._one_at_a_time:
            step = self._steps.get(power)
            if step is None:
                if power == 1.0:
                    return 0, False
                while self.end is None and float(self._last) > power:
                    self._grow()
                step = self._steps.get(power)
            if self.end is None and float(self._last) == power:
                self._grow()  # to know whether it falls any more
            return (self._near(power), False) if step is None else (step, step == self.end)

    def _grow(self) -> None:
        with np.errstate(under="ignore"):
            following = self._last * self._factor
        count = len(self._steps)
        if following >= self._last:
            self.end = count
        else:
            self._last = following
            self._steps[float(following)] = count + 1

    def _near(self, power: float) -> int | None:
        """The step of a power that another kernel rounded otherwise."""
        if not 0 < power < 1 or not 0 < float(self._factor) < 1:
            return None
        step = round(math.log(power) / math.log(float(self._factor)))
        exact = float(self._factor) ** step
        unit = float(np.finfo(self._type).eps)
        return step if step > 0 and abs(power - exact) <= 2 * step * unit * exact else None


@functools.cache
def powers(beta: float, dtype: torch.dtype) -> Powers:
    """The powers of one beta, made once per process."""
    return Powers(beta, dtype)


def single(number: float) -> float:
    """As a kernel of Paddle's gets it whose attribute is a float32 (NAdam's, RAdam's): its powers are products of that."""
    return type(number)(np.float32(number))


def numbers(flats: Sequence[Any]) -> list[float]:
    """What tensors are filled with (:meth:`.update.Item.flat`): NAdam and RAdam keep their powers in the shape of the parameter."""
    return [flat.item(0) if isinstance(flat, np.ndarray) else flat[0].item() for flat in flats]


def multiply(flats: Sequence[Any], factor: float) -> list[float]:
    """Multiply what tensors are filled with by a factor, in their dtype, as Paddle's kernels do; what they are filled with then."""
    products: list[float] = []
    known: dict[Any, float] = {}
    with np.errstate(under="ignore"):
        for flat in flats:
            if isinstance(flat, np.ndarray):
                key = flat.item(0), flat.itemsize
                product = known.get(key)
                if product is None:
                    product = known[key] = (flat[0] * flat.dtype.type(factor)).item()
                if flat.size == 1:
                    flat[0] = product
                else:
                    flat.fill(product)  # a power that is kept in the shape of its parameter has many elements
                products.append(product)
            else:
                products.append(flat.mul_(factor)[0].item())
    return products


class MuProducts:
    """Torch's ``mu_product`` of NAdam before each step: products in float32, as Torch's state is. Threads share them."""

    def __init__(self, beta1: float, decay: float) -> None:
        self._one_at_a_time = threading.Lock()
        self._beta1, self._decay = beta1, decay
        self._products = [torch.ones(())]

    def before(self, step: int) -> torch.Tensor:
        """The product of the steps before ``step``, a tensor of its own."""
        with self._one_at_a_time:
            while len(self._products) < step:
                mu = self._beta1 * (1.0 - 0.5 * (0.96 ** (len(self._products) * self._decay)))
                self._products.append(self._products[-1] * mu)
        return self._products[step - 1].clone()


@functools.cache
def mu_products(beta1: float, decay: float) -> MuProducts:
    """NAdam's products, made once per process."""
    return MuProducts(beta1, decay)
