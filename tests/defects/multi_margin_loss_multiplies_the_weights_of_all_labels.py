"""multi_margin_loss multiplies the weights of all labels

The loss of each row is multiplied by the weights of all rows' labels, up to Paddle 3.0.

Section: Values
Ops: multi_margin_loss
Seen on: Paddle 2.6.2, 3.0.0; CPU
Effect: a factor of 10, or another shape
Under the shim: Torch's loss: each row's own weight.
"""

import numpy as np
import paddle
import paddle.nn.functional as F

x, labels = paddle.to_tensor([[1.0, 2.0, 3.0], [3.0, 1.0, 2.0]], "float64"), paddle.to_tensor([0, 1])
weight = paddle.to_tensor([1.0, 10.0, 100.0], "float64")
rows = [F.multi_margin_loss(x[i : i + 1], labels[i : i + 1], weight=weight).item() for i in (0, 1)]
np.testing.assert_allclose(F.multi_margin_loss(x, labels, weight=weight, reduction="none").numpy(), rows)
