"""celu gradient is NaN above 88

Above 88 the exponential of the branch not taken overflows.

Section: Gradients
Ops: celu
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: NaN instead of 1
Known difference: expm1 and log1p spelled out
Under the shim: Torch's gradient; compare names it.
"""

import numpy as np
import paddle

x = paddle.to_tensor([200.0], stop_gradient=False)
paddle.nn.functional.celu(x).sum().backward()
np.testing.assert_array_equal(x.grad.numpy(), [1.0])
