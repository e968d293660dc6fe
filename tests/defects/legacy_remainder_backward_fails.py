"""legacy remainder backward fails

The legacy entry point records a gradient node without a kernel.

Section: Crashes and refusals
Ops: remainder
Seen on: Paddle 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: RuntimeError
Ends with: RuntimeError
Under the shim: Torch's backward.
"""

import paddle

x = paddle.ones([3])
x.stop_gradient = False
paddle._legacy_C_ops.elementwise_mod(x, paddle.full([3], 2.0), "axis", -1).sum().backward()
