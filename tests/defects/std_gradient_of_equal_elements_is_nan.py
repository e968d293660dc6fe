"""std gradient of equal elements is NaN

At a standard deviation of 0 the gradient is 0 / 0; Torch's is 0.

Section: NaN, infinities and the edges of the range
Ops: std
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: NaN instead of 0
Under the shim: Torch's result; compare says NONFINITE, side paddle.
"""

import numpy as np
import paddle

x = paddle.ones([3])
x.stop_gradient = False
paddle.std(x).backward()
np.testing.assert_array_equal(x.grad.numpy(), [0.0, 0.0, 0.0])
