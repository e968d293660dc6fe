"""paddle.grad by a later result fails

paddle.grad with respect to one of several results of a call, but the first, raises: Invalid rank for GradTensorHolder.

Section: The autograd engine
Ops: paddle.grad of what split, chunk, unbind, qr, topk and others give
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: SystemError
Ends with: SystemError
Under the shim: Torch's gradient.
"""

import paddle

x = paddle.ones([4, 3])
x.stop_gradient = False
part = paddle.split(x * 2, 2)[1]
assert paddle.grad([part.sum()], [part])[0].tolist() == [[1, 1, 1], [1, 1, 1]]
