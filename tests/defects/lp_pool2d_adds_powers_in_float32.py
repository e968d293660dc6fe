"""lp_pool2d adds powers in float32

The float64 kernel adds powers in float32.

Section: Precision
Ops: lp_pool2d
Seen on: Paddle 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 3e-8 of the result
Known difference: power means in float32
Under the shim: Torch adds in float64; compare names it.
"""

import numpy as np
import paddle

x = paddle.to_tensor(np.array([0.1, 0.2, 0.3, 0.7]).reshape(1, 1, 2, 2))
np.testing.assert_allclose(paddle.nn.functional.lp_pool2d(x, 2.0, 2).item(), np.sqrt(0.63), rtol=1e-12)
