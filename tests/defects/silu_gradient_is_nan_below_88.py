"""silu gradient is NaN below -88

Below -88 exp(-x) overflows, and the gradient is NaN or infinite.

Section: Gradients
Ops: silu
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: NaN instead of 0
Known difference: gradient of silu
Under the shim: Torch's gradient; compare names it.
"""

import numpy as np
import paddle

x = paddle.to_tensor([-100.0], stop_gradient=False)
paddle.nn.functional.silu(x).sum().backward()
np.testing.assert_allclose(x.grad.numpy(), [0.0], atol=1e-6)
