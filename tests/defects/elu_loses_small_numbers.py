"""elu loses small numbers

In exp(x) - 1 the digits of small numbers are lost.

Section: Precision
Ops: elu, celu, selu
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 1 % of the result at x = -1e-6, in float32
Known difference: expm1 and log1p spelled out
Under the shim: Torch's expm1(x); compare names it.
"""

import numpy as np
import paddle

x = paddle.to_tensor([-1e-6], "float32")
np.testing.assert_allclose(paddle.nn.functional.elu(x).item(), np.expm1(-1e-6), rtol=1e-5)
