"""second backward of a PyLayer crashes

A second backward without retain_graph reads what the first one freed; other nodes raise.

Section: The autograd engine
Ops: PyLayer
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process ends
Ends with: SIGSEGV
Under the shim: On Torch's tape Paddle's own error is raised before the backward starts.
"""

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
