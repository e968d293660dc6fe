"""median gradient is wrong beside a row with NaN

If a row has a NaN, the gradient of the row before it goes to elements that are not in its middle.

Section: Gradients
Ops: median
Seen on: Paddle 3.2.2, 3.3.1; CPU
Effect: the gradient goes to the wrong elements
Under the shim: Torch's gradient; compare says WRONG, side paddle.
"""

import numpy as np
import paddle

rows = [[0.1, -0.1, 0.6, 0.2], [-0.5, 0.3, 1.3, 0.9], [float("nan"), -1.2, -0.6, 0.0]]
x = paddle.to_tensor(rows, stop_gradient=False)
paddle.median(x, axis=-1)[:2].sum().backward()
np.testing.assert_array_equal(x.grad.numpy()[1], [0.0, 0.5, 0.0, 0.5])
