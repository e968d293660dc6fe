"""setitem at one place twice gives the gradient to the first value

x[index] = y where the index has a place several times: the last value stays, and the gradient goes to the first one.

Section: Gradients
Ops: setitem
Seen on: Paddle 3.3.1; CPU
Effect: another value's gradient
Under the shim: Wrong, too: Torch's gradient goes to all values of the place; compare names the call, on both sides.
"""

import numpy as np
import paddle

y = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
x = paddle.zeros([3])
x[paddle.to_tensor([1, 1])] = y * 1
assert x.tolist() == [0.0, 2.0, 0.0]
x.sum().backward()
np.testing.assert_array_equal(y.grad.numpy(), [0.0, 1.0])
