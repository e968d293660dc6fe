"""dlpack alias chain deadlocks

Memory goes from Torch to Paddle, to Torch, and to Paddle again: freeing it takes a lock that is already held. An alarm ends the
program.

Section: Crashes and refusals
Ops: from_dlpack
Seen on: Paddle 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process waits for ever
Ends with: SIGALRM
Under the shim: No change; the library never hands memory that aliases Paddle's back to Paddle.
"""

import signal

import paddle
import torch

signal.alarm(3)
x = paddle.utils.dlpack.from_dlpack(torch.ones(4))
y = paddle.utils.dlpack.from_dlpack(torch.from_dlpack(x))
del x
del y
