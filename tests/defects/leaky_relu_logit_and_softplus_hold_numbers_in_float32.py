"""leaky_relu, logit and softplus hold numbers in float32

A Python number beside float64 tensors goes through float32, up to Paddle 3.2.

Section: Precision
Ops: leaky_relu, logit, softplus
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2; CPU
Effect: 1e-8 of the number
Under the shim: Torch's kernels hold it in float64.
"""

import numpy as np
import paddle
import paddle.nn.functional as F

x, unit, zero = (paddle.to_tensor([number], "float64") for number in (-1.0, 1.0, 0.0))


def near(actual, expected):
    np.testing.assert_allclose(actual.item(), expected, rtol=1e-12)


# %% leaky_relu
near(F.leaky_relu(x, 0.3), -0.3)
# %% logit
near(paddle.logit(zero, 0.3), np.log(0.3 / 0.7))
# %% softplus
near(F.softplus(unit, 0.3), np.log1p(np.exp(0.3)) / 0.3)
