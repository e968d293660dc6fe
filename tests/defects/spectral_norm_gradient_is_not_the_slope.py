"""spectral_norm gradient is not the slope

With u and v constant, the gradient is not the slope of the function.

Section: Gradients
Ops: spectral_norm
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 9 % of a gradient's element
Known difference: gradient of spectral norm
Under the shim: Torch's gradient, with u and v constant; compare names it.
"""

import numpy as np
import paddle

u, v = paddle.to_tensor([1.0, 2.0], "float64"), paddle.to_tensor([3.0, -1.0, 2.0], "float64")


def loss(w):
    return (paddle._C_ops.spectral_norm(w, u, v, 0, 0, 0.0) ** 2).sum()


w = paddle.to_tensor([[1.0, 2.0, -1.0], [0.5, 1.5, 3.0]], "float64", stop_gradient=False)
loss(w).backward()
step = paddle.to_tensor([[0.0, 1e-6, 0.0], [0.0, 0.0, 0.0]], "float64")
slope = (loss(w.detach() + step) - loss(w.detach() - step)).item() / 2e-6
np.testing.assert_allclose(w.grad.numpy()[0, 1], slope, rtol=1e-5)
