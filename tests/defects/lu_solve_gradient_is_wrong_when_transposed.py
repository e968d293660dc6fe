"""lu_solve gradient is wrong when transposed

With trans="T" the gradient of the factors is not the slope of the function.

Section: Gradients
Ops: lu_solve
Seen on: Paddle 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 24 times the gradient
Under the shim: Torch's gradient; compare says WRONG, side paddle.
"""

import numpy as np
import paddle

b, pivots = paddle.to_tensor([[1.0], [2.0]], "float64"), paddle.to_tensor([1, 2], "int32")
lu = paddle.to_tensor([[2.0, 1.0], [0.5, 3.0]], "float64", stop_gradient=False)


def loss(factors):
    return paddle.linalg.lu_solve(b, factors, pivots, trans="T").sum()


loss(lu).backward()
step = paddle.to_tensor([[0.0, 1e-6], [0.0, 0.0]], "float64")
slope = (loss(lu.detach() + step) - loss(lu.detach() - step)).item() / 2e-6
np.testing.assert_allclose(lu.grad.numpy()[0, 1], slope, rtol=1e-5)
