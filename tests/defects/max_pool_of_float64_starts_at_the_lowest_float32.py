"""max_pool of float64 starts at the lowest float32

Even in float64 maxima start at -3.4e38: lower numbers are not seen, and their index is -1.

Section: NaN, infinities and the edges of the range
Ops: max_pool2d, max_pool3d, maxout
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: -3.4e38 instead of -1e39
Under the shim: Torch's maxima; compare says SEMANTICS, and names no side.
"""

import numpy as np
import paddle
import paddle.nn.functional as F

x = paddle.full([1, 2, 2, 2], -1e39, "float64")

# %% max_pool2d
np.testing.assert_array_equal(F.max_pool2d(x, 2).numpy().ravel(), [-1e39] * 2)
# %% max_pool3d
np.testing.assert_array_equal(F.max_pool3d(x.unsqueeze(0), 2).numpy().ravel(), [-1e39])
# %% maxout
np.testing.assert_array_equal(F.maxout(x, 2).numpy().ravel(), [-1e39] * 4)
# %% indices
np.testing.assert_array_equal(F.max_pool2d(x, 2, return_mask=True)[1].numpy().ravel(), [0, 0])
