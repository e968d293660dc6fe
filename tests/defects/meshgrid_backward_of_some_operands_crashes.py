"""meshgrid backward of some operands crashes

The backward writes the gradient of the other operands, which was not requested, without a buffer.

Section: Crashes and refusals
Ops: broadcast_tensors, meshgrid
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: the process ends
Ends with: SIGSEGV
Under the shim: Torch's backward. Under compare Paddle's backward runs, and the process ends.
"""

import paddle

x, y = paddle.ones([3]), paddle.ones([3])
x.stop_gradient = False

# %% broadcast_tensors
sum(paddle.broadcast_tensors([x, y])).sum().backward()
# %% meshgrid
sum(paddle.meshgrid(x, y)).sum().backward()
