"""legacy sign backward fails

The backward of the legacy entry point raises.

Section: Crashes and refusals
Ops: sign
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: SystemError
Ends with: SystemError
Under the shim: No change: the legacy entry point stays on Paddle's kernel; the other one runs on Torch's.
"""

import paddle

x = paddle.ones([3])
x.stop_gradient = False
paddle._legacy_C_ops.sign(x).sum().backward()
