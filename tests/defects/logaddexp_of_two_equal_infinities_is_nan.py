"""logaddexp of two equal infinities is NaN

It is composed of a maximum and the difference of its operands, and infinity minus infinity is NaN.

Section: NaN, infinities and the edges of the range
Ops: logaddexp
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: NaN instead of infinity
Under the shim: Torch's logaddexp; compare says NONFINITE, side paddle.
"""

import numpy as np
import paddle

infinities = paddle.to_tensor([np.inf, -np.inf])
assert not np.isnan(paddle.logaddexp(infinities, infinities).numpy()).any()
