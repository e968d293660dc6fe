"""How many steps an optimizer has made, read off the powers of beta that Paddle keeps.

Torch corrects the bias of its averages with ``1 - beta ** step``, Paddle with a power that it multiplies by beta at each step, in
the accumulator's dtype. Those products are the same everywhere, one IEEE product a step, so the sequence is made again here and
the step looked up in it. Where a power no longer falls (it is zero, or so small that the product rounds to itself), the correction
is exactly 1 in Torch's arithmetic, too.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

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
            found = self._steps.get(power)
            if found is None:
                if power == 1.0:
                    return 0, False
                while self.end is None and float(self._last) > power:
                    self._grow()
                found = self._steps.get(power)
            if self.end is None and float(self._last) == power:
                self._grow()  # to know whether it falls any more
            return (self._near(power), False) if found is None else (found, found == self.end)

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
    return float(np.float32(number))


def numbers(flats: Sequence[Any]) -> list[float]:
    """What tensors are filled with (:meth:`.update.Item.flat`): NAdam and RAdam keep their powers in the shape of the parameter."""
    return [flat.item(0) if isinstance(flat, np.ndarray) else flat[0].item() for flat in flats]


def multiply(flats: Sequence[Any], factor: float) -> list[float]:
    """Multiply what tensors are filled with by a factor, in their dtype, as Paddle's kernels do; what they are filled with then."""
    found: list[float] = []
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
                found.append(product)
            else:
                found.append(flat.mul_(factor)[0].item())
    return found


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
