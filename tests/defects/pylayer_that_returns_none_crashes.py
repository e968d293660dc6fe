"""PyLayer that returns None crashes

The backward of a PyLayer returns None for an operand that another op made.

Section: The autograd engine
Ops: PyLayer
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process ends
Ends with: SIGSEGV
Under the shim: On Paddle 3 that op gets no gradient. No change on 2.6.
"""

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
