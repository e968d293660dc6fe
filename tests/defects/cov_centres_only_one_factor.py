"""cov centres only one factor

The centred rows are multiplied by the rows as they are.

Section: Precision
Ops: cov, corrcoef
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: -0.07 instead of 0.02, around 1000 in float32
Known difference: half-centred covariance
Under the shim: Torch's result; compare names it.
"""

import numpy as np
import paddle

x = np.array([[1000.1, 1000.2, 1000.4]], "float32")
np.testing.assert_allclose(paddle.linalg.cov(paddle.to_tensor(x)).item(), np.cov(x.astype("float64")), rtol=1e-4)
