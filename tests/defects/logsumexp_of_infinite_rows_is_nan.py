"""logsumexp of infinite rows is NaN

An infinite maximum is subtracted from itself.

Section: NaN, infinities and the edges of the range
Ops: logsumexp
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: NaN instead of -inf and +inf
Known difference: logsumexp of infinities
Under the shim: Torch's result; compare names it.
"""

import numpy as np
import paddle

x = paddle.to_tensor([[float("-inf")] * 2, [float("inf"), 0.0]])
np.testing.assert_array_equal(paddle.logsumexp(x, axis=1).numpy(), [-np.inf, np.inf])
