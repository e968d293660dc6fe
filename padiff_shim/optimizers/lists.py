"""Many parameters in one call: the operations of Torch's optimizers on lists of tensors, in Torch's order."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from ..torch_versions import foreach
from .update import Batch, Item, mu_products

# ---- Many parameters in one call: the operations of Torch's optimizers on lists of tensors.
#
# On a CPU Torch's own functions go from parameter to parameter in Python, which takes the time where parameters are small.
# ``torch._foreach_*`` call the very same kernels there, once for each tensor of a list, without Python in between. So small
# parameters are gathered into lists. Large ones come one by one: their memory is still in the cache when the next operation reads
# it.
#
# That this has the bits of Torch's function is tried before it is used, for each of its branches: another version of Torch may
# order its operations otherwise, or have other kernels for lists. Where the bits are others, Torch's function is called. So it is
# in float16 and bfloat16: lists round numbers to the dtype of the tensors, which shows with some numbers alone.

_LARGE = 1 << 15  # elements: of float32, the five tensors of an update are 640 KiB
_STEPS = (0, 1, 9, 2000)  # done before those that are tried: the bias corrections' beginning, RAdam's branches
_SHAPES = ((_LARGE + 37,), (3, 7), (40, 30), (5,), ())

_HALVES = frozenset({torch.float16, torch.bfloat16})
_EXACT = 1 << 24  # below it float32 has each whole number

_OPERATIONS = (
    "abs",
    "add",
    "add_",
    "addcdiv_",
    "addcmul",
    "addcmul_",
    "copy_",
    "div",
    "div_",
    "lerp_",
    "mul_",
    "reciprocal_",
    "sqrt",
    "sqrt_",
)


def _maximum_(tensor: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return torch.maximum(tensor, other, out=tensor)


ONE = SimpleNamespace(maximum_=_maximum_, **{name: getattr(torch.Tensor, name) for name in _OPERATIONS})  # on a tensor
MANY = SimpleNamespace(**{name: foreach(name) for name in ("maximum_", *_OPERATIONS)})  # on lists of them

Whole = Callable[..., None]  # (batch, how many steps each of its parameters has made, words)
OnLists = Callable[..., None]  # (batch, the number of this step, words)


class Core:
    """What an update computes: ``whole`` calls Torch's function, ``on_lists`` is made of `lists`."""

    def __init__(self, whole: Whole, on_lists: OnLists) -> None:
        self._whole, self._on_lists = whole, on_lists
        self._same: dict[Any, bool] = {}

    def __call__(self, b: Batch, done: Sequence[int], *words: Any) -> None:
        """Make the update behind ``done`` steps of each parameter."""
        if not b.singly and not (self._has_its_bits(b, words) and _lie_apart(b)):
            self._whole(b, done, *words)
            return
        for steps, part in _parts(b, done):
            self._on_lists(part, _following(steps), *words)

    def _has_its_bits(self, b: Batch, words: tuple[Any, ...]) -> bool:
        """Whether lists give the bits of Torch's function, in the branches that these numbers take."""
        param = b.items[0].tensors["param"]
        if param.device.type != "cpu" or param.dtype in _HALVES:  # elsewhere Torch's own functions take lists
            return False
        key = param.dtype, b.branches(), *[bool(word) for word in words]
        known = self._same.get(key)
        if known is None:
            known = self._same[key] = all(self._is_same_behind(steps, b, words) for steps in _STEPS)
        return known

    def _is_same_behind(self, steps: int, b: Batch, words: tuple[Any, ...]) -> bool:
        on_lists, whole = _sample(b), _sample(b)
        self._on_lists(on_lists, _following(steps), *words)
        self._whole(whole, [steps] * len(whole.items), *words)
        return all(
            _bits(item_on_lists.tensors[name]) == _bits(tensor)
            for item_on_lists, item in zip(on_lists.items, whole.items)
            for name, tensor in item.tensors.items()
        )


def lists(b: Batch, *names: str) -> Iterator[list[Any]]:
    """All parameters in parts: `ONE` or `MANY`, and a tensor or a list of them for each name (``grad`` among them)."""
    for on, items, columns in b.once(names, lambda: _laid_out(b.items, names, 0 if b.singly else _LARGE)):
        if on is ONE:
            yield [ONE, *[items.grad if tensor is None else tensor for tensor in columns]]
        else:
            yield [MANY, *[[item.grad for item in items] if tensors is None else tensors for tensors in columns]]


