"""exp of float16 wraps around

Below -53.37 the result is 2**64 times too large.

Section: NaN, infinities and the edges of the range
Ops: exp
Seen on: Paddle 3.2.2, 3.3.1; CPU, some processors
Effect: 2.4e-5 instead of 0
Known difference: float16 exp wraps around
Under the shim: Torch's kernel; compare names it.
"""

import numpy as np
import paddle

np.testing.assert_array_equal(paddle.exp(paddle.full([16], -55.0, "float16")).numpy(), 0.0)
