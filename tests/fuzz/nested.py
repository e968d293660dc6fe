"""Kinds of lines that run ops within a backward: recomputed blocks, PyLayers that ask for gradients, hooks that compute."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .values import UNARY
from .words import Nothing

if TYPE_CHECKING:
    from .generate import Program

# What is done to a value "v" of a block.
STEPS = (
    "{v} * 1.5",
    "F.softmax({v}, axis=-1)",
    "paddle.max({v}, axis=-1, keepdim=True) + {v}",
    "paddle.std({v}, axis=-1, keepdim=True) + {v}",
    "({v}.abs() + 0.5) ** 1.5",
    "paddle.sqrt({v}.abs() + 0.5)",
    "{v} + {v}.detach()",
    "{v}[..., ::2].sum() + {v}",
    "{v}.reshape([-1]).mean() + {v}",
    "paddle.where({v} > 0.1, {v}, {v} * 0.5)",
    "F.layer_norm({v}, {width})",
    "F.dropout({v}, 0.3)",
    "F.dropout({v}, 0.3, training=False)",
    "slope({v}) + {v}",
    "bent({v}) + {v}",
    "apart({v}) * {v}",
    "Cube.apply({v} * 0.5)",
    "Asking.apply({v})",
    "Again.apply({v})",
)
ANSWERS = (
    "paddle.tanh(grad)",
    "F.softmax(grad, axis=-1)",
    "grad + slope(grad)",
    "grad * 0.5 + bent(grad)",
    "paddle.max(grad) * grad",
)


def square(g: Program, width: int) -> str:
    """A layer from as many features to as many."""
    names = [n for n, v in g.scope.items() if n[0] == "p" and n[1:].isdigit() and v.weight.shape == [width, width]]
    if not names:
        raise Nothing
    return g.pick(names)


def steps(g: Program, value: str, width: int, reentrant: bool, deep: int = 0) -> str:
    """An expression of ``value``, whose shape it has, in a block of this form; at most two recomputed blocks deep.

    A block with reentry in one without crashes Paddle 3.3.1 natively.
    """
    for _ in range(1 + g.choose(2)):
        kind = g.choose(6)
        if kind == 0 and deep < 2:
            inner = "uvw"[deep + 1]
            form = reentrant and g.choose(3) > 0
            value = f"recompute(lambda {inner}: {steps(g, inner, width, form, deep + 1)}, {value}, use_reentrant={form})"
        elif kind == 1:
            value = f"paddle.{g.pick(UNARY)}({value})"
        elif kind < 4 and width:
            try:
                value = f"{square(g, width)}({value})"
            except Nothing:
                value = f"paddle.tanh({value})"
        else:
            value = g.pick(STEPS).format(v=value, width=width)
    return value


def layers(g: Program) -> str:
    """A layer that blocks may use."""
    g.count += 1
    width = g.pick((3, 4))
    return f"p{g.count} = {g.pick(('layer', 'scaled'))}({width}, {width}, {g.count})"


def recomputed(g: Program) -> str:
    x = g.floating(lambda t: t.ndim >= 1 and not t.stop_gradient)
    form = g.choose(3) > 0
    return f"{g.new()} = recompute(lambda u: {steps(g, 'u', g.scope[x].shape[-1], form)}, {x}, use_reentrant={form})"


def asking(g: Program) -> str:
    return f"{g.new()} = {g.pick(('Asking', 'Again'))}.apply({g.floating(lambda t: t.ndim >= 1)})"


def computing_hook(g: Program) -> str:
    x = g.floating(lambda t: t.ndim >= 1 and not t.stop_gradient)
    g.hooks += 1
    return f"h{g.hooks} = {x}.register_hook(lambda grad: {g.pick(ANSWERS)})"


def second(g: Program) -> str:
    """Gradients of a graph of its own, in the middle of a program."""
    return f"{g.new()} = {g.pick(('slope', 'bent'))}({g.floating(lambda t: not t.stop_gradient)})"
