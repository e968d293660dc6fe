"""getitem misreads a strided tensor by one index

A transposed or sliced view, indexed by a tensor, is read as if it were contiguous, in Paddle 3.2.

Section: Values
Ops: getitem
Seen on: Paddle 3.2.2; CPU
Effect: the wrong elements
Under the shim: Torch's elements, of floats and integers.
"""

import numpy as np
import paddle

x = np.arange(12).reshape(3, 4)
np.testing.assert_array_equal(paddle.to_tensor(x).t()[paddle.to_tensor([0, 2, 1])].numpy(), x.T[[0, 2, 1]])
