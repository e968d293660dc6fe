"""nested paddle.grad crashes

paddle.grad keeps its targets in one place: after a nested paddle.grad, in a PyLayer's backward, the outer one continues without
them.

Section: The autograd engine
Ops: paddle.grad
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process ends
Ends with: SIGSEGV
Under the shim: Torch's engine. Under compare Paddle's backward runs, and the process ends.
"""

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
