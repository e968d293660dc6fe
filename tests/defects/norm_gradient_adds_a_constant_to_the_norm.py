"""norm gradient adds a constant to the norm

The gradient divides by the norm plus a constant (1e-12), which matters where the norm is small.

Section: Gradients
Ops: p_norm, frobenius_norm, dist
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 2e-8 of the gradient at a norm of 5e-5, in float64
Known difference: number added to a norm
Under the shim: Torch's gradient; compare names it.
"""

import numpy as np
import paddle

x = paddle.to_tensor([3e-5, 4e-5], "float64", stop_gradient=False)
paddle.linalg.norm(x, p=2, axis=0).backward()
np.testing.assert_allclose(x.grad.numpy(), [0.6, 0.8], rtol=1e-9)
