"""softplus loses small results

In log(1 + exp(x)) the digits of a small exp(x) are lost in the sum.

Section: Precision
Ops: softplus
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 0 instead of 2e-9 at x = -20, in float32
Known difference: expm1 and log1p spelled out
Under the shim: Torch's log1p(exp(x)); compare names it, `negligible` beside larger results.
"""

import numpy as np
import paddle

x = paddle.to_tensor([-20.0], "float32")
np.testing.assert_allclose(paddle.nn.functional.softplus(x).item(), np.log1p(np.exp(-20.0)), rtol=1e-5)
