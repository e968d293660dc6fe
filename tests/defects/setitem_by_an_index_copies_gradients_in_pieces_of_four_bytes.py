"""setitem by an index copies gradients in pieces of four bytes

x[index] = y with a mask, a list or a tensor of indices, alone or beside slices: whatever the dtype is, the gradient of y is
copied in pieces of 4 bytes. Of float64 and complex64 half of it is whatever was in its memory before; of float16 and bfloat16 the
kernel writes beyond its memory, and the program hangs or ends sooner or later; of complex128 it ends at once. Slices and integers
alone, index_put and masked_scatter are right.

Section: Unwritten memory
Ops: setitem
Seen on: Paddle 3.3.1; CPU
Effect: unwritten memory
Under the shim: Torch's gradient; compare names the call.
"""

import numpy as np
import paddle


def gradient(index, dtype="float64"):
    y = paddle.full([4], 2.0, dtype)
    y.stop_gradient = False
    x = paddle.zeros([8], dtype)
    x[index] = y * 3
    x.sum().backward()
    np.testing.assert_array_equal(y.grad.astype("complex128").numpy(), [3.0] * 4)


# %% a mask
gradient(paddle.to_tensor([False] * 4 + [True] * 4))
# %% a tensor of indices
gradient(paddle.to_tensor([4, 5, 6, 7]))
# %% a list
gradient([4, 5, 6, 7])
# %% complex numbers
gradient([4, 5, 6, 7], "complex64")
