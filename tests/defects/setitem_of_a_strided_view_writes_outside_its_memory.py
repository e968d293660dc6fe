"""setitem of a strided view writes outside its memory

For x[:, :2][index] = y, with an index in a tensor or a list, the kernel allocates memory for the elements of the view, but writes
at the view's strides: the process ends, or hangs, sooner or later.

Section: Crashes and refusals
Ops: setitem
Seen on: Paddle 3.3.1; CPU
Effect: the process ends within some ten calls
Ends with: SIG*
Under the shim: reference sets the elements in a copy and writes it back; under compare Paddle's kernel runs.
"""

import signal

import paddle

signal.alarm(10)
x = paddle.zeros([64, 2048])
for _ in range(64):
    x[:, :2][paddle.to_tensor([63])] = paddle.ones([1, 2])
