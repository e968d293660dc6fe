"""error in a saved tensor hook disables gradients

The error leaves the backward as an OSError, and gradients stay switched off; in recomputed blocks, too.

Section: The autograd engine
Ops: backward
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: no op records a gradient any more
Under the shim: What Torch saves does not pass through these hooks. Under compare Paddle's error is raised; gradients stay on.
"""

import paddle

x = paddle.ones([3])
x.stop_gradient = False
with paddle.autograd.saved_tensors_hooks(lambda tensor: tensor, lambda saved: 1 / 0):
    y = paddle.exp(x).sum()
try:
    y.backward()
except OSError:
    assert paddle.is_grad_enabled()
