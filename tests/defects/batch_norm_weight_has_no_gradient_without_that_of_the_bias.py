"""batch_norm weight has no gradient without that of the bias

If weight or bias is absent or needs no gradient, the other one gets none. instance_norm also raises if x needs none.

Section: Gradients
Ops: batch_norm, instance_norm
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: no gradient at all
Under the shim: Torch's gradient; compare says WRONG, side paddle.
"""

import paddle
import paddle.nn.functional as F

x, weight, bias = paddle.randn([2, 3, 4]), paddle.ones([3]), paddle.zeros([3])
x.stop_gradient = weight.stop_gradient = False
(F.batch_norm(x, paddle.zeros([3]), paddle.ones([3]), weight, bias, training=True) ** 3).sum().backward()
assert weight.grad is not None
