"""cholesky_solve gradient reads outside the triangle

Elements outside the factor's triangle, which the forward does not read, change the gradient inside it.

Section: Gradients
Ops: cholesky_solve
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: a factor of 5
Known difference: whole Cholesky factor
Under the shim: Torch's gradient; compare names it.
"""

import numpy as np
import paddle

grads = []
for outside in (0.0, 5.0):
    b = paddle.to_tensor([[3.0], [4.0]], stop_gradient=False)
    factor = paddle.to_tensor([[2.0, outside], [1.0, 3.0]], stop_gradient=False)
    paddle.linalg.cholesky_solve(b, factor, upper=False).sum().backward()
    grads.append(factor.grad.numpy()[[0, 1, 1], [0, 0, 1]])
np.testing.assert_allclose(grads[1], grads[0], rtol=1e-5)
