"""cumprod gradient of complex numbers is not conjugated

The gradient contains the product of the other elements instead of its conjugate, in Paddle 2.6.

Section: Gradients
Ops: cumprod
Seen on: Paddle 2.6.2; CPU
Effect: a gradient in the wrong direction
Under the shim: Torch's gradient.
"""

import numpy as np
import paddle

x = paddle.to_tensor(np.array([1 + 2j, 3 - 1j]), stop_gradient=False)
paddle.cumprod(x, 0).backward(paddle.to_tensor(np.array([0, 1 + 0j])))
np.testing.assert_allclose(x.grad.numpy(), [3 + 1j, 1 - 2j], rtol=1e-9)
