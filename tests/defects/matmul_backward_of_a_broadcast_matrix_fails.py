"""matmul backward of a broadcast matrix fails

If a batch of matrices is multiplied by an operand with fewer batch axes, the backward of the smaller one raises.

Section: Gradients
Ops: matmul
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: ValueError
Ends with: ValueError
Under the shim: Torch's gradient.
"""

import numpy as np
import paddle

x, y = paddle.ones([2, 3, 4, 5]), paddle.ones([3, 5, 6])
y.stop_gradient = False
paddle.matmul(x, y).sum().backward()
np.testing.assert_array_equal(y.grad.numpy(), np.full([3, 5, 6], 8.0))
