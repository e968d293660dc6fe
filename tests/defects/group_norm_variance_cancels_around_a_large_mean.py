"""group_norm variance cancels around a large mean

The CPU kernel subtracts the square of the mean from the mean of the squares.

Section: Precision
Ops: group_norm
Seen on: Paddle 3.3.1; CPU
Effect: half of the result, around 1000 in float32
Known difference: variance in one pass
Under the shim: Torch's result; compare names it.
"""

import numpy as np
import paddle

x = np.array([[[1000.0, 1000.1, 1000.3, 1000.2]]], "float32")
centred = x.astype("float64") - x.astype("float64").mean()
result = paddle.nn.functional.group_norm(paddle.to_tensor(x), 1).numpy()
np.testing.assert_allclose(result, centred / np.sqrt((centred**2).mean() + 1e-5), rtol=1e-2, atol=1e-2)
