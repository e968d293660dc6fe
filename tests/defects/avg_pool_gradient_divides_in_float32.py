"""avg_pool gradient divides in float32

The backward holds the reciprocal of the number of averaged elements in float32, also for float64.

Section: Precision
Ops: pool2d, pool3d
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 7e-9 of the gradient
Known difference: averages in float32
Under the shim: Torch's gradient; compare names it.
"""

import numpy as np
import paddle


def near(function, axes):
    x = paddle.ones([1, 1] + [3] * axes, "float64")
    x.stop_gradient = False
    function(x, 3).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.full(x.shape, 3.0**-axes), rtol=1e-12)


# %% pool2d
near(paddle.nn.functional.avg_pool2d, 2)
# %% pool3d
near(paddle.nn.functional.avg_pool3d, 3)