def _laid_out(items: Sequence[Item], names: Sequence[str], large: int) -> list[tuple[Any, Any, list[Any]]]:
    """The parts: `ONE` and a parameter or `MANY` and several, with what belongs to each name; None where it is the gradient's.

    ``large``: elements of a parameter beyond which it comes alone.
    """
    parts: list[tuple[Any, Any, list[Any]]] = []
    small: list[Item] = []
    gathered = 0

    def kept(take: Callable[[str], Any]) -> list[Any]:
        return [None if name == "grad" else take(name) for name in names]

    def close() -> None:
        nonlocal small, gathered
        if small:
            together = small
            parts.append((MANY, together, kept(lambda name: [item.tensors[name] for item in together])))
        small, gathered = [], 0

    for item in items:
        count = item.tensors["param"].numel()
        if count > large:
            parts.append((ONE, item, kept(item.tensors.__getitem__)))
            continue
        small.append(item)
        gathered += count
        if gathered > _LARGE:
            close()
    close()
    return parts


def _parts(b: Batch, done: Sequence[int]) -> list[tuple[int, Batch]]:
    """The parameters by the number of their steps."""
    if len(set(done)) == 1:
        return [(done[0], b)]
    items_by_steps: dict[int, list[Item]] = {}
    for item, steps in zip(b.items, done):
        items_by_steps.setdefault(steps, []).append(item)
    return [(steps, b.of(items)) for steps, items in items_by_steps.items()]


def _lie_apart(b: Batch) -> bool:
    """Whether no two parameters have memory in common: the one's update is over then before the other's begins."""

    def found() -> bool:
        extents = sorted(extent for item in b.items for extent in item.extents)
        return all(extent[1] <= other[0] for extent, other in itertools.pairwise(extents))

    return b.once("apart", found)


def _following(steps: int) -> float:
    """The number of the next step as Torch counts it: in float32."""
    return float(steps + 1) if 0 <= steps < _EXACT else float(np.float32(steps) + np.float32(1))


def _sample(b: Batch) -> Batch:
    """Parameters of several sizes with any values, and with what else belongs to an update of ``b``."""
    first, rng = b.items[0].tensors, torch.Generator().manual_seed(0)
    param = first["param"]
    items = []
    for shape in _SHAPES:
        tensors = {}
        for name, tensor in first.items():
            if tensor.shape == param.shape:
                values = torch.randn(shape, generator=rng, dtype=torch.float64)
                tensors[name] = (values if name == "param" else values.abs()).to(tensor.dtype)
            else:
                tensors[name] = tensor.clone()
        item = Item(tensors)
        item.grad = torch.randn(shape, generator=rng, dtype=torch.float64).to(param.dtype)
        items.append(item)
    return b.of(items)


def _bits(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes())


# ---- Torch's optimizers on lists: the operations of ``torch.optim``'s functions for single tensors, in their order.
#
# ``step`` is the number of the step that is made, as Torch counts it. All is written in place, in the memory of parameters and
# state. What is made in between is dropped before the next part makes its own, which gets the same memory then, still in the
# cache.


def sgd(b: Batch, step: float) -> None:
    """One operation without decay: nothing is gained by going from parameter to parameter."""
    if not b.decay:
        MANY.add_(b.param, b.grad, alpha=-b.lr)
        return
    for on, param, grad in lists(b, "param", "grad"):
        on.add_(param, _decayed(on, b, param, grad), alpha=-b.lr)


def momentum(b: Batch, step: float) -> None:
    """A velocity that is fresh begins with the gradient."""
    for fresh in (True, False):
        items = [item for item in b.items if item.fresh is fresh]
        if items:
            _momentum(b.of(items), fresh)


def _momentum(b: Batch, fresh: bool) -> None:
    for on, param, grad, velocity in lists(b, "param", "grad", "velocity"):
        grad = _decayed(on, b, param, grad)
        if fresh:
            on.copy_(velocity, grad)
        else:
            on.mul_(velocity, b.mu)
            on.add_(velocity, grad, alpha=1)
        direction = on.add(grad, velocity, alpha=b.mu) if b.nesterov else velocity
        on.add_(param, direction, alpha=-b.lr)


def adagrad(b: Batch, step: float) -> None:
    for on, param, grad, moment in lists(b, "param", "grad", "moment"):
        grad = _decayed(on, b, param, grad)
        on.addcmul_(moment, grad, grad, value=1)
        on.addcdiv_(param, grad, _root(on, moment, b.epsilon), value=-b.lr)


def adadelta(b: Batch, step: float) -> None:
    for on, param, grad, squares, updates in lists(b, "param", "grad", "squares", "updates"):
        grad = _decayed(on, b, param, grad)
        _average(on, squares, grad, b.rho)
        bottom, delta = on.add(squares, b.epsilon), on.add(updates, b.epsilon)
        on.sqrt_(bottom)
        on.sqrt_(delta)
        on.div_(delta, bottom)
        on.mul_(delta, grad)
        _average(on, updates, delta, b.rho)
        on.add_(param, delta, alpha=-b.lr)
        del bottom, delta


