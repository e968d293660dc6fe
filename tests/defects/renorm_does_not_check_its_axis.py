"""renorm does not check its axis

Unlike paddle.renorm, the C functions do not check whether the operand has the axis.

Section: Crashes and refusals
Ops: renorm
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process ends
Ends with: SIGSEGV
Under the shim: No change: Paddle's kernel runs, and the process ends.
"""

import paddle

paddle._C_ops.renorm(paddle.ones([3, 4]), 2.0, 7, 1.0)
