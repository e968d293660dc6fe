"""error in a post hook disables gradients

The error leaves the backward as an OSError, and gradients stay switched off.

Section: The autograd engine
Ops: backward
Seen on: Paddle 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: no op records a gradient any more
Under the shim: The library's hooks raise nothing; their errors are raised after the backward.
"""

import paddle

x = paddle.ones([3])
x.stop_gradient = False
y = (x * 2).sum()
y.grad_fn._register_post_hook(lambda inputs, outputs: 1 / 0)
try:
    y.backward()
except OSError:
    assert paddle.is_grad_enabled()
