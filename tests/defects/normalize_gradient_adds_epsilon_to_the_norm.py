"""normalize gradient adds epsilon to the norm

In the forward epsilon is a lower bound of the norm; the gradient adds it to the norm.

Section: Gradients
Ops: normalize
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: 0.1 % of the gradient at a norm of 5 with an epsilon of 0.01
Known difference: number added to a norm
Under the shim: Torch's gradient; compare names it.
"""

import numpy as np
import paddle

x = paddle.to_tensor([[3.0, 4.0]], "float64", stop_gradient=False)
paddle.nn.functional.normalize(x, epsilon=1e-2)[0, 0].backward()
np.testing.assert_allclose(x.grad.numpy(), [[0.128, -0.096]], rtol=1e-9)
