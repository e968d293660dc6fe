"""One-line declarations of the commonest kinds of op, their shared samples, and functions that several formulas use."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from padiff_shim.table.op import Op, Sample, each, op, operator, ranged

UNARY = (Sample((3, 4)), Sample((2, 3, 4)), Sample(()), Sample((0, 3)))
PAIRS = (
    Sample((3, 4), (3, 4)),
    Sample((3, 4), (4,)),
    Sample((2, 1, 4), (3, 1)),
    Sample((), (3,)),
    Sample((0, 3), (3,)),
)
# What a kernel takes as float also in float64: a number, or a constant written with seven digits.
ROUNDED = dict.fromkeys(("float64", "gradient float64"), "Paddle holds a number to float32 precision only")
REDUCED = (
    *each((Sample((3, 4, 5)),), axis=(None, [], 0, -1, [0, 2], [-1, 0], [0, 1, 2]), keepdim=(False, True)),
    Sample((), axis=None, keepdim=False),
    Sample((3, 4), axis=1, keepdim=False),
)
REDUCTIONS = ("mean", "sum", "none")
REDUCED_EMPTY = (Sample((0, 4), axis=0, keepdim=False), Sample((0, 4), axis=None, keepdim=False))


def alike(*tensors: torch.Tensor) -> None:
    """Refuses tensors of several shapes, which Torch would broadcast."""
    if len({tensor.shape for tensor in tensors}) > 1:
        raise ValueError("operands of different shapes")


def with_axes(*tensors: torch.Tensor) -> None:
    """Refuses tensors without axes, which Torch takes for such of one axis."""
    if not all(tensor.ndim for tensor in tensors):
        raise ValueError("an operand without axes")


def reduced(values: torch.Tensor, how: str) -> torch.Tensor:
    """Their mean or sum, or they themselves."""
    if how not in REDUCTIONS:
        raise ValueError(f"reduction is 'mean', 'sum' or 'none', not {how!r}")
    return values.mean() if how == "mean" else values.sum() if how == "sum" else values


def of(formula: Callable[..., Any], torchs: Callable[..., Any], *more: Any) -> Callable[..., Any]:
    """A formula that several functions of Torch share, of one of them, with its name: ``std = op(...)(of(_spread, torch.std))``."""
    bound = functools.partial(formula, torchs, *more)
    bound.__name__ = torchs.__name__  # type: ignore[attr-defined]
    return bound


def unary(formula: Callable[..., Any], *, within: tuple[float, float] | None = None, **options: Any) -> Op:
    """A function of one tensor with its in-place and legacy forms: ``sin = unary(torch.sin)``.

    ``within``: the range of the values with which it is tried. ``options`` as for :func:`~padiff_shim.table.op.op`.
    """
    samples = options.pop("samples", UNARY)
    chosen = {"inplace": True, "legacy": True, "elementwise": True, **options}
    return op("x|input", samples=samples if within is None else ranged(samples, *within), **chosen)(formula)


def binary(
    formula: Callable[..., Any],
    *,
    legacy: str | Sequence[str] = "",
    symbols: tuple[str, ...] = (),
    within: tuple[float, float] | None = None,
    **options: Any,
) -> Op:
    """A function of two tensors that broadcast: ``maximum = binary(torch.maximum, legacy="elementwise_max")``.

    ``legacy``: the name of the legacy form with its ``axis=-1``; ``"name: parameters"`` if it has others, or several of them.
    ``symbols``: ``("sub",)`` for the operators ``__sub__`` and ``__rsub__``.
    """
    samples = options.pop("samples", PAIRS)
    forms = [legacy] if isinstance(legacy, str) else list(legacy)
    reflected = [entry for symbol in symbols for entry in (operator(symbol), operator(f"r{symbol}", "y x"))]
    chosen: dict[str, Any] = {"inplace": True, "elementwise": True, **options}
    return op(
        chosen.pop("params", "x|input y|other"),
        tensors=2,
        legacy=[form if ":" in form else f"{form}: x y axis=-1" for form in forms if form],
        more_entries=(*chosen.pop("more_entries", ()), *reflected),
        samples=samples if within is None else ranged(samples, *within),
        **chosen,
    )(formula)


def reduction(params: str = "x|input axis|dim=None keepdim=False", *, legacy: Any = (), **options: Any) -> Callable[..., Op]:
    """A decorator: a reduction over axes; ``legacy`` is the name of the older form (``"reduce_mean"``), or several forms."""
    forms = [legacy] if isinstance(legacy, str) else list(legacy)
    older = "{}: x axis|dim=[0] keepdim|keep_dim=False reduce_all=False"
    chosen = {"samples": REDUCED, **options}
    return op(params, legacy=[form if ":" in form else older.format(form) for form in forms], **chosen)


def axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """Paddle's axis (None, int, sequence, 1-D or 0-D tensor; empty means all) as non-negative axes."""
    if hasattr(axis, "tolist"):
        axis = axis.tolist()
    if isinstance(axis, int):
        axis = (axis,)
    if not axis:
        return tuple(range(ndim))
    for number in axis:
        if not -max(ndim, 1) <= number < max(ndim, 1):
            raise IndexError(f"axis {number} is out of range for {ndim} dimensions")
    numbers = tuple(sorted({int(number) % max(ndim, 1) for number in axis}))
    if len(numbers) != len(axis):
        raise ValueError(f"axis {axis} names a dimension twice")
    return numbers if ndim else ()


def rows(x: torch.Tensor, axis: Any) -> torch.Tensor:
    """The tensor with the elements over Paddle's axes, which are reduced together, along its last axis."""
    over = axes(axis, x.ndim)
    return x.movedim(over, tuple(range(-len(over), 0))).flatten(x.ndim - len(over)) if over else x.reshape(1)


def all_of(over: Sequence[int], x: torch.Tensor, *, keepdim: bool) -> bool:
    """A reduction over these axes leaves one number: Torch has a form of its own for it."""
    return len(over) == x.ndim and not keepdim


# ---- Torch's global generator, for the ops that draw random numbers.


def always(*_: Any) -> bool:
    """Every call draws."""
    return True


def generator(seed: int, device: torch.device | None = None) -> torch.Generator | None:
    """Torch's global generator (None), or where the call has a seed of its own one that begins with it."""
    return torch.Generator("cpu" if device is None else device).manual_seed(int(seed)) if seed else None
