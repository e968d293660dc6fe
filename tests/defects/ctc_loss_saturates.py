"""ctc_loss saturates

The softmax before the CTC loss has no share below the smallest number of its dtype.

Section: NaN, infinities and the edges of the range
Ops: ctc_loss
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 87 instead of 199
Under the shim: Torch's loss; compare says WRONG, side paddle.
"""

import numpy as np
import paddle

x = paddle.to_tensor(np.array([[[0.0, -200.0, -300.0]]] * 2, "float32"))
label, long, short = paddle.to_tensor([[1]], "int32"), paddle.to_tensor([2]), paddle.to_tensor([1])
loss = paddle.nn.functional.ctc_loss(x, label, long, short, reduction="sum").item()
np.testing.assert_allclose(loss, 200.0 - np.log(2.0), rtol=1e-5)
