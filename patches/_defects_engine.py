"""Defects of Paddle's autograd engine that end the process: data in the keys of ``catalogue.defects.Defect``."""

from __future__ import annotations

from typing import Any

from ._paddles import PADDLES

DEFECTS: tuple[dict[str, Any], ...] = (
    {
        "name": "a gradient within a gradient",
        "op": "paddle.grad",
        "what": "paddle.grad keeps what it looks for in one place: one that comes to another, in a PyLayer's backward, "
        "goes on without it.",
        "size": "the process ends",
        "paddle": PADDLES,
        "shows": "SIGSEGV",
        "shim": "Torch's engine. Compared, the backward is Paddle's, and the process ends, too.",
        "program": """\
import paddle
class Square(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, grad):
        with paddle.enable_grad():
            x = ctx.saved_tensor()[0].detach()
            x.stop_gradient = False
            return paddle.grad([x * x], [x], [grad])[0]
x = paddle.ones([3])
x.stop_gradient = False
paddle.grad([Square.apply(x).sum()], [x])
""",
    },
)
