"""cross_entropy gradient assumes soft labels that sum to one

For soft labels of sum s the gradient is s * softmax(x) - label; Paddle's is softmax(x) - label.

Section: Gradients
Ops: cross_entropy
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 0.3 instead of 0
Known difference: shares that do not sum to one
Under the shim: Torch's gradient; compare names it.
"""

import numpy as np
import paddle

x = paddle.to_tensor([[0.0, 0.0]], stop_gradient=False)
label = paddle.to_tensor([[0.2, 0.2]])
paddle.nn.functional.cross_entropy(x, label, soft_label=True).backward()
np.testing.assert_allclose(x.grad.numpy(), [[0.0, 0.0]], atol=1e-6)
