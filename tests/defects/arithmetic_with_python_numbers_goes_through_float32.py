"""arithmetic with python numbers goes through float32

A Python number beside float64 tensors goes through float32, in Paddle 2.6.

Section: Precision
Ops: add, subtract, remainder
Seen on: Paddle 2.6.2; CPU
Effect: 1e-8 of the number
Under the shim: Torch's kernels hold it in float64.
"""

import numpy as np
import paddle

unit, zero = (paddle.to_tensor([number], "float64") for number in (1.0, 0.0))


def near(actual, expected):
    np.testing.assert_allclose(actual.item(), expected, rtol=1e-12)


# %% add
near(zero + 0.1, 0.1)
# %% subtract
near(0.1 - zero, 0.1)
# %% remainder
near(unit % 0.3, 1.0 % 0.3)
