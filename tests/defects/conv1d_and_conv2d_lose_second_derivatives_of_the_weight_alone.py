"""conv1d and conv2d lose second derivatives of the weight alone

Where the gradient of the weight is asked for and that of x is not, it does not depend on the incoming gradient: a penalty on it, or
a layer before the output, gets a part of its gradient or none. conv3d is right, and so is a weight whose x wants a gradient, too.

Section: Gradients
Ops: conv1d, conv2d
Seen on: Paddle 3.3.1; CPU
Effect: None instead of x
Under the shim: Torch's second derivative; compare says SEMANTICS (no-second-derivative), side paddle.
"""

import numpy as np
import paddle
import paddle.nn.functional as F


def second(convolution, x, weight):
    weight.stop_gradient = False
    y = convolution(x, weight)
    incoming = paddle.ones_like(y)
    incoming.stop_gradient = False
    (grad,) = paddle.grad([y], [weight], [incoming], create_graph=True)
    (result,) = paddle.grad([grad.sum()], [incoming], allow_unused=True)
    assert result is not None
    np.testing.assert_allclose(result.numpy(), y.numpy())


# %% conv1d
second(F.conv1d, paddle.full([1, 1, 4], 3.0), paddle.ones([1, 1, 1]))
# %% conv2d
second(F.conv2d, paddle.full([1, 1, 4, 4], 3.0), paddle.ones([1, 1, 1, 1]))
