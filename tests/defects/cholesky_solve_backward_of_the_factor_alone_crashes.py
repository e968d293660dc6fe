"""cholesky_solve backward of the factor alone crashes

The backward writes the gradient of the right side, which was not requested, without a buffer.

Section: Gradients
Ops: cholesky_solve
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process ends
Ends with: SIGSEGV
Under the shim: Torch's gradient. Under compare Paddle's backward runs, and the process ends.
"""

import paddle

b, factor = paddle.ones([2, 1]), paddle.eye(2)
factor.stop_gradient = False
paddle.linalg.cholesky_solve(b, factor).sum().backward()
