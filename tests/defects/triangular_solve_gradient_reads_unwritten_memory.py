"""triangular_solve gradient reads unwritten memory

If y needs no gradient, the gradient of x is computed from memory that was never written.

Section: Gradients
Ops: triangular_solve
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: a different gradient at each call, up to infinities
Under the shim: Torch's gradient; compare says WRONG or NONFINITE, side paddle.
"""

import numpy as np
import paddle

x = paddle.to_tensor([[1.0, 2.0], [0.0, 1.0]], stop_gradient=False)
y = paddle.to_tensor([[3.0], [4.0]])
paddle.linalg.triangular_solve(x, y, upper=True, unitriangular=True).sum().backward()
np.testing.assert_array_equal(x.grad.numpy(), [[0.0, -4.0], [0.0, 0.0]])
