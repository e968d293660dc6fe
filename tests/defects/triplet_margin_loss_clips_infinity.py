"""triplet_margin_loss clips infinity

For an infinite distance the loss is the largest finite number: the clip from below clips from above, too.

Section: NaN, infinities and the edges of the range
Ops: triplet_margin_loss
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 3.4e38 instead of infinity
Under the shim: Torch's infinity; compare says NONFINITE, side paddle.
"""

import numpy as np
import paddle

a, b, c = (paddle.to_tensor([[number, 1.0]]) for number in (np.inf, 1.0, 2.0))
loss = paddle.nn.functional.triplet_margin_loss(a, b, c, swap=True)
assert np.isinf(loss.item()), loss.item()
