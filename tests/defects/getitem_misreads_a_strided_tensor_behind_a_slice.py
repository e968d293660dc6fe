"""getitem misreads a strided tensor behind a slice

A transposed or sliced view, indexed by a tensor behind a slice, is read as if it were contiguous.

Section: Values
Ops: getitem
Seen on: Paddle 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the wrong elements
Under the shim: Torch's elements, of floats and integers. compare does not see what an index reads.
"""

import numpy as np
import paddle

x = np.arange(12).reshape(3, 4)
result = paddle.to_tensor(x).t()[:, paddle.to_tensor([0, 2, 1])]
np.testing.assert_array_equal(result.numpy(), x.T[:, [0, 2, 1]])
