"""sinc hides NaN

NaN counts as 0, where sinc is 1.

Section: NaN, infinities and the edges of the range
Ops: sinc
Seen on: Paddle 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 1 instead of NaN
Known difference: sinc of NaN
Under the shim: Torch's result; compare names it.
"""

import numpy as np
import paddle

assert np.isnan(paddle.sinc(paddle.to_tensor([float("nan")])).item())
