"""paddle.grad confuses results of one call

paddle.grad of the first of several results with respect to another one returns that with respect to the first.

Section: The autograd engine
Ops: paddle.grad of what split, chunk, unbind, qr, svd and others give
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: 1 instead of None
Under the shim: None with allow_unused=True, as in Torch; otherwise an error in Paddle's words.
"""

import paddle

x = paddle.ones([4, 3])
x.stop_gradient = False
first, second = paddle.split(x * 2, 2)
assert paddle.grad([first.sum()], [second], allow_unused=True)[0] is None
