"""smooth_l1_loss gradient hides NaN

For a NaN operand, and for equal infinities, the gradient is that of a large difference.

Section: NaN, infinities and the edges of the range
Ops: smooth_l1_loss
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 1 instead of NaN
Under the shim: Torch's gradient; compare says NONFINITE, side paddle.
"""

import numpy as np
import paddle

x = paddle.to_tensor([float("nan")], stop_gradient=False)
paddle.nn.functional.smooth_l1_loss(x, paddle.zeros([1])).backward()
assert np.isnan(x.grad.numpy()).all()
