"""logcumsumexp hides NaN

A leading NaN or -inf counts as -3.4e38. Two infinities are subtracted, which gives NaN.

Section: NaN, infinities and the edges of the range
Ops: logcumsumexp
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: -3.4e38 instead of NaN, NaN instead of infinity
Under the shim: Torch's result; compare says NONFINITE, side paddle.
"""

import numpy as np
import paddle

inf = float("inf")

# %% NaN
np.testing.assert_array_equal(paddle.logcumsumexp(paddle.to_tensor([float("nan"), 1.0])).numpy(), [np.nan, np.nan])
# %% -inf
np.testing.assert_array_equal(paddle.logcumsumexp(paddle.to_tensor([-inf, 1.0])).numpy(), [-inf, 1.0])
# %% infinities
np.testing.assert_array_equal(paddle.logcumsumexp(paddle.to_tensor([inf, inf])).numpy(), [inf, inf])
