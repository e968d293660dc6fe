"""matmul over an empty axis returns unwritten memory

If the axis of the sum has no elements, the result is memory that was never written, in Paddle 3.0.

Section: Unwritten memory
Ops: matmul
Seen on: Paddle 3.0.0; CPU
Effect: any value instead of 0
Under the shim: No change: a call without elements stays on Paddle's kernel.
"""

import numpy as np
import paddle

paddle.full([64, 64], 7.0)
np.testing.assert_array_equal(paddle.matmul(paddle.zeros([64, 0]), paddle.zeros([0, 64])).numpy(), 0.0)
