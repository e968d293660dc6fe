"""gather gradient of a 0-D index along axis 1 is wrong

Along any axis but the first, the gradient for a 0-D index is written to the wrong place, or is zero.

Section: Gradients
Ops: gather
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: 0 instead of 4
Under the shim: Torch's gradient.
"""

import numpy as np
import paddle

x = paddle.zeros([2, 3, 2])
x.stop_gradient = False
paddle.gather(x, paddle.to_tensor(1), axis=1).backward(paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]]))
np.testing.assert_array_equal(x.grad.numpy()[:, 1], [[1.0, 2.0], [3.0, 4.0]])
