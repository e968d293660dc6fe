"""elu gradient loses small slopes

The gradient is the result plus alpha: no digit remains once the result has saturated.

Section: Precision
Ops: elu
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: 0 instead of 2e-9
Known difference: expm1 and log1p spelled out
Under the shim: Torch's gradient; compare names it.
"""

import numpy as np
import paddle

x = paddle.to_tensor([-20.0], "float32", stop_gradient=False)
paddle.nn.functional.elu(x).backward()
np.testing.assert_allclose(x.grad.numpy(), np.exp([-20.0]), rtol=1e-4)
