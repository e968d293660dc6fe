"""The autograd engine."""

import sys

import numpy as np
import paddle

# %% backward of an empty tensor crashes
"""The gradient of an empty tensor is left without memory, and the backward of the op before, of whichever kind, reads it:
``nan_to_num(x)`` is two ops.

Ops: nan_to_num, scale
Seen on: Paddle 2.6.2; CPU
Effect: the process ends
Ends with: SIGSEGV
Under the shim: No change: a call without elements stays on Paddle's kernel.
"""
x = paddle.zeros([0, 3])
x.stop_gradient = False
paddle.autograd.backward([paddle.nan_to_num(x)], [paddle.zeros([0, 3])])

# %% error in a post hook disables gradients
"""The error leaves the backward as an OSError, and gradients stay switched off.

Ops: backward
Seen on: Paddle 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: no op records a gradient any more
Under the shim: The library's hooks raise nothing; their errors are raised after the backward.
"""
x = paddle.ones([3])
x.stop_gradient = False
y = (x * 2).sum()
y.grad_fn._register_post_hook(lambda inputs, outputs: 1 / 0)
try:
    y.backward()
except OSError:
    assert paddle.is_grad_enabled()

# %% error in a saved tensor hook disables gradients
"""The error leaves the backward as an OSError, and gradients stay switched off; in recomputed blocks, too.

Ops: backward
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: no op records a gradient any more
Under the shim: What Torch saves does not pass through these hooks. Under compare Paddle's error is raised; gradients stay on.
"""
x = paddle.ones([3])
x.stop_gradient = False
with paddle.autograd.saved_tensors_hooks(lambda tensor: tensor, lambda saved: 1 / 0):
    y = paddle.exp(x).sum()
try:
    y.backward()
except OSError:
    assert paddle.is_grad_enabled()

# %% error in a second derivative disables gradients
"""A second derivative that is made of several ops (masked_fill's, where the gradient of x is not asked for) raises, and gradients
stay switched off.

Ops: masked_fill
Seen on: Paddle 3.3.1; CPU
Effect: no op records a gradient any more
Under the shim: Torch's second derivative, which raises nothing; under compare Paddle's error, and gradients stay switched on.
"""
x, value = paddle.ones([3]), paddle.to_tensor(2.0)
x.stop_gradient = value.stop_gradient = False
y = paddle.masked_fill(x, paddle.to_tensor([True, False, True]), value)
(grad,) = paddle.grad([(y * y).sum()], [value], create_graph=True)
try:
    paddle.grad([grad * grad], [x, value], allow_unused=True)
except ValueError:
    assert paddle.is_grad_enabled()

# %% grad_fn leaks references
"""Each read of grad_fn leaves a reference to the node, and so to all that the node holds.

Ops: Tensor.grad_fn
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: one node for each tensor that was read
Under the shim: No change; the library gives its own references back.
"""
x = paddle.ones([3])
x.stop_gradient = False
y = x * 2
node = y.grad_fn
before = sys.getrefcount(node)
y.grad_fn  # noqa: B018
assert sys.getrefcount(node) == before

# %% nested paddle.grad crashes
"""paddle.grad keeps its targets in one place: after a nested paddle.grad, in a PyLayer's backward, the outer one continues without
them.

Ops: paddle.grad
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process ends
Ends with: SIGSEGV
Under the shim: Torch's engine. Under compare Paddle's backward runs, and the process ends.
"""


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

# %% paddle.grad by a later result fails
"""paddle.grad with respect to one of several results of a call, but the first, raises: Invalid rank for GradTensorHolder.

Ops: paddle.grad of what split, chunk, unbind, qr, topk and others give
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: SystemError
Ends with: SystemError
Under the shim: Torch's gradient.
"""
x = paddle.ones([4, 3])
x.stop_gradient = False
part = paddle.split(x * 2, 2)[1]
assert paddle.grad([part.sum()], [part])[0].tolist() == [[1, 1, 1], [1, 1, 1]]

# %% paddle.grad confuses results of one call
"""paddle.grad of the first of several results with respect to another one returns that with respect to the first.

Ops: paddle.grad of what split, chunk, unbind, qr, svd and others give
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: 1 instead of None
Under the shim: None with allow_unused=True, as in Torch; otherwise an error in Paddle's words.
"""
x = paddle.ones([4, 3])
x.stop_gradient = False
first, second = paddle.split(x * 2, 2)
assert paddle.grad([first.sum()], [second], allow_unused=True)[0] is None

# %% paddle.grad of an excluded input crashes
"""An input that is also in no_grad_vars, or that is reached only through those, is looked up although it was left out.

Ops: paddle.grad
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process ends
Ends with: SIGSEGV
Under the shim: The input is not in the graph: None with allow_unused, otherwise Paddle's error. Under compare the process ends.
"""
x = paddle.ones([2])
x.stop_gradient = False

# %%% the input itself
paddle.grad([(x / 2).sum()], [x], no_grad_vars=[x], allow_unused=True)
# %%% a value on the way
paddle.grad([((y := x / 2) - 1.0).sum()], [x], no_grad_vars=[y], allow_unused=True)

# %% PyLayer that returns None crashes
"""The backward of a PyLayer returns None for an operand that another op made.

Ops: PyLayer
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process ends
Ends with: SIGSEGV
Under the shim: On Paddle 3 that op gets no gradient. No change on 2.6.
"""


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

# %% refused in-place write is carried out
"""A leaf that needs a gradient may not be written in place: the error is raised after the write.

Ops: add_, exp_, tanh_, scale_ and others
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: any value, here 2 instead of 1
Under the shim: No change.
"""
x = paddle.ones([2])
x.stop_gradient = False
try:
    x.add_(x)
except ValueError:
    assert x.tolist() == [1, 1]

# %% retained gradient is overwritten
"""A reshape or transpose passes its gradient on in the same memory, and the next backward kernel writes its own result there.

Ops: Tensor.retain_grads
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: any value, here 4.95 instead of 3
Under the shim: Torch's gradient; under compare Paddle's.
"""
x = paddle.full([4], 0.5)
x.stop_gradient = False
y = paddle.exp(x).reshape([2, 2])
y.retain_grads()
(y * 3).sum().backward()

# %%% reshape
np.testing.assert_array_equal(y.grad.numpy(), np.full([2, 2], 3.0))
# %%% transpose
x.clear_grad()
y = paddle.exp(x).transpose([0])
y.retain_grads()
(y * 3).sum().backward()
assert y.grad.tolist() == [3.0] * 4

# %% second backward of a PyLayer crashes
"""A second backward without retain_graph reads what the first one freed; other nodes raise.

Ops: PyLayer
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process ends
Ends with: SIGSEGV
Under the shim: On Torch's tape Paddle's own error is raised before the backward starts.
"""


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

# %% second derivative through an in-place op is wrong
"""The backward of an in-place op reads an operand whose history is lost: second derivatives lack that part.

Ops: square_, sin_
Seen on: Paddle 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 1.96 instead of 5.88
Under the shim: Torch's second derivative.
"""
x = paddle.to_tensor([0.7], stop_gradient=False)
y = paddle.square(x)
y.square_()
(grad,) = paddle.grad([y.sum()], [x], create_graph=True)
grad.sum().backward()
np.testing.assert_allclose(x.grad.numpy(), [12 * 0.7**2], rtol=1e-5)
