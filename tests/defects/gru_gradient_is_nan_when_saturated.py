"""gru gradient is NaN when saturated

If a gate is so far from 0 that its slope vanishes, all gradients are NaN.

Section: NaN, infinities and the edges of the range
Ops: rnn
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU, some processors
Effect: NaN instead of 0
Under the shim: Torch's gradient; compare says NONFINITE, side paddle.
"""

import numpy as np
import paddle

layer, x = paddle.nn.GRU(1, 1), paddle.to_tensor([[[100.0]]], stop_gradient=False)
for parameter in layer.parameters():
    parameter.set_value(paddle.full_like(parameter, -1.0))
layer(x)[0].backward()
np.testing.assert_allclose(x.grad.numpy(), [[[0.0]]], atol=1e-6)
