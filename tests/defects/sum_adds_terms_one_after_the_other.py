"""sum adds terms one after the other

Sums over an axis, and gradients of broadcast operands, add one term after the other.

Section: Precision
Ops: sum, mean
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 1 % of the sum of 2**20 equal numbers, in float32
Known difference: sequential sum
Under the shim: Torch adds in a tree; compare names it.
"""

import numpy as np
import paddle

x = np.full([2, 2**20], 0.1, "float32")
np.testing.assert_allclose(paddle.to_tensor(x).sum(1).numpy(), x.astype("float64").sum(1), rtol=1e-5)
