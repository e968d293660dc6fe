"""interpolate weights are float32

Positions and weights are computed in float32, also for float64 images.

Section: Precision
Ops: linear_interp, bilinear_interp, trilinear_interp, bicubic_interp
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 4e-8 of the result
Known difference: weights of interpolation in float32
Under the shim: Torch computes them in float64; compare names it.
"""

import numpy as np
import paddle

x = paddle.to_tensor(np.arange(3.0).reshape(1, 1, 3))
result = paddle.nn.functional.interpolate(x, size=[7], mode="linear", align_corners=False, data_format="NCW").numpy()
where = np.clip((np.arange(7) + 0.5) * 3 / 7 - 0.5, 0, 2)
np.testing.assert_allclose(result[0, 0], where, rtol=1e-12)
