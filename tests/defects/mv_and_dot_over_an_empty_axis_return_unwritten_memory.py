"""mv and dot over an empty axis return unwritten memory

If the axis of the sum has no elements, the result is memory that was never written, in Paddle 2.6.

Section: Unwritten memory
Ops: mv, dot, multi_dot
Seen on: Paddle 2.6.2; CPU
Effect: any value instead of 0
Under the shim: No change: a call without elements stays on Paddle's kernel.
"""

import numpy as np
import paddle

used = [paddle.full([64, 64], 7.0) for _ in range(64)]
del used

# %% mv
np.testing.assert_array_equal(paddle.mv(paddle.zeros([4096, 0]), paddle.zeros([0])).numpy(), 0.0)
# %% dot
assert not paddle.dot(paddle.zeros([4096, 0]), paddle.zeros([4096, 0])).any()
# %% multi_dot
assert not paddle.linalg.multi_dot([paddle.zeros([64, 0]), paddle.zeros([0, 64])]).any()
