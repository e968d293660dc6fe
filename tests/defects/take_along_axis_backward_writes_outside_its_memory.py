"""take_along_axis backward writes outside its memory

The C function accepts indices with more rows than the operand; its backward writes behind the gradient.

Section: Crashes and refusals
Ops: take_along_axis
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process ends, at once or later
Ends with: SIG*
Under the shim: No change: Paddle's kernel runs, and the process ends.
"""

import signal

import paddle

signal.alarm(10)
x = paddle.ones([2, 3])
x.stop_gradient = False
paddle._C_ops.take_along_axis(x, paddle.zeros([3000000, 3], "int64"), 1).sum().backward()
