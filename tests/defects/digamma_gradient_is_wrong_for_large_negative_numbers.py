"""digamma gradient is wrong for large negative numbers

In float32 the gradient adds nine terms, too few to reach the range of its series.

Section: Gradients
Ops: digamma
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: -0.08 instead of 15
Known difference: digamma's slope of large negative numbers
Under the shim: Torch's gradient; compare names it.
"""

import numpy as np
import paddle

x = paddle.to_tensor([-11.3], "float32", stop_gradient=False)
paddle.digamma(x).backward()
np.testing.assert_allclose(x.grad.numpy(), [14.9947], rtol=1e-4)
