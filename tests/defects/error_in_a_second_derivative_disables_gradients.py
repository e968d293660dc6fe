"""error in a second derivative disables gradients

A second derivative that is made of several ops (masked_fill's, where the gradient of x is not asked for) raises, and gradients stay
switched off.

Section: The autograd engine
Ops: masked_fill
Seen on: Paddle 3.3.1; CPU
Effect: no op records a gradient any more
Under the shim: Torch's second derivative, which raises nothing; under compare Paddle's error, and gradients stay switched on.
"""

import paddle

x, value = paddle.ones([3]), paddle.to_tensor(2.0)
x.stop_gradient = value.stop_gradient = False
y = paddle.masked_fill(x, paddle.to_tensor([True, False, True]), value)
(grad,) = paddle.grad([(y * y).sum()], [value], create_graph=True)
try:
    paddle.grad([grad * grad], [x, value], allow_unused=True)
except ValueError:
    assert paddle.is_grad_enabled()
