"""masked_fill gradient of the value is wrong

If x needs a gradient, too, the value's gradient is zero, or lacks an element where x is broadcast: it is read from memory that
already holds x's gradient, unless a hook keeps the incoming gradient. Of several values, those not used get unwritten memory.
x[mask] = value with a single value is this op, and has zero for its gradient whether x needs one or not.

Section: Gradients
Ops: masked_fill, setitem
Seen on: Paddle 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 0 instead of 2
Under the shim: Torch's gradient; compare names the call.
"""

import numpy as np
import paddle

x, mask = paddle.ones([3]), paddle.to_tensor([True, False, True])
value = paddle.to_tensor(5.0, stop_gradient=False)
x.stop_gradient = False
paddle.masked_fill(x, mask, value).sum().backward()
np.testing.assert_array_equal(value.grad.numpy(), 2.0)
