"""expand_as of an empty axis crashes

An axis without elements is expanded to three, where other axes are refused; the backward divides by it.

Section: Crashes and refusals
Ops: expand_as
Seen on: Paddle 3.1.1, 3.2.2, 3.3.1; CPU
Effect: unwritten values, and the process ends in the backward
Ends with: SIGFPE
Under the shim: No change: Torch refuses, Paddle's kernel runs, and the process ends.
"""

import paddle

x = paddle.zeros([1, 0])
x.stop_gradient = False
x.expand_as(paddle.zeros([4, 3])).backward(paddle.zeros([4, 3]))
