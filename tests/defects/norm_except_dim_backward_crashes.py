"""norm_except_dim backward crashes

The backward of the norms in weight_norm reads what its forward did not keep.

Section: Crashes and refusals
Ops: norm_except_dim
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process ends
Ends with: SIGSEGV
Under the shim: Torch's backward. Under compare Paddle's backward runs, and the process ends.
"""

import paddle

x = paddle.ones([4, 5])
x.stop_gradient = False
paddle.nn.utils.weight_norm_hook.norm_except_dim(x, 0).sum().backward()
