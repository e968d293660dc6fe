"""slogdet overflows in the determinant

slogdet takes the logarithm of the determinant, which is 0 or infinite where the logarithm is an ordinary number.

Section: NaN, infinities and the edges of the range
Ops: slogdet
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: -inf instead of -138
Known difference: slogdet through the determinant
Under the shim: Torch's result; compare names it.
"""

import numpy as np
import paddle

result = paddle.linalg.slogdet(paddle.eye(20) * 1e-3).numpy()
np.testing.assert_allclose(result, [1.0, 20 * np.log(1e-3)], rtol=1e-5)
