"""log_sigmoid and mish lose small results

In log(1 + exp(x)) the digits of small results are lost.

Section: Precision
Ops: log_sigmoid, mish
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: 0 instead of -2e-9, in float32
Known difference: expm1 and log1p spelled out
Under the shim: Torch's result; compare names it.
"""

import numpy as np
import paddle

x = paddle.to_tensor([20.0], "float32")

# %% log_sigmoid
np.testing.assert_allclose(paddle.nn.functional.log_sigmoid(x).item(), -np.log1p(np.exp(-20.0)), rtol=1e-4)
# %% mish
np.testing.assert_allclose(paddle.nn.functional.mish(-x).item() / -20, np.log1p(np.exp(-20.0)), rtol=1e-4)
