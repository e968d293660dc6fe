"""Kinds of lines that make new values: one function each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import paddle

from .words import FLOATS, dense, matrices

if TYPE_CHECKING:
    from .generate import Program

UNARY = (
    "exp",
    "tanh",
    "square",
    "neg",
    "sin",
    "abs",
    "nn.functional.relu",
    "nn.functional.gelu",
    "nn.functional.sigmoid",
    "cos",
    "nn.functional.silu",
)
POSITIVE = ("sqrt", "rsqrt", "log", "reciprocal")
BINARY = ("+", "-", "*", "+", "*", "/")
NUMBERS = ("2", "0.5", "-1.5", "3", "1", "np.float32(0.75)", "np.float64(1.25)")
AXES = ("", "axis=0", "axis=-1", "axis=0, keepdim=True", "axis=-1, keepdim=True")


def unary(g: Program) -> str:
    return f"{g.new()} = paddle.{g.pick(UNARY)}({g.floating()})"


def positive(g: Program) -> str:
    return f"{g.new()} = paddle.{g.pick(POSITIVE)}({g.floating()}.abs() + 0.5)"


def binary(g: Program) -> str:
    x = g.floating()
    sign, y = g.pick(BINARY), g.partner(x)
    return f"{g.new()} = {x} {sign} {y}" if sign != "/" else f"{g.new()} = {x} / ({y}.abs() + 0.5)"


def number(g: Program) -> str:
    x, sign, value = g.floating(), g.pick(BINARY), g.pick(NUMBERS)
    return f"{g.new()} = {x} {sign} {value}" if g.choose(2) else f"{g.new()} = {value} {sign} ({x}.abs() + 0.5)"


def power(g: Program) -> str:
    x = g.floating()
    exponent = g.pick(("2", "3", "0.5", "-1", "1.5", "2.0"))
    return f"{g.new()} = ({x}.abs() + 0.5) ** {exponent}" if g.choose(2) else f"{g.new()} = {x} ** 2"


def product(g: Program) -> str:
    x = g.floating(matrices)
    inner = g.scope[x].shape[-1]
    y = g.floating(lambda t: t.ndim >= 1 and t.shape[-2 if t.ndim > 1 else 0] == inner)
    return g.pick(
        (
            f"{g.new()} = {x} @ {y}",
            f"{g.new()} = paddle.matmul({x}, {y})",
            f"{g.new()} = paddle.einsum('...ij,jk->...ik', {x}, {y})",
        )
    )


def gram(g: Program) -> str:
    x = g.floating(matrices)
    return f"{g.new()} = paddle.matmul({x}, {x}, {g.choose(2) == 1}, {g.choose(2) == 0})"


def linear(g: Program) -> str:
    x = g.floating(lambda t: t.ndim >= 1)
    w = g.floating(lambda t: t.ndim == 2 and t.shape[0] == g.scope[x].shape[-1])
    bias = g.tensors(lambda t: t.is_floating_point() and t.shape == [g.scope[w].shape[1]])
    return f"{g.new()} = F.linear({x}, {w}{', ' + g.pick(bias) if bias and g.choose(2) else ''})"


def through_layer(g: Program) -> str:
    x = g.floating(lambda t: t.ndim >= 1 and t.shape[-1] in (3, 4))
    layers = [n for n in g.scope if n.startswith("p") and n[1:].isdigit()]
    if not layers or g.chance(3):
        g.count += 1
        return f"p{g.count} = layer({g.scope[x].shape[-1]}, {g.pick((3, 4))}, {g.count})"
    return f"{g.new()} = {g.pick(layers)}({x})"


def normalise(g: Program) -> str:
    x = g.floating(lambda t: t.ndim >= 1)
    width = g.scope[x].shape[-1]
    # One that wants no gradient is left out of x's by Paddle's kernel (docs/defects.md).
    scale = g.tensors(lambda t: t.is_floating_point() and t.shape == [width] and not t.stop_gradient)
    choices = [
        f"F.softmax({x}, axis={g.pick((-1, 0))})",
        f"F.layer_norm({x}, {width})",
        f"paddle.logsumexp({x}, axis=-1)",
        f"F.log_softmax(paddle.clip({x}, -20.0, 20.0))",  # Paddle's ends at -64 (docs/defects.md)
    ]
    if scale:
        choices.append(f"F.layer_norm({x}, {width}, {g.pick(scale)}, {g.pick(scale)})")
    return f"{g.new()} = {g.pick(choices)}"


def reduction(g: Program) -> str:
    x = g.floating()
    axis = g.pick(AXES) if g.scope[x].ndim else ""
    return f"{g.new()} = paddle.{g.pick(('sum', 'mean', 'sum', 'max', 'std'))}({x}{', ' + axis if axis else ''})"


def view(g: Program) -> str:
    x = g.tensor(lambda t: t.ndim >= 1)
    rank = g.scope[x].ndim
    axes = list(range(rank))[::-1]
    count = int(np.prod(g.scope[x].shape))
    return f"{g.new()} = " + g.pick(
        (
            f"{x}[0]",
            f"{x}[1:]",
            f"{x}[..., ::-1]",
            f"{x}[::2]",
            f"{x}[..., -1]",
            f"{x}[::-1]",
            f"{x}.transpose({axes})",
            f"{x}.reshape([-1])",
            f"{x}.view([{count}])",
            f"{x}.unsqueeze(0)",
            f"{x}.flatten()",
            f"{x}.expand([2, {', '.join(map(str, g.scope[x].shape))}])",
            f"{x}.detach()",
            *((f"paddle.as_strided({x}, [2, 2], [1, 1])", f"paddle.as_strided({x}, [2], [1], 1)") if dense(g.scope[x]) else ()),
            f"{x}.unbind()[0]",
            f"paddle.split({x}, {g.scope[x].shape[-1]}, axis=-1)[0]",
            f"{x}.chunk(2, axis=0)[1]",
            f"{x}.squeeze()",
            f"{x}.contiguous()",
            f"{x}.view_as({x})",
        )
    )


def move(g: Program) -> str:
    x = g.floating(lambda t: t.ndim >= 1)
    y = g.partner(x, same=True)
    return f"{g.new()} = " + g.pick(
        (
            f"paddle.concat([{x}, {y}])",
            f"paddle.stack([{x}, {y}], axis=-1)",
            f"paddle.where({x} > 0.1, {x}, {y})",
            f"{x}.clone()",
            f"paddle.flip({x}, [0])",
            f"paddle.roll({x}, 1)",
            f"paddle.tile({x}, [2])",
            # Of what has no rows Paddle reads unwritten memory (docs/defects.md).
            *((f"paddle.gather({x}, paddle.to_tensor([0, 0, 1]))",) if g.scope[x].shape[0] else ()),
            f"paddle.index_select({x}, paddle.to_tensor([1, 0]), axis=-1)",
            f"F.pad({x}, [1, 1], value=0.5) if {x}.ndim == 1 else {x} * 1",
            f"paddle.cumsum({x}, axis=-1)",
            f"{x}[{x} > 0.2]",
            f"paddle.masked_fill({x}, {y} > 0, 0.25)",
            f"paddle.take_along_axis({x}, paddle.argsort({x}, axis=-1), axis=-1)",
            f"F.dropout({x}, 0.3)",
        )
    )


def cast(g: Program) -> str:
    x = g.tensor()
    kinds = FLOATS if rounding_decides(g.scope[x]) else (*FLOATS, "int32", "int64", "bool")
    return f"{g.new()} = {x}.astype('{g.pick(kinds)}')"


def rounding_decides(tensor: paddle.Tensor) -> bool:
    """Whether an element is so close to an integer that its last bits decide which one is cut out of it."""
    if not (tensor._is_initialized() and tensor.is_floating_point()):
        return False
    numbers = tensor.detach().astype("float64").numpy()
    nearest = np.rint(numbers)
    close = 0.05 if str(tensor.dtype).endswith("float16") else 1e-4
    return bool(((nearest != 0) & (np.abs(numbers - nearest) <= close * np.abs(nearest))).any())


def memory(g: Program) -> str:
    """What reads the order of elements in memory."""
    x = g.floating(lambda t: t.ndim >= 1)
    return g.pick(
        (
            # Of a view that begins at its end Paddle reads what lies behind it.
            f"{g.new()} = paddle.to_tensor({x}{'.tolist()' if min(g.scope[x].strides) < 0 else '.item(1)'})",
            f"{g.new()} = paddle.to_tensor({x}.tolist())",
            f"{g.new()} = paddle.to_tensor({x}.numpy())",
        )
    )
