"""bmm over an empty axis returns unwritten memory

If the axis of the sum has no elements, the result is memory that was never written.

Section: Unwritten memory
Ops: bmm, bilinear
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: any value instead of 0
Under the shim: No change: a call without elements stays on Paddle's kernel.
"""

import numpy as np
import paddle

used = [paddle.full([64, 64], 7.0) for _ in range(64)]
del used

# %% bmm
np.testing.assert_array_equal(paddle.bmm(paddle.zeros([1, 64, 0]), paddle.zeros([1, 0, 64])).numpy(), 0.0)
# %% bilinear
rows, weight = (paddle.zeros([4096, 0]), paddle.ones([4096, 1])), paddle.zeros([1, 0, 1])
assert not paddle.nn.functional.bilinear(*rows, weight).any()
