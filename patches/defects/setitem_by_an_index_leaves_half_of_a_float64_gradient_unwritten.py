"""setitem by an index leaves half of a float64 gradient unwritten

x[index] = y with a mask, a list or a tensor of indices, alone or beside slices: the gradient of y is written as if it were float32,
and the rest of its memory is whatever was there. Slices and integers alone, index_put and masked_scatter are right.

Section: Unwritten memory
Ops: setitem
Seen on: Paddle 3.3.1; CPU
Effect: unwritten memory
Under the shim: Torch's gradient; compare counts the call as not checked.
"""

import numpy as np
import paddle


def gradient(index):
    y = paddle.full([4], 2.0, "float64")
    y.stop_gradient = False
    x = paddle.zeros([8], "float64")
    x[index] = y * 3
    x.sum().backward()
    np.testing.assert_array_equal(y.grad.numpy(), [3.0] * 4)


# %% a mask
gradient(paddle.to_tensor([False] * 4 + [True] * 4))
# %% a tensor of indices
gradient(paddle.to_tensor([4, 5, 6, 7]))
# %% a list
gradient([4, 5, 6, 7])
