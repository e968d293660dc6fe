"""qr backward of R alone crashes

mode="r" has no gradient; the backward reads the Q that was not computed. Later Paddles refuse it.

Section: Crashes and refusals
Ops: qr
Seen on: Paddle 2.6.2; CPU
Effect: the process ends
Ends with: SIGSEGV
Under the shim: No change: Paddle's kernel runs.
"""

import paddle

x = paddle.eye(3)
x.stop_gradient = False
paddle.linalg.qr(x, mode="r").sum().backward()
