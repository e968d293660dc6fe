"""multi_margin_loss cancels small losses

The kernel adds up all classes and subtracts the label's own part.

Section: Precision
Ops: multi_margin_loss
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: 5 % of a loss of 5e-7, in float32
Known difference: label's part taken off
Under the shim: Torch's result; compare names it.
"""

import numpy as np
import paddle

x = np.array([[0.0, -0.999]], "float32")
loss = paddle.nn.functional.multi_margin_loss(paddle.to_tensor(x), paddle.to_tensor([0]), p=2).item()
np.testing.assert_allclose(loss, (1 + x[0, 1].astype("float64")) ** 2 / 2, rtol=1e-3)
