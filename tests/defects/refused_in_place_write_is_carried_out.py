"""refused in-place write is carried out

A leaf that needs a gradient may not be written in place: the error is raised after the write.

Section: The autograd engine
Ops: add_, exp_, tanh_, scale_ and others
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: any value, here 2 instead of 1
Under the shim: No change.
"""

import paddle

x = paddle.ones([2])
x.stop_gradient = False
try:
    x.add_(x)
except ValueError:
    assert x.tolist() == [1, 1]