def rmsprop(b: Batch, step: float) -> None:
    names = ("mean",) if b.centered else ()
    for on, param, grad, squares, moment, *mean in lists(b, "param", "grad", "squares", "moment", *names):
        grad = _decayed(on, b, param, grad)
        _average(on, squares, grad, b.rho)
        if mean:
            on.lerp_(mean[0], grad, 1 - b.rho)
            bottom = on.addcmul(squares, mean[0], mean[0], value=-1)
            on.sqrt_(bottom)
            on.add_(bottom, b.epsilon)
        else:
            bottom = _root(on, squares, b.epsilon)
        if b.momentum > 0:
            on.mul_(moment, b.momentum)
            on.addcdiv_(moment, grad, bottom)
            on.add_(param, moment, alpha=-b.lr)
        else:
            on.addcdiv_(param, grad, bottom, value=-b.lr)
        del bottom


def adam(b: Batch, step: float, lr: float, decay: float, decoupled: bool) -> None:
    """``decoupled``: AdamW."""
    size, root = lr / (1 - b.beta1**step), (1 - b.beta2**step) ** 0.5
    names = ("moment2_max",) if b.amsgrad else ()
    for on, param, grad, first, second, *largest in lists(b, "param", "grad", "moment1", "moment2", *names):
        if decay and decoupled:
            on.mul_(param, 1 - lr * decay)
        elif decay:
            grad = on.add(grad, param, alpha=decay)
        on.lerp_(first, grad, 1 - b.beta1)
        _average(on, second, grad, b.beta2)
        if largest:
            on.maximum_(largest[0], second)
            second = largest[0]
        bottom = on.sqrt(second)
        on.div_(bottom, root)
        on.add_(bottom, b.epsilon)
        on.addcdiv_(param, first, bottom, value=-size)
        del bottom


def adamax(b: Batch, step: float) -> None:
    size = b.lr / (1 - b.beta1**step)
    for on, param, grad, moment, norm in lists(b, "param", "grad", "moment", "norm"):
        grad = _decayed(on, b, param, grad)
        on.lerp_(moment, grad, 1 - b.beta1)
        on.mul_(norm, b.beta2)
        height = on.abs(grad)
        on.add_(height, b.epsilon)
        on.maximum_(norm, height)
        del height
        on.addcdiv_(param, moment, norm, value=-size)


def nadam(b: Batch, step: float) -> None:
    """The product of momenta is rounded to float32, as in Torch's state."""
    below = 1 - b.beta2**step
    now, following = [b.beta1 * (1.0 - 0.5 * 0.96 ** (count * b.momentum_decay)) for count in (step, step + 1)]
    product = mu_products(b.beta1, b.momentum_decay).before(int(step) + 1).item()
    by_grad, by_moment = -b.lr * (1.0 - now) / (1.0 - product), -b.lr * following / (1.0 - product * following)
    for on, param, grad, first, second in lists(b, "param", "grad", "moment1", "moment2"):
        grad = _decayed(on, b, param, grad)
        on.lerp_(first, grad, 1 - b.beta1)
        _average(on, second, grad, b.beta2)
        bottom = on.div(second, below)
        on.sqrt_(bottom)
        on.add_(bottom, b.epsilon)
        on.addcdiv_(param, grad, bottom, value=by_grad)
        on.addcdiv_(param, first, bottom, value=by_moment)
        del bottom


def radam(b: Batch, step: float) -> None:
    """While the approximated average is short, the second moment is not used."""
    below = 1 - b.beta2**step
    longest = 2 / (1 - b.beta2) - 1
    length = longest - 2 * step * (b.beta2**step) / below
    for on, param, grad, first, second in lists(b, "param", "grad", "moment1", "moment2"):
        grad = _decayed(on, b, param, grad)
        on.lerp_(first, grad, 1 - b.beta1)
        _average(on, second, grad, b.beta2)
        direction = on.div(first, 1 - b.beta1**step)
        on.mul_(direction, b.lr)
        if length > 5.0:
            rate = _root(on, second, b.epsilon)
            on.reciprocal_(rate)
            on.mul_(rate, below**0.5)
            on.mul_(direction, rate)
            on.mul_(direction, _rectified(length, longest))
            del rate
        on.add_(param, direction, alpha=-1.0)
        del direction


def _rectified(length: float, longest: float) -> float:
    return float(((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)) ** 0.5)


def _decayed(on: Any, b: Batch, param: Any, grad: Any) -> Any:
    """Gradients with their L2 decay."""
    return on.add(grad, param, alpha=b.decay) if b.decay else grad


def _average(on: Any, squares: Any, values: Any, share: float) -> None:
    """A running average of squares."""
    on.mul_(squares, share)
    on.addcmul_(squares, values, values, value=1 - share)


def _root(on: Any, squares: Any, epsilon: float) -> Any:
    """``sqrt(squares) + epsilon``."""
    root = on.sqrt(squares)
    on.add_(root, epsilon)
    return root
