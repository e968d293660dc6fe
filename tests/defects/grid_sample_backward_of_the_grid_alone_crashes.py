"""grid_sample backward of the grid alone crashes

The backward writes the gradient of x, which was not requested, without a buffer.

Section: Crashes and refusals
Ops: grid_sample
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: the process ends
Ends with: SIGSEGV
Under the shim: Torch's backward; a proof's native run lets x need a gradient. Under compare Paddle's backward runs, and the process
    ends.
"""

import paddle

x, grid = paddle.ones([1, 1, 3, 3]), paddle.zeros([1, 2, 2, 2])
grid.stop_gradient = False
paddle.nn.functional.grid_sample(x, grid).sum().backward()
