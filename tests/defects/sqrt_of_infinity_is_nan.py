"""sqrt of infinity is NaN

The vectorised float32 kernel returns NaN. Like rsqrt, it takes denormal numbers for 0.

Section: NaN, infinities and the edges of the range
Ops: sqrt
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU, some processors
Effect: NaN instead of +inf
Known difference: sqrt of infinity and of denormals
Under the shim: Torch's kernel; compare names it.
"""

import numpy as np
import paddle

np.testing.assert_array_equal(paddle.sqrt(paddle.full([32], float("inf"))).numpy(), np.inf)
