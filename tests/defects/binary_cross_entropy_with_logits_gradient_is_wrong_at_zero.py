"""binary_cross_entropy_with_logits gradient is wrong at zero

Where a logit is exactly 0, as after a last layer of zeros, the gradient is too small by 1.

Section: Gradients
Ops: binary_cross_entropy_with_logits, sigmoid_cross_entropy_with_logits
Seen on: Paddle 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: -0.5 instead of 0.5
Known difference: logits at zero
Under the shim: Torch's gradient; compare names it.
"""

import numpy as np
import paddle

x = paddle.zeros([2])
x.stop_gradient = False
paddle.nn.functional.binary_cross_entropy_with_logits(x, paddle.to_tensor([0.0, 1.0]), reduction="sum").backward()
np.testing.assert_allclose(x.grad.numpy(), [0.5, -0.5], rtol=1e-5)
