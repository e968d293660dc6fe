"""multi_dot backward fails with a frozen matrix

If some of the matrices need no gradient, the backward raises: a tensor for their gradient is missing.

Section: Gradients
Ops: multi_dot
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: ValueError, no gradient at all
Ends with: ValueError
Under the shim: Torch's gradient. Under compare Paddle's backward runs, and raises.
"""

import paddle

x, y = paddle.ones([3, 4]), paddle.ones([4, 2])
x.stop_gradient = False
paddle.linalg.multi_dot([x, y]).sum().backward()
