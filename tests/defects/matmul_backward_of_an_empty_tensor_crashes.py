"""matmul backward of an empty tensor crashes

In Paddle 3.0 the backward of a product of empty tensors writes the gradient that was not requested, without a buffer.

Section: Gradients
Ops: matmul
Seen on: Paddle 3.0.0; CPU
Effect: the process ends
Ends with: SIGSEGV
Under the shim: No change: a call without elements stays on Paddle's kernel.
"""

import paddle

x = paddle.zeros([0, 3])
x.stop_gradient = False
paddle.matmul(x, paddle.ones([3, 2])).sum().backward()
