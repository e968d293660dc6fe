"""gather gradient of repeated indices along axis 1 is wrong

Along any axis but the first, the gradient of repeated indices is wrong, up to Paddle 3.0.

Section: Gradients
Ops: gather
Seen on: Paddle 2.6.2, 3.0.0; CPU
Effect: 6 instead of 0
Under the shim: Torch's gradient.
"""

import numpy as np
import paddle

x = paddle.zeros([2, 3])
x.stop_gradient = False
y = paddle.gather(x, paddle.to_tensor([0, 2, 2]), axis=1)
y.backward(paddle.to_tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
np.testing.assert_array_equal(x.grad.numpy(), [[1.0, 0.0, 5.0], [4.0, 0.0, 11.0]])
