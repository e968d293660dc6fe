"""hypot overflows

Squares are added unscaled: a length becomes 0 or infinite where it is an ordinary number of the dtype.

Section: NaN, infinities and the edges of the range
Ops: hypot, atan2
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: inf instead of 4e30
Known difference: powers that leave the range
Under the shim: Torch's result; compare names it.
"""

import numpy as np
import paddle

x = paddle.to_tensor([3e30])

# %% large numbers
np.testing.assert_allclose(paddle.hypot(x, x).numpy(), [3e30 * np.sqrt(2)], rtol=1e-5)
# %% small numbers
np.testing.assert_allclose(paddle.hypot(x * 1e-30 * 1e-30, x * 0).numpy(), [3e-30], rtol=1e-5)
