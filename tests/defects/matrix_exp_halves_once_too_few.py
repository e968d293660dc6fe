"""matrix_exp halves once too few

The matrix is halved once too few before the Pade approximant, which is not made for such norms.

Section: Precision
Ops: matrix_exp
Seen on: Paddle 3.3.1; CPU
Effect: 0.2 % of the result, in float32
Known difference: one squaring too few
Under the shim: Torch's result; compare names it.
"""

import numpy as np
import paddle

x = np.array([[4.4, -0.4], [0.6, 6.9]])
expected = np.linalg.matrix_power(sum(np.linalg.matrix_power(x / 64, k) / np.prod(np.arange(1.0, k + 1)) for k in range(20)), 64)
np.testing.assert_allclose(paddle.linalg.matrix_exp(paddle.to_tensor(x, "float32")).numpy(), expected, rtol=1e-4)
