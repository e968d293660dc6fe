"""interpolate to one pixel takes the first pixel

For one pixel along an axis Paddle takes the first pixel (bicubic: the one before it) instead of the middle. On Paddle 3, linear
does so in the gradient only, and trilinear no longer does.

Section: Values
Ops: linear_interp, bilinear_interp, bicubic_interp, trilinear_interp
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: 0 instead of 7
Known difference: interpolation to one pixel
Under the shim: Torch's pixel; compare names it.
"""

import numpy as np
import paddle

x = paddle.to_tensor(np.arange(15.0).reshape(1, 1, 3, 5), "float32")


def near(mode):
    result = paddle.nn.functional.interpolate(x, size=[1, 1], mode=mode, align_corners=False)
    np.testing.assert_allclose(result.numpy().ravel(), [7.0], rtol=1e-5)


# %% bilinear
near("bilinear")
# %% bicubic
near("bicubic")
# %% gradient of linear
row = paddle.ones([1, 1, 3])
row.stop_gradient = False
paddle.nn.functional.interpolate(row, size=[1], mode="linear", data_format="NCW").backward()
assert row.grad.tolist() == [[[0.0, 1.0, 0.0]]]
