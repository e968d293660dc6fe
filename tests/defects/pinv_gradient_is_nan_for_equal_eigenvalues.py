"""pinv gradient is NaN for equal eigenvalues

The gradient goes through singular vectors or eigenvectors, which have no gradient where values are equal.

Section: Gradients
Ops: pinv
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: NaN instead of -1
Known difference: pinv through vectors
Under the shim: Torch's gradient; compare names it.
"""

import numpy as np
import paddle

x = paddle.eye(2, dtype="float64")
x.stop_gradient = False
paddle.linalg.pinv(x, hermitian=True).sum().backward()
np.testing.assert_allclose(x.grad.numpy(), -np.ones([2, 2]))
