"""group_norm gradient is wrong without a weight

Without a weight, the CPU kernel's gradient of x differs from the gradient with a weight of ones.

Section: Gradients
Ops: group_norm
Seen on: Paddle 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 38 % of a gradient's element
Known difference: group norm without a weight
Under the shim: Torch's gradient; compare names it.
"""

import numpy as np
import paddle
import paddle.nn.functional as F

grads = []
for weight in (None, paddle.ones([4], "float64")):
    x = paddle.to_tensor(np.arange(12.0).reshape(1, 4, 3) ** 2, stop_gradient=False)
    F.group_norm(x, 2, weight=weight).backward(paddle.to_tensor(np.sin(np.arange(12.0)).reshape(1, 4, 3)))
    grads.append(x.grad.numpy())
np.testing.assert_allclose(grads[0], grads[1], rtol=1e-9)
