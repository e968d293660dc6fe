"""Defects of Paddle's autograd engine: data in the keys of ``catalogue.defects.Defect``."""

from __future__ import annotations

from typing import Any

from ._paddles import PADDLE_3, PADDLES

SIGSEGV = "SIGSEGV"

DEFECTS: tuple[dict[str, Any], ...] = (
    {
        "name": "a gradient within a gradient",
        "op": "paddle.grad",
        "what": "paddle.grad keeps what it looks for in one place: one that comes to another, in a PyLayer's backward, "
        "goes on without it.",
        "size": "the process ends",
        "paddle": PADDLES,
        "shows": SIGSEGV,
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
    {
        "name": "the gradient of what is left out",
        "op": "paddle.grad",
        "what": "An input that is in no_grad_vars, too, or to which nothing else leads, is looked for where it was left out.",
        "size": "the process ends",
        "paddle": PADDLES,
        "shows": SIGSEGV,
        "shim": "Not in the graph: None with allow_unused, and else Paddle's error. Compared, the process ends, too.",
        "program": """\
import paddle
x = paddle.ones([2])
x.stop_gradient = False
paddle.grad([(x / 2).sum()], [x], no_grad_vars=[x], allow_unused=True)
""",
        "others": {
            "in the way": "paddle.grad([((y := x / 2) - 1.0).sum()], [x], no_grad_vars=[y], allow_unused=True)",
        },
    },
    {
        "name": "a PyLayer's second backward",
        "op": "PyLayer",
        "what": "A second backward without retain_graph reads what the first one freed; other nodes raise.",
        "size": "the process ends",
        "paddle": PADDLES,
        "shows": SIGSEGV,
        "shim": "On the tape Paddle's own error is raised before the backward starts.",
        "program": """\
import paddle
class Twice(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2
    @staticmethod
    def backward(ctx, grad):
        return grad * 2 + 0 * ctx.saved_tensor()[0]
x = paddle.ones([3])
x.stop_gradient = False
y = Twice.apply(x)
y.sum().backward()
y.sum().backward()
""",
    },
    {
        "name": "None for a gradient that is wanted",
        "op": "PyLayer",
        "what": "A PyLayer that returns None for an operand behind which another op stands.",
        "size": "the process ends",
        "paddle": PADDLES,
        "shows": SIGSEGV,
        "shim": "What stands behind on the tape gets no gradient.",
        "program": """\
import paddle
class First(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, x, y):
        return x * y
    @staticmethod
    def backward(ctx, grad):
        return grad, None
x, y = paddle.ones([3]), paddle.ones([3])
x.stop_gradient = y.stop_gradient = False
First.apply(x * 1, y * 1).sum().backward()
""",
    },
    {
        "name": "an error in a node's post hook",
        "op": "backward",
        "what": "It leaves the backward as an OSError, and gradients are switched off from there on.",
        "size": "nothing records a gradient any more",
        "paddle": PADDLE_3,
        "alone": True,
        "shim": "No error leaves a hook of ours; they are raised when the backward has ended.",
        "program": """\
import paddle
x = paddle.ones([3])
x.stop_gradient = False
y = (x * 2).sum()
y.grad_fn._register_post_hook(lambda inputs, outputs: 1 / 0)
try:
    y.backward()
except OSError:
    assert paddle.is_grad_enabled()
""",
    },
    {
        "name": "a retained gradient that is written over",
        "op": "Tensor.retain_grads",
        "what": "The gradient of a reshaped or transposed tensor goes back in the same memory, and the next backward kernel writes "
        "its own result there: what was retained is the gradient of something else.",
        "size": "any: here 4.95 for 3",
        "paddle": PADDLES,
        "shim": "Torch's gradient. Compared, the right one where that very call is: a comparison holds gradients.",
        "program": """\
import numpy as np, paddle
x = paddle.full([4], 0.5)
x.stop_gradient = False
y = paddle.exp(x).reshape([2, 2])
y.retain_grads()
(y * 3).sum().backward()
np.testing.assert_array_equal(y.grad.numpy(), np.full([2, 2], 3.0))
""",
        "others": {
            "transposed": "x.clear_grad(); y = paddle.exp(x).transpose([0]); y.retain_grads(); (y * 3).sum().backward(); "
            "assert y.grad.tolist() == [3.0] * 4",
        },
    },
    {
        "name": "an error while a saved tensor is unpacked",
        "op": "backward",
        "what": "It leaves the backward as an OSError, and gradients are switched off from there on; in recomputed blocks, too.",
        "size": "nothing records a gradient any more",
        "paddle": PADDLES,
        "alone": True,
        "shim": "What Torch saves is not shown to these hooks. Compared, the error is Paddle's; gradients stay switched on.",
        "program": """\
import paddle
x = paddle.ones([3])
x.stop_gradient = False
with paddle.autograd.saved_tensors_hooks(lambda tensor: tensor, lambda kept: 1 / 0):
    y = paddle.exp(x).sum()
try:
    y.backward()
except OSError:
    assert paddle.is_grad_enabled()
""",
    },
    {
        "name": "a refused write that is carried out",
        "op": "add_, exp_, tanh_, scale_ and others",
        "what": "A leaf that wants its gradient may not be written in place: the error comes when it has been.",
        "size": "any: here 2 for 1",
        "paddle": PADDLES,
        "shim": "As natively.",
        "program": """\
import paddle
x = paddle.ones([2])
x.stop_gradient = False
try:
    x.add_(x)
except ValueError:
    assert x.tolist() == [1, 1]
""",
    },
    {
        "name": "reading grad_fn",
        "op": "Tensor.grad_fn",
        "what": "Each reading leaves a reference to the node behind, and with it all that the node holds.",
        "size": "one node for each tensor that was asked",
        "paddle": PADDLES,
        "shim": "Gives its own references back.",
        "program": """\
import sys, paddle
x = paddle.ones([3])
x.stop_gradient = False
y = x * 2
node = y.grad_fn
before = sys.getrefcount(node)
y.grad_fn
assert sys.getrefcount(node) == before
""",
    },
    {
        "name": "gradient by a result of its own",
        "op": "paddle.grad of what split, chunk, unbind, qr, topk and others give",
        "what": "paddle.grad by a result of a call, but the first of several, ends in an error: Invalid rank for GradTensorHolder.",
        "size": "an error",
        "paddle": PADDLES,
        "shows": "SystemError",
        "shim": "The gradient.",
        "program": """\
import paddle
x = paddle.ones([4, 3])
x.stop_gradient = False
part = paddle.split(x * 2, 2)[1]
assert paddle.grad([part.sum()], [part])[0].tolist() == [[1, 1, 1], [1, 1, 1]]
""",
    },
    {
        "name": "gradient by another result of the call",
        "op": "paddle.grad of what split, chunk, unbind, qr, svd and others give",
        "what": "paddle.grad of the first of several results of a call by another one is that by the first.",
        "size": "1 for nothing",
        "paddle": ("2.6.2", "3.3.1"),
        "shim": "There is none, as in Torch: None with allow_unused=True, and without it an error in Paddle's words.",
        "program": """\
import paddle
x = paddle.ones([4, 3])
x.stop_gradient = False
first, second = paddle.split(x * 2, 2)
assert paddle.grad([first.sum()], [second], allow_unused=True)[0] is None
""",
    },
    {
        "name": "second derivative through an in-place op",
        "op": "square_, sin_",
        "what": "Of what its backward reads an in-place op knows not what it was made of: second derivatives lack that part.",
        "size": "1.96 for 5.88",
        "paddle": PADDLE_3,
        "shim": "The whole second derivative, Torch's.",
        "program": """\
import numpy as np, paddle
x = paddle.to_tensor([0.7], stop_gradient=False)
y = paddle.square(x)
y.square_()
(grad,) = paddle.grad([y.sum()], [x], create_graph=True)
grad.sum().backward()
np.testing.assert_allclose(x.grad.numpy(), [12 * 0.7**2], rtol=1e-5)
""",
    },
)
