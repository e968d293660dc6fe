"""solve and cross backward of one operand alone crash

The backward writes the gradient of the other operand, which was not requested, without a buffer.

Section: Crashes and refusals
Ops: solve, cross
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: the process ends
Ends with: SIGSEGV
Under the shim: Torch's backward. Under compare Paddle's backward runs, and the process ends.
"""

import paddle

x, y = paddle.eye(3), paddle.ones([3, 3])
y.stop_gradient = False

# %% solve
paddle.linalg.solve(x, y).sum().backward()
# %% cross
paddle.cross(x, y).sum().backward()
# %% cross, first operand
paddle.cross(y, x).sum().backward()
