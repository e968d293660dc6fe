"""conv2d_transpose gradients with channels last are wrong

With padding and channels last, the gradients of x and of the weight are wrong, up to Paddle 3.2.

Section: Gradients
Ops: conv2d_transpose
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2; CPU
Effect: 6 % of a gradient's element
Under the shim: Torch's gradients.
"""

import numpy as np
import paddle
import paddle.nn.functional as F

grads = []
for form, axes in (("NCHW", [0, 1, 2, 3]), ("NHWC", [0, 2, 3, 1])):
    x = paddle.arange(24.0).reshape([1, 2, 4, 3]).transpose(axes).detach()
    weight = paddle.arange(24.0).reshape([2, 3, 2, 2])
    weight.stop_gradient = False
    (F.conv2d_transpose(x, weight, padding=1, data_format=form) ** 2).sum().backward()
    grads.append(weight.grad.numpy())
np.testing.assert_allclose(grads[1], grads[0], rtol=1e-5)
