"""second derivative through an in-place op is wrong

The backward of an in-place op reads an operand whose history is lost: second derivatives lack that part.

Section: The autograd engine
Ops: square_, sin_
Seen on: Paddle 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 1.96 instead of 5.88
Under the shim: Torch's second derivative.
"""

import numpy as np
import paddle

x = paddle.to_tensor([0.7], stop_gradient=False)
y = paddle.square(x)
y.square_()
(grad,) = paddle.grad([y.sum()], [x], create_graph=True)
grad.sum().backward()
np.testing.assert_allclose(x.grad.numpy(), [12 * 0.7**2], rtol=1e-5)
