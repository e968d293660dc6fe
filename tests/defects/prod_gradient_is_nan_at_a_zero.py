"""prod gradient is NaN at a zero

The gradient divides the product by the element: 0 / 0.

Section: Gradients
Ops: prod
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: NaN instead of 6
Known difference: gradient of a product with a zero
Under the shim: Torch's gradient; compare names it.
"""

import numpy as np
import paddle

x = paddle.to_tensor([2.0, 0.0, 3.0], stop_gradient=False)
x.prod().backward()
np.testing.assert_array_equal(x.grad.numpy(), [0.0, 6.0, 0.0])
