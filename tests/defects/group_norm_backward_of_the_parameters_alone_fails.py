"""group_norm backward of the parameters alone fails

If x needs no gradient, the backward of Paddle 3.0 raises.

Section: Gradients
Ops: group_norm
Seen on: Paddle 3.0.0; CPU
Effect: ValueError, no gradient
Ends with: ValueError
Under the shim: Torch's gradients. Under compare Paddle's backward runs, and raises.
"""

import paddle
import paddle.nn.functional as F

weight, bias = paddle.ones([2]), paddle.zeros([2])
weight.stop_gradient = bias.stop_gradient = False
paddle.grad(F.group_norm(paddle.ones([1, 2, 3]), 2, weight=weight, bias=bias), [weight, bias])
