"""nll_loss of float64 writes outside its memory

The float64 kernel writes outside its memory where a label is ignored: the process ends, or hangs, later.

Section: Crashes and refusals
Ops: nll_loss
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process ends within some hundred calls
Ends with: SIG*
Under the shim: No change at the first call of a kind, which runs on Paddle's kernel, too; after that Torch's kernel. Under compare
    Paddle's kernel runs at each call.
"""

import signal

import paddle

signal.alarm(10)
x, label = paddle.ones([5, 4], "float64"), paddle.to_tensor([0, 1, 2, 3, 1])
for _ in range(3000):
    paddle.nn.functional.nll_loss(x, label, ignore_index=1)
