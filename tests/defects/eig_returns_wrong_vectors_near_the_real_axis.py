"""eig returns wrong vectors near the real axis

Eigenvalues less than 1e-6 off the real axis count as real, however small the matrix: the real and the imaginary part of a vector
are returned as two vectors.

Section: Values
Ops: eig
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 0.71 of a vector
Known difference: vectors of eigenvalues near the real axis
Under the shim: Torch's vectors; compare names it.
"""

import numpy as np
import paddle

x = np.array([[0.0, 1e-7], [-1e-7, 0.0]])
values, vectors = paddle.linalg.eig(paddle.to_tensor(x))
np.testing.assert_allclose(x @ vectors.numpy(), vectors.numpy() * values.numpy(), atol=1e-12)
