"""setitem has no gradient of a broadcast value

If a tensor with as many axes is broadcast when it is set, the backward raises.

Section: Gradients
Ops: setitem
Seen on: Paddle 3.3.1; CPU
Effect: ValueError, no gradient
Ends with: ValueError
Under the shim: Torch's gradient.
"""

import numpy as np
import paddle

x, y = paddle.ones([2, 3]), paddle.ones([1, 3])
y.stop_gradient = False
x[:] = y
x.sum().backward()
np.testing.assert_array_equal(y.grad.numpy(), [[2.0, 2.0, 2.0]])
