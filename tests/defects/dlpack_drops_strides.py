"""dlpack drops strides

A transposed or sliced view of a Paddle 2.6 tensor arrives in Torch as if it were contiguous.

Section: Values
Ops: to_dlpack
Seen on: Paddle 2.6.2; CPU
Effect: wrong values, no error
Under the shim: No change; the library does not use this function on 2.6.
"""

import numpy as np
import paddle
import torch

x = paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]]).t()
y = torch.utils.dlpack.from_dlpack(paddle.utils.dlpack.to_dlpack(x))
np.testing.assert_array_equal(y.numpy(), [[1.0, 3.0], [2.0, 4.0]])
