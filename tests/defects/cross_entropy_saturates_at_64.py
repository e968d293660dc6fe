"""cross_entropy saturates at 64

The CPU kernel computes exp(max(x - max, -64)): no loss exceeds 64 plus the logarithm of the number of classes.

Section: NaN, infinities and the edges of the range
Ops: cross_entropy
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 64 instead of 300
Known difference: softmax clipped at -64
Under the shim: Torch's loss; compare names it.
"""

import numpy as np
import paddle

x = paddle.to_tensor([[0.0, 300.0]])
np.testing.assert_allclose(paddle.nn.functional.cross_entropy(x, paddle.to_tensor([0])).item(), 300.0, rtol=1e-5)
