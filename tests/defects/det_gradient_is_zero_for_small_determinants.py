"""det gradient is zero for small determinants

If the determinant of one matrix of a batch is below a fixed limit, all gradients of the batch are zero.

Section: Gradients
Ops: det
Seen on: Paddle 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 0 instead of 1e-10; the limit is 1e-12 in float64, 1e-5 in float32
Known difference: small determinants
Under the shim: Torch's gradient; compare names it.
"""

import numpy as np
import paddle

x = paddle.eye(3, dtype="float64") * 1e-5
x.stop_gradient = False
paddle.linalg.det(x).backward()
np.testing.assert_allclose(x.grad.numpy(), np.eye(3) * 1e-10)
