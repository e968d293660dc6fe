"""layer_norm gradient lacks a frozen weight

If the weight's own gradient is not requested, the CPU kernel leaves the weight out of x's gradient.

Section: Gradients
Ops: layer_norm
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 74 % of a gradient's element
Known difference: scale lost in the gradient
Under the shim: Torch's gradient; compare names it.
"""

import numpy as np
import paddle
import paddle.nn.functional as F

grads = []
for frozen in (True, False):
    x = paddle.to_tensor(np.arange(6.0).reshape(2, 3) ** 2, stop_gradient=False)
    weight = paddle.to_tensor(np.array([1.0, 2.0, 3.0]), stop_gradient=frozen)
    (F.layer_norm(x, [3], weight=weight) ** 2).sum().backward()
    grads.append(x.grad.numpy())
np.testing.assert_allclose(grads[0], grads[1], rtol=1e-9)
