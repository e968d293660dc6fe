"""retained gradient is overwritten

A reshape or transpose passes its gradient on in the same memory, and the next backward kernel writes its own result there.

Section: The autograd engine
Ops: Tensor.retain_grads
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: any value, here 4.95 instead of 3
Under the shim: Torch's gradient; under compare Paddle's.
"""

import numpy as np
import paddle

x = paddle.full([4], 0.5)
x.stop_gradient = False
y = paddle.exp(x).reshape([2, 2])
y.retain_grads()
(y * 3).sum().backward()

# %% reshape
np.testing.assert_array_equal(y.grad.numpy(), np.full([2, 2], 3.0))
# %% transpose
x.clear_grad()
y = paddle.exp(x).transpose([0])
y.retain_grads()
(y * 3).sum().backward()
assert y.grad.tolist() == [3.0] * 4
