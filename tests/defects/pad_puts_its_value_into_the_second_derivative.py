"""pad puts its value into the second derivative

The second derivative of a tensor that was padded with a number is padded with that number, where it is 0.

Section: Gradients
Ops: pad
Seen on: Paddle 3.3.1; CPU
Effect: 2.5 instead of 0
Under the shim: Torch's second derivative; compare says WRONG, side paddle.
"""

import numpy as np
import paddle
import paddle.nn.functional as F

x = paddle.ones([1, 1, 2])
x.stop_gradient = False
y = F.pad(x, [1, 0], value=2.5, data_format="NCL")
incoming = paddle.ones_like(y)
incoming.stop_gradient = False
(grad,) = paddle.grad([y], [x], [incoming], create_graph=True)
(second,) = paddle.grad([grad.sum()], [incoming])
np.testing.assert_array_equal(second.numpy(), [[[0.0, 1.0, 1.0]]])
