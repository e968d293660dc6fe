"""gammaln gradient has thirteen digits

The digamma in the gradient is good to 1e-13, also in float64.

Section: Precision
Ops: gammaln
Seen on: Paddle 3.3.1; CPU
Effect: 1.4e-13 of the gradient
Known difference: gradient of gammaln
Under the shim: Torch's gradient; compare names it.
"""

import numpy as np
import paddle

x = paddle.to_tensor([0.5], "float64", stop_gradient=False)
paddle.gammaln(x).backward()
np.testing.assert_allclose(x.grad.numpy(), [-np.euler_gamma - 2 * np.log(2)], rtol=1e-14)
