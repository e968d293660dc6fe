"""binary_cross_entropy loses small probabilities

In log(1 - x) the digits of small probabilities are lost.

Section: Precision
Ops: bce_loss
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 0.1 % of the loss at x = 1e-5, all of it at 1e-9, in float32
Known difference: expm1 and log1p spelled out
Under the shim: Torch's log1p(-x); compare names it.
"""

import numpy as np
import paddle

x = paddle.to_tensor([1e-5])
loss = paddle.nn.functional.binary_cross_entropy(x, paddle.zeros([1])).item()
np.testing.assert_allclose(loss, -np.log1p(-1e-5), rtol=1e-5)
