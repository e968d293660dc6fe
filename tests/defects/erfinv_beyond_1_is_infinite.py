"""erfinv beyond 1 is infinite

Numbers beyond 1 have no inverse; Paddle returns infinity.

Section: NaN, infinities and the edges of the range
Ops: erfinv
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: inf instead of NaN
Known difference: erfinv by a quantile
Under the shim: Torch's result; compare names it.
"""

import numpy as np
import paddle

assert np.isnan(paddle.erfinv(paddle.to_tensor([2.0])).item())
