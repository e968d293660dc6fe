"""prod gradient of complex numbers is not conjugated

The gradient contains the product of the other elements instead of its conjugate.

Section: Gradients
Ops: prod
Seen on: Paddle 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: a gradient in the wrong direction
Under the shim: Torch's gradient; compare says WRONG, side paddle.
"""

import numpy as np
import paddle

x = paddle.to_tensor(np.array([1 + 2j, 3 - 1j]), stop_gradient=False)
paddle.prod(x).real().backward()
np.testing.assert_allclose(x.grad.numpy(), [3 + 1j, 1 - 2j], rtol=1e-9)
