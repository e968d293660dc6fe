"""Kinds of lines that change tensors, record or run gradients: one function each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .values import binary, linear, normalise, product, reduction, unary
from .words import Nothing

if TYPE_CHECKING:
    from .generate import Program

INPLACE_BINARY = ("add_", "subtract_", "multiply_")
INPLACE_UNARY = (
    "tanh_()",
    "exp_()",
    "scale_(0.5, 0.25)",
    "square_()",
    "zero_()",
    "fill_(0.5)",
    "clip_(-1.0, 1.0)",
    "abs_()",
    "sigmoid_()",
)


def inplace(g: Program) -> str:
    x = g.floating()
    if g.choose(2):
        return f"{x}.{g.pick(INPLACE_UNARY)}"
    y = x if g.chance(4) else g.partner(x)
    if min(g.scope[x].strides, default=0) < 0 and g.scope[y].dtype != g.scope[x].dtype:
        raise Nothing  # Paddle reads and writes outside of the view's memory
    return f"{x}.{g.pick(INPLACE_BINARY)}({y})"


def setitem(g: Program) -> str:
    x = g.floating(lambda t: t.ndim >= 1)
    y = g.partner(x)
    if 0 in g.scope[y].shape:
        raise Nothing  # Paddle reads unwritten memory (docs/defects.md)
    return g.pick(
        (
            f"{x}[0] = 0.5",
            f"{x}[..., 1:] = -0.25",
            f"{x}[0] = {y}[0]",
            f"{x}[1:] = {x}[:-1]",
            f"{x}[{x} > 0.5] = 0.125",
            f"{x}[..., ::-1] = {y}",
            f"{x}[:] = {y}",
            f"{x}[...] = {x}",
            f"{x} += {y}",
            f"{x} *= 0.5",
        )
    )


def write(g: Program) -> str:
    """Writes that do not count as in-place ops, or that go through another door."""
    x = g.floating()
    y = g.partner(x, same=True)
    return g.pick(
        (
            f"{x}.set_value({y})",
            f"{x}.set_value(np.full({g.scope[x].shape}, 0.25, 'float32'))",
            f"paddle.assign({y}.astype({x}.dtype), output={x})",
            f"{x}.copy_({y}, True)",
            f"paddle.nn.initializer.Constant(0.5)({x})",
            f"paddle.subtract({x}, {y if g.scope[x].shape == g.scope[y].shape else x}, out={x})",  # else: see docs/defects.md
        )
    )


def toggle(g: Program) -> str:
    return f"{g.floating()}.stop_gradient = {g.choose(2) == 0}"


def hook(g: Program) -> str:
    x = g.floating(lambda t: not t.stop_gradient)
    hooks = [n for n in g.scope if n.startswith("h") and n[1:].isdigit()]
    if hooks and g.chance(3):
        return f"{g.pick(hooks)}.remove()"
    g.hooks += 1
    return f"h{g.hooks} = {x}.register_hook(watch('{x}'{', 2.0' if g.choose(2) else ''}))"


def retained(g: Program) -> str:
    return f"{g.floating(lambda t: not t.stop_gradient)}.retain_grads()"


def pylayer(g: Program) -> str:
    x = g.floating()
    if g.chance(3):
        y = g.partner(x, same=True)
        return f"{g.new()}, {g.new()} = Mix.apply({x}, {y})"
    return f"{g.new()} = {g.pick(('Twice', 'Cube'))}.apply({x})"


def recomputed(g: Program) -> str:
    x = g.floating(lambda t: t.ndim >= 1 and not t.stop_gradient)
    return f"{g.new()} = recompute(block, {x}, use_reentrant={g.choose(2) == 0})"


def without_gradient(g: Program) -> str:
    inner = g.pick((unary, binary, product, reduction))(g)
    return f"with paddle.no_grad(): {inner}"


def autocast(g: Program) -> str:
    inner = g.pick((product, linear, normalise, binary))(g)
    # Off: a guard that is on acts on a CPU in reference mode, and natively not.
    return f"with paddle.amp.auto_cast(enable=False, dtype='bfloat16', level='{g.pick(('O1', 'O2'))}'): {inner}"


def backward(g: Program) -> str:
    if g.spent:
        raise Nothing
    y = g.floating(lambda t: not t.stop_gradient)
    if f"{y} = copy.deepcopy(" in "\n".join(g.lines):
        raise Nothing  # from a copy itself nothing happens natively, unless something has led to it before
    retain = g.pick(("", "retain_graph=True"))
    if g.chance(4):
        z = g.floating(lambda t: not t.stop_gradient)
        return f"paddle.autograd.backward([{y}.sum(), {z}.sum()]{', ' + retain if retain else ''})"
    if g.chance(4):
        return f"{y}.backward(paddle.ones_like({y}){', ' + retain if retain else ''})"
    return f"{g.pick(('({}).sum()', '({} * 0.5).mean()', '({} ** 2).sum()')).format(y)}.backward({retain})"


def partial_gradient(g: Program) -> str:
    if g.spent or g.asks:
        raise Nothing
    y, x = g.floating(lambda t: not t.stop_gradient), g.floating(lambda t: not t.stop_gradient)
    options = g.pick(("", ", retain_graph=True", ", create_graph=True", ", create_graph=True"))
    unused = ", allow_unused=True" if not g.chance(3) else ""
    without = f", no_grad_vars=[{g.floating()}]" if g.chance(8) else ""
    z = g.floating(lambda t: not t.stop_gradient) if g.chance(3) else x
    if f"[{x}]" in without or f"[{z}]" in without:
        raise Nothing  # that ends the process natively
    inputs, which = ([x], 0) if z == x else ([x, z], g.choose(2))
    also = f", {x}.sum()" if without else ""  # so does one to which nothing else leads (docs/defects.md)
    return f"{g.new()} = paddle.grad([{y}.sum(){also}], [{', '.join(inputs)}]{options}{unused}{without})[{which}]"


def housekeeping(g: Program) -> str:
    x = g.tensor()
    return g.pick(
        (
            f"{x}.clear_grad()",
            f"{x}.clear_gradient(False)",
            f"del {x}",
            f"{g.new()} = copy.deepcopy({x})",
            f"{g.new()} = {x}.grad",
            f"{g.new()} = {x}",
        )
    )


def update(g: Program) -> str:
    leaves = g.tensors(lambda t: t.is_floating_point() and t.is_leaf and not t.stop_gradient)
    if not leaves:
        raise Nothing
    kind = g.pick(("SGD(0.1", "Momentum(0.1", "Adam(0.05", "AdamW(0.05"))
    return f"o = paddle.optimizer.{kind}, parameters=[{', '.join(leaves[:3])}]); o.step(); o.clear_grad()"
