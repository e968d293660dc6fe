"""getitem misreads a strided tensor by two indices

A transposed or sliced view, indexed by two tensors, is read as if it were contiguous; so is the input of multi_label_margin_loss.

Section: Values
Ops: getitem
Seen on: Paddle 3.1.1, 3.2.2; CPU
Effect: the wrong elements
Under the shim: Torch's elements, of floats and integers.
"""

import numpy as np
import paddle

x, index = np.arange(12).reshape(3, 4), paddle.to_tensor([0, 2, 1])
np.testing.assert_array_equal(paddle.to_tensor(x).t()[index, index].numpy(), x.T[[0, 2, 1], [0, 2, 1]])
